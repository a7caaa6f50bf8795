#!/usr/bin/env bash
# GPT 345M on eight data-parallel ranks, the distributed script of Megatron-LM's and Megatron-DeepSpeed's READMEs (there
# with --fp16 and `python -m torch.distributed.launch`). Several hosts: HOSTFILE, a line "NAME slots=N" a host, on the
# first of them alone. Options given to this script come last and win.
set -euo pipefail
RANKS_PER_NODE=${RANKS_PER_NODE:-8}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-6000}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_345m_distributed}

DISTRIBUTED_ARGS=(--nproc_per_node "$RANKS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK"
    --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" ${HOSTFILE:+--hostfile "$HOSTFILE"})

megalith launch "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    --tensor-model-parallel-size 1 \
    --pipeline-model-parallel-size 1 \
    --num-layers 24 \
    --hidden-size 1024 \
    --num-attention-heads 16 \
    --micro-batch-size 8 \
    --global-batch-size 64 \
    --seq-length 1024 \
    --max-position-embeddings 1024 \
    --train-iters 500000 \
    --lr-decay-iters 320000 \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    --data-path "${DATA_PATH:-my-gpt2_text_document}" \
    --vocab-file "${VOCAB_FILE:-gpt2-vocab.json}" \
    --merge-file "${MERGE_FILE:-gpt2-merges.txt}" \
    --data-impl mmap \
    --split 949,50,1 \
    --distributed-backend nccl \
    --lr 0.00015 \
    --lr-decay-style cosine \
    --min-lr 1.0e-5 \
    --weight-decay 1e-2 \
    --clip-grad 1.0 \
    --lr-warmup-fraction .01 \
    --checkpoint-activations \
    --log-interval 100 \
    --save-interval 10000 \
    --eval-interval 1000 \
    --eval-iters 10 \
    --bf16 \
    "$@"
