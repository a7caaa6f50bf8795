#!/usr/bin/env bash
# A disk that fills. Whatever a command is writing, the message names the file, the bytes it needs and the bytes free.
# No incomplete file gets its final name, complete files stay, repeated tries leave no more files than one, and with
# enough space the same command succeeds. The disk is a small tmpfs, and an ext4 in a file if the test may mount one
# (large tensors are written without the page cache there).
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
disk=$work/disk
mkdir "$disk"
mounted=0
unmount() {
    [ "$mounted" -eq 0 ] || umount "$disk" || umount -l "$disk"
    mounted=0
}
trap 'cd /; unmount; rm -rf "$work"' EXIT
mount_tmpfs() { mount -t tmpfs -o "size=$1" none "$disk" && mounted=1; }
if ! mount_tmpfs 1m 2>"$work/log"; then
    skip "no file system can be mounted here: $(tail -n 1 "$work/log")"
fi
unmount
fail() {
    note "$@"
    ls -lR "$disk" | head -n 40
    exit 1
}
# refused FILE-REGEX COMMAND…: fails without a crash and prints the file, the bytes needed and the bytes free
refused() {
    local file=$1 rc
    shift
    "$@" >log 2>&1
    rc=$?
    [ "$rc" -gt 0 ] && [ "$rc" -lt 124 ] || fail "status $rc on a full disk: $*"
    grep -qE \
        "$file[^ ]*: cannot [a-z ]*: No space left on device; the file needs [0-9]+ bytes( or more)?, [0-9]+ are written, [0-9]+ available; free some space" log ||
        fail "no word of file, needed and available bytes: $*"
}
entries() { find "$disk" | sort; }

fox_lines 300 >t.txt
byte=(--tokenizer-type ByteTokenizer)
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines "${byte[@]}" --append-eod --output-prefix t >log 2>&1 \
    || fail "data"
train() { # --save, hidden size, further options; a checkpoint is 48 bytes * 12 * hidden^2 in the main
    local save=$1 hidden=$2
    shift 2
    timeout 120 "$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size "$hidden" --num-attention-heads 2 --seq-length \
        16 --micro-batch-size 1 \
        --global-batch-size 1 --train-iters 3 --lr 1e-3 "${byte[@]}" --data-path t_text_document --split 100,0,0 \
        --eval-iters 0 \
        --num-threads 1 --log-interval 1 --save-interval 1 --save "$save" --load "$save" --keep-checkpoints 1 "$@"
}

# --- no space for the second checkpoint of a run: the first stays, and can be resumed from
checkpoints() { # KIND HIDDEN
    train "$work/whole-$2" "$2" >log 2>&1 || fail "the run that nothing happened to"
    refused "$disk/save/iter_0000002[^ ]*safetensors" train "$disk/save" "$2"
    local before
    before=$(entries)
    # a run that certainly does not fit is refused before anything is computed, also with --dry-run
    for dry in '' --dry-run; do
        train "$disk/save" "$2" ${dry:+"$dry"} >log 2>&1 &&
            fail "$1: no room for a checkpoint, found by nobody ${dry:+with $dry}"
        grep -q \
            "error: --save $disk/save: a checkpoint needs [0-9.]* MB and its file system has [0-9.]* [kMG]*B free; free some space, or choose another folder" log &&
            ! grep -q 'iteration        2' log || fail "$1: no word of the checkpoint's bytes ${dry:+with $dry}"
        [ "$(entries)" = "$before" ] || fail "$1: the refused run left something: $(diff <(echo "$before") <(entries))"
    done
    # a save that was interrupted left files, which the next save removes first: the run is allowed to try
    for _ in 1 2 3 4 5; do
        mkdir "$disk/save/iter_0000002.tmp-gone-00000000-1"
        refused "$disk/save/iter_0000002[^ ]*safetensors" train "$disk/save" "$2"
        grep -q 'successfully loaded checkpoint .* at iteration 1$' log ||
            fail "$1: not gone on from the checkpoint before"
        [ "$(entries)" = "$before" ] || fail "$1: leftovers grow: $(diff <(echo "$before") <(entries))"
    done
    [ "$(cat "$disk/save/latest_checkpointed_iteration.txt")" = 1 ] || fail "$1: the tracker is wrong"
    cp -r "$disk/save" "moved-$1"
    train "moved-$1" "$2" >log 2>&1 || fail "$1: with room again"
    cmp "whole-$2/iter_0000003/model.safetensors" "moved-$1/iter_0000003/model.safetensors" || fail "$1: other weights"
    cmp "whole-$2/iter_0000003/state/optimizer.safetensors" "moved-$1/iter_0000003/state/optimizer.safetensors" ||
        fail "$1: other moments"
}
mount_tmpfs 8m || fail "mounting"
checkpoints tmpfs 128
unmount
kinds=tmpfs
if command -v mkfs.ext4 >/dev/null && truncate -s 80m disk.img && mkfs.ext4 -q -F disk.img >log 2>&1 &&
    mount -o loop disk.img "$disk" 2>log; then
    mounted=1
    checkpoints ext4 384 # 22 MB of weights and 44 MB of moments: blocks of 8 MiB
    unmount
    kinds="tmpfs, ext4"
fi

# --- data: the existing pair stays; no part of the new one does
mount_tmpfs 1m || fail "mounting"
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines "${byte[@]}" --output-prefix "$disk/p" >log 2>&1 ||
    fail "a small pair"
seq 1 200000 >long.txt
sum=$(cat "$disk"/p_text_document.* | cksum)
before=$(entries)
for _ in 1 2 3; do
    refused "$disk/p_text_document.bin" "$MEGALITH" preprocess_data --input long.txt "${byte[@]}" --output-prefix \
        "$disk/p"
    [ "$(entries)" = "$before" ] && [ "$(cat "$disk"/p_text_document.* | cksum)" = "$sum" ] ||
        fail "the pair before is not as it was"
done
"$MEGALITH" data verify "$disk/p_text_document" >log 2>&1 || fail "the pair before does not open"
cp long.txt both.txt
"$MEGALITH" preprocess_data --input both.txt "${byte[@]}" --output-prefix both >log 2>&1 || fail "a large pair"
refused "$disk/m.bin" "$MEGALITH" data merge --input both_text_document both_text_document --output-prefix "$disk/m"
[ "$(entries)" = "$before" ] || fail "merge left something behind"
unmount

# --- a tokenizer: all old files stay
mount_tmpfs 64k || fail "mounting"
learn() { timeout 120 "$MEGALITH" train_tokenizer --input t.txt --vocab-size "$1" --output "$disk/vocab" --workers 1; }
learn 280 >log 2>&1 || fail "a small tokenizer"
head -c 36864 /dev/zero >"$disk/filler" 2>log
sum=$(cat "$disk"/vocab/* | cksum)
before=$(entries)
for _ in 1 2 3; do
    refused "$disk/vocab/[a-z_]*.[jt]" learn 400
    [ "$(entries)" = "$before" ] && [ "$(cat "$disk"/vocab/* | cksum)" = "$sum" ] ||
        fail "the tokenizer before is not as it was"
done
unmount

# --- other files of a run: metrics, events. It warns once, continues, and lists at the end what is missing.
trains() { # OPTION PATH LOST COMMAND…
    local option=$1 path=$2 lost=$3
    shift 3
    "$@" >log 2>&1 || fail "a full disk ends the training: $option"
    [ "$(grep -c "warning: $option: $path[^ ]*: cannot write: No space left on device.*; the training continues" log)" \
        = 1 ] || fail "$option: warned once"
    grep -q "warning: $option $path: $lost of iterations [0-9]* to 60 are missing: $path" log ||
        fail "$option: no word of what is missing"
}
long() { train "$@" --train-iters 60 --save-interval 20; }
long whole 16 --metrics-file whole.jsonl >log 2>&1 || fail "the run with metrics"
curve() { grep -o '"iteration": [0-9]*\|"lm_loss": [^,]*' "$1"; }
mount_tmpfs 8k || fail "mounting"
trains --metrics-file "$disk/m.jsonl" rows long part 16 --metrics-file "$disk/m.jsonl"
cmp part/iter_0000060/model.safetensors whole/iter_0000060/model.safetensors || fail "a full disk changes the weights"
first=$(sed -n 's/.*rows of iterations \([0-9]*\) to 60 are missing.*/\1/p' log)
cmp <(curve "$disk/m.jsonl") <(curve whole.jsonl | head -n $((2 * (first - 1)))) ||
    fail "rows before $first are not whole"
unmount
mount_tmpfs 4k || fail "mounting"
trains --tensorboard-dir "$disk" events long events 16 --tensorboard-dir "$disk"
unmount

# --- the index cache: a note, and the run continues
mount_tmpfs 4k || fail "mounting"
long cached 16 --data-cache-path "$disk" --metrics-file c.jsonl >log 2>&1 || fail "a full cache ends the run"
grep -qE \
    "index built, but not cached .*$disk/[^ ]*: cannot [a-z]*: No space left on device; the file needs [0-9]* bytes" \
    log || fail "no word of the full cache"
[ -z "$(ls "$disk" | grep '\.tmp')" ] || fail "left behind in the cache: $(ls "$disk")"
cmp <(curve c.jsonl) <(curve whole.jsonl) || fail "without a cache the curve is another"
unmount
echo "full disks ($kinds): checkpoints, data, merged data, tokenizer, metrics, events, index cache"
exit 0
