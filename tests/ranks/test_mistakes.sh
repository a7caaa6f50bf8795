#!/usr/bin/env bash
# More than 60 mistakes (mistakes.txt), each made twice: with --dry-run and in a run. Both print the same list of
# errors, on one rank and on two, and write nothing.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
rows=$MEGA_SOURCE/tests/ranks/mistakes.txt

prepare() { "$MEGALITH" preprocess_data --split-on-blank-lines --tokenizer-type ByteTokenizer "$@" >log 2>&1 ||
    fail "preprocess_data $*"; }
fox_lines 200 >text.txt
prepare --input text.txt --append-eod --output-prefix text
echo "a single document, long enough for a sample of the sequence length" >one.txt
prepare --input one.txt --output-prefix one # without an end
for i in 1 2 3; do echo '{"text": ""}'; done >empty.json
prepare --input empty.json --output-prefix empty
prepare --input text.txt --tokenizer-type CharTokenizer --vocab-file chars.json --output-prefix chars
sed -i 's/, "<|endoftext|>"//' chars.json
head -c 40 text_text_document.idx >cut_text_document.idx && cp text_text_document.bin cut_text_document.bin
head -c 100 text_text_document.bin >short_text_document.bin && cp text_text_document.idx short_text_document.idx
echo '{"a": ' >broken.json
seq 20 >notes.txt && cp notes.txt as_they_were
echo text >file
mkdir -p foreign/iter_0000003 && echo x >foreign/iter_0000003/weights
mkdir void other && echo x >other/train.log
base=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --global-batch-size \
    4 --lr 1e-3
    --train-iters 4 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
        --num-threads 1)
"$MEGALITH" pretrain_gpt "${base[@]}" --save good >log 2>&1 || fail "a run without mistakes"
cp -r good damaged && printf 'x' | dd of=damaged/iter_0000004/model.safetensors bs=1 seek=900 conv=notrunc status=none
cp -r good cut && truncate -s 1000 cut/iter_0000004/state/optimizer.safetensors
mkdir lacking && cp good/iter_0000004/{config.json,model.safetensors} lacking
sed -i 's/transformer.ln_f.bias/transformer.ln_f.bios/' lacking/model.safetensors # names are as long
mkdir own && cp lacking/model.safetensors own/ && echo '{"model_type": "megalith"}' >own/config.json # no family
base+=(--save made/save --metrics-file made/metrics --tensorboard-dir made/events)

# --- one rank: what a user types
# Without amounts of memory, of which a part is measured.
less_amounts() { sed -E 's/ +[0-9.]+ [kMG]B/ so much/g'; }
said() { "$MEGALITH" pretrain_gpt "${base[@]}" "${words[@]}" "$@" 2>&1 >out </dev/null; }
while IFS= read -r row; do
    name=${row%% :: *} parts=${row##* :: } row=${row#* :: }
    read -ra words <<<"${row% :: *}"
    run=$(said) && note "$name: it was not refused"
    status=$?
    dry=$(said --dry-run) && note "$name: --dry-run did not refuse it"
    [ "$(less_amounts <<<"$run")" = "$(less_amounts <<<"$dry")" ] || note "$name: the run says: $run; --dry-run says: $dry"
    while IFS= read -r part; do [[ $run == *"$part"* ]] ||
        note "$name: \"$part\" is not in: $run"; done < <(tr '|' '\n' <<<"$parts")
    [ $status -lt 126 ] && [ ! -e made ] || note "$name: status $status, $(ls made 2>&1)"
    rm -rf made
done < <(grep -v '^#' "$rows")
cmp -s notes.txt as_they_were || note "notes were changed"

# --- two ranks: one start of the ranks for all mistakes
. "$MEGA_SOURCE/tests/kit/ranks.sh"
ranks 2 "$MEGA_BUILD/tests/ranks_mistakes" "$rows" "${base[@]}" >log 2>&1 </dev/null || note "two ranks: $(cat log)"
grep -q "^$(grep -vc '^#' "$rows") mistakes on 2 ranks$" log || note "two ranks: not all rows were tried"
# and as a user starts them
for dry in '' --dry-run; do
    # shellcheck disable=SC2086
    ranks 2 "$MEGALITH" pretrain_gpt "${base[@]}" --split 0,100,0 --load gud --memory-limit 64K $dry >out 2>said.$dry \
        </dev/null && note "two ranks: not refused"
    grep -q 'error: 3 mistakes:' said.$dry || note "two ranks, as typed: $(cat said.$dry)"
    sed -n '/error: 3 mistakes/,/^--/p' said.$dry | grep -v '^--' | less_amounts >list.$dry
done
cmp list. list.--dry-run || note "two ranks, as typed: another list"
finish
