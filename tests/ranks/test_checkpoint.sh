#!/usr/bin/env bash
# Checkpoints of many ranks: saved in each of eight layouts, resumed in each of eight (MEGA_MATRIX=sparse: of five). A
# checkpoint that is loaded and saved again in another layout has the same bytes, checksums included, and the losses are
# those of one rank that was never interrupted.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "FAILED: $1"
    exit 1
}
# ranks; the settings of ranks_checkpoint
layouts=("1" "2" "2 tp=2" "2 pp=2" "4 tp=2 zero=1" "4 pp=2 tp=2" "4 pp=2 zero=1" "2 zero=3")
[ "${MEGA_MATRIX:-full}" = full ] || layouts=("1" "2 tp=2" "4 pp=2 tp=2" "4 pp=2 zero=1" "2 zero=3")
each_from_each() { # prefix of the folders, layouts
    local name=$1 from= i n log
    shift
    local layouts=("$@")
    for i in "${!layouts[@]}"; do
        # shellcheck disable=SC2086  # a list of words
        set -- ${layouts[i]}
        n=$1
        shift
        ranks "$n" "$MEGA_BUILD/tests/ranks_checkpoint" save "$name$i" "$@" >log 2>&1 </dev/null ||
            fail "save: ${layouts[i]}: $(cat log)"
        from=$from${from:+,}$name$i
    done
    for i in "${!layouts[@]}"; do
        # shellcheck disable=SC2086
        set -- ${layouts[i]}
        n=$1
        shift
        ranks "$n" "$MEGA_BUILD/tests/ranks_checkpoint" resume "$from" "again$name$i" "$@" >log 2>&1 </dev/null ||
            fail "resume: ${layouts[i]}: $(cat log)"
        [ "$(ls "again$name$i")" = "iter_0000003
latest_checkpointed_iteration.txt" ] || fail "left behind: $(ls "again$name$i")"
        echo "ok: ${layouts[i]}: saves, and goes on from all"
    done
}
each_from_each saved "${layouts[@]}"
# Muon, whose states are those of matrices and those of the rest
each_from_each muon "1 muon=1" "4 tp=2 zero=1 muon=1" "2 zero=3 muon=1" "4 pp=2 muon=1"
# Experts, which ep divides: a folder has those of all ranks
each_from_each experts "1 experts=1" "2 ep=2 zero=2 experts=1" "4 ep=2 zero=3 experts=1" "4 ep=4 experts=1" \
    "4 tp=2 ep=2 zero=1 experts=1" "4 pp=2 ep=2 experts=1"
# Muon's states of experts
each_from_each muons "1 experts=1 muon=1" "4 ep=2 zero=3 experts=1 muon=1" "2 ep=2 experts=1 muon=1" \
    "4 tp=2 ep=2 zero=1 experts=1 muon=1"
# those that one tensor of the file holds, whose ranks write and read their places in it; sinks
each_from_each stacks "1 experts=2" "2 ep=2 zero=3 experts=2" "4 pp=2 ep=2 experts=2" \
    "4 tp=2 ep=2 zero=1 experts=2"

# A plain Hugging Face folder, whose vocabulary has no padding, can be loaded in any layout.
for i in $(seq 1 200); do echo \
    "document $i of $((i * 7919 % 1000)) words: a quick fox jumps over $((i * 104729 % 991)) dogs"; echo; done >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >log 2>&1 ||
    fail "preprocessing: $(cat log)"
train=(pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-iters 0 \
        --num-threads 1
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 100,0,0)
"$MEGALITH" "${train[@]}" --train-iters 2 --save first >log 2>&1 || fail "a first checkpoint: $(cat log)"
mkdir plain
cp first/iter_0000002/*.json first/iter_0000002/model.safetensors plain
losses() { grep -oE 'lm loss: [0-9.E+-]+' "$1"; }
"$MEGALITH" "${train[@]}" --train-iters 2 --load plain --finetune >one.log 2>&1 || fail "one rank: $(cat one.log)"
ranks 4 "$MEGALITH" "${train[@]}" --train-iters 2 --load plain --finetune --tensor-model-parallel-size 2 >four.log \
    2>&1 </dev/null ||
    fail "four ranks: $(cat four.log)"
paste -d' ' <(losses one.log) <(losses four.log) |
    awk '{d = $3 - $6; if (d < 0) d = -d; if (d > 1e-5 * $3) bad = 1; n++} END {exit bad || n != 2}' ||
    fail "a plain folder: $(losses one.log) against $(losses four.log)"

# The ranks divide the files of a checkpoint and compute each checksum once. A flipped byte is found in any file, by any
# rank, and the message names the file; --load-previous resumes from the checkpoint before.
large=(--hidden-size 256 --num-layers 4 --save large --no-save-optim)
"$MEGALITH" "${train[@]}" "${large[@]}" --train-iters 2 --save-interval 1 >log 2>&1 ||
    fail "two larger checkpoints: $(cat log)"
weights=large/iter_0000002/model.safetensors
size=$(stat -c %s $weights)
[ "$size" -gt 12000000 ] || fail "a checkpoint of several pieces: $size bytes"
cp -r large whole
flip() { # file, where
    printf '%b' "\\x$(printf %02x $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 8)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc 2>dd.log || fail "dd: $(cat dd.log)"
}
load_large() { ranks 4 "$MEGALITH" "${train[@]}" "${large[@]}" --load large --no-load-optim --train-iters 3 "$@" \
    >large.log 2>&1 </dev/null; }
for at in 100 $((size / 3)) $((size - 1)); do
    flip $weights "$at"
    load_large && fail "byte $at of $size flipped: taken"
    grep -q 'model.safetensors: its bytes have changed: checksum' large.log ||
        fail "byte $at of $size flipped: $(tail -4 large.log)"
    grep -q 'load-previous resumes from iter_0000001' large.log || fail "no remedy: $(tail -4 large.log)"
    [ "$(grep -c 'error: ' large.log)" -eq 1 ] || fail "told more than once: $(cat large.log)"
    [ "$at" -ne $((size / 3)) ] || { load_large --load-previous &&
        grep -q 'continuing from the last complete checkpoint, large/iter_0000001' large.log; } ||
        fail "--load-previous: $(tail -4 large.log)"
    rm -rf large
    cp -r whole large
done
load_large || fail "a whole checkpoint: $(tail -4 large.log)"

# Hosts whose disks are copies of one another have files with equal inode numbers: each host must check its own. Here
# each rank has its own file system in a mount namespace. A byte is flipped in that of rank 1: first in a piece that
# rank 0 would check, then in one of its own.
cat >clone.sh <<'EOF'
mkdir -p clone && mount -t tmpfs clone clone && cp -r whole/. clone || exit 9
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then flip clone/iter_0000002/model.safetensors "$1"; fi
find clone -exec touch -d @1000000000 {} +
ls -iR clone >"inodes.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
shift && exec "$@"
EOF
export -f flip fail
if unshare -m true 2>unshare.log; then
    for at in $((size / 3)) $((size - 1)); do
        ranks 2 unshare -m bash clone.sh $at "$MEGALITH" "${train[@]}" "${large[@]}" --load clone --no-load-optim \
            --train-iters 3 >clone.log 2>&1 </dev/null &&
            fail "byte $at changed on the second of two cloned disks: taken"
        cmp inodes.0 inodes.1 || fail "the two file systems number their files apart, which shows nothing"
        grep -q 'rank 1: checkpoint clone/iter_0000002: 1 of its' clone.log &&
            grep -q 'model.safetensors: its bytes have changed' clone.log ||
            fail "cloned disks, byte $at: $(cat clone.log)"
    done
    echo "ok: cloned disks"
fi
rm -rf large whole
echo "ok: damage is found"

# --save and --load must be the same folder on all ranks; otherwise the error before the first step names the rank.
mkdir rank0 rank1
cp -r first rank0/from
apart() { # options; each rank in a folder of its own
    # shellcheck disable=SC2016  # for the shell of each rank
    ranks 2 bash -c 'cd "rank${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$@"' - "$MEGALITH" "${train[@]}" --data-path \
        "$work/d_text_document" \
        --train-iters 4 "$@" >apart.log 2>&1 </dev/null && fail "taken: $*"
    grep -q 'iteration .*lm loss' apart.log && fail "told after a step: $*"
}
apart --save to
grep -q "rank 1: --save to: rank 1 on host .* does not find there what rank 0 on host" apart.log ||
    fail "--save apart: $(tail -3 apart.log)"
[ "$(ls -A rank0/to)" = "" ] || fail "left behind: $(ls rank0/to)"
apart --load from
grep -q "rank 1: --load from: rank 1 on host .* finds no checkpoint, rank 0 on host .* one of iteration 2" apart.log ||
    fail "--load apart: $(tail -3 apart.log)"

# A full disk with 4 ranks, and one rank that alone fails to write or sync: the save fails on all ranks and names the
# file (and the rank), leaves no files, and the checkpoint before stays complete.
before() { find "$1" | sort && cat "$1"/iter_0000002/state/checksums.json; }
as_it_was() { # what happened, the folder, what it held
    [ "$(before "$2")" = "$3" ] || fail "$1: other files: $(ls "$2")"
    "$MEGALITH" "${train[@]}" --train-iters 3 --load "$2" >log 2>&1 ||
        fail "$1: the checkpoint before is not whole: $(tail -3 log)"
}
four() { ranks 4 "$@" "$MEGALITH" "${train[@]}" --tensor-model-parallel-size 2 --train-iters 4 --load "$folder" --save \
    "$folder" >failing.log 2>&1 </dev/null; }
folder=first
held=$(before first)
if ! grep -aq __asan_init "$MEGALITH" && ${CC:-cc} -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o shim.so \
    "$MEGA_SOURCE/tests/fault/shim/fault_shim.c" 2>log; then
    for fault in "0 pwrite 1" "1 pwrite 2" "1 fsync 1"; do
        # shellcheck disable=SC2086
        set -- $fault
        # shellcheck disable=SC2016  # for the shell of each rank
        four env FAULT_OP="$2" FAULT_AT="$3" bash -c \
            '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != "$0" ] || export LD_PRELOAD=$PWD/shim.so; exec "$@"' "$1" &&
            fail "saved although rank $1 cannot $2"
        grep -qE "saving iteration 4: first/iter_0000004[^ ]*: cannot [a-z]*: No space left on device" failing.log ||
            fail "no word of it: $(tail -5 failing.log)"
        [ "$1" -eq 0 ] || grep -q "rank $1: saving" failing.log || fail "the rank is not named: $(tail -5 failing.log)"
        as_it_was "rank $1 cannot $2" first "$held"
    done
fi
mkdir disk
if mount -t tmpfs -o size=640k none disk 2>log; then
    trap 'umount "$work/disk"; rm -rf "$work"' EXIT
    cp -r first disk/save
    folder=disk/save
    held=$(before disk/save)
    four && fail "saved on a full disk"
    grep -q 'error: .*--save disk/save: a checkpoint needs .* free; free some space' failing.log ||
        fail "no room, and the run began: $(tail -5 failing.log)"
    as_it_was "a disk without room" disk/save "$held"
    # the next save frees what one that was cut off holds: the run is tried
    mkdir disk/save/iter_0000004.tmp-gone-00000000-1
    four && fail "saved on a full disk"
    grep -qE "disk/save/iter_0000004[^ ]*: cannot [a-z]*: No space left on device; the file needs [0-9]+ bytes" \
        failing.log || fail "a full disk: $(tail -5 failing.log)"
    as_it_was "a full disk" disk/save "$held"
fi
echo "ok: a plain folder, failing writes, a full disk"
exit 0
