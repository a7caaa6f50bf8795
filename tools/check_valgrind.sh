#!/usr/bin/env bash
# The unit tests under valgrind.   tools/check_valgrind.sh FOLDER [regular expression]
#
# valgrind knows no AVX-512, so kernels are held to AVX2. Any error or lost block fails the test.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$(cd "$1" && pwd) || exit 1
pattern=${2:-}
if ! command -v valgrind >/dev/null; then
    echo "SKIPPED: valgrind is not there (apt-get install valgrind)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
export MEGALITH="$folder/megalith" MEGA_SOURCE="$PWD" MEGA_BUILD="$folder" MEGA_ISA=avx2
export MEGA_UNDER_VALGRIND=1 # tests that only make many draws or measure time may do less
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs

one() {
    name=$(basename "$1")
    # After a SIGBUS handler returns, valgrind continues with the registers of the failed instruction: they must be
    # precise there.
    precise=
    [ "$name" != unit_test_map ] || precise=--vex-iropt-register-updates=allregs-at-mem-access
    # shellcheck disable=SC2086  # one option or none
    if valgrind $precise -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --child-silent-after-fork=yes --fair-sched=yes \
        "$1" >"$logs/$name" 2>&1; then
        echo "passed  $name"
    else
        echo "FAILED  $name"
        touch "$logs/$name.failed"
        grep -avE "^\[ RUN|^\[       OK" "$logs/$name" | tail -n 60
    fi
}
export -f one
# The longest first, by the times of make check, if it was run.
costs=$folder/Testing/Temporary/CTestCostData.txt
[ -f "$costs" ] || costs=/dev/null
find "$folder/tests" -maxdepth 1 -name 'unit_*' -type f -executable | grep -E "$pattern" | sort |
    awk \
        'FILENAME != "-" { if (NF == 3) cost[$1] = $3; next } { name = $0; sub(/.*\//, "", name); print cost[name] + 0, $0 }' "$costs" - |
    sort -s -k 1,1nr | cut -d ' ' -f 2- | xargs -P "$(nproc)" -I{} bash -c 'one {}'
count() { grep -ahE "^\[  $1 *\] [0-9]+ test\(s\)" "$logs"/unit_* | awk '{n += $4} END {print n + 0}'; }
failed=$(find "$logs" -name '*.failed' | wc -l)
if [ -n "${MEGA_TOTALS:-}" ]; then echo "$(count PASSED) $failed $(count SKIPPED)" >>"$MEGA_TOTALS"; fi
echo "$(count PASSED) passed, $failed failed, $(count SKIPPED) skipped"
[ "$failed" -eq 0 ]
