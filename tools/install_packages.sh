#!/usr/bin/env bash
# Installs the Debian packages that megalith needs and this machine lacks.
#
# tools/install_packages.sh [build|demo|check|mpich|develop|fuzz]      (default: build; each includes build, and develop
# all but fuzz)
#
# Without root, sudo or apt it prints one line with the missing packages and succeeds: the build continues with what is
# installed and names what it cannot do without.
set -u

build="gcc libc6-dev make cmake ninja-build pkg-config libjansson-dev zlib1g-dev libzstd-dev libyaml-dev libmicrohttpd-dev libpcre2-dev libutf8proc-dev libopenmpi-dev openmpi-bin"
demo="bible-kjv"
check="libcmocka-dev valgrind unicode-data python3-numpy"
fuzz="clang libclang-rt-14-dev"
mpich="mpich libmpich-dev" # beside Open MPI, which stays what mpirun and mpicc mean (update-alternatives)
develop="clang clang-format clang-tidy ccache gdb"

case "${1:-build}" in
build) wanted="$build" ;;
demo) wanted="$build $demo" ;;
check) wanted="$build $demo $check" ;;
fuzz) wanted="$build $fuzz" ;;
mpich) wanted="$build $demo $check $mpich" ;;
develop) wanted="$build $demo $check $mpich $develop" ;;
*)
    echo "usage: tools/install_packages.sh [build|demo|check|mpich|develop|fuzz]" >&2
    exit 2
    ;;
esac

find_missing() {
    missing=""
    for package in $wanted; do
        case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" in
        *" installed") ;;
        *) missing="$missing $package" ;;
        esac
    done
}

if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system; megalith needs what these Debian packages hold: $wanted"
    exit 0
fi
find_missing
[ -z "$missing" ] && exit 0

run=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null && run="sudo"
fi
if command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || [ -n "$run" ]; }; then
    echo "installing:$missing"
    log=$(mktemp)
    install() {
        # shellcheck disable=SC2086  # a list of words
        $run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >>"$log" 2>&1
    }
    # The package lists may be old or missing: they are fetched if the first try fails.
    install || { $run apt-get update >>"$log" 2>&1 && install; } || tail -n 3 "$log"
    rm -f "$log"
    find_missing
fi
[ -z "$missing" ] || echo "missing packages: apt-get install$missing"
exit 0
