#!/usr/bin/env bash
# Each public header compiles alone as C11; an installed one also as C++17, which links to its functions under their C
# names.
set -u
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
failures=0
checks=0

folders=()
for folder in "$MEGA_SOURCE"/src/*/include; do folders+=("-I$folder"); done

# Installed are megalith.h and what it includes, directly or not.
installed=() queue=(megalith.h)
while [ "${#queue[@]}" -gt 0 ]; do
    header=$(ls "$MEGA_SOURCE"/src/*/include/megalith/"${queue[0]}")
    queue=("${queue[@]:1}")
    [[ " ${installed[*]} " != *" $header "* ]] || continue
    installed+=("$header")
    mapfile -t -O "${#queue[@]}" queue < <(sed -n 's/^#include "megalith\/\(.*\)"$/\1/p' "$header")
done

# compiles HEADERS COMPILER FLAGS… FILE: compiles each header of an array alone; the name of FILE determines the
# language.
compiles() {
    local file=${!#}
    local -n headers=$1
    shift
    for header in "${headers[@]}"; do
        echo "#include \"megalith/$(basename "$header")\"" >"$file"
        checks=$((checks + 1))
        "${@:1:$#-1}" -Wall -Wextra -Wpedantic -Werror "${folders[@]}" -fsyntax-only "$file" >"$temp/out" 2>&1 &&
            continue
        echo "${header#"$MEGA_SOURCE"/} does not compile alone with ${*:1:$#-1}:"
        head -n 5 "$temp/out"
        failures=$((failures + 1))
    done
}

# The functions that installed headers declare, one a line: a name before a parenthesis, outside comments and types.
functions() {
    for header in "${installed[@]}"; do
        "$cc" -fpreprocessed -E -P "$header" 2>/dev/null
    done | grep -v '^ *typedef' | grep -oE '\bmega_[a-z0-9_]+\(' | tr -d '(' | sort -u
}

# A C++ program that takes the address of every function: no symbol may have a mangled name (_Z…).
links() {
    local wrong
    for header in "${installed[@]}"; do
        echo "#include \"megalith/$(basename "$header")\""
    done >"$temp/all.cpp"
    echo "extern void *const mega_probe[] = {" >>"$temp/all.cpp"
    functions | sed 's/.*/    (void *)\&&,/' >>"$temp/all.cpp"
    echo "};" >>"$temp/all.cpp"
    if ! "$1" -std=c++17 "${folders[@]}" -c "$temp/all.cpp" -o "$temp/all.o" >"$temp/out" 2>&1; then
        echo "$1: the headers together do not compile as C++17:"
        head -n 5 "$temp/out"
        failures=$((failures + 1))
        return
    fi
    checks=$((checks + $(nm -u "$temp/all.o" | grep -c ' mega_')))
    wrong=$(nm -u "$temp/all.o" | grep -oE '\b_Z[0-9]*[A-Za-z]*mega_.*')
    [ -z "$wrong" ] && return
    echo "$1: without extern \"C\": $(echo "$wrong" | wc -l) functions, the first is $(echo "$wrong" | head -n 1)"
    failures=$((failures + 1))
}

# shellcheck disable=SC2034  # compiles reads it by its name
all=("$MEGA_SOURCE"/src/*/include/megalith/*.h)
compiles all "$cc" -std=c11 "$temp/one.c"
languages="C11"
for cxx in g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    # one compiler finds what a header lacks; the other reads them together
    if [ "$languages" = C11 ]; then compiles installed "$cxx" -std=c++17 "$temp/one.cpp"; fi
    languages="$languages, C++17 by $cxx"
    links "$cxx"
done
[ "$checks" -gt 50 ] || { echo "only $checks checks were made"; failures=$((failures + 1)); }
echo "$languages: $checks checks, $failures wrong"
[ "$failures" -eq 0 ] || exit 1
if [ "$languages" = C11 ]; then
    echo "SKIPPED: as C++17; neither g++ nor clang++ is there (apt-get install g++)"
    exit 77
fi
