#!/usr/bin/env bash
# Views, a custom op and an output over two ranks in every layout, against one rank; the op fails on one of them.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_values" 2>&1 </dev/null); then
    echo "ok"
else
    echo "FAILED"
    echo "$out"
    exit 1
fi
