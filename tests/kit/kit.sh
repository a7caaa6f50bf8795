# shellcheck shell=bash
# Functions shared by shell tests. A test begins with   . "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
# and then runs in its own empty folder, $work, which is removed at the end.
set -u
: "${MEGALITH:?run by ctest}"
. "$MEGA_SOURCE/tests/kit/load.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

failures=0
# Prints what failed, with the last lines of the files in which the test keeps the output of commands; the test
# continues.
note() {
    local said
    echo "FAILED: $*"
    for said in out err log; do [ ! -f $said ] || tail -n 5 $said | cut -c1-600; done
    failures=$((failures + 1))
}
# The same, and ends the test.
fail() {
    note "$@"
    exit 1
}
skip() {
    echo "SKIPPED: $*"
    exit 77
}
# A sanitizer uses memory of its own for each byte of the program's. (ASAN_OPTIONS is always set in such a build.)
is_sanitized() { grep -aq __asan_init "$MEGALITH"; }
# The end of a test that uses `note`.
finish() {
    [ "$failures" -eq 0 ] && exit 0
    echo "$failures failures"
    exit 1
}

# measured COMMAND…: a comparison of measured memory holds at one of three tries, because a kernel may take pages of the
# program away while it runs. What is wrong fails each time.
measured() { "$@" || "$@" || "$@"; }

# refuses NAME 'part|part|…' COMMAND ARGS…: the command fails without a crash, and its output contains every part
refuses() {
    local name=$1 parts=$2 text status part
    shift 2
    text=$("$MEGALITH" "$@" 2>&1 </dev/null)
    status=$?
    # shellcheck disable=SC2034  # for scripts that look at it more closely
    refused=$text
    if [ $status -eq 0 ] || [ $status -ge 126 ]; then
        note "$name: exit status $status: $text"
        return
    fi
    while IFS= read -r part; do
        case "$text" in
        *"$part"*) ;;
        *) note "$name: \"$part\" is not in: $text" ;;
        esac
    done < <(printf '%s\n' "$parts" | tr '|' '\n')
}

# lines_in_order FILE: each regular expression of standard input matches a line of FILE below that of the one before
lines_in_order() {
    cat >expected
    awk -v expected=expected '
        BEGIN { while ((getline line < expected) > 0) want[++n] = line; at = 1 }
        at <= n && $0 ~ want[at] { at++ }
        END { if (at <= n) { print "not found, or not in this order: " want[at]; exit 1 } }' "$1" || { note "lines of $1"; cat "$1"; }
}

# Puts the program on PATH, as for a user.
megalith_on_path() {
    mkdir "$work/bin"
    ln -s "$MEGALITH" "$work/bin/megalith"
    export PATH="$work/bin:$PATH"
}

# Prints N documents of one line, with blank lines between them.
fox_lines() {
    local i
    for ((i = 1; i <= $1; i++)); do
        echo "line $i: a quick fox $((i * 7919 % 1000))"
        echo
    done
}

# Sets $shim to the library that counts calls and makes them fail (tests/fault/shim/fault_shim.c); skips the test if it
# cannot be built.
need_shim() {
    if is_sanitized; then
        skip "calls are counted and failed by a library of wrapped calls, which the sanitizers wrap already"
    fi
    shim=$work/shim.so
    ${CC:-cc} -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$shim" "$MEGA_SOURCE/tests/fault/shim/fault_shim.c" \
        2>shim.log ||
        skip "no C compiler that makes a shared library here: $(head -n 1 shim.log)"
}
