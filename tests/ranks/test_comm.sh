#!/usr/bin/env bash
# Collectives between ranks that mpirun started: every collective, type and axis, in layouts of 1 to 8 ranks.
set -eu
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for layout in "1 1 1 1 1" "2 1 1 1 1" "2 2 1 1 1" "3 1 1 1 1" "4 2 1 2 1" "4 1 1 1 2" "8 2 1 2 2" "8 2 2 1 2"; do
    # shellcheck disable=SC2086  # a list of numbers
    set -- $layout
    n=$1
    shift
    ranks "$n" "$MEGA_BUILD/tests/ranks_comm" "$@" || {
        echo "FAILED: $n ranks, tp cp pp ep = $*"
        exit 1
    }
    echo "ok: $n ranks, tp cp pp ep = $*"
done
# The same where every call is compared before its data moves.
MEGA_CHECK=2 ranks 4 "$MEGA_BUILD/tests/ranks_comm" 2 1 1 1 || {
    echo "FAILED: MEGA_CHECK=2"
    exit 1
}
# A layout that does not divide the world is refused with those that do.
if out=$(ranks 4 "$MEGA_BUILD/tests/ranks_comm" 3 1 1 1 2>&1); then
    echo "FAILED: 4 ranks by 3 were taken"
    exit 1
fi
grep -q "does not divide the world of 4 ranks; the three multiplied must be one of: 1, 2, 4" <<<"$out"
