#!/usr/bin/env bash
# Text generation from a checkpoint, as Megatron-LM's examples/generate_text.sh. Options given to this script come last
# and win.
set -euo pipefail
megalith tools/generate_samples_gpt.py \
    --tensor-model-parallel-size 1 \
    --num-layers 24 \
    --hidden-size 1024 \
    --load "${CHECKPOINT_PATH:-checkpoints/gpt2_345m}" \
    --num-attention-heads 16 \
    --max-position-embeddings 1024 \
    --tokenizer-type GPT2BPETokenizer \
    --micro-batch-size 2 \
    --seq-length 1024 \
    --out-seq-length 1024 \
    --temperature 1.0 \
    --vocab-file "${VOCAB_FILE:-gpt2-vocab.json}" \
    --merge-file "${MERGE_FILE:-gpt2-merges.txt}" \
    --genfile "${GENFILE:-unconditional_samples.json}" \
    --num-samples 2 \
    --top_p 0.9 \
    --recompute \
    "$@"
