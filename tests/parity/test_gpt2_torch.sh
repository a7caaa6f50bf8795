#!/usr/bin/env bash
# A small GPT-2 beside PyTorch from the same folder of transformers: losses, gradient norms, learning rates and final
# weights of 8 iterations with AdamW, Adam and SGD, in micro-batches.
set -euo pipefail
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS does not name a Python with torch and transformers (bench/peers/install makes one)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compare() {
    "$MEGA_PEERS" "$MEGA_SOURCE/tools/compare_gpt2_torch.py" "$MEGALITH" --layers 2 --hidden 64 --heads 4 --vocab 997 \
        --positions 64 \
        --batch 4 --seq 48 --iters 8 "$@" 2>"$folder/log" || { tail -n 20 "$folder/log"; exit 1; }
}
compare --micro 2 --optimizer adamw adam sgd --tolerance 2e-5 --weights-tolerance 1e-4 --folder "$folder/fp32"
# bf16 keeps 8 bits of each activation; a loss is a mean over 192 tokens
compare --bf16 --optimizer adamw sgd --tolerance 5e-3 --weights-tolerance 5e-2 --folder "$folder/bf16"
