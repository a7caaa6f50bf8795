#!/usr/bin/env bash
# A loss or a gradient that is not finite: every rank says which op of which rank made it, and no rank waits for another.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0
# told RANKS HOW PATTERN
told() {
    if out=$(ranks "$1" "$MEGA_BUILD/tests/ranks_nonfinite" "$2" 2>&1 </dev/null) && grep -Eq -- "$3" <<<"$out"; then
        echo "ok: $2"
    else
        echo "FAILED: $2: $out"
        failed=1
    fi
}
told 4 forward 'iteration 1, samples 0 to 0 \(micro-batch 0 of the step\): the loss is nan; rank 2, pipeline stage 1: forward program, instruction [0-9]+: op linear[a-z_]* in "h.3.mlp.c_fc"'
told 2 backward 'iteration 1, samples [0-9] to [0-9] .*: the gradient of [a-z0-9._]+ is not finite; rank 1, pipeline stage 1: backward program, instruction [0-9]+: op layer_norm_grad[a-z_]* in "ln_f"'
exit $failed
