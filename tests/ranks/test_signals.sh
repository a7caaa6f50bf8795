#!/usr/bin/env bash
# A signal asks a run to save and leave: sent to megalith launch, to the engine as it hands it on, or to any one rank, all
# ranks save after the iteration under way and end with exit status 0. A second one ends a run that cannot. One that comes
# while the ranks are being started is not lost, and no launch waits for ranks that died of it.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
unset RANK WORLD_SIZE
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
base=(pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 1000000 --eval-iters 0
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0)

begun() { # the third iteration of the run in the background has come
    for _ in $(seq 1 300); do
        grep -qs 'iteration  *3/' out && return
        sleep 0.1
    done
    fail "the run does not begin"
}
a_rank() { pgrep -f "^$MEGALITH pretrain_gpt .* $mark" | sed -n "$1p"; }
# saved NAME: the run in the background ends well, with a checkpoint of its last iteration.
saved() {
    local last
    for _ in $(seq 1 300); do kill -0 "$run" 2>/dev/null && sleep 0.1; done
    kill -0 "$run" 2>/dev/null && fail "$1: the run goes on"
    wait "$run"
    status=$?
    last=$(grep -oE 'iteration +[0-9]+/' out | tail -n 1 | tr -dc 0-9)
    [ $status -eq 0 ] || note "$1: exit status $status"
    grep -q "exiting program after receiving SIG" out || note "$1: no word of the signal"
    [ "$(cat keep/latest_checkpointed_iteration.txt 2>&1)" = "$last" ] || note "$1: no checkpoint of iteration $last"
    [ -z "$(a_rank 1)" ] || note "$1: a rank lives on"
    "$MEGALITH" "${base[@]}" --train-iters $((last + 1)) --load keep >log 2>&1 || note "$1: the checkpoint: $(tail -n 1 log)"
    rm -rf keep out err
}
mark=200000
for n in 2 4; do
    mark=$((mark + 1))
    "$MEGALITH" launch --nproc_per_node $n "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    begun
    kill -TERM $run
    saved "SIGTERM to launch of $n ranks"
    mark=$((mark + 1))
    "$MEGALITH" launch --nproc_per_node $n "${base[@]}" --train-iters $mark --save keep --tensor-model-parallel-size 2 >out 2>err </dev/null &
    run=$!
    begun
    kill -TERM "$(a_rank $n)"
    saved "SIGTERM to one of $n ranks"
done

# launch names the signal itself and passes it on: Ctrl-C, a warning of Slurm, a closed terminal.
for row in 'INT:interrupted by Ctrl-C .SIGINT.' USR1:'received SIGUSR1' HUP:'received SIGHUP'; do
    mark=$((mark + 1))
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
    run=$!
    begun
    kill -${row%%:*} $run
    for _ in $(seq 1 100); do grep -qE "^megalith launch: ${row#*:}" err && break || sleep 0.02; done
    grep -qE "^megalith launch: ${row#*:}: the ranks are asked to stop" err || note "SIG${row%%:*} to launch is not answered"
    saved "SIG${row%%:*} to launch"
done

# A signal to one rank during an evaluation: all ranks leave it after the batch under way, and save.
for layout in tensor:TERM pipeline:HUP; do
    mark=$((mark + 1))
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters 20 --exit-interval $mark --save keep --split 80,20,0 \
        --eval-interval 3 --eval-iters 20000 --${layout%:*}-model-parallel-size 2 >out 2>err </dev/null &
    run=$!
    begun
    kill -${layout#*:} "$(a_rank 2)"
    began=$SECONDS
    saved "SIG${layout#*:} to one ${layout%:*} rank in an evaluation"
    [ $((SECONDS - began)) -le 6 ] || note "SIG${layout#*:} in an evaluation: the run ended $((SECONDS - began)) s later"
done

# Nobody reads what launch prints: a signal passes all the same, and the ranks save.
mkfifo pipe
exec 4<>pipe
mark=$((mark + 1))
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters $mark --save keep --metrics-file metrics >pipe 2>err </dev/null &
run=$!
rows=-1
for _ in $(seq 1 300); do # more than a pipe holds: launch waits for its reader, and the ranks for launch, or for nobody
    now=$(cat metrics 2>/dev/null | wc -l)
    [ "$now" -gt 400 ] && break
    [ "$now" -gt 20 ] && [ "$now" = $rows ] && break
    rows=$now
    sleep 0.2
done
kill -TERM $run
for _ in $(seq 1 300); do kill -0 "$run" 2>/dev/null && sleep 0.1; done
kill -0 "$run" 2>/dev/null && fail "launch with a blocked output: the run goes on"
wait $run
status=$?
[ $status -eq 0 ] || note "launch with a blocked output: exit status $status"
[ -s keep/latest_checkpointed_iteration.txt ] || note "launch with a blocked output: nothing is saved"
exec 4<&-
rm -rf keep out err

# The data are cut while ranks read them (SIGBUS): one error names them, and the steps that were whole are saved.
mark=$((mark + 1))
cp d_text_document.bin cut.bin && cp d_text_document.idx cut.idx
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --data-path cut --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
truncate -s 4096 cut.bin
for _ in $(seq 1 300); do kill -0 "$run" 2>/dev/null && sleep 0.1; done
kill -0 "$run" 2>/dev/null && fail "data that are cut: the run goes on"
wait $run
status=$?
[ $status -eq 1 ] || note "data that are cut: exit status $status"
[ "$(grep -c 'error: .*cut.bin: the file was cut while it was being read' err)" = 1 ] || note "data that are cut: $(cat err)"
[ "$(cat keep/latest_checkpointed_iteration.txt 2>&1)" = "$(grep -oE 'iteration +[0-9]+/' out | tail -n 1 | tr -dc 0-9)" ] ||
    note "data that are cut: the last whole step is not saved"
rm -rf keep out err cut.*

# While the ranks set up there is nothing to save: all leave, and no rank is reported as dead or failed.
mark=$((mark + 1))
"$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --train-iters 20 --exit-interval $mark --save keep --split 80,20,0 \
    --eval-interval 3 --eval-iters 200000 --data-cache-path index >out 2>err </dev/null &
run=$!
for _ in $(seq 1 300); do
    grep -qs '> building train, validation' out && break
    sleep 0.05
done
kill -TERM "$(a_rank 2)"
wait $run
status=$?
[ $status -eq 143 ] || note "SIGTERM to a rank that builds the index: exit status $status"
grep -q 'no step was made, and nothing is saved' err || note "SIGTERM to a rank that builds the index: what ended the run is not said"
grep -qE 'error|died|ended by signal' err && note "SIGTERM to a rank that builds the index is told as a failure: $(cat err)"
[ -z "$(a_rank 1)" ] || note "SIGTERM to a rank that builds the index: a rank lives on"
rm -rf keep out err

# The engine alone: mpirun kills its ranks on SIGTERM, and hands on SIGUSR1.
mark=$((mark + 1))
ranks 2 "$MEGALITH" "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
kill -USR1 "$(pgrep -f "^[^ ]*mpi[^ ]* .*train-iters $mark" | tail -n 1)"
saved "SIGUSR1 to mpirun"

# Before the ranks stand: nothing, the engine alone, ranks of which some know of signals and some do not.
for signal in TERM INT; do
    for after in 0.03 0.07 0.2 0.5; do
        mark=$((mark + 1))
        # Without job control the shell would have it ignore SIGINT.
        set -m
        "$MEGALITH" launch --nproc_per_node 4 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
        run=$!
        set +m
        sleep $after
        kill -$signal $run
        for _ in $(seq 1 150); do kill -0 "$run" 2>/dev/null && sleep 0.1; done
        kill -0 "$run" 2>/dev/null && fail "SIG$signal after $after s: the launch goes on"
        wait "$run"
        status=$?
        [ $status -eq 143 ] || [ $status -eq 130 ] || [ -s keep/latest_checkpointed_iteration.txt ] || note "SIG$signal after $after s: exit status $status, nothing saved"
        for _ in $(seq 1 50); do [ -n "$(a_rank 1)" ] && sleep 0.1; done
        [ -z "$(a_rank 1)" ] || note "SIG$signal after $after s: a rank lives on"
        rm -rf keep out err
    done
done

# One rank is stopped, so that none can agree to leave.
mark=$((mark + 1))
"$MEGALITH" launch --nproc_per_node 4 "${base[@]}" --train-iters $mark --save keep >out 2>err </dev/null &
run=$!
begun
kill -STOP "$(a_rank 3)"
kill -TERM $run
sleep 1
kill -0 $run 2>/dev/null || note "a first signal ends a run that cannot save"
kill -TERM $run
began=$SECONDS
wait $run
status=$?
[ $status -eq 143 ] || note "two signals: exit status $status"
[ $((SECONDS - began)) -le 10 ] || note "two signals: ended $((SECONDS - began)) s later"
for _ in $(seq 1 50); do [ -n "$(a_rank 1)" ] && sleep 0.1; done
[ -z "$(a_rank 1)" ] || note "two signals: a rank lives on"
tail -n 1 err | grep -q 'ended by a signal' || note "two signals: the last line"

finish
