#!/usr/bin/env bash
# Follows examples/README.md: runs every ```sh block as it is printed, in a folder that has the examples, in a
# user's shell, with an installed library. Each ```text block must be printed by the sh blocks before it
# (tests/kit/page_prints.awk says how numbers are compared). Blocks "sh norun" are not run;
# blocks "needs FILE" are run if the file exists.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
. "$MEGA_SOURCE/tests/kit/ranks.sh" # skips without a launcher
for tool in pkg-config make; do command -v "$tool" >/dev/null || skip "$tool is not there (apt-get install $tool)"; done
page=$MEGA_SOURCE/examples/README.md
mkdir -p home bin clone/examples
ln -s "$MEGA_SOURCE/docs" clone/docs
cp "$MEGA_SOURCE"/examples/*.* clone/examples/
cmake --install "$MEGA_BUILD" --prefix "$work/home/.local" >log 2>&1 || fail "cmake --install: $(cat log)"
installed=$(dirname "$(find home/.local -name megalith.pc)")
[ -e home/.local/lib/pkgconfig ] || ln -s "$work/$installed" home/.local/lib/pkgconfig
# The libraries of the build need its compiler and its sanitizers.
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
printf '#!/bin/sh\nexec %s "$@"\n' "$cc${sanitize:+ -fsanitize=$sanitize}" >bin/cc
chmod +x bin/cc
data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}/mnist
if [ -f "$data/t10k-images-idx3-ubyte.gz" ]; then ln -s "$data"/t10k-*.gz clone/examples/
else echo "left out: mnist (its digits are not in shared/data/mnist)"; fi
. "$MEGA_SOURCE/tests/kit/python.sh"
if [ -n "$python" ] && [ -e clone/examples/t10k-images-idx3-ubyte.gz ] && ! is_sanitized; then
    printf '#!/bin/sh\nexec %s "$@"\n' "$python" >bin/python3
    chmod +x bin/python3
else
    rm clone/examples/mnist.py
    echo "left out: mnist.py (no digits, no NumPy, or sanitizers)"
fi

# Writes the commands that a reader runs as one script, section by section.
(
    cd clone/examples || exit 1
    awk '
        function is_there(file) { return (getline line < file) >= 0 }
        /^```/ && kind != "" { kind = ""; next }
        /^## / { print "echo \"@@ " $0 "\"" }
        /^```sh( needs [^ ]+)?$/ { kind = NF == 1 || is_there($3) ? substr($1, 4) : "other"; next }
        /^```/ { kind = "other"; next }
        kind == "sh" { print }' "$page" >../../page.sh
)
[ "$(grep -c '^echo "@@ ## [0-9]' page.sh)" -ge 11 ] || fail "only $(grep -c '^echo "@@' page.sh) sections were found"
grep -c . page.sh >/dev/null || fail "no commands were found"
(cd clone/examples && env -i HOME="$work/home" PATH="$work/bin:/usr/local/bin:/usr/bin:/bin" \
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
    bash -euo pipefail "$work/page.sh" >"$work/printed" 2>&1 </dev/null) ||
    { tail -n 30 printed; fail "the commands of examples/README.md"; }
(cd clone/examples && awk -v sections=1 -f "$MEGA_SOURCE/tests/kit/page_prints.awk" "$work/printed" "$page") ||
    note "examples/README.md shows what its commands do not print"
# Every file of the folder is on the page.
for file in "$MEGA_SOURCE"/examples/*.c "$MEGA_SOURCE"/examples/*.sh "$MEGA_SOURCE"/examples/*.json \
    "$MEGA_SOURCE"/examples/*.py; do
    name=$(basename "$file")
    grep -qF "]($name)" "$page" || note "examples/README.md does not name $name"
done
[ -z "${MEGA_KEEP:-}" ] || cp printed "$MEGA_KEEP"
finish
