#!/usr/bin/env bash
# The waiting time of pipeline stages is as in theory: (stages - 1) / (chunks x micro-batches) of the ideal time.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
# Ranks mostly sleep in this test; other programs must not delay their waking.
renice -n -10 $$ >/dev/null 2>&1
failed=0
for row in "8 1" "8 2"; do
    # shellcheck disable=SC2086  # a list of words
    if out=$(ranks 4 "$MEGA_BUILD/tests/ranks_bubble" $row 2>&1 </dev/null); then echo "ok: $out"; else
        echo "FAILED: $row: $out"
        failed=1
    fi
done
exit $failed
