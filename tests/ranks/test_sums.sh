#!/usr/bin/env bash
# Sums of gradients over ranks in fp32, bf16 and fp16, with factors before and after, under ZeRO 0 to 3 (ranks_sums.c).
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
passes_on 2 ranks_sums
passes_on 4 ranks_sums
