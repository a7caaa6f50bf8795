#!/usr/bin/env bash
# Models of one's own over two ranks: borders of different widths, and mistakes that are the same error on both.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_models" 2>&1 </dev/null); then
    echo "ok"
else
    echo "FAILED"
    echo "$out"
    exit 1
fi
