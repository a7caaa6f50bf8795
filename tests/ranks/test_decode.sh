#!/usr/bin/env bash
# Pipeline stages generate micro-batches of texts at the same time; the texts are those of one rank (ranks_decode.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
export OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=("2 1 1 2" "2 1 1 8" "4 1 1 4" "2 2 1 4" "2 1 2 4") # stages, tp, chunks of a stage, micro-batches
[ "${MEGA_MATRIX:-full}" = full ] || rows=("4 1 1 4" "2 1 2 4")
for row in "${rows[@]}"; do
    read -r stages tp _ <<<"$row"
    # shellcheck disable=SC2086  # a list of words
    passes_on $((stages * tp)) ranks_decode $row "$work/meeting ${row// /-}"
done
