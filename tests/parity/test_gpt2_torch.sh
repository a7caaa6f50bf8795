#!/usr/bin/env bash
# A small GPT-2 beside PyTorch from the same folder of transformers: losses of 8 iterations, with micro-batches.
set -euo pipefail
if [ -z "${MEGA_PEERS:-}" ] || [ ! -x "$MEGA_PEERS" ]; then
    echo "SKIPPED: MEGA_PEERS does not name a Python with torch and transformers"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
small="--layers 2 --hidden 64 --heads 4 --vocab 997 --positions 64 --batch 4 --seq 48 --iters 8"
"$MEGA_PEERS" "$MEGA_SOURCE/tools/compare_gpt2_torch.py" "$MEGALITH" $small --micro 2 --folder "$folder/fp32" 2>"$folder/log" ||
    { cat "$folder/log"; exit 1; }
# bf16 keeps 8 bits of each activation; a loss is a mean over 192 tokens
"$MEGA_PEERS" "$MEGA_SOURCE/tools/compare_gpt2_torch.py" "$MEGALITH" $small --bf16 --tolerance 3e-3 --folder "$folder/bf16" 2>"$folder/log" ||
    { cat "$folder/log"; exit 1; }
