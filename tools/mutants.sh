#!/usr/bin/env bash
# Plants one mistake at a time in a copy of the tree and runs the tests that must fail.
#
#   tools/mutants.sh [only=PATTERN]        PATTERN: extended regular expression on the names of the patches
#
# tests/mutants/<room>_<what>.patch is a unified diff of one mistake, below these lines (the last is optional):
#
#   breaks: what is wrong in the program once the patch is applied
#   tests: extended regular expression on the names of the tests (ctest -N) that must fail
#   needs: what the processor must have (a flag of /proc/cpuinfo) for the mistake to have an effect
#
# To add one: make the mistake, run `git diff -U0 FILE`, put these lines above the output. The removed lines must occur
# once in the file (otherwise use -U1 or more), so that the patch still applies when lines move; cli_test_mutants checks
# that each patch applies. The copy is a git worktree in build-mutants with what is tracked or staged here, so `git add`
# new files.
#
# A patch survives if all its tests pass. Then the other tests of its room and a short suite run as well, to tell
# whether anything notices. A patch is stale if it does not apply or does not build, or if its tests do not exist.
# Either is a failure. Ends with one line:  N caught, N survived, N stale, N skipped
set -u

head_line() { sed -n "s/^$1: *//p;/^---/q" "$2"; }
tests_named() { (cd build && ctest -N -R "$1") | sed -n 's/^ *Test *#[0-9]*: //p'; }
# The unit tests of the room that a patch is named after, and a few that use all rooms.
other_tests() {
    local file
    for file in "src/$1"/tests/test_*.c; do
        if [ -e "$file" ]; then echo "unit_$(basename "$file" .c)"; fi
    done
    tests_named "$short"
}
# Targets to build for these tests: the tests themselves, or the programs that a script starts.
targets_of() {
    local name script
    for name in "$@"; do
        if grep -qx "$name" <<<"$targets"; then
            echo "$name"
        else
            script=tests/${name%%_*}/${name#*_}.sh
            { echo megalith; grep -q 'cmake --install' "$script" &&
                echo library; grep -oE 'ranks_[a-z_]+' "$script"; } | grep -xF "$targets"
        fi
    done | sort -u
}
# Builds and runs these tests; returns 2 if they do not build, 1 if one fails. $failed names it.
run_tests() {
    local build_targets pattern
    mapfile -t build_targets < <(targets_of "$@")
    cmake --build build --parallel "$jobs" --target "${build_targets[@]}" >"$log" 2>&1 || return 2
    printf -v pattern '|^%s$' "$@"
    (cd build && ctest -R "${pattern:1}" --stop-on-failure --output-on-failure) >"$log" 2>&1 && return 0
    failed=$(sed -n 's/^.*Test *#[0-9]*: \([a-z0-9_]*\) .*\(\*\*\*.*\)$/\1/p' "$log" | tail -1)
    return 1
}

# Plants one mistake, runs its tests, prints and counts the outcome, and removes the mistake.
plant() { # PATCH
    local patch=$1 name began outcome what needs tests others
    name=$(basename "$patch" .patch) began=$SECONDS failed=
    mapfile -t tests < <(tests_named "$(head_line tests "$patch")")
    needs=$(head_line needs "$patch")
    if [ -n "$needs" ] && ! grep -qw "$needs" /proc/cpuinfo; then
        outcome=skipped what="this processor has no $needs"
    elif [ ${#tests[@]} -eq 0 ]; then
        outcome=stale what="no test fits '$(head_line tests "$patch")'"
    elif ! git apply --unidiff-zero "$patch" 2>"$log"; then
        outcome=stale what="does not apply: $(head -1 "$log")"
    else
        run_tests "${tests[@]}"
        case $? in
        0)
            mapfile -t others < <(other_tests "${name%%_*}")
            run_tests "${others[@]}"
            outcome=survived what="passes ${tests[*]}; ${failed:-nothing} notices it"
            ;;
        1) outcome=caught what="by $failed" ;;
        *) outcome=stale what="does not build: $(grep -m1 'error' "$log")" ;;
        esac
        git checkout -q -f "$commit" -- .
    fi
    printf '%-8s %3d s  %s: %s\n' "$outcome" $((SECONDS - began)) "$name" "$what"
    [[ $outcome = caught || $outcome = skipped ]] || echo "              $(head_line breaks "$patch")"
    times+="$((SECONDS - began)) $name"$'\n'
    ((++$outcome))
}

# In a function, so that bash has read all of it before it starts: this file may change while it runs.
main() {
    cd "$(dirname "$0")/.." || exit 1
    top=$PWD copy=$PWD/build-mutants only=.
    short='^(unit_test_engine|unit_test_transformer|parity_test_parity|golden_test_optimizer|golden_test_gpt2_golden|unit_test_checkpoint)$'
    for argument in "$@"; do
        case $argument in
        only=) ;;
        only=*) only=${argument#only=} ;;
        *)
            echo "usage: tools/mutants.sh [only=PATTERN]" >&2
            exit 2
            ;;
        esac
    done
    patches=()
    for file in tests/mutants/*.patch; do
        if [[ ${file##*/} =~ $only ]]; then patches+=("$top/$file"); fi
    done
    if [ ${#patches[@]} -eq 0 ]; then
        echo "no patch in tests/mutants has a name with '$only' in it" >&2
        exit 2
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    jobs=$(nproc 2>/dev/null || echo 2)

    # git changes the time stamps only of files that differ, so unchanged files are not built again.
    commit=$(git stash create) || exit 1
    commit=${commit:-$(git rev-parse HEAD)}
    git worktree prune
    if [ -e "$copy/.git" ]; then git -C "$copy" checkout -q -f --detach "$commit" || exit 1
    else git worktree add -q -f --detach "$copy" "$commit" || exit 1; fi
    # ccache: the same source in another folder is the same object.
    export CCACHE_BASEDIR=$copy CCACHE_NOHASHDIR=1
    cd "$copy" || exit 1
    # A mistake may make a test wait for ever.
    cmake --preset release -DMEGA_TEST_TIMEOUT=180 >"$log" 2>&1 || { cat "$log"; exit 1; }
    targets=$(echo megalith; cmake --build build --target help | sed -nE 's/^(\.\.\. )?([a-z0-9_]+)(:.*)?$/\2/p')

    # A test that fails without a mistake catches nothing.
    mapfile -t all < <(for patch in "${patches[@]}"; do head_line tests "$patch"; done | sort -u |
        while read -r pattern; do tests_named "$pattern"; done | sort -u)
    echo "building, and running the tests without a mistake"
    run_tests "${all[@]}" || {
        tail -40 "$log"
        echo "the tests must pass before a mistake is planted; failed: ${failed:-the build}"
        exit 1
    }

    caught=0 survived=0 stale=0 skipped=0 times=
    for patch in "${patches[@]}"; do plant "$patch"; done
    echo \
        "$SECONDS s in all; the longest: $(sort -rn <<<"$times" | head -5 | sed 's/\([0-9]*\) \(.*\)/\2 \1 s/' | paste -sd, | sed 's/,/, /g')"
    echo "$caught caught, $survived survived, $stale stale, $skipped skipped"
    [ $((survived + stale)) -eq 0 ]
}

main "$@"
