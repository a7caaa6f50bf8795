#!/usr/bin/env bash
# The memory of a rank with ZeRO 0 to 3 equals its plan within 3 %: 2 ranks, and 4 and 8 with MEGA_ALL=1;
# also with interleaved pipeline stages, and with gradients held in bf16, which take half and make the total less.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
is_far && { echo "SKIPPED: a plan does not count the copies of exchanges in a far build"; exit 77; }
sizes=(2)
[ "${MEGA_ALL:-0}" = 1 ] && sizes=(2 4 8)
for n in "${sizes[@]}"; do
    for stage in 0 1 2 3; do # each in processes of its own
        ranks "$n" "$MEGA_BUILD/tests/ranks_memory" $stage 2>&1 </dev/null ||
            { echo "FAILED: $n ranks, stage $stage"; exit 1; }
    done
done
ranks 2 "$MEGA_BUILD/tests/ranks_memory" 0 1 1 bf16 2>&1 </dev/null ||
    { echo "FAILED: gradients held in bf16"; exit 1; }
stages=(3)
[ "${MEGA_ALL:-0}" = 1 ] && stages=(0 2 3)
for stage in "${stages[@]}"; do
    ranks 4 "$MEGA_BUILD/tests/ranks_memory" "$stage" 2 2 2>&1 </dev/null ||
        { echo "FAILED: interleaved, stage $stage"; exit 1; }
done
