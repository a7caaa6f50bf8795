#!/usr/bin/env bash
# The n-th allocation, open, write, fsync, rename … of each command fails, for n = 1, 2, 3, … until the command passes.
# Each time there is an error message, no crash and no hang, every file that was complete before still is, and the next
# run succeeds. tests/fault/shim/fault_shim.c makes the calls fail.
#
#   MEGA_FAULTS=N          every call up to n = 2, then about N more spread over the rest (default 3, in slow
#                          builds 1); 0: every one
#   MEGA_FAULT_FROM=N      the first call, and MEGA_FAULT_EACH=N every N-th from there: a part of the whole, for one of
#                          several processes
#   MEGA_HIDDEN=N          size of the model (default 16); from 448 on its files are longer than the blocks that are
#                          written without the page cache
#   MEGA_FAULT_ONLY=REGEX  commands and kinds, for example 'pretrain write'
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
need_shim
few=3
[ "${MEGA_MATRIX:-full}" = full ] || few=1
many=${MEGA_FAULTS:-$few}
fail() {
    note "$@"
    [ "$failures" -lt 40 ] || exit 1
}

# The program, under the shim when `faulty` asked for it; what hangs is ended and has status 124.
preload=
megalith() { timeout 60 env ${preload:+LD_PRELOAD=$preload} "$MEGALITH" "$@"; }
faulty() {
    preload=$shim
    "$@"
}

# --- the commands: cmd_NAME runs in a copy of the folder `scene`; whole_NAME checks what it leaves when it succeeds
model=(--num-layers 1 --hidden-size "${MEGA_HIDDEN:-16}" --num-attention-heads 2 --seq-length 16 \
    --max-position-embeddings 16)
tok=(--tokenizer-type ByteTokenizer)
cmd_pretrain() {
    megalith pretrain_gpt "${model[@]}" "${tok[@]}" --micro-batch-size 1 --global-batch-size 1 --train-iters 6 --lr \
        1e-3 \
        --data-path t_text_document --split 90,10,0 --eval-iters 1 --eval-interval 3 --num-threads 1 --log-interval 1 \
        --save-interval 1 --save save --load save --keep-checkpoints 2 --metrics-file m.jsonl
}
whole_pretrain() { cmp -s save/iter_0000006/model.safetensors ../want/save/iter_0000006/model.safetensors; }
cmd_preprocess() { megalith preprocess_data --input t.txt --split-on-blank-lines "${tok[@]}" --append-eod \
    --output-prefix p --workers 1; }
whole_preprocess() { cmp -s p_text_document.bin ../want/p_text_document.bin &&
    cmp -s p_text_document.idx ../want/p_text_document.idx; }
cmd_tokenizer() { megalith train_tokenizer --input t.txt --vocab-size 300 --output vocab --workers 1; }
# what could not be removed is removed by the next run
whole_tokenizer() { diff -rq --exclude='*.lock' --exclude='*.tmp-*' vocab ../want/vocab >/dev/null; }
cmd_generate() { megalith generate_samples_gpt --load save --prompt line --greedy --out-seq-length 6 --num-threads 1 \
    >out.txt; }
whole_generate() { cmp -s out.txt ../want/out.txt; }
cmd_tasks() { megalith tasks --task LM_LOSS --load save --valid-data t.txt --num-threads 1 --micro-batch-size 1 \
    >tasks.txt; }
whole_tasks() { [ -s tasks.txt ]; }
cmd_merge() { megalith data merge --input t_text_document t_text_document --output-prefix both; }
whole_merge() { cmp -s both.bin ../want/both.bin && cmp -s both.idx ../want/both.idx; }

mkdir scene want
cd scene || exit 1
fox_lines 40 >t.txt
megalith preprocess_data --input t.txt --split-on-blank-lines "${tok[@]}" --append-eod --output-prefix t >../err 2>&1 ||
    fail "preparing the data"
megalith pretrain_gpt "${model[@]}" "${tok[@]}" --micro-batch-size 1 --global-batch-size 1 --train-iters 6 --lr 1e-3 \
    --data-path t_text_document --split 90,10,0 --eval-iters 1 --eval-interval 3 --num-threads 1 --log-interval 1 \
    --save-interval 1 --save save --load save --keep-checkpoints 2 --metrics-file m.jsonl --exit-interval 3 >../err \
    2>&1 || fail "preparing a checkpoint"
rm -rf index-cache
# pairs that preprocess_data and merge replace
fox_lines 7 >old.txt
megalith preprocess_data --input old.txt --split-on-blank-lines "${tok[@]}" --output-prefix p >../err 2>&1 ||
    fail "preparing an old pair"
for ending in bin idx; do cp p_text_document.$ending both.$ending; done
megalith train_tokenizer --input t.txt --vocab-size 280 --output vocab --workers 1 >../err 2>&1 ||
    fail "preparing a tokenizer"
cp -r . ../want
cd ../want || exit 1
for c in generate tasks preprocess tokenizer merge pretrain; do "cmd_$c" >../err 2>&1 ||
    fail "$c, with nothing in its way"; done
cd ..

# What was there before and is no output of the command is as it was; a checkpoint can be opened.
check_kept() {
    for f in t.txt t_text_document.bin t_text_document.idx; do cmp -s "now/$f" "scene/$f" ||
        fail "$1: $f is damaged"; done
    local of prefix
    for prefix in p_text_document both; do # the old pair or the new one
        of=scene
        cmp -s "now/$prefix.idx" "scene/$prefix.idx" || of=want
        cmp -s "now/$prefix.idx" "$of/$prefix.idx" && cmp -s "now/$prefix.bin" "$of/$prefix.bin" ||
            fail "$1: $prefix is neither the old pair nor the new one: $(ls now)"
    done
    # the pair of a tokenizer is the old one, the new one, or lacks vocab.json
    if [ -e now/vocab/vocab.json ]; then
        of=scene
        cmp -s now/vocab/vocab.json scene/vocab/vocab.json || of=want
        cmp -s now/vocab/vocab.json "$of/vocab/vocab.json" && cmp -s now/vocab/merges.txt "$of/vocab/merges.txt" ||
            fail "$1: vocab.json and merges.txt are no pair"
    fi
    local newest=now/save/iter_0000003
    if [ "$2" != pretrain ]; then diff -rq now/save scene/save >/dev/null || fail "$1: the checkpoint was changed"; fi
    [ -d "$newest" ] || [ -d now/save/iter_0000004 ] || [ -d now/save/iter_0000005 ] || [ -d now/save/iter_0000006 ] ||
        fail "$1: no checkpoint is left"
}

# one COMMAND KIND N ERRNO: false if the command succeeded because it made fewer than N such calls
one() {
    local c=$1 op=$2 n=$3 error=$4 name="$1, $2 $3 says $4" rc
    rm -rf now
    cp -r scene now
    rm -f hit
    (cd now && export FAULT_OP=$op FAULT_AT=$n FAULT_ERRNO=$error FAULT_LOG=$work/hit && faulty "cmd_$c") >err 2>&1
    rc=$?
    [ -e hit ] || { [ "$rc" -eq 0 ] || fail "$name: $rc although nothing failed"; return 1; }
    points=$((points + 1))
    if [ "$rc" -eq 0 ]; then # it went on in spite of it, so the outcome is whole
        survived=$((survived + 1))
        (cd now && "whole_$c") || fail "$name: status 0, and the output is not whole"
    else
        [ "$rc" -lt 124 ] || fail "$name: status $rc"
        grep -qi 'error\|cannot\|memory' err || fail "$name: status $rc and no word of why"
    fi
    check_kept "$name" "$c"
    if [ "$rc" -ne 0 ]; then
        (cd now && "cmd_$c") >err 2>&1 || fail "$name: the run afterwards fails"
        (cd now && "whole_$c") || fail "$name: the run afterwards leaves something else"
        leftovers=$(find now -name '*.tmp*' -o -name '*.megalith-*' -o -name '*.lock')
        [ -z "$leftovers" ] || fail "$name: left behind: $(echo "$leftovers" | head -n 3)"
    fi
    return 0
}

# count COMMAND KIND: how often it comes to such a call
count() {
    rm -rf now
    cp -r scene now
    (cd now && export FAULT_OP=$2 FAULT_AT=1000000000 FAULT_COUNT=$work/count && faulty "cmd_$1") >err 2>&1 ||
        fail "$1: does not run under the shim"
    tail -n 1 "$work/count"
}

total=0
for c in pretrain preprocess tokenizer generate tasks merge; do
    line="$c:"
    for kind in allocation:12 open:13 read:5 mkdir:28 write:28 write:5 short_write:0 fsync:5 rename:5 unlink:5 close:5 \
        mmap:12 ftruncate:28; do
        op=${kind%:*}
        error=${kind#*:}
        [[ "$c $op" =~ ${MEGA_FAULT_ONLY:-.} ]] || continue
        points=0
        survived=0
        calls=$(count "$c" "$op")
        n=${MEGA_FAULT_FROM:-1}
        while [ "$n" -le "$calls" ]; do
            one "$c" "$op" "$n" "$error" || break
            step=${MEGA_FAULT_EACH:-1}
            if [ "$many" -gt 0 ] && [ "$n" -ge "${MEGA_FAULT_FIRST:-2}" ]; then step=$(((calls - 1) / many + 1)); fi
            n=$((n + step))
        done
        line="$line $op $points/$calls"
        total=$((total + points))
    done
    echo "$line"
done
echo "$total calls failed, $failures failures"
finish
