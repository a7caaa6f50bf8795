#!/usr/bin/env bash
# Signals to one process. Each is confirmed at once on standard error, with its name and with what happens next. During
# an evaluation a training saves after the current batch, not after the whole evaluation. A command with nothing to save
# leaves no files.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
# shellcheck disable=SC2054
base=(pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --tokenizer-type \
        ByteTokenizer
    --data-path d_text_document --split 80,20,0 --save keep --train-iters 10)
evals=2000
[ "${MEGA_MATRIX:-full}" = full ] || evals=600 # a slow build takes as long for these
eval=(--eval-interval 5 --eval-iters $evals)

reached() { # TEXT: the run in the background has printed it
    for _ in $(seq 1 1500); do
        grep -qs -- "$1" out && return
        kill -0 "$run" 2>/dev/null || fail "the run ended before: $1"
        sleep 0.02
    done
    fail "the run does not come to: $1"
}
# send SIGNAL: to the run in the background; $status and $took, in milliseconds
send() {
    local began
    began=$(date +%s%3N)
    kill -"$1" "$run"
    for _ in $(seq 1 1000); do kill -0 "$run" 2>/dev/null && sleep 0.02; done
    kill -9 "$run" 2>/dev/null
    wait "$run"
    status=$?
    took=$(($(date +%s%3N) - began))
}
answered() { # NAME SIGNAL-AS-NAMED PROMISE
    grep -qE "^megalith [a-z_]+: (received|interrupted by) $2: .*$3" err ||
        note "$1: no answer that names $2 and says \"$3\": $(cat err)"
}

# --- during an evaluation of a training
"$MEGALITH" "${base[@]}" "${eval[@]}" >whole 2>err || fail "a training"
rm -rf keep
for row in TERM:SIGTERM 'INT:Ctrl-C .SIGINT.' HUP:SIGHUP USR1:SIGUSR1 USR2:SIGUSR2; do
    signal=${row%%:*}
    rm -f out err
    "$MEGALITH" "${base[@]}" "${eval[@]}" >out 2>err &
    run=$!
    reached 'iteration  *5/'
    send "$signal"
    [ $status -eq 0 ] || note "SIG$signal in an evaluation: exit status $status"
    [ $took -le "$(at_most 5)000" ] || note "SIG$signal in an evaluation: the run ended $took ms later"
    answered "SIG$signal in an evaluation" "${row#*:}" "saves and leaves after"
    grep -q "^exiting program after receiving SIG$signal\.\$" out ||
        note "SIG$signal in an evaluation: the log names another signal"
    grep -q 'a signal ended the evaluation at iteration 5' out || note "SIG$signal: the evaluation goes on"
    [ "$(cat keep/latest_checkpointed_iteration.txt)" = 5 ] || note "SIG$signal in an evaluation: no checkpoint"
    [ "$signal" = TERM ] || rm -rf keep
    # later evaluations are those of the run that was never interrupted
    if [ "$signal" = TERM ]; then
        "$MEGALITH" "${base[@]}" "${eval[@]}" --load keep >out 2>err || note "the run does not go on"
        diff <(grep 'validation loss at iteration 10 ' whole) <(grep 'validation loss at iteration 10 ' out) >log ||
            note "a later validation loss is another one after an evaluation that was left"
        rm -rf keep
    fi
done

# --- nobody reads the output of a training: it waits, and still saves when a signal comes
for both in no yes; do
    rm -rf keep err metrics pipe
    mkfifo pipe
    exec 4<>pipe
    if [ $both = yes ]; then
        "$MEGALITH" "${base[@]}" --eval-iters 0 --train-iters 100000 --metrics-file metrics >pipe 2>&1 &
    else
        "$MEGALITH" "${base[@]}" --eval-iters 0 --train-iters 100000 --metrics-file metrics >pipe 2>err &
    fi
    run=$!
    rows=-1
    for _ in $(seq 1 200); do
        now=$(cat metrics 2>/dev/null | wc -l)
        [ "$now" -gt 20 ] && [ "$now" = $rows ] && break
        rows=$now
        sleep 0.2
    done
    [ "$now" = $rows ] || note "a pipe that nobody reads does not hold the run"
    send TERM
    [ $status -eq 0 ] || note "a blocked output, both streams $both: exit status $status"
    [ $took -le "$(at_most 5)000" ] || note "a blocked output, both streams $both: the run ended $took ms later"
    [ -s keep/latest_checkpointed_iteration.txt ] || note "a blocked output, both streams $both: nothing is saved"
    if [ $both = no ]; then
        answered "a blocked output" SIGTERM "saves and leaves"
        grep -qE '^warning: nobody read standard output after the signal: [0-9]+ bytes' err ||
            note "a blocked output: what is lost is not told"
    fi
    exec 4<&-
done
# a slow reader gets every line
rm -rf keep
"$MEGALITH" "${base[@]}" --eval-iters 0 --train-iters 300 2>err | (
    sleep 0.5
    cat >out
)
[ "$(grep -cE '^ iteration +[0-9]+/' out)" = 300 ] || note "a slow reader: lines are missing"
rm -rf keep

# --- under nohup, a run ignores that its terminal closes
rm -f out err
(
    trap '' HUP
    exec "$MEGALITH" "${base[@]}" --eval-iters 0 --train-iters 300
) >out 2>err &
run=$!
reached 'iteration  *1/'
kill -HUP $run
wait $run || note "SIGHUP under nohup: exit status $?"
grep -q 'iteration  *300/' out || note "SIGHUP under nohup ended the run"
grep -q 'received SIGHUP' err && note "SIGHUP under nohup is answered"
rm -rf keep

# --- while the index is built
rm -f out err
"$MEGALITH" "${base[@]}" --eval-interval 5 --eval-iters 100000 --data-cache-path index >out 2>err &
run=$!
reached '> building train, validation, and test'
send TERM
[ $status -eq 143 ] || note "SIGTERM while the index is built: exit status $status"
[ $took -le "$(at_most 5)000" ] || note "SIGTERM while the index is built: the run ended $took ms later"
answered "the index" SIGTERM "saves nothing"
grep -q '^megalith pretrain_gpt: no step was made, and nothing is saved: ' err ||
    note "the index: what ended the run is not said"
[ ! -e keep/latest_checkpointed_iteration.txt ] || note "SIGTERM while the index is built: something was saved"
find index keep -name '*.tmp*' 2>/dev/null | grep . && note "SIGTERM while the index is built: half a file is left"

# --- generation: ends after the current instruction; finished texts are kept
"$MEGALITH" "${base[@]}" --eval-iters 0 >log 2>&1 || fail "a training: $(tail -n 3 log)"
generate=(generate_samples_gpt --load keep --num-threads 1)
rm -f out err
"$MEGALITH" "${generate[@]}" --num-samples 1000000 --out-seq-length 8 --genfile texts.json >out 2>err &
run=$!
for _ in $(seq 1 500); do
    [ -s texts.json ] && [ "$(wc -l <texts.json)" -ge 3 ] && break
    sleep 0.02
done
send TERM
[ $status -eq 143 ] || note "SIGTERM to generation: exit status $status"
[ $took -le "$(at_most 5)000" ] || note "SIGTERM to generation: it ended $took ms later"
answered generation SIGTERM "after the instruction under way"
grep -vE '^\{"text":".*","length":[0-9]+,"finished":(true|false)\}$' texts.json | grep . &&
    note "SIGTERM to generation: half a text is in its file"
grep -q "$(wc -l <texts.json) finished samples\? \(is\|are\) in texts.json" err ||
    note "SIGTERM to generation: what is finished is not told: $(cat err)"

# --interactive while it waits for the next prompt
mkfifo prompts
rm -f out err
"$MEGALITH" "${generate[@]}" --out-seq-length 8 <prompts >out 2>err &
run=$!
exec 3>prompts
echo "a fox" >&3
reached 'a fox'
send INT
exec 3>&-
[ $status -eq 130 ] || note "Ctrl-C to a conversation: exit status $status"
answered "a conversation" 'Ctrl-C .SIGINT.' "after the instruction under way"

# --- tasks: end after the current instruction, without a result
fox_lines 100000 >long.txt
rm -f out err
"$MEGALITH" tasks --task LM_LOSS --load keep --valid-data long.txt --micro-batch-size 1 --num-threads 1 >out 2>err &
run=$!
for _ in $(seq 1 500); do
    grep -qs 'using 1 thread' err && break
    sleep 0.02
done
send HUP
[ $status -eq 129 ] || note "SIGHUP to tasks: exit status $status"
[ $took -le "$(at_most 5)000" ] || note "SIGHUP to tasks: it ended $took ms later"
answered tasks SIGHUP "without a result"
grep -q 'validation results' out && note "SIGHUP to tasks: there is a result"

finish
