#!/usr/bin/env bash
# A loss, a gradient or a weight that is not finite: the message names the op or the tensor and its rank, and no rank
# waits for another.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# told RANKS HOW PATTERN
told() {
    if out=$(ranks "$1" "$MEGA_BUILD/tests/ranks_nonfinite" "$2" "$work" 2>&1 </dev/null) &&
        grep -Eq -- "$3" <<<"$out"; then
        echo "ok: $2"
    else
        echo "FAILED: $2: $out"
        failed=1
    fi
}
told 4 forward \
    'iteration 1, samples 0 to 0 \(micro-batch 0 of the step\): the loss is nan; rank 2, pipeline stage 1: forward program, instruction [0-9]+: op linear[a-z_]* in "h.3.mlp.c_fc"'
told 2 backward \
    'iteration 1, samples [0-9] to [0-9] .*: the gradient of [a-z0-9._]+ is not finite; rank 1, pipeline stage 1: backward program, instruction [0-9]+: op layer_norm_grad[a-z_]* in "ln_f"'
told 4 evaluation \
    'evaluation after iteration 0, samples 0 to 0 \(micro-batch 0 of the batch\): the loss is nan; rank 2, pipeline stage 1: forward program, instruction [0-9]+: op linear[a-z_]* in "h.3.mlp.c_fc"'
told 4 save \
    'iteration 0 is not saved: rank [23]: transformer.h.3.mlp.c_fc.weight has values that are infinite or not a number. Nothing was removed: .* holds no checkpoint'
[ -z "$(ls "$work")" ] || { echo "FAILED: a save that was refused wrote $(ls "$work")" && failed=1; }
exit $failed
