#!/usr/bin/env bash
# Pipelines and collectives over a transport that sends messages late (late_sends.c). If a send buffer is written again
# before its message was sent, the numbers are wrong here, with as few as two stages.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
export MEGA_TEST_LATE_SENDS=300
failed=0
late() {
    if out=$(ranks "$@" 2>&1 </dev/null); then
        echo "ok: $*"
    else
        echo "FAILED: $*"
        echo "$out"
        failed=1
    fi
}
parity=$MEGA_BUILD/tests/ranks_parity
late 2 "$parity" pp=2 precision=f64 micro=2
late 2 "$parity" pp=2 chunks=2 layers=4 precision=f64 micro=2 recompute=full
export MEGA_COMM=mpi
late 2 "$parity" zero=2 overlap=1 precision=f64 micro=2
exit $failed
