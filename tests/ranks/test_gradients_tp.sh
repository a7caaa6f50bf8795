#!/usr/bin/env bash
# Sums over tensor-parallel ranks of gradients with sequence parallelism. Those of the model have 32 elements (norms,
# biases) and 512 (positions). Their sums equal those of one rank, whether all fit into the buffer at once, some are
# larger than it, or it is filled and sent several times; also when ZeRO cuts them.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
while read -r n arguments; do
    # shellcheck disable=SC2086  # a list of words
    passes_on "$n" ranks_parity tp=2 sp=1 layers=1 $arguments
done <<'END'
2 precision=f64 micro=4 sums=31
2 precision=f64 micro=4 sums=70
2 precision=f32 micro=4 sums=520
4 zero=2 precision=f64 micro=2 sums=70
END
