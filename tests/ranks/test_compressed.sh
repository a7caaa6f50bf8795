#!/usr/bin/env bash
# The compressed mean of 1-bit Adam against its formula, on 1 to 4 ranks, and with more threads than one.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 1 2 3 4; do passes_on "$n" ranks_compressed; done
passes_on 2 ranks_compressed 3
