#!/usr/bin/env bash
# Ids of folders whose files say something beside the vocabulary, against AutoTokenizer of transformers.
set -eu
: "${MEGALITH:?run by ctest}" "${MEGA_SOURCE:?run by ctest}"
if [ -z "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: no Python with the peer packages (set MEGA_PEERS to its path)"
    exit 77
fi
if ! "$MEGA_PEERS" -c 'import sentencepiece, tokenizers, transformers' 2>/dev/null; then
    echo "SKIPPED: $MEGA_PEERS has not all of sentencepiece, tokenizers, transformers"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/tokenizer_folders.py" "$MEGALITH" "$MEGA_SOURCE"
