#!/usr/bin/env bash
# A character-level GPT on the tiny-Shakespeare file: 4 layers, 4 heads, 128 wide, 2,000 iterations.
# The loss on the validation split ends below 1.90.   shakespeare_char.sh input.txt [options…]
set -euo pipefail
text=${1:?usage: shakespeare_char.sh input.txt [options that win]}
shift
megalith preprocess_data --input "$text" --split-on-blank-lines --tokenizer-type CharTokenizer --vocab-file \
    characters.json \
    --output-prefix shakespeare
megalith pretrain_gpt --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 \
    --max-position-embeddings 64 \
    --micro-batch-size 12 --global-batch-size 12 --train-iters 2000 --attention-dropout 0 --hidden-dropout 0 \
    --optimizer adam --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 100 --adam-beta2 0.99 \
    --weight-decay 0.1 \
    --clip-grad 1.0 --data-path shakespeare_text_document --split 90,10,0 --tokenizer-type CharTokenizer --vocab-file \
    characters.json \
    --log-interval 100 --eval-interval 500 --eval-iters 100 --save shakespeare --save-interval 2000 --metrics-file \
    shakespeare.jsonl "$@"
