#!/usr/bin/env bash
# Every patch of tests/mutants still applies to the sources, in one place only, and says what it breaks and which tests
# catch it. (make mutants applies them and runs those tests.)
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
command -v git >/dev/null || skip "git is not there (apt-get install git)"
cd "$MEGA_SOURCE" || exit 1
# Not from ctest -N, which empties the log of the ctest that runs this test.
known=$(sed -n 's/^add_test(\(\[=*\[\)\{0,1\}\([A-Za-z0-9_]*\).*/\2/p' "$MEGA_BUILD/CTestTestfile.cmake")

# Prints, for each hunk, its context and removed lines as one line; and how often they occur in the file.
found_more_than_once() { # patch
    awk -v patch="$1" '
        function look(    text, n, at) {
            if (block == "") { print patch ": a hunk that looks for no line"; return }
            text = whole
            while ((at = index(text, "\n" block)) > 0) { n++; text = substr(text, at + 1) }
            if (n != 1) print patch ": the lines of a hunk are in " file " " n + 0 " times; give it context (git diff -U1)"
        }
        /^--- a\// {
            file = substr($0, 7); whole = "\n"
            while ((getline line < file) > 0) whole = whole line "\n"
            close(file); next
        }
        /^\+\+\+ / { next }
        /^@@/ { if (hunk) look(); hunk = 1; block = ""; next }
        hunk && /^[ -]/ { block = block substr($0, 2) "\n" }
        END { if (hunk) look() }' "$1"
}

count=0
for patch in tests/mutants/*.patch; do
    count=$((count + 1))
    name=$(basename "$patch" .patch)
    [ -d "src/${name%%_*}" ] || note "$name: its name starts with no room"
    grep -q "^breaks: ." "$patch" || note "$name: no line says what it breaks"
    tests=$(sed -n 's/^tests: *//p' "$patch")
    grep -qE "${tests:-^$}" <<<"$known" || note "$name: no test is named '$tests'"
    git apply --unidiff-zero --check "$patch" 2>"$work/why" || note "$name does not apply: $(cat "$work/why")"
    more=$(found_more_than_once "$patch")
    [ -z "$more" ] || note "$more"
done
[ "$count" -ge 60 ] || note "$count patches; at least 60 are kept"
for room in src/*/; do
    room=$(basename "$room")
    ls tests/mutants/"$room"_*.patch >/dev/null 2>&1 || note "no patch for the room $room"
done
finish
