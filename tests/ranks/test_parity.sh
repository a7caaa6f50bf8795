#!/usr/bin/env bash
# The parity matrix over ranks: 20 steps of a small GPT with dropout in each layout, against one rank. In double with the
# plain kernels losses, gradient norms and every weight tensor agree to 1e-8, in float to 1e-5, in bf16 to 2e-2; and the
# same layout twice gives the same bits. MEGA_MATRIX_STEP=N runs each N-th row alone (where another build is checked).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0 row=0
# ranks; the settings of ranks_parity
while read -r n arguments; do
    row=$((row + 1))
    [ $((row % ${MEGA_MATRIX_STEP:-1})) -eq 0 ] || continue
    # shellcheck disable=SC2086  # a list of words
    if out=$(ranks "$n" "$MEGA_BUILD/tests/ranks_parity" $arguments 2>&1 </dev/null); then
        echo "ok: $n ranks, $arguments: $out"
    else
        echo "FAILED: $n ranks, $arguments"
        echo "$out"
        failed=1
    fi
done <<'END'
1 precision=f64 micro=2
2 precision=f64 micro=4
2 tp=2 precision=f64 micro=8
4 precision=f64 micro=1 recompute=selective
4 tp=2 precision=f64 micro=2 recompute=full
4 tp=4 precision=f64 micro=4 recompute=selective
8 precision=f64 micro=1
8 tp=2 precision=f64 micro=2
8 tp=4 precision=f64 micro=2 recompute=full
2 zero=1 precision=f64 micro=4
4 zero=1 tp=2 precision=f64 micro=1 recompute=selective
4 zero=1 precision=f64 micro=1 recompute=full
8 zero=1 tp=2 precision=f64 micro=2
2 pp=2 precision=f64 micro=8
2 pp=2 precision=f64 micro=4 recompute=full
3 pp=3 layers=6 first=1 last=3 precision=f64 micro=4 recompute=full
4 pp=2 precision=f64 micro=1 recompute=selective
4 pp=2 tp=2 precision=f64 micro=2
4 pp=2 zero=1 precision=f64 micro=2
4 pp=2 tp=2 distribute=1 precision=f64 micro=2 recompute=full
4 pp=2 tp=2 sp=1 precision=f64 micro=2 recompute=full
4 pp=4 layers=4 precision=f64 micro=1
8 pp=2 tp=2 precision=f64 micro=1 recompute=full
8 pp=2 tp=2 sp=1 zero=3 overlap=1 precision=f64 micro=1 recompute=full
2 pp=2 chunks=2 layers=4 precision=f64 micro=4
4 pp=2 chunks=2 layers=4 zero=1 precision=f64 micro=1 recompute=full
4 pp=2 tp=2 sp=1 chunks=3 layers=6 precision=f64 micro=2
4 pp=4 chunks=2 layers=8 precision=f64 micro=1 recompute=selective
4 pp=2 zero=2 overlap=1 precision=f64 micro=1
4 pp=2 chunks=2 layers=4 overlap=1 precision=f64 micro=1
4 pp=2 chunks=2 layers=4 zero=1 overlap=1 precision=f64 micro=2 recompute=selective
4 pp=2 chunks=2 layers=4 zero=2 precision=f64 micro=1
4 pp=2 chunks=3 layers=6 zero=2 overlap=1 precision=f64 micro=2 recompute=full
8 pp=2 tp=2 sp=1 chunks=2 layers=4 zero=2 overlap=1 precision=f64 micro=1
4 pp=2 chunks=2 layers=4 zero=3 precision=f64 micro=2 recompute=selective
4 pp=2 chunks=2 layers=4 zero=3 overlap=1 precision=f64 micro=1
4 pp=2 chunks=2 layers=4 zero=3 persist=100 overlap=1 precision=f64 micro=1 recompute=full
8 pp=2 tp=2 chunks=2 layers=4 zero=3 overlap=1 precision=f64 micro=1 recompute=full
2 pp=2 chunks=2 layers=6 last=2 precision=f64 micro=4
4 pp=2 chunks=2 layers=6 first=4 last=2 zero=2 overlap=1 precision=f64 micro=1 recompute=full
4 pp=4 chunks=2 layers=10 first=4 last=2 precision=f64 micro=2
8 pp=4 chunks=2 layers=8 zero=3 overlap=1 precision=bf16 micro=1
4 pp=2 chunks=2 layers=4 zero=2 overlap=1 precision=f32 micro=1
2 overlap=1 precision=f64 micro=1
4 zero=1 overlap=1 precision=f64 micro=1 recompute=selective
2 zero=2 precision=f64 micro=1
4 zero=2 overlap=1 tp=2 precision=f64 micro=2 recompute=full
4 zero=2 overlap=1 precision=f64 micro=1
8 zero=2 tp=2 sp=1 precision=f64 micro=1
4 pp=2 zero=3 overlap=1 precision=f64 micro=1
2 zero=3 precision=f64 micro=4
2 zero=3 persist=100 precision=f64 micro=2
4 zero=3 persist=100000 overlap=1 tp=2 precision=bf16 micro=1 recompute=full
4 zero=3 overlap=1 precision=f64 micro=1 recompute=full
4 zero=3 overlap=1 tp=2 sp=1 precision=f64 micro=1 recompute=selective
8 zero=3 overlap=1 tp=2 precision=f64 micro=2
2 zero=3 overlap=1 precision=f32 micro=2 threads=2
4 zero=2 overlap=1 precision=bf16 micro=1
4 zero=3 tp=2 precision=bf16 micro=2
2 precision=f32 micro=2 threads=2
2 zero=1 precision=f32 micro=4 threads=2
4 zero=1 tp=2 precision=bf16 micro=2
2 tp=2 precision=f32 micro=4 recompute=full threads=2
4 tp=2 precision=f32 micro=4 recompute=selective
8 tp=2 precision=f32 micro=1
4 pp=4 layers=4 precision=f32 micro=2
4 pp=4 chunks=2 layers=8 precision=f32 micro=2
2 pp=2 chunks=2 layers=4 precision=bf16 micro=2
2 precision=bf16 micro=2 recompute=full
2 pp=2 precision=bf16 micro=2 threads=2
2 tp=2 precision=bf16 micro=4
4 tp=2 precision=bf16 micro=2
2 tp=2 sp=1 precision=f64 micro=8
4 tp=2 sp=1 zero=1 precision=f64 micro=2 recompute=full
4 tp=4 sp=1 precision=f64 micro=4 recompute=selective
8 tp=4 sp=1 precision=f64 micro=1
2 tp=2 sp=1 precision=f32 micro=4 threads=2
4 tp=2 sp=1 precision=f32 micro=2 recompute=full
4 tp=4 sp=1 precision=bf16 micro=4
4 tp=2 sp=1 precision=bf16 micro=2 recompute=selective
2 tp=2 distribute=1 recompute=full precision=f64 micro=4
4 tp=4 distribute=1 recompute=full precision=f32 micro=8
4 tp=2 distribute=1 recompute=full precision=bf16 micro=2
4 zero=2 precision=f64 micro=1 recompute=selective
8 pp=2 tp=2 sp=1 layers=4 first=3 zero=1 precision=f64 micro=1 recompute=selective
4 pp=2 layers=3 first=2 precision=f64 micro=2
4 pp=2 layers=3 last=1 zero=3 precision=f64 micro=1
8 pp=2 tp=2 chunks=2 layers=4 distribute=1 zero=2 overlap=1 precision=f64 micro=1 recompute=full
4 tp=2 distribute=1 zero=3 overlap=1 precision=f64 micro=1 recompute=full
END
exit $failed
