#!/usr/bin/env bash
# Who initializes and finalizes MPI: nobody, if no launcher started the process; the library, once for all worlds and
# engines; or the program, whose communicator is used and left unchanged.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
fail() {
    echo "FAILED: $*"
    exit 1
}
out=$(env -u OMPI_COMM_WORLD_SIZE "$MEGA_BUILD/tests/ranks_host_mpi" alone 2>&1) && [ "$out" = done ] ||
    fail "alone: $out"
out=$(ranks 4 "$MEGA_BUILD/tests/ranks_host_mpi" own 2>&1 </dev/null) && [ "$(grep -c '^done$' <<<"$out")" -eq 4 ] ||
    fail "own: $out"
[ "$(grep -c '^finalized at exit$' <<<"$out")" -eq 4 ] || fail "MPI is not ended at exit: $out"
out=$(ranks 4 "$MEGA_BUILD/tests/ranks_host_mpi" host 2>&1 </dev/null) && [ "$(grep -c '^done$' <<<"$out")" -eq 4 ] ||
    fail "host: $out"
echo "ok"
