#!/usr/bin/env bash
# Runs the ```sh blocks of the README and of every page in docs/ in a user's shell: a home folder with megalith
# installed, the PATH of a new login, and no variables of the tests. A page of docs/ runs in an empty folder after the
# ```sh block of docs/index.md, which sets the PATH. The README runs in a clone after `make`, and sets the PATH itself.
# A block marked ```sh norun is not run; a ```python block that begins with "# NAME.py: " is written to NAME.py. What
# the ```text blocks show must be printed (tests/kit/page_prints.awk says how numbers are compared). test_docs_c.sh runs
# the pages with C programs.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
. "$MEGA_SOURCE/tests/kit/python.sh"
set -eo pipefail
export HOME=$work/home
cmake --install "$MEGA_BUILD" --prefix "$HOME/.local" >log 2>&1 || fail "cmake --install"
if [ -n "$python" ]; then
    printf '#!/bin/sh\nexec %s "$@"\n' "$python" >"$HOME/.local/bin/python3"
    chmod +x "$HOME/.local/bin/python3"
fi
blocks() {
    awk '/^```sh$/ { on = 1; next }
        /^```python$/ && getline > 0 && /^# [a-z_0-9]+\.py: / { on = 2; print "cat >" substr($2, 1, length($2) - 1) " <<\047PAGE_END\047" }
        /^```/ { if (on == 2) print "PAGE_END"; on = 0 }
        on' "$1"
}
blocks "$MEGA_SOURCE/docs/index.md" >"$work/begin.sh"
[ -s "$work/begin.sh" ] || fail "docs/index.md does not say how to run the commands of a page"
# ASAN_OPTIONS belongs to the build: without it a sanitizer reports errors in the launcher's libraries.
as_a_user() { # FILE LEAKS
    env -i HOME="$HOME" PATH=/usr/local/bin:/usr/bin:/bin ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=$2" bash -euo \
        pipefail "$1"
}
mkdir -p "$work/README/build"
cp -r "$MEGA_SOURCE/docs" "$work/README"
ln -s "$MEGALITH" "$work/README/build/megalith"
# docs/ranks.md, docs/launching.md and others start ranks, also as root and on a machine with one core: the pages
# themselves must set what that needs.
failed=0
for page in "$MEGA_SOURCE"/README.md "$MEGA_SOURCE"/docs/*.md; do
    name=$(basename "$page" .md)
    [ "$name" != README ] && grep -qx '```c' "$page" && continue # test_docs_c.sh
    mkdir -p "$work/$name"
    blocks "$page" >"$work/$name.own"
    [ -s "$work/$name.own" ] || continue
    { [ "$name" = README ] || cat "$work/begin.sh"; cat "$work/$name.own"; } >"$work/$name.sh"
    starts_ranks=$([ "$name" = ranks ] || [ "$name" = launching ] || [ "$name" = accelerate ] ||
        [ "$name" = monitoring ] || [ "$name" = python ] || [ "$name" = deepspeed-json ] && echo 1 || echo 0)
    if [ "$name" = python ] && { [ -z "$python" ] ||
        is_sanitized; }; then echo "left out: python (no NumPy, or sanitizers)" && continue; fi
    if [ "$starts_ranks" = 1 ] && ! command -v mpirun >/dev/null; then echo "left out: $name (no mpirun)" &&
        continue; fi
    # Launcher libraries never free some of their memory.
    leaks=$((1 - starts_ranks))
    if (cd "$work/$name" && as_a_user "$work/$name.sh" "$leaks" >"$work/$name.log" 2>&1 </dev/null); then
        missing=$(awk -f "$MEGA_SOURCE/tests/kit/page_prints.awk" "$work/$name.log" "$page") || true
        if [ -n "$missing" ]; then
            printf 'FAILED: %s shows what its commands do not print:\n%s\n' "$page" "$missing"
            failed=1
            continue
        fi
        echo "ok $name ($(wc -l <"$work/$name.sh") lines)"
    else
        echo "FAILED: the commands of $page:"
        tail -25 "$work/$name.log"
        failed=1
    fi
done
exit $failed
