#!/usr/bin/env bash
# New weights of ZeRO 1, 2 and (small ones) 3 arrive while the next step begins; every call that reads them waits.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for zero in 1 2 3; do
    passes_on 2 ranks_arriving "$zero"
done
