#!/usr/bin/env bash
# CodeParrot small (110M), the run of Hugging Face's "How to train a Language Model with Megatron-LM" (there with
# --fp16 on eight GPUs). Options given to this script come last and win.
set -euo pipefail
GPT_ARGS="--num-layers 12
--hidden-size 768
--num-attention-heads 12
--seq-length 1024
--max-position-embeddings 1024
--micro-batch-size 12
--global-batch-size 192
--lr 0.0005
--train-iters 150000
--lr-decay-iters 150000
--lr-decay-style cosine
--lr-warmup-iters 2000
--weight-decay .1
--adam-beta2 .999
--bf16
--log-interval 10
--save-interval 2000
--eval-interval 200
--eval-iters 10
"
CHECKPOINT_PATH=${CHECKPOINT_PATH:-experiments/codeparrot-small}
# shellcheck disable=SC2086
megalith pretrain_gpt.py \
    --tensor-model-parallel-size 1 \
    --pipeline-model-parallel-size 1 \
    $GPT_ARGS \
    --vocab-file "${VOCAB_FILE:-vocab.json}" \
    --merge-file "${MERGE_FILE:-merges.txt}" \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    --data-path "${DATA_PATH:-codeparrot_content_document}" \
    --tensorboard-dir "${TENSORBOARD_DIR:-experiments/tensorboard}" \
    "$@"
