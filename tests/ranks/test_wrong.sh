#!/usr/bin/env bash
# Wrong models and wrong calls of a C program, on one rank and on two: each returns an error with a message on every
# rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for n in 1 2; do
    passes_on $n ranks_wrong_models
    passes_on $n ranks_wrong_calls "$work"
done
