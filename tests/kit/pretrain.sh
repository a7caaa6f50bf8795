# shellcheck shell=bash
# For tests of pretrain_gpt: . "$MEGA_SOURCE/tests/kit/pretrain.sh" after kit.sh. Prepares text_text_document, and the
# options of a small model in ${base[@]}; a check that fails is noted, and the test continues.
fail() { note "$@"; }
# has FILE REGEX: a line of FILE matches
has() { grep -Eq -- "$2" "$1" || { note "$1 has no line like: $2"; tail -5 "$1"; }; }

for i in $(seq 1 400); do echo "line $i: the quick brown fox number $((i * 7919 % 1000)) jumps over the lazy dog"; \
    echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >prepare.log 2>&1 ||
    { cat prepare.log; exit 1; }
# shellcheck disable=SC2034,SC2054  # for the scripts that read this file; --split takes commas
base=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --global-batch-size 4
    --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 2 --tokenizer-type ByteTokenizer
    --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2)
