#!/usr/bin/env bash
# A gradient that overflows in fp16 on one rank of four: all skip the step, which leaves no trace.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
failed=0
while read -r arguments; do
    # shellcheck disable=SC2086  # a list of words
    if out=$(ranks 4 "$MEGA_BUILD/tests/ranks_overflow" $arguments 2>&1 </dev/null); then
        echo "ok: $arguments"
    else
        echo "FAILED: $arguments"
        echo "$out"
        failed=1
    fi
done <<'ROWS'
victim=2
zero=1 victim=3
zero=2 victim=0
zero=3 victim=1
tp=2 zero=1 victim=3
pp=2 victim=0
tp=2 pp=2 victim=1
ROWS
exit $failed
