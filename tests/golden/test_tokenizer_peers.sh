#!/usr/bin/env bash
# Our ids and files against the PyPI packages tokenizers, tiktoken and transformers.
set -eu
: "${MEGALITH:?run by ctest}" "${MEGA_SOURCE:?run by ctest}"
if [ -z "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: no Python with the peer packages (set MEGA_PEERS to its path)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
HF_HUB_OFFLINE=1 "$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/tokenizer_peers.py" "$MEGALITH"
