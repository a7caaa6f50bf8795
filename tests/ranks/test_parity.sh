#!/usr/bin/env bash
# The parity matrix over ranks: 12 steps of a small GPT with dropout in each layout, compared with one rank. In double
# with the plain kernels, losses, gradient norms and every weight tensor agree to 1e-8, in float to 1e-5, in bf16 to
# 2e-2, in fp16 to 3e-3; and two runs of the same layout have the same bits. Layouts and settings are chosen such that
# any two settings occur together in a row (tests/kit/parity_matrix.h). MEGA_MATRIX=sparse runs fewer rows: only tensor
# ranks, stages and ZeRO are paired (for checks of other builds).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0
rows=$("$MEGA_BUILD/tests/ranks_matrix" "${MEGA_MATRIX:-full}") || exit 1
rows+=$'\n''4 tp=2 sp=1 zero=2 precision=f64 decay=grows groups=1'$'\n''4 pp=2 zero=1 precision=f32 decay=constant groups=1'
# gradients held in 16 bits: partial sums, tied tables, sums during the backward, buckets of values
rows+=$'\n''4 pp=2 zero=1 overlap=1 precision=f32 grads=bf16'
# samples that grow, in programs of several lengths
rows+=$'\n''4 tp=2 sp=1 zero=2 precision=f64 curriculum=1'$'\n''4 pp=2 zero=1 overlap=1 precision=f32 loss=token curriculum=1 ramp=1'
[ "${MEGA_MATRIX:-full}" != full ] || \
    rows+=$'\n''2 zero=3 recompute=full precision=f64 curriculum=1'$'\n''4 pp=2 chunks=2 layers=4 precision=f32 curriculum=1'
[ "${MEGA_MATRIX:-full}" != full ] ||
    rows+=$'\n''4 tp=2 sp=1 precision=bf16 grads=bf16 micro=1 sums=64'$'\n''2 zero=3 precision=f16 grads=f16 optimizer=lamb'
all_pass ranks_parity <<<"$rows" || failed=1

# A difference is reported where it begins: here in the first instruction, which reads the wrong token.
out=$(ranks 2 "$MEGA_BUILD/tests/ranks_parity" precision=f32 micro=2 spoil=3 2>&1 </dev/null) && {
    echo "FAILED: a wrong token changed nothing"
    failed=1
}
case $out in
*'first difference: step 3, rank 1, micro-batch 0, forward: instruction 0, embedding, made wte '*) ;;
*)
    echo "FAILED: the first difference is not named:"
    echo "$out"
    failed=1
    ;;
esac
exit $failed
