#!/usr/bin/env bash
# Two losses and two metrics on different pipeline stages, over two ranks in every layout, against formulas.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_losses" 2>&1 </dev/null); then
    echo "ok"
else
    echo "FAILED"
    echo "$out"
    exit 1
fi
