# shellcheck shell=bash
# For tests with limits of time: kit.sh and ranks.sh read this.

# Prints how many seconds something may have taken that takes at most N seconds on a machine without other work: longer
# by as much as processes outnumber the cores. To be called after it, when its load has been counted.
at_most() {
    awk -v limit="$1" -v cores="$(nproc 2>/dev/null || echo 1)" \
        '{ split($4, now, "/"); load = ($1 > now[1] ? $1 : now[1]) / cores; printf "%d\n", limit * (load > 1 ? load : 1) }' /proc/loadavg
}
