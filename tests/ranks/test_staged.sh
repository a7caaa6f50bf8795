#!/usr/bin/env bash
# Exchanges of a device's memory through host memory: every kind, by messages and by shared memory, on the software
# device where it was built, and on the host's own memory, which nobody can touch in a build with MEGA_FAR.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 2 3; do passes_on "$n" ranks_staged; done
library=$MEGA_BUILD/libmega_software_cuda.so
[ -e "$library" ] || exit 0
export MEGA_CUDA_LIBRARY=$library
for way in shm mpi; do MEGA_COMM=$way passes_on 3 ranks_staged; done
