#!/usr/bin/env bash
# The preprocessing command of Megatron-LM's README. Options given to this script come last and win.
set -euo pipefail
megalith tools/preprocess_data.py \
    --input "${INPUT:-my-corpus.json}" \
    --output-prefix "${OUTPUT:-my-gpt2}" \
    --vocab-file "${VOCAB_FILE:-gpt2-vocab.json}" \
    --dataset-impl mmap \
    --tokenizer-type GPT2BPETokenizer \
    --merge-file "${MERGE_FILE:-gpt2-merges.txt}" \
    --append-eod \
    --workers 2 \
    "$@"
