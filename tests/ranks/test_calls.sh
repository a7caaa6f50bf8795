#!/usr/bin/env bash
# Wrong collective calls of a C program on two ranks: both get an error in every layout, and none waits (ranks_calls.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for layout in dp tp pp zero; do
    if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_calls" $layout "$work" 2>&1 </dev/null) &&
        grep -q 'wrong calls' <<<"$out"; then
        echo "ok: $layout: $out"
    else
        echo "FAILED: $layout: $out"
        exit 1
    fi
done
[ -z "$(ls "$work")" ] || { echo "FAILED: a save that was refused wrote $(ls "$work")" && exit 1; }
