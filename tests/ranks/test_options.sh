#!/usr/bin/env bash
# Ranks that pass different options to mega_engine_create: all get an error that names the option (ranks_options.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_options" 2>&1 </dev/null) && grep -q ' options' <<<"$out"; then
    echo "ok: $out"
else
    echo "FAILED: $out"
    exit 1
fi
