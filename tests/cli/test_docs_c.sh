#!/usr/bin/env bash
# Follows the pages of docs/ that have C programs: installs megalith, writes the files, makes the
# changes, compiles with the flags of pkg-config, and runs every command. The output must be
# what the pages show (tests/kit/page_to_shell.awk).
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
set -eo pipefail
for tool in pkg-config make; do command -v "$tool" >/dev/null || skip "$tool is not there (apt-get install $tool)"; done

mkdir bin home
ln -s "$(command -v "$mpirun")" bin/mpirun
export HOME=$work/home
cmake --install "$MEGA_BUILD" --prefix "$HOME/.local" >log 2>&1 || fail "cmake --install"
installed=$(dirname "$(find "$HOME/.local" -name megalith.pc)")
[ -e "$HOME/.local/lib/pkgconfig" ] || ln -s "$(dirname "$installed")" "$HOME/.local/lib"
cp -r "$MEGA_SOURCE/examples" "$work/examples"
cp "$MEGA_SOURCE/tests/kit/page_prints.awk" "$work"
# The libraries of the build need its compiler and its sanitizers.
CC=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
printf '#!/bin/sh\nexec %s "$@"\n' "$CC${sanitize:+ -fsanitize=$sanitize}" >bin/cc
chmod +x bin/cc
unset CC MAKEFLAGS OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe \
    PKG_CONFIG_PATH

# Functions that the script of a page calls. The output and errors of a block of commands go to page_out.
cat >page_functions <<'FUNCTIONS'
page=$1 page_folder=$PWD page_out=$PWD/page_out # a block may change the folder
exec 3>&1 4>&2
page_fail() { echo "$page:$1: $2" >&3; exit 1; }
page_at() { page_line=$1; exec >"$page_out" 2>&1; }
page_succeeded() { exec >&3 2>&4; page_fail "$page_line" 'the commands were to fail, and succeeded'; }
page_ran() {
    exec >&3 2>&4
    if grep -q 'warning:' "$page_out"; then cat "$page_out"; page_fail "$page_line" 'the compiler warns'; fi
}
# page_text LINE HEAD: compares what the page shows (standard input) with what was printed. mpirun may end a rank before its own line is
# read; then the line of another rank about it, "rank 0: ...", is accepted.
page_text() {
    { printf '```text%s\n' "$2"; cat; echo '```'; } >page_shown
    awk -v ranks=1 -f "$page_folder/../page_prints.awk" "$page_out" page_shown >page_missing && return
    cat "$page_out" page_missing
    page_fail "$1" 'something else was printed'
}
# page_edit LINE OLD NEW NAME…: copies OLD to NEW and replaces each definition named by the part of page_block up to the end of its
# definition of that name, or by nothing.
page_edit() {
    local line=$1 old=$2 new=$3
    shift 3
    awk -v names="$*" '
        # The name whose definition begins on this line, if it is in the list.
        function defined(text,   i) {
            for (i = 1; i <= count; i++)
                if (text ~ "^[a-z].*[ *]" name[i] "[(]" && text !~ /;$/ || text ~ "^[a-z].* " name[i] "[[].*=") return name[i]
            return ""
        }
        function ends(text) { return text ~ /^}/ || text ~ /;$/ && text !~ /^    / || text ~ /}};$/ }
        BEGIN {
            count = split(names, name, " ")
            while ((getline text < "page_block") > 0) {
                part = part text "\n"
                if (now == "") now = defined(text)
                if (now != "" && ends(text)) { piece[now] = part; part = ""; now = "" }
            }
            rest = part
        }
        now == "" { now = defined($0); if (now != "") { found++; printf "%s", piece[now] } }
        now == "" { print }
        now != "" && ends($0) { now = "" }
        END { exit found != count || rest ~ /[^ \n]/ }' "$old" >"$new" || page_fail "$line" "$old has no $*"
}
set -eu
FUNCTIONS

# Every function, type and constant that a page names is in the installed headers or defined on the page.
checks_names() { # page
    local name
    grep -oE '\b(mega_[a-z0-9_]*[a-z0-9]|MEGA_[A-Z0-9_]*[A-Z0-9])\b' "$1" | sort -u >names || true # none
    while read -r name; do
        grep -rqw "$name" "$HOME/.local/include/megalith" || note "docs/$(basename "$1"): the headers have no $name"
    done <names
}

count=0
for page in "$MEGA_SOURCE"/docs/*.md; do
    grep -qx '```c' "$page" || continue
    name=$(basename "$page" .md)
    mkdir "$work/$name"
    checks_names "$page"
    { cat page_functions; awk -f "$MEGA_SOURCE/tests/kit/page_to_shell.awk" "$page"; } >"$work/$name.sh"
    if (cd "$work/$name" && cp ../examples/*.c . &&
        PATH="$work/bin:$PATH" env -u MEGA_SOURCE -u MEGA_BUILD -u MEGALITH \
        bash "$work/$name.sh" "docs/$name.md" >"$work/log" 2>&1 </dev/null); then
        echo "ok $name"
    else
        tail -n 40 log
        note "docs/$name.md"
        [ ! -f "$name/page_out" ] || tail -n 25 "$name/page_out"
    fi
    count=$((count + 1))
done
[ "$count" -gt 0 ] || note "no page of docs/ contains a program"
finish
