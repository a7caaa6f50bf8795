#!/usr/bin/env bash
# Collectives between ranks started by mpirun: every collective, type and axis, in layouts of 1 to 8 ranks.
set -eu
. "$MEGA_SOURCE/tests/kit/ranks.sh"
# Ranks of a host exchange data through shared memory or over MPI; ranks_comm compares the bits of both.
layouts=("1 1 1 1 1" "2 1 1 1 1" "2 2 1 1 1" "3 1 1 1 1" "4 2 1 2 1" "4 1 1 1 2" "8 2 1 2 2" "8 2 2 1 2")
few=("2 2 1 1 1" "3 1 1 1 1" "8 2 2 1 2")
hosts=("4 2 1 2 1" "6 3 1 1 1")
checked=("shm" "mpi")
if [ "${MEGA_MATRIX:-full}" = sparse ]; then # of each kind one: for slow builds
    layouts=("1 1 1 1 1" "3 1 1 1 1" "8 2 2 1 2")
    few=("4 2 1 2 1")
    hosts=("6 3 1 1 1")
    checked=("shm")
fi
for way in shm mpi; do
    export MEGA_COMM=$way
    for layout in "${layouts[@]}"; do
        # shellcheck disable=SC2086  # a list of numbers
        set -- $layout
        n=$1
        shift
        ranks "$n" "$MEGA_BUILD/tests/ranks_comm" "$@" || {
            echo "FAILED: $way, $n ranks, tp cp pp ep = $*"
            exit 1
        }
        echo "ok: $way, $n ranks, tp cp pp ep = $*"
    done
    # The same with MEGA_CHECK=2, which compares every call before its data moves.
    [[ " ${checked[*]} " != *" $way "* ]] || MEGA_CHECK=2 ranks 4 "$MEGA_BUILD/tests/ranks_comm" 2 1 1 1 || {
        echo "FAILED: $way, MEGA_CHECK=2"
        exit 1
    }
    layouts=("${few[@]}")
done
unset MEGA_COMM
# Groups inside a host, which use shared memory, and at the same time groups over two hosts.
for layout in "${hosts[@]}"; do
    # shellcheck disable=SC2086  # a list of numbers
    set -- $layout
    n=$1
    shift
    MEGA_TEST_HOSTS=2 ranks "$n" "$MEGA_BUILD/tests/ranks_comm" "$@" || {
        echo "FAILED: two hosts, $n ranks, tp cp pp ep = $*"
        exit 1
    }
    echo "ok: two hosts, $n ranks, tp cp pp ep = $*"
done
# If one rank cannot open the shared memory of another, all use MPI, or fail if shared memory was required. (The address
# sanitizer finds its own options in /proc.)
if ! grep -q __asan_init "$MEGA_BUILD/tests/ranks_comm" && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null &&
    [ "$mpi_kind" = openmpi ]; then
    hidden=$(mktemp)
    trap 'rm -f "$hidden"' EXIT
    cat >"$hidden" <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec "$@"
exec unshare -m bash -c 'mount -t tmpfs none /proc && exec "$@"' bash "$@"
END
    ranks 2 bash "$hidden" "$MEGA_BUILD/tests/ranks_comm" 2 1 1 1 || {
        echo "FAILED: a rank that sees no /proc"
        exit 1
    }
    if out=$(MEGA_COMM=shm ranks 2 bash "$hidden" "$MEGA_BUILD/tests/ranks_comm" 2 1 1 1 2>&1); then
        echo "FAILED: MEGA_COMM=shm without memory to share was taken"
        exit 1
    fi
    grep -q "MEGA_COMM=shm in the environment, but the ranks of this host cannot open" <<<"$out"
    echo "ok: a rank that sees no /proc"
fi
if out=$(MEGA_COMM=tcp ranks 2 "$MEGA_BUILD/tests/ranks_comm" 1 1 1 1 2>&1); then
    echo "FAILED: MEGA_COMM=tcp was taken"
    exit 1
fi
grep -q "MEGA_COMM=tcp in the environment; expected mpi .*, shm " <<<"$out"
# A layout that does not divide the number of ranks is refused; the message lists those that do.
if out=$(ranks 4 "$MEGA_BUILD/tests/ranks_comm" 3 1 1 1 2>&1); then
    echo "FAILED: 4 ranks by 3 were taken"
    exit 1
fi
grep -q -- "--tensor-model-parallel-size 3 does not divide the world of 4 ranks; expected one of: 1, 2, 4 (" <<<"$out"
if out=$(ranks 4 "$MEGA_BUILD/tests/ranks_comm" 4 1 2 1 2>&1); then
    echo "FAILED: 4 ranks by 4 x 2 were taken"
    exit 1
fi
grep -q -- \
    "parallel-size 4 x --pipeline-model-parallel-size 2 = 8 does not divide the world of 4 ranks; expected a product" \
    <<<"$out"
