#!/usr/bin/env bash
# Generation and evaluation by the public calls of an engine over two ranks are those of one (ranks_generate.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
export OMP_NUM_THREADS=1
for layout in dp tp pp interleaved ep ep_biases; do
    if out=$(ranks 2 "$MEGA_BUILD/tests/ranks_generate" $layout 2>&1 </dev/null) && grep -q 'agree' <<<"$out"; then
        echo "ok: $layout"
    else
        echo "FAILED: $layout: $out"
        exit 1
    fi
done
