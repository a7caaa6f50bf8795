#!/usr/bin/env bash
# Ranks whose programs give mega_engine_create different options: an error on both that names the option (ranks_options.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_options" 2>&1 </dev/null) && grep -q ' options' <<<"$out"; then
    echo "ok: $out"
else
    echo "FAILED: $out"
    exit 1
fi
