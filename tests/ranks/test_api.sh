#!/usr/bin/env bash
# The engine as a C program uses it, on two ranks in every layout, against one rank; wrong calls of one rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_api" "$work" 2>&1 </dev/null) && grep -q 'layouts' <<<"$out"; then
    echo "ok: $out"
else
    echo "FAILED"
    echo "$out"
    exit 1
fi
