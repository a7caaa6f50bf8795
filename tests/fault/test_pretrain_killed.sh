#!/usr/bin/env bash
# kill -9 at random moments of a run that saves every iteration. After each kill the newest checkpoint is complete and
# at most one step after the metrics; in the end the loss curve is that of a run without kills. Half of the time a
# second run is started with the same --save: it is refused, or continues where the first was killed, and is killed too.
#
#   MEGA_KILLS=N (default 15) kills; MEGA_SEED=S the moments. `make crash` sets 1,000.
# MEGA_HIDDEN=N (default 16) size of the model; from 448 on its files are longer than the blocks that are written
# without the page cache.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/kills.sh"
kills=${MEGA_KILLS:-15}
seed=${MEGA_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$((seed % 32768))
echo "$kills kills, MEGA_SEED=$seed"
fail() {
    note "after $killed kills (MEGA_SEED=$seed): $1"
    ls -R save
    exit 1
}
killed=0 refused=0 finished=0
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t \
    >log 2>&1 || fail "preparing the data"
begin_run() { # FOLDER, options: in the place of this shell, so that a kill meets the program
    local folder=$1
    shift
    exec "$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size "${MEGA_HIDDEN:-16}" --num-attention-heads 2 \
        --seq-length 16 --micro-batch-size 1 \
        --global-batch-size 1 --train-iters 500000 --lr 1e-3 --lr-decay-style constant --tokenizer-type ByteTokenizer \
        --data-path t_text_document --split 100,0,0 --eval-iters 0 --num-threads 1 --log-interval 1 --save-interval 1 \
        --save "$folder" --load "$folder" --keep-checkpoints 2 --metrics-file "$folder.jsonl" "$@"
}
run() { (begin_run "$@"); }
# Measures the time from the start to ten iterations; kills come between 0 and a little more than that.
begin=$(date +%s%N)
run first --exit-interval 10 >log 2>&1 || fail "a run of ten iterations"
span=$((($(date +%s%N) - begin) / 1000000 + 1))
rm -rf index-cache # so that the building of it is killed, too

lost=0
resumed=0
last=0
lock=save/run.lock
subject="--save save"
end_run() { # PID LOG OTHER: kills it, if OTHER did not have it refused
    end_of "$1" "$2" "$3"
    case $? in
    0) fail "the run ended by itself: $(tail -n 2 "$2")" ;;
    1) grep -q '^ iteration' "$2" && fail "a refused run computed" ;;
    esac
}
said=0
check_log() {
    local at said
    if grep -q 'successfully loaded' "$1"; then
        at=$(sed -n 's/.*successfully loaded checkpoint from .* at iteration \([0-9]*\)$/\1/p' "$1")
        [ "$at" -ge "$last" ] || fail "went on from $at although $last was saved"
        resumed=$((resumed + 1))
    fi
    said=$(sed -n 's/.*successfully saved checkpoint at iteration *\([0-9]*\) to .*/\1/p' "$1" | tail -n 1)
    [ "$tracker" -ge "${said:-0}" ] || fail "the tracker says $tracker, the run said $said was saved"
}
while [ "$killed" -lt "$kills" ]; do
    moment=$(((RANDOM * 32768 + RANDOM) % (span * 5 / 4)))
    second=
    : >log2
    begin_run save >log 2>&1 &
    pid=$!
    case $((RANDOM % 4)) in
    0) # the first is stopped while it holds the lock, so that the second meets it for certain
        stop_with_lock "$pid" $lock || fail "the run ended before it had the lock: $(tail -n 2 log)"
        run save >log2 2>&1 && fail "a second run ends with status 0"
        grep -q "error: $subject: process $pid on host $host has been writing there since 20" log2 ||
            fail "the second run was not refused by the first: $(tail -n 2 log2)"
        grep -q '^ iteration' log2 && fail "a refused run computed"
        refused=$((refused + 1))
        kill -CONT "$pid"
        milliseconds $moment
        ;;
    1)
        early=$((RANDOM % (moment + 1)))
        milliseconds $early
        begin_run save >log2 2>&1 &
        second=$!
        milliseconds $((moment - early))
        ;;
    *) milliseconds $moment ;;
    esac
    end_run "$pid" log "${second:-0}"
    if [ -n "$second" ]; then
        milliseconds $((RANDOM % 50))
        end_run "$second" log2 "$pid"
    fi
    if [ "$killed" -ge $((said + 100)) ]; then
        said=$killed
        echo "$killed kills, $last iterations, ten of them in $span ms, $refused second runs refused"
    fi
    tracker=$(cat save/latest_checkpointed_iteration.txt 2>/dev/null || echo 0)
    check_log log
    check_log log2
    [ "$tracker" -ge "$last" ] || fail "the tracker went back from $last to $tracker"
    # The speed of the machine changes, so adapt the range to a little more than ten iterations.
    if [ $((tracker - last)) -gt 12 ]; then
        span=$((span * 4 / 5 + 1))
    elif [ $((tracker - last)) -lt 8 ] && [ "$moment" -gt "$span" ]; then
        span=$moment
    fi
    last=$tracker
    seen=$(sed -n 's/^{"iteration": \([0-9]*\),.*}$/\1/p' save.jsonl 2>/dev/null | tail -n 1)
    [ "${seen:-0}" -le $((tracker + 1)) ] || fail "iteration $seen is in the metrics, $tracker is saved"
    [ "${seen:-0}" -gt "$tracker" ] && lost=$((lost + 1))
    # at most: two checkpoints that are kept, one being removed, one half written, tracker, run id, lock, and for each
    # run one temporary file of these
    [ "$(ls save 2>/dev/null | wc -l)" -le 10 ] || fail "leftovers pile up in save"
    [ "$(ls index-cache 2>/dev/null | wc -l)" -le 24 ] || fail "leftovers pile up in index-cache: $(ls index-cache)"
done
run save --exit-interval 1 >log 2>&1 || fail "the run after the last kill"
total=$(cat save/latest_checkpointed_iteration.txt)
run whole --save-interval "$total" --exit-interval "$total" >log 2>&1 || fail "the run that nothing happened to"
curve() { grep -o '"iteration": [0-9]*\|"lm_loss": [^,]*\|"grad_norm": [^,]*' "$1"; }
grep -F "$(cat save/run_id.txt)" save.jsonl >run.jsonl # a run that was killed before its first checkpoint was another
cmp <(curve run.jsonl) <(curve whole.jsonl) || fail "the loss curve is another one"
folder=$(printf 'iter_%07d' "$total")
cmp "save/$folder/model.safetensors" "whole/$folder/model.safetensors" || fail "the weights are others"
cmp "save/$folder/state/optimizer.safetensors" "whole/$folder/state/optimizer.safetensors" ||
    fail "the moments are others"
[ "$(ls save | wc -l)" -eq 4 ] || fail "leftovers after a whole run: $(ls save)"
ls index-cache | grep -q '\.tmp' && [ "$(ls index-cache | grep -c '\.tmp')" -gt 4 ] &&
    fail "leftovers in index-cache: $(ls index-cache)"
echo \
    "$killed kills: $resumed of the runs had resumed, $refused second runs were refused, $lost lost the unsaved step, $total iterations, the same curve; index-cache: $(ls index-cache | wc -l) files"
exit 0
