#!/usr/bin/env bash
# make install: the program runs from its new place. The installed headers are megalith.h and what it includes, and each
# compiles alone as C11 and C++17. The programs of examples/ compile and link outside of the source tree with the flags
# of pkg-config, as C and as C++, with the shared library and with the archive, and run on one rank and on two. DESTDIR
# works, and so does moving the prefix afterwards.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
command -v pkg-config >/dev/null || skip "pkg-config is not there"
cache() { sed -n "s/^$1:[A-Z]*=//p" "$MEGA_BUILD/CMakeCache.txt"; }
cc=$(cache CMAKE_C_COMPILER) sanitize=$(cache MEGA_SANITIZE)
extra=()
# The sanitizers of two compilers cannot be mixed.
if [ -n "$sanitize" ]; then extra=("-fsanitize=$sanitize"); fi
compilers=("$cc") cplusplus=()
if [ -z "$sanitize" ]; then
    compilers=()
    for name in gcc clang; do command -v "$name" >/dev/null && compilers+=("$name"); done
    for name in g++ clang++; do command -v "$name" >/dev/null && cplusplus+=("$name"); done
fi
[ ${#compilers[@]} -gt 0 ] || compilers=("$cc")

DESTDIR="$work/stage" cmake --install "$MEGA_BUILD" --prefix /opt/elsewhere >log 2>&1 ||
    fail "cmake --install: $(cat log)"
mv stage/opt/elsewhere moved
moved/bin/megalith --version | grep -q "^megalith [0-9]" || fail "the installed program does not say its version"
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name megalith.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion megalith)" = "$(moved/bin/megalith --version | head -n 1 | cut -d' ' -f2)" ] ||
    note "the versions differ"
cflags=$(pkg-config --cflags megalith)

# Each header compiles alone; and no header is installed that megalith.h does not include.
headers=(moved/include/megalith/*.h)
[ ${#headers[@]} -ge 10 ] || fail "only ${#headers[@]} headers were installed"
"${compilers[0]}" -std=c11 $cflags -H -fsyntax-only -x c moved/include/megalith/megalith.h 2>&1 |
    grep -oE '[a-z0-9_]+\.h$' | sort -u >included
for header in "${headers[@]}"; do
    name=$(basename "$header")
    [ "$name" = megalith.h ] || grep -qx "$name" included || note "megalith.h does not include the installed $name"
    echo "#include <megalith/$name>" >one.c
    cp one.c one.cpp
    for c in "${compilers[@]}"; do
        "$c" -std=c11 -Wall -Wextra -Wpedantic -Werror $cflags -fsyntax-only one.c >log 2>&1 ||
            { note "$name with $c"; head -n 5 log; }
    done
    for c in "${cplusplus[@]}"; do
        "$c" -std=c++17 -Wall -Wextra -Wpedantic -Werror $cflags -fsyntax-only one.cpp >log 2>&1 ||
            { note "$name with $c"; head -n 5 log; }
    done
done

shared=$(pkg-config --libs megalith)
archive=$(pkg-config --static --define-variable=library=:libmegalith.a --libs megalith)
links=0
link() { # NAME COMPILER FLAGS… FILE: compiled once with each library
    local name=$1 way libs
    shift
    for way in shared archive; do
        libs=${!way}
        "$@" $cflags "${extra[@]}" -o "$name.$way" -x none $libs >log 2>&1 ||
            { note "$* does not link ($way)"; head -n 5 log; continue; }
        links=$((links + 1))
        needed=$(ldd "$name.$way")
        case "$way:$needed" in
        shared:*"$work"/*libmegalith.so*) ;;
        shared:*) note "$name.shared does not find the installed library: $needed" ;;
        archive:*libmegalith.so*) note "$name.archive loads the shared library" ;;
        esac
    done
}
for file in "$MEGA_SOURCE"/examples/*.c; do
    cp "$file" .
    name=$(basename "$file" .c)
    for c in "${compilers[@]}"; do link "$name.$(basename "$c")" "$c" -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror \
        "$name.c"; done
    # As C++ too. Designated initializers belong to C++20; compilers accept them in C++17 as an extension, clang++ with
    # a warning. -DSTEPS=3: two_losses runs, below.
    small=()
    [ "$name" != two_losses ] || small=(-DSTEPS=3)
    for c in "${cplusplus[@]}"; do
        link "$name.$c" "$c" -std=c++20 -O1 -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Werror \
            "${small[@]}" -x c++ "$name.c"
        case $c in clang++) extension=(-Wno-c++20-designator) ;; *) extension=() ;; esac
        "$c" -std=c++17 -Wall -Wextra -Wno-missing-field-initializers "${extension[@]}" -Werror $cflags -fsyntax-only \
            -x c++ "$name.c" >log 2>&1 ||
            { note "$name.c as C++17 with $c"; head -n 5 log; }
    done
    [ "$name" != train_from_c ] || continue # its command line is empty
    ./"$name.$(basename "${compilers[0]}").shared" --help >out 2>log || note "$name --help: $(cat out log)"
    grep -q "^usage: $name " out || note "$name --help: $(cat out)"
    case $name in
    generate | fill_mask) ;;
    *) grep -q '^ *--lr-decay-style ' out || note "$name --help lists no options: $(cat out)" ;;
    esac
done

learns() { awk '/step +1:/ { first = $NF } /step 100:/ { last = $NF } END { exit !(first > 2.5 && last < 0.1) }' "$1"; }
for program in train_from_c.*.shared train_from_c.*.archive; do
    ./"$program" >"$program.losses" 2>log && learns "$program.losses" ||
        note "$program does not learn: $(cat "$program.losses" log)"
done
seq -s ' ' 1 2000 >text
for program in two_losses.*++.shared two_losses.*++.archive; do
    [ ! -x "$program" ] || { ./"$program" text >losses 2>log && grep -q '^step 3:' losses; } ||
        note "$program: $(cat losses log)"
done
(
    . "$MEGA_SOURCE/tests/kit/ranks.sh"
    for program in train_from_c.*.shared train_from_c.*.archive; do
        ranks 2 ./"$program" >losses 2>log </dev/null && cmp -s losses "$program.losses" ||
            { echo "$program on 2 ranks: $(cat losses log)"; exit 1; }
    done
)
case $? in 0 | 77) ;; *) note "two ranks" ;; esac
echo "${#headers[@]} headers, $links programs; C by ${compilers[*]}; C++ by ${cplusplus[*]:-none}"
finish
