#!/usr/bin/env bash
# fill_mask: the same tokens and probabilities over tp, pp and dp as on one rank, with a head for pairs and without;
# what its lines say; mistakes. tests/golden/test_fill_mask_transformers.sh compares with transformers.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
export OMP_NUM_THREADS=1
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl runs sleeps '##s' >vocab.txt
for i in $(seq 1 30); do echo "The fox runs. A dog sleeps. The owl runs."; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix t >log 2>&1 || fail "preprocessing"
for head in pairs "masks --bert-no-binary-head"; do
    # shellcheck disable=SC2086 # an option
    "$MEGALITH" pretrain_bert --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 24 \
        --micro-batch-size 4 --train-iters 4 --lr 1e-2 --eval-iters 0 \
        --init-method-std 0.2 --data-path t_text_sentence --split 100,0,0 --vocab-file vocab.txt --save ${head} >log \
        2>&1 || fail "pretrain_bert $head"
done
mask='[MASK]'
printf '%s\n' "The $mask runs." "a $mask $mask." "" \
    "$mask $mask $mask the $mask $mask $mask a $mask $mask $mask $mask" "fox$mask" >lines.txt
printf '%s' "the owl ${mask}s" >>lines.txt
short() { sed -E 's/("score":[0-9.]{5})[0-9.]*(e-[0-9]+)?/\1\2/g' "$1"; }
for folder in pairs masks; do
    "$MEGALITH" fill_mask --load $folder --input lines.txt --text "a $mask" --top_k 2 >one 2>log ||
        fail "fill_mask with $folder"
    [ \
        "$(grep -c '^{"text":".*","masks":\[\[{"score":0\.[0-9]*,"token":[0-9]*,"token_str":"[^"]*","sequence":"[^"]*"}' one)" = 6 ] || note "$folder says: $(cat one)"
    [ "$(grep -o '"score"' one | wc -l)" = $((2 * 16)) ] ||
        note "$folder: $(grep -o '"score"' one | wc -l) tokens of 16 masks"
    for layout in "2 --tensor-model-parallel-size 2" "2 --pipeline-model-parallel-size 2" "2 --micro-batch-size 2" \
        "4 --tensor-model-parallel-size 2 --micro-batch-size 1"; do
        # shellcheck disable=SC2086 # options and values
        ranks ${layout%% *} "$MEGALITH" fill_mask --load $folder --input lines.txt --text "a $mask" --top_k 2 \
            ${layout#* } >many 2>log </dev/null || note "$folder, $layout"
        cmp -s <(short one) <(short many) || note "$folder, $layout: $(diff <(short one) <(short many) | head -4)"
    done
done
"$MEGALITH" fill_mask --load masks --text "the $mask runs." --targets owl Cat cats >out 2>log || fail "targets"
[ "$(grep -o '"token_str":"[a-z]*"' out | sort | tr '\n' ' ')" = '"token_str":"cat" "token_str":"owl" ' ] ||
    note "targets: $(cat out)"
grep -q '"cats": it is no single token; "cat" is taken' log ||
    note "nothing is said of a target that is replaced: $(cat log)"
grep -q '"sequence":"the owl runs\."' out || note "no sequence without special tokens: $(cat out)"
"$MEGALITH" fill_mask --load masks --text "the $mask runs." --targets zebra --vocab-file vocab.txt >out 2>log ||
    fail "an unknown target"
grep -q '"zebra": it is not in the vocabulary; "\[UNK\]" is taken' log ||
    note "nothing is said of an unknown target: $(cat log)"
grep -q '"token_str":"\[UNK\]"' out || note "an unknown target: $(cat out)"
"$MEGALITH" fill_mask --load masks --text "the $mask." --dry-run >out 2>log || fail "a dry run"
grep -q 'dry run: .*1 texts would be filled by masks' out || note "a dry run says: $(cat out)"
long=$(printf 'the %.0s' $(seq 30))
printf 'a %s\na dog\n' "$mask" >bad.txt
refuses "mistakes in texts" \
    "3 mistakes|--text: \"the fox\": it has no $mask|it has 33 tokens, and 24 fit, the model's positions|--input bad.txt:2: \"a dog\": it has no $mask" \
    fill_mask --load masks --text "the fox" --text "$long$mask" --input bad.txt
refuses "a long text" "it has 4 tokens, and 3 fit, the --seq-length" fill_mask --load masks --text "a $mask" \
    --seq-length 3
refuses "nothing" "missing: --load FOLDER|missing: --text TEXT" fill_mask --num-threads 1
refuses "an empty file" "it holds no text" fill_mask --load masks --input /dev/null
"$MEGALITH" preprocess_data --input text.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix b >log 2>&1 ||
    fail "bytes: $(tail -1 log)"
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 \
    --train-iters 1 --lr 1e-3 --eval-iters 0 \
    --data-path b_text_document --split 100,0,0 --tokenizer-type ByteTokenizer --save gpt >log 2>&1 ||
    fail "a GPT: $(tail -1 log)"
refuses "a decoder" "expected an encoder" fill_mask --load gpt --text "1 2"
finish
