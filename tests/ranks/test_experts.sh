#!/usr/bin/env bash
# Layers of experts over two and four ranks of expert parallelism.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for way in shm mpi; do
    export MEGA_COMM=$way
    for n in 2 4; do passes_on "$n" ranks_experts; done
done
