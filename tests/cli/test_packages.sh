#!/usr/bin/env bash
# tools/install_packages.sh on simulated machines: nothing missing, no rights, no apt, apt that works, apt with outdated
# lists. Also the message of tools/build.sh if a library is missing.
set -eu
: "${MEGA_SOURCE:?run by ctest}"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fail() {
    echo "$1"
    exit 1
}

# A machine is a folder of fake programs beside the few real ones that the script needs.
machine() {
    rm -rf "$temp/bin" "$temp/state"
    mkdir -p "$temp/bin" "$temp/state"
    for tool in bash env mktemp rm tail touch grep; do ln -s "$(command -v $tool)" "$temp/bin/$tool"; done
    fake id "echo $1"
    # Installed is everything but what lies in state/missing.
    fake dpkg-query \
        'for last; do :; done; grep -qx "$last" '"$temp"'/state/missing && exit 1; echo "install ok installed"'
    touch "$temp/state/missing" "$temp/state/calls"
}
fake() {
    printf '#!/bin/bash\n%s\n' "$2" >"$temp/bin/$1"
    chmod +x "$temp/bin/$1"
}
run() { answer=$(PATH="$temp/bin" bash "$MEGA_SOURCE/tools/install_packages.sh" "$@") ||
    fail "ended with status $?: $answer"; }
is() { [ "$answer" = "$1" ] || fail "expected: $1
found: $answer"; }

machine 0
run
is ""

machine 1000 # no root, no sudo
printf 'libjansson-dev\nlibcmocka-dev\n' >"$temp/state/missing"
fake apt-get "echo called >>$temp/state/calls"
run build
is "missing packages: apt-get install libjansson-dev"
run check
is "missing packages: apt-get install libjansson-dev libcmocka-dev"
[ ! -s "$temp/state/calls" ] || fail "apt-get was called without rights"

machine 0 # no apt
echo libjansson-dev >"$temp/state/missing"
run
is "missing packages: apt-get install libjansson-dev"

machine 0 # apt works
echo libjansson-dev >"$temp/state/missing"
fake apt-get "echo \"\$*\" >>$temp/state/calls; : >$temp/state/missing"
run
is "installing: libjansson-dev"
grep -qx "install -y --no-install-recommends libjansson-dev" "$temp/state/calls" ||
    fail "apt-get was not asked as expected"

machine 0 # apt knows the package after an update
echo libjansson-dev >"$temp/state/missing"
fake apt-get "if [ \$1 = update ]; then echo u >$temp/state/updated; exit 0; fi
[ -f $temp/state/updated ] || exit 100
: >$temp/state/missing"
run
is "installing: libjansson-dev"

machine 1000 # sudo without a password
echo libjansson-dev >"$temp/state/missing"
fake apt-get ": >$temp/state/missing"
fake sudo 'if [ "$1" = -n ]; then exit 0; fi; "$@"'
run
is "installing: libjansson-dev"

machine 0 # apt fails: the reason's last lines, then the one line, and no failure
echo libjansson-dev >"$temp/state/missing"
fake apt-get "echo 'E: no network'; exit 100"
run
is "installing: libjansson-dev
E: no network
E: no network
missing packages: apt-get install libjansson-dev"

# Without the test library, the program builds without a warning (make demo); building everything prints one line about
# it.
mkdir "$temp/tools"
cp "$MEGA_SOURCE/tools/build.sh" "$temp/tools"
mkdir "$temp/fakes"
log=$temp/configured
cmake -S "$MEGA_SOURCE" -B "$temp/configure" -Dmega_cmocka_LIBRARY= >"$log" 2>&1 || fail "cmake: $(tail -n 5 "$log")"
grep -q 'tests are not built, a library is missing: apt-get install libcmocka-dev' "$log" ||
    fail "cmake does not say that the tests are not built: $(tail -n 5 "$log")"
printf '#!/bin/bash\n[ "$1" = --build ] || cat %q\n' "$log" >"$temp/fakes/cmake"
chmod +x "$temp/fakes/cmake"
answer=$(PATH="$temp/fakes:$PATH" "$temp/tools/build.sh" release megalith)
is ""
answer=$(PATH="$temp/fakes:$PATH" "$temp/tools/build.sh" release)
is "-- tests are not built, a library is missing: apt-get install libcmocka-dev"
