#!/usr/bin/env bash
# Vocabularies of WordPiece and Unigram that train_tokenizer learns, against the trainers of the PyPI packages
# tokenizers and sentencepiece: bits a character of text that neither has seen.
set -eu
: "${MEGALITH:?run by ctest}" "${MEGA_SOURCE:?run by ctest}"
if [ -z "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: no Python with the peer packages (set MEGA_PEERS to its path)"
    exit 77
fi
if ! "$MEGA_PEERS" -c 'import sentencepiece, tokenizers' 2>/dev/null; then
    echo "SKIPPED: $MEGA_PEERS has not both of sentencepiece and tokenizers"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/tokenizer_training.py" "$MEGALITH" "$MEGA_SOURCE"
