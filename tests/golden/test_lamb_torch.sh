#!/usr/bin/env bash
# Lamb on folders of GPT-2, Llama, Phi-3 and BigCode equals loops over the parameters of transformers.
set -eu
: "${MEGA_SOURCE:?run by ctest}" "${MEGALITH:?run by ctest}"
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS names no Python that has torch and transformers"
    exit 77
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
OMP_NUM_THREADS=1 "$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/lamb_torch.py" "$MEGALITH" 2>log ||
    { tail -n 20 log; exit 1; }
