#!/usr/bin/env bash
# The layers of the room layers, each alone, over two and four ranks of tensor parallelism.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 2 4; do
    if out=$(ranks "$n" "$MEGA_BUILD/tests/ranks_layers" 2>&1 </dev/null); then
        echo "ok: $n ranks"
    else
        echo "FAILED: $n ranks"
        echo "$out"
        exit 1
    fi
done
