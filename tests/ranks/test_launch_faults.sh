#!/usr/bin/env bash
# Four ranks under megalith launch. One of them is killed, is stopped, cannot read the
# checkpoint, or finds a full disk. The run always ends within ten seconds (after its limit), the last line names rank
# and cause, no rank survives, and the last checkpoint is complete.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
unset RANK WORLD_SIZE
need_shim
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
base=(pretrain_gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 100000 \
        --eval-iters 0
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0)
launch() { "$MEGALITH" launch --nproc_per_node 4 "$@" </dev/null; }
# Waits for the run in the background to end, at most this many seconds.
ends_in() {
    local began
    began=$(date +%s)
    wait "$launcher"
    status=$?
    [ $(($(date +%s) - began)) -le "$(at_most "$1")" ] ||
        note "$2: ended $(($(date +%s) - began)) s later, expected $1 at most"
    [ $status -ne 0 ] || note "$2: exit status 0"
    echo "$2: status $status, $(tail -n 1 err)"
    # one that was killed may still be on its way out
    for _ in $(seq 1 100); do pgrep -f "^$MEGALITH pretrain_gpt .*$mark" >/dev/null && sleep 0.1; done
    pgrep -f "^$MEGALITH pretrain_gpt .*$mark" >/dev/null && note "$2: a rank lives on"
}
# Waits until the run in the background has printed this; then $pid is one of its ranks.
begun() {
    for _ in $(seq 1 300); do
        grep -qs "$1" out && break
        sleep 0.1
    done
    pid=$(pgrep -f "^$MEGALITH pretrain_gpt .*$mark" | sed -n 3p)
    [ -n "$pid" ] || fail "the run does not come to $1: $(tail -n 2 err)"
}

rm -f out
mark='train-iters 100003'
rm -f out err
launch "${base[@]}" --train-iters 100003 --save keep --save-interval 5 --keep-checkpoints 1 >out 2>err &
launcher=$!
begun 'successfully saved checkpoint at iteration  *10 '
kill -9 "$pid"
ends_in 10 "a killed rank"
[ $status -eq 137 ] || [ $status -eq 1 ] || note "a killed rank: exit status $status" # 1: another rank told of it first
tail -n 1 err | grep -qE 'ended by signal 9|is dead \(killed' || note "a killed rank: the last line"
whole=$(cat keep/latest_checkpointed_iteration.txt)
"$MEGALITH" "${base[@]}" --train-iters $((whole + 1)) --load keep >on 2>&1 ||
    note "the checkpoint of a killed run: $(tail -n 1 on)"

rm -f out
mark='train-iters 100004'
rm -f out err
launch "${base[@]}" --train-iters 100004 --distributed-timeout-minutes 0.2 >out 2>err &
launcher=$!
begun 'iteration  *3/'
kill -STOP "$pid"
ends_in 22 "a stopped rank"
tail -n 5 err | grep -q 'rank [0-3]' || note "a stopped rank: no rank is named"

# Only one rank cannot read the weights: when it opens them for its checksums, to read their header, …
mark='train-iters 100005'
for at in 1 2 3; do
    rm -f failed
    LD_PRELOAD=$shim FAULT_RANK=2 FAULT_OP=open FAULT_PATH=model.safetensors FAULT_AT=$at FAULT_ERRNO=5 \
        FAULT_LOG=$work/failed \
        launch "${base[@]}" --train-iters $((whole + 1)) --load keep >out 2>err
    status=$?
    [ -e failed ] || break
    echo "one rank cannot read the checkpoint: status $status, $(tail -n 1 err)"
    [ $status -eq 1 ] || note "one rank cannot read the checkpoint: exit status $status"
    tail -n 1 err | grep -q 'error: .*rank 2.*keep/iter_.*Input/output error' ||
        note "one rank cannot read the checkpoint: the last line"
done
[ $at -gt 1 ] || note "the checkpoint is not opened"

# One rank has another shape, layout or training option than the others: all report it once, before the first step.
planted() { # option, what is said
    local began=$SECONDS
    # shellcheck disable=SC2016  # for the shell of each rank
    ranks 4 bash -c 'option=$0; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 2 ] || option=; exec "$@" $option' "$1" \
        "$MEGALITH" "${base[@]}" --train-iters 3 >out 2>&1 </dev/null && note "$1 in one rank: taken"
    [ $((SECONDS - began)) -le "$(at_most 10)" ] || note "$1 in one rank: ended after $((SECONDS - began)) s"
    grep -q 'iteration .*lm loss' out && note "$1 in one rank: told after a step"
    [ "$(grep -c 'error: ' out)" -eq 1 ] && grep -q "$2" out && grep -q 'rank 2 of the group: ' out ||
        note "$1 in one rank: $(grep -A3 'error: ' out)"
}
planted '--hidden-size 128' 'rank 0 of the group: --hidden-size 64'
planted '--tensor-model-parallel-size 2' 'its ranks have different options'
planted '--lr 1e-2' 'rank 0 of the group: --lr 0.001'
planted '--optimizer sgd' 'rank 0 of the group: --optimizer adam'

# A disk that fills.
rm -f out
mark='train-iters 100006'
mkdir disk
if mount -t tmpfs -o size=4m none disk 2>/dev/null; then
    trap 'cd /; umount "$work/disk"; rm -rf "$work"' EXIT
    rm -f out err
    launch "${base[@]}" --train-iters 100006 --save disk/keep --save-interval 5 >out 2>err &
    launcher=$!
    ends_in 60 "a full disk"
    grep -q 'No space left on device' err || note "a full disk: the reason"
    tail -n 1 err | grep -q 'error: ' || note "a full disk: the last line"
    whole=$(cat disk/keep/latest_checkpointed_iteration.txt)
    "$MEGALITH" "${base[@]}" --train-iters $((whole + 1)) --load disk/keep >on 2>&1 ||
        note "the checkpoint before a full disk: $(tail -n 1 on)"
fi

finish
