#!/usr/bin/env bash
# Builds the fuzzers and runs them one after another.
#
#   tests/fuzz/run.sh seconds=60 [only=REGEX]    60 seconds each, with new inputs
#   tests/fuzz/run.sh runs=2000 [only=REGEX]     2000 inputs each, the same ones every time
#
# An input that fails stays in FUZZ_FOUND (default build-fuzz/found). Status 77: skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=60
runs=
only=
for word in "$@"; do
    case "$word" in
    seconds=*) seconds=${word#*=} ;;
    runs=*) runs=${word#*=} ;;
    only=*) only=${word#*=} ;;
    *) echo "tests/fuzz/run.sh: $word: not understood; seconds=N runs=N only=REGEX" >&2; exit 2 ;;
    esac
done
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
echo 'int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return p == 0 && n > 0 ? -1 : 0; }' \
    >"$trial/t.c"
if ! clang -fsanitize=fuzzer,address,undefined -o "$trial/t" "$trial/t.c" 2>"$trial/log"; then
    echo "SKIPPED: no clang with libFuzzer here (apt-get install clang libclang-rt-14-dev): $(head -n 1 "$trial/log")"
    exit 77
fi
tools/build.sh fuzz fuzzers >"$trial/log" 2>&1 || { tail -n 30 "$trial/log"; exit 1; }
found=${FUZZ_FOUND:-$PWD/build-fuzz/found}
mkdir -p "$found"
bad=0
for program in build-fuzz/fuzz/fuzz_*; do
    name=${program##*/fuzz_}
    [[ "$name" =~ ${only:-.} ]] || continue
    new=$trial/$name
    mkdir -p "$new"
    if [ -n "$runs" ]; then limit=(-runs="$runs" -seed=1); else limit=(-max_total_time="$seconds"); fi
    # libFuzzer refuses a single block larger than 64 MiB, tests/fuzz/kit.c a larger total
    if ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 "$program" \
        "${limit[@]}" -timeout=20 \
        -malloc_limit_mb=64 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 -artifact_prefix="$found/$name-" \
        "$new" "tests/fuzz/corpus/$name" >"$trial/$name.log" 2>&1; then
        echo \
            "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$trial/$name.log") inputs, $(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$trial/$name.log" | tail -n 1) edges, nothing found"
    else
        bad=$((bad + 1))
        echo "FAILED: $name; the input lies in $found"
        grep -E -A12 'ERROR|SUMMARY|does not hold|runtime error' "$trial/$name.log" | head -n 40
    fi
done
[ "$bad" -eq 0 ]
