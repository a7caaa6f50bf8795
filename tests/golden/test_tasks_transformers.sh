#!/usr/bin/env bash
# WikiText-103 and LAMBADA of tasks: the counts, the loss, the token ratio and the passages that are right are those of
# an independent computation with transformers. Needs MEGA_PEERS; takes pieces of the real files where MEGA_TEST_DATA
# has them. MEGA_ALL=1 takes the whole files, and a model that has read other text, and prints the figures of both; it
# takes 12 minutes of processor time.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
[ -x "${MEGA_PEERS:-}" ] || skip "MEGA_PEERS names no Python that has transformers"
export OMP_NUM_THREADS=1
data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}
length=64 overlap=16 vocabulary=400
model=(--num-layers 2 --hidden-size 48 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \
    --micro-batch-size 4
    --train-iters 300 --lr 1e-2)
input=(--input train.txt --split-on-blank-lines)
if [ -n "${MEGA_ALL:-}" ]; then
    for file in wikitext-103/wiki.test.tokens lambada/lambada_test.jsonl corpus/openwebtext-1000.jsonl; do
        [ -f "$data/$file" ] || skip "no $data/$file"
    done
    length=128 overlap=32 vocabulary=8000
    cp "$data/wikitext-103/wiki.test.tokens" wikitext.txt
    cp "$data/lambada/lambada_test.jsonl" lambada.json
    cp "$data/corpus/openwebtext-1000.jsonl" train.jsonl # nothing of the two files is in it
    input=(--input train.jsonl)
    model=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \
        --micro-batch-size 16
        --train-iters 3000 --lr 5e-3 --lr-decay-style cosine --lr-warmup-iters 50)
elif [ -f "$data/wikitext-103/wiki.test.tokens" ] && [ -f "$data/lambada/lambada_test.jsonl" ]; then
    head -c 12000 "$data/wikitext-103/wiki.test.tokens" | sed '$d' >wikitext.txt
    head -20 "$data/lambada/lambada_test.jsonl" >lambada.json
    # an easy one
    for i in 1 2 3 4 5 6; do echo '{"text": "The dog ran and the fox ran and the dog ran"}'; done >>lambada.json
else
    for i in $(seq 1 60); do printf \
        ' = Page %d = \n The dog @-@ fox ran , and ( it said ) " it ran " at %d @.@ 5 ° N . \n' "$i" "$i"; done \
        >wikitext.txt
    for i in 1 2 3 4 5 6; do echo '{"text": "The dog ran and the fox ran and the dog ran"}'; done >lambada.json
fi
# The model has seen the passages, so that it gets some of them right.
[ -n "${MEGA_ALL:-}" ] ||
    { for i in $(seq 1 12); do { cat lambada.json; for _ in $(seq 1 30); do tail -n 1 lambada.json; done; } |
        sed 's/^{"text": "//; s/"}$//'; echo; done; cat "$MEGA_SOURCE"/docs/t*.md | head -c 8000; } >train.txt
"$MEGALITH" train_tokenizer --input "${input[1]}" --vocab-size "$vocabulary" --output tokenizer >log 2>&1 ||
    fail "train_tokenizer"
vocab=(--tokenizer-type GPT2BPETokenizer --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt)
"$MEGALITH" preprocess_data "${input[@]}" --append-eod --output-prefix t "${vocab[@]}" >log 2>&1 ||
    fail "preprocess_data"
"$MEGALITH" pretrain_gpt "${model[@]}" --eval-iters 0 --data-path t_text_document --split 100,0,0 "${vocab[@]}" --save \
    gpt >log 2>&1 || fail "pretrain_gpt"
[ -z "${MEGA_ALL:-}" ] || grep -E 'iteration +3000/' log
folder=$(echo gpt/iter_*)
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/tasks_transformers.py" "$folder" "$length" "$overlap" wikitext.txt \
    lambada.json >theirs 2>err || fail "transformers: $(tail -1 err)"
read -r targets loss ratio < <(head -1 theirs)
read -r loose strict passages < <(tail -1 theirs)
"$MEGALITH" tasks --task WIKITEXT103 --load "$folder" --valid-data wikitext.txt --seq-length "$length" \
    --overlapping-eval "$overlap" >wiki 2>log || fail "WIKITEXT103"
awk -v loss="$loss" -v ratio="$ratio" \
    '/WIKITEXT103/ { for (i = 1; i < NF; i++) { if ($i == "loss:") l = $(i + 1); if ($i == "ratio:") r = $(i + 1) } }
    END { d = l / loss - 1; e = r / ratio - 1; exit !(l > 0 && d < 1e-4 && d > -1e-4 && e < 1e-12 && e > -1e-12) }' wiki ||
    note "WikiText: transformers has $targets targets, loss $loss, ratio $ratio; here: $(cat wiki)"
[ -z "${MEGA_ALL:-}" ] || printf 'WikiText-103: transformers: %s targets, avg loss %s, token ratio %s\nhere: %s\n' \
    "$targets" "$loss" "$ratio" "$(cat wiki)"
grep -qE '^   95 % confidence interval: avg loss: .* adjusted ppl: ' wiki || note "no interval: $(cat wiki)"
[ -n "${MEGA_ALL:-}" ] || { [ "$loose" -gt 0 ] && [ "$strict" -gt 0 ]; } ||
    note "no passage is right, so that equal counts show nothing: $(tail -1 theirs)"
for kind in "" --strict-lambada; do
    # shellcheck disable=SC2086 # an option or none
    "$MEGALITH" tasks --task LAMBADA --load "$folder" --valid-data lambada.json $kind >lambada 2>log ||
        fail "LAMBADA $kind"
    wanted=$([ -n "$kind" ] && echo "$strict" || echo "$loose")
    awk -v right="$wanted" -v all="$passages" \
        '/LAMBADA/ { for (i = 1; i < NF; i++) { if ($i == "correct:") c = $(i + 1); if ($i == "examples:") t = $(i + 1) } }
        END { exit !(c == right && t == all && t > 0) }' lambada || note "LAMBADA $kind: transformers has $wanted of $passages; here: $(cat lambada)"
    [ -z "${MEGA_ALL:-}" ] || printf 'LAMBADA %s: transformers: %s of %s\nhere: %s\n' "$kind" "$wanted" "$passages" \
        "$(cat lambada)"
done
finish
