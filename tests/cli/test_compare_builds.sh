#!/usr/bin/env bash
# tools/compare_builds.sh finds no difference between a build and itself, and reports where another build differs or
# what it lacks.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh" # skipped without MPI
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}
build() { # a folder whose program is the real one with these words of shell before it
    mkdir -p "$work/$1"
    printf '#!/usr/bin/env bash\n%s\nexec "%s" "$@"\n' "$2" "$MEGALITH" >"$work/$1/megalith"
    chmod +x "$work/$1/megalith"
}
compare() { env -u MEGA_SOURCE "$MEGA_SOURCE/tools/compare_builds.sh" "$1" "$MEGA_BUILD" rows=sparse steps=2 \
    only='^2 ranks, .*zero=3' >"$work/log" 2>&1; }

compare "$MEGA_BUILD" || fail "a build differs from itself: $(cat "$work/log")"
grep -qx '3 equal, 0 differ, 0 not compared' "$work/log" || fail "the last line: $(cat "$work/log")"
[ "$(grep -cE '^2 ranks, zero=3 .*precision=(f32|bf16|f64) +equal$' "$work/log")" -eq 3 ] ||
    fail "no line for each precision: $(cat "$work/log")"

# shellcheck disable=SC2016 # words of the program
build other '[ "$1" != pretrain_gpt ] || set -- "$@" --seed 2'
compare "$work/other" && fail "other initial values are equal: $(cat "$work/log")"
grep -qx '0 equal, 3 differ, 0 not compared' "$work/log" || fail "the last line: $(cat "$work/log")"
grep -q 'differs  *{"iteration": 1, .*"grad_norm".*, now {"iteration": 1, .*/model.safetensors: .* has other bits' \
    "$work/log" || fail "not said where: $(cat "$work/log")"

# shellcheck disable=SC2016
build lacks 'case " $* " in *" --bf16 "*) echo "error: no --bf16 here" >&2; exit 2 ;; esac'
compare "$work/lacks" || fail "what a build lacks is no difference: $(cat "$work/log")"
grep -qx '2 equal, 0 differ, 1 not compared' "$work/log" || fail "the last line: $(cat "$work/log")"
grep -q 'precision=bf16 .*not compared  the old build: .*no --bf16 here' "$work/log" ||
    fail "not said what is lacking: $(cat "$work/log")"

"$MEGA_SOURCE/tools/compare_builds.sh" "$MEGA_BUILD" "$MEGA_BUILD" rows=full only='no such row' >"$work/log" 2>&1 &&
    fail "nothing was compared, and that is a success: $(cat "$work/log")"
grep -qx '0 equal, 0 differ, 0 not compared' "$work/log" ||
    fail "a setting of the parity matrix has no option: $(cat "$work/log")"

"$MEGA_SOURCE/tools/compare_builds.sh" "$work" "$MEGA_BUILD" >"$work/log" 2>&1 &&
    fail "a folder without a program is taken"
grep -q "has no program megalith" "$work/log" || fail "no word of the program: $(cat "$work/log")"
echo ok
