#!/usr/bin/env bash
# Every optimizer of the table, in double: losses, gradient norms and weights of a small GPT over 12 steps on tp x pp x
# ZeRO equal those of one rank to 1e-8. The matrix (test_parity.sh) pairs a few of them with all other settings; adam
# and sgd, which update each element by itself, are left to it. Then every optimizer with sums of gradients in 16 bits,
# in sizes that leave gaps between parameters, under ZeRO 0 to 3. MEGA_MATRIX=sparse runs two ranks of each (for checks
# of other builds).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
rows=
names=$("$MEGA_BUILD/tests/ranks_parity" optimizers) || exit 1
for name in $names; do
    case $name in adam | sgd) continue ;; esac
    layouts=('8 tp=2 pp=2 zero=1' '2 zero=3 overlap=1')
    # without ZeRO; what it exchanges compressed is no mean, so these layouts compress nothing, or have one
    # data-parallel rank
    [ "$name" = one_bit_adam ] && layouts=('8 tp=2 pp=2' '4 tp=2 sp=1 pp=2 freeze=5')
    [ "${MEGA_MATRIX:-full}" = full ] || layouts=("2 ${layouts[1]#* }")
    [ "${layouts[*]}" != '2 tp=2 sp=1 pp=2 freeze=5' ] || layouts=('2 pp=2 freeze=5')
    for layout in "${layouts[@]}"; do rows+="$layout precision=f64 decay=constant optimizer=$name"$'\n'; done
done
for name in $names; do
    for zero in 0 1 2 3; do
        [ "$name" != one_bit_adam ] || [ $zero = 0 ] || continue
        for type in 'f64 reduce=bf16' 'f32 reduce=f16'; do
            rows+="2 zero=$zero odd=1 micro=1 precision=$type optimizer=$name"$'\n'
        done
    done
done
all_pass ranks_parity <<<"${rows%$'\n'}"
