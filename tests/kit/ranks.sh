# shellcheck shell=bash
# For scripts that start several ranks: `. "$MEGA_SOURCE/tests/kit/ranks.sh"`, then   ranks N PROGRAM ARGUMENT…
# There may be more ranks than cores. The launcher belongs to the MPI library of the build; without MPI the script is
# skipped. $mpi_kind is openmpi or mpich.
. "$MEGA_SOURCE/tests/kit/load.sh"
# In a far build ranks exchange the memory of a device by copies in memory of the host, which no plan counts.
is_far() { grep -qx 'MEGA_FAR:BOOL=ON' "$MEGA_BUILD/CMakeCache.txt"; }
mpi_launcher() { # what its --version says, its names: the first of them that is it
    local says=$1 name
    shift
    for name in "$@"; do
        command -v "$name" >/dev/null && "$name" --version 2>&1 | grep -qE "$says" && echo "$name" && return
    done
    return 1
}
case "$("$MEGALITH" doctor 2>/dev/null | grep -E '^  MPI  ')" in
*'Open MPI'*)
    mpi_kind=openmpi
    mpirun=$(mpi_launcher 'Open MPI|OpenRTE' mpirun mpiexec mpirun.openmpi) || {
        echo "SKIPPED: mpirun is not there (apt-get install openmpi-bin)"
        exit 77
    }
    ranks() {
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$mpirun" --oversubscribe --bind-to none -n "$@"
    }
    ;;
*none*)
    echo "SKIPPED: megalith was built without MPI"
    exit 77
    ;;
*)
    mpi_kind=mpich
    mpirun=$(mpi_launcher HYDRA mpiexec.hydra mpiexec.mpich mpiexec mpirun) || {
        echo "SKIPPED: mpiexec of MPICH is not there (apt-get install mpich)"
        exit 77
    }
    ranks() { "$mpirun" -n "$@"; }
    ;;
esac
# Launcher libraries never free some of their memory.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
# An over-subscribed machine is slow, not stuck; and no rank looks for a network.
# A rank that ends waits 2 seconds for the launcher to note it; a launcher that the machine does not let run for so long
# would call it an exit without MPI_Finalize, and the run a failure.
export OMPI_MCA_orte_allowed_exit_without_sync=1
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_TLS=posix,sysv,self

# RANKS PROGRAM ARGUMENTS: runs a program of build/tests over ranks; ends the test where it fails.
passes_on() {
    local n=$1 program=$2 out
    shift 2
    if out=$(ranks "$n" "$MEGA_BUILD/tests/$program" "$@" 2>&1 </dev/null); then
        echo "ok: $n ranks${*:+ $*}${out:+: $out}"
    else
        echo "FAILED: $n ranks${*:+ $*}"
        echo "$out"
        exit 1
    fi
}

# PROGRAM: reads rows "RANKS SETTING…" and runs those of as many ranks one after the other by one start, which takes
# longer than a row (tests/kit/rows.h). Prints what the program prints; returns whether all have passed.
all_pass() {
    local program=$1 rows n words out passed=true
    rows=$(cat)
    for n in $(cut -d ' ' -f 1 <<<"$rows" | sort -nu); do
        words=$(awk -v n="$n" '$1 == n { sub(/^[0-9]+ */, ""); printf "%s%s", before, $0; before = " -- " }' <<<"$rows")
        # shellcheck disable=SC2086  # a list of words
        out=$(ranks "$n" "$MEGA_BUILD/tests/$program" $words 2>&1 </dev/null) ||
            { echo "FAILED: $n ranks, in the last row or where it is said"; passed=false; }
        echo "$out"
        [ "$(grep -c "^$n ranks " <<<"$out")" -eq "$(awk -v n="$n" '$1 == n' <<<"$rows" | wc -l)" ] ||
            { echo "FAILED: $n ranks: not every row was run"; passed=false; }
    done
    $passed
}
