#!/usr/bin/env bash
# The sh blocks of docs/training.md, one after the other in an empty folder.
set -euo pipefail
: "${MEGALITH:?run by ctest}" "${MEGA_SOURCE:?run by ctest}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$MEGA_SOURCE/docs/training.md" >blocks.sh
[ "$(wc -l <blocks.sh)" -ge 10 ] || { echo "no sh blocks in docs/training.md"; exit 1; }
PATH="$(dirname "$MEGALITH"):$PATH" bash -euo pipefail blocks.sh >log 2>&1 || { tail -30 log; exit 1; }
grep -q 'successfully saved checkpoint at iteration      30' log
grep -q 'successfully loaded checkpoint .* at iteration 30' log
