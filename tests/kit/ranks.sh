# For scripts that start several ranks: `. "$MEGA_SOURCE/tests/kit/ranks.sh"`, then   ranks N PROGRAM ARGUMENT…
# Ranks may be more than cores. Without a launcher, or without MPI in the build, the script is skipped.
if command -v mpirun >/dev/null; then
    case "$(mpirun --version 2>&1)" in
    *"Open MPI"* | *OpenRTE*)
        ranks() {
            OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n "$@"
        }
        ;;
    *) ranks() { mpirun -n "$@"; } ;;
    esac
else
    echo "SKIPPED: mpirun is not there (apt-get install openmpi-bin)"
    exit 77
fi
# Libraries of the launcher keep what they allocate until the end.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
# An over-subscribed machine is slow, not stuck; and no rank looks for a network.
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
