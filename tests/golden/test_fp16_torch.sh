#!/usr/bin/env bash
# A training in fp16 with a dynamic loss scale equals PyTorch's: scale, skipped iterations, losses.
set -eu
: "${MEGA_SOURCE:?run by ctest}" "${MEGALITH:?run by ctest}"
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS names no Python that has torch"
    exit 77
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
mkdir start
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/fp16_torch.py" "$MEGALITH" 2>log || { tail -n 20 log; exit 1; }
