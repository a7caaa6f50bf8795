#!/usr/bin/env bash
# Runs the tests of a build folder and ends with one plain line:  N passed, N failed, N skipped
#
#   tools/check.sh FOLDER [ctest options]
#
# The cases inside each test program are counted; a script is one case. With MEGA_TOTALS=FILE the three numbers are
# also appended to FILE, with the names of the tests that failed, and to FILE.said what those printed last. Exit status 0
# if nothing failed.
set -u
folder=$1
shift
# A test takes two slots, and one that mostly waits takes one (cmake/tests.cmake): as many tests as cores, and a waiting
# one beside them.
slots=$(($(nproc 2>/dev/null || echo 2) * 2 + 1))
cd "$folder" || exit 1
results=Testing/check.txt
mkdir -p Testing/Temporary
# The longest first: a build that has run nothing takes the times of the release build.
costs=Testing/Temporary/CTestCostData.txt
[ -f $costs ] || [ ! -f ../build/$costs ] || cp ../build/$costs $costs
: >Testing/Temporary/LastTest.log
ctest -j "$slots" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$results"
status=${PIPESTATUS[0]}

# First file: one line a test with its outcome. Second: all that the tests printed.
line=$(awk '
    FNR == NR {
        if ($0 ~ /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /) {
            name = $0; sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "", name); sub(/ .*/, "", name)
            outcome[name] = $0 ~ /\*\*\*Skipped/ ? "skipped" : $0 ~ /   Passed / ? "passed" : "failed"
        }
        next
    }
    /^[0-9]+\/[0-9]+ Testing: / { test = $3 }
    /^\[  PASSED  \] [0-9]+ test\(s\)\./ { counted[test] = 1; passed += $4 }
    /^\[  SKIPPED \] [0-9]+ test\(s\), / { counted[test] = 1; skipped += $4 }
    /^\[  FAILED  \] [0-9]+ test\(s\), / { counted[test] = 1; bad[test] = 1; failed += $4 }
    END {
        for (name in outcome) {
            if (outcome[name] == "failed" && !bad[name]) failed++          # a crash, a time-out, a leak at the end
            else if (outcome[name] == "skipped" && !counted[name]) skipped++
            else if (outcome[name] == "passed" && !counted[name]) passed++
        }
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$results" Testing/Temporary/LastTest.log)

if [ "$line" = "0 passed, 0 failed, 0 skipped" ]; then
    echo "no test was run: is libcmocka-dev there, and does the pattern name a test?"
    line="0 passed, 1 failed, 0 skipped"
fi
reasons=$(grep -ah "^SKIPPED: " Testing/Temporary/LastTest.log | sort | uniq -c |
    sed 's/^ *\([0-9]*\) SKIPPED: /  \1 × /')
if [ -n "$reasons" ]; then printf 'skipped because:\n%s\n' "$reasons"; fi
failed=$(sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Failed\|Timeout\|Exception\|Not Run\).*/\1/p' \
    "$results" | sort -u | tr '\n' ' ')
if [ -n "${MEGA_TOTALS:-}" ]; then
    echo "$(tr -dc '0-9 ' <<<"$line") $failed" >>"$MEGA_TOTALS"
    awk -v failed=" $failed" '
        /^[0-9]+\/[0-9]+ Testing: / { name = $3; n = 0 }
        { said[n++] = $0 }
        /^<end of output>/ && index(failed, " " name " ") {
            for (i = n > 40 ? n - 40 : 0; i < n; i++) print name ": " substr(said[i], 1, 400)
        }' Testing/Temporary/LastTest.log >>"$MEGA_TOTALS.said"
fi
echo "$line"
case "$line" in *" 0 failed,"*) exit "$status" ;; *) exit 1 ;; esac
