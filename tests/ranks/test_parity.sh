#!/usr/bin/env bash
# The parity matrix over ranks: 20 steps of a small GPT with dropout in each layout, against one rank. In double with the
# plain kernels losses, gradient norms and every weight tensor agree to 1e-8, in float to 1e-5, in bf16 to 2e-2; and the
# same layout twice gives the same bits.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0
# ranks; tensor-parallel size, precision, micro-batch, recomputation, threads a rank
while read -r n arguments; do
    # shellcheck disable=SC2086  # a list of words
    if out=$(ranks "$n" "$MEGA_BUILD/tests/ranks_parity" $arguments 2>&1 </dev/null); then
        echo "ok: $n ranks, $arguments: $out"
    else
        echo "FAILED: $n ranks, $arguments"
        echo "$out"
        failed=1
    fi
done <<'END'
1 1 f64 2 none 1
2 1 f64 4 none 1
2 2 f64 8 none 1
4 1 f64 1 selective 1
4 2 f64 2 full 1
4 4 f64 4 selective 1
8 1 f64 1 none 1
8 2 f64 2 none 1
8 4 f64 2 full 1
2 1 f32 2 none 2
2 2 f32 4 full 2
4 2 f32 4 selective 1
8 2 f32 1 none 1
2 1 bf16 2 full 1
2 2 bf16 4 none 1
4 2 bf16 2 none 1
END
exit $failed
