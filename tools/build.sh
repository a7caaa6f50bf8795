#!/usr/bin/env bash
# Configures and builds.   tools/build.sh PRESET [TARGET…]      presets: release debug asan-ubsan clang; default target:
# all
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
if ! command -v cmake >/dev/null; then
    echo "cmake is not there; run tools/install_packages.sh, or: apt-get install cmake ninja-build" >&2
    exit 1
fi
case "$preset" in
release) folder=build ;;
asan-ubsan) folder=build-asan ;;
*) folder=build-$preset ;;
esac

jobs=$(nproc 2>/dev/null || echo 2)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The presets use Ninja; make is used if Ninja is not installed. A folder keeps the generator with which it was
# configured.
generator=()
if ! command -v ninja >/dev/null; then generator=(-G "Unix Makefiles"); fi
if [ -f "$folder/CMakeCache.txt" ]; then
    generator=(-G "$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$folder/CMakeCache.txt")")
fi
if ! cmake --preset "$preset" "${generator[@]}" ${MEGA_CMAKE_OPTIONS:-} >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
grep -A3 "CMake Warning" "$log" || true
targets=()
if [ $# -gt 0 ]; then
    targets=(--target "$@")
else # who builds the program alone has no use for the tests
    grep "tests are not built" "$log" || true
fi
cmake --build "$folder" --parallel "$jobs" "${targets[@]}"
