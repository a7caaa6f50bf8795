#!/usr/bin/env bash
# Limits of the shell and changes to files in use never end a run without a message: a limit on file sizes is reported
# like a full disk, a small stack works or is refused, and data files that are truncated during a training are named.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 3000 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >prepare 2>&1 ||
    fail "preprocessing: $(cat prepare)"
# shellcheck disable=SC2054
base=(pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --num-threads 1
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --tokenizer-type \
        ByteTokenizer --eval-iters 0)
data=(--data-path d_text_document --split 100,0,0)

# --- ulimit -f: the checkpoint would be larger. Files that the shell opened are small, so the limit does not affect
# them.
(
    ulimit -f 40
    exec "$MEGALITH" "${base[@]}" "${data[@]}" --train-iters 4 --save keep
) >out 2>err
status=$?
[ $status -eq 1 ] || note "ulimit -f: exit status $status"
grep -q 'error: saving iteration 4: keep/.*cannot write: File too large; .*ulimit -f' err ||
    note "ulimit -f: $(cat err)"
[ ! -e keep/iter_0000004 ] && [ ! -e keep/latest_checkpointed_iteration.txt ] ||
    note "ulimit -f: half a checkpoint is left"
find keep -name '*.tmp*' | grep . && note "ulimit -f: a temporary folder is left"

# --- ulimit -s: raised if that is allowed, otherwise refused with the size that is needed
for kind in S H; do
    rm -rf keep
    (
        ulimit -S -s 64
        [ $kind = S ] || ulimit -H -s 64
        exec "$MEGALITH" "${base[@]}" "${data[@]}" --train-iters 2 --num-threads 2
    ) >out 2>err
    status=$?
    case $status in
    0) grep -q 'iteration  *2/' out || note "ulimit -${kind}s 64: no training" ;;
    1) grep -q 'the stack is limited to 64 KiB and 256 are needed; raise the limit' err ||
        note "ulimit -${kind}s 64: $(cat err)" ;;
    *) note "ulimit -${kind}s 64: exit status $status" ;;
    esac
    [ $kind = H ] || [ $status -eq 0 ] || note "ulimit -Ss 64 is not raised"
done

# --- truncated data files: the run ends with their name, keeps its complete steps, and can be resumed. If the cut is
# within a page there is no signal: only the length of the file shows it.
cut_while_training() { # cut_while_training FILE BYTES
    local size last run status
    size=$(stat -c %s "$1")
    rm -f out err
    "$MEGALITH" "${base[@]}" "${data[@]}" --train-iters 100000 --save keep >out 2>err &
    run=$!
    for _ in $(seq 1 500); do
        grep -qs 'iteration  *3/' out && break
        sleep 0.02
    done
    cp "$1" whole.file
    truncate -s "$2" "$1"
    for _ in $(seq 1 1000); do kill -0 $run 2>/dev/null && sleep 0.02; done
    kill -9 $run 2>/dev/null && note "$1 cut to $2: the run goes on"
    wait $run
    status=$?
    [ $status -eq 1 ] || note "$1 cut to $2: exit status $status"
    grep -qE \
        "error: .*$1: the file was truncated while it was being read: it had $size bytes when it was opened and has $2" err ||
        note "$1 cut to $2: it is not named: $(cat err)"
    last=$(grep -oE 'iteration +[0-9]+/' out | tail -n 1 | tr -dc 0-9)
    [ "$(cat keep/latest_checkpointed_iteration.txt 2>&1)" = "$last" ] ||
        note "$1 cut to $2: no checkpoint of iteration $last"
    mv whole.file "$1"
    "$MEGALITH" "${base[@]}" "${data[@]}" --train-iters 100000 --exit-interval $((last + 2)) --load keep >out 2>err ||
        note "$1 cut to $2: the run does not go on: $(cat err)"
    grep -q 'not those of' err && note "$1 cut to $2: the checkpoint says that its samples were others"
    "$MEGALITH" "${base[@]}" "${data[@]}" --train-iters 100000 --exit-interval $((last + 2)) >whole 2>log ||
        note "a whole run"
    diff <(grep -o 'lm loss: [^|]*' whole | tail -n 1) <(grep -o 'lm loss: [^|]*' out | tail -n 1) >log ||
        note "$1 cut to $2: the saved state is not whole"
    rm -rf keep
}
cut_while_training d_text_document.bin 4096
cut_while_training d_text_document.bin $(($(stat -c %s d_text_document.bin) - 1))
cut_while_training d_text_document.idx 64

finish
