#!/usr/bin/env bash
# CodeParrot small (110M) on eight ranks, the command of Hugging Face's "How to train a Language Model with Megatron-LM"
# (there with --fp16 and `python -m torch.distributed.launch`). Options given to this script come last and win.
set -euo pipefail
RANKS_PER_NODE=${RANKS_PER_NODE:-8}
DISTRIBUTED_ARGS="--nproc_per_node $RANKS_PER_NODE
--nnodes 1
--node_rank 0
--master_addr localhost
--master_port 6001
"
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
CHECKPOINT_PATH=${CHECKPOINT_PATH:-experiments/codeparrot-small-distributed}
# shellcheck disable=SC2086
megalith launch $DISTRIBUTED_ARGS pretrain_gpt.py \
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
