#!/usr/bin/env bash
# libmegalith.so and libmegalith.a export the functions that the installed headers declare, each of them and nothing
# else; they and the program need no C++, no OpenMP and no OpenCL library, and are small. The soname has major and minor
# version.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
for tool in nm objdump ldd; do command -v "$tool" >/dev/null ||
    skip "$tool is not there (apt-get install binutils libc-bin)"; done
export LC_ALL=C
cache() { sed -n "s/^$1:[A-Z]*=//p" "$MEGA_BUILD/CMakeCache.txt"; }
cmake --install "$MEGA_BUILD" --prefix "$work/at" >log 2>&1 || fail "cmake --install: $(cat log)"
shared=$(find at -name 'libmegalith.so') archive=$(find at -name 'libmegalith.a') program=at/bin/megalith
include=at/include

# The functions that the headers declare, found without cmake/exports.sh: by gcc's own list, if gcc is installed.
for header in "$include"/megalith/*.h; do echo "#include \"megalith/$(basename "$header")\""; done >all.c
if command -v gcc >/dev/null && gcc -std=c11 "-I$include" -aux-info declared -c all.c -o all.o; then
    # /* file:line:NC */ extern mega_status mega_name (mega_type *, mega_callback (*), …);
    sed -n '/\/megalith\//s/^[^(]* extern [^(]*\b\(mega_[a-z0-9_]*\) (.*/\1/p' declared | sort -u >wanted
else
    sort -u "$MEGA_BUILD/library/exports.txt" >wanted
fi
[ "$(wc -l <wanted)" -gt 100 ] || fail "only $(wc -l <wanted) functions were found in the headers"

same() { # WHAT FILE: the names in FILE are those wanted
    diff wanted "$2" >difference && return
    note "$1: (<: in the headers alone; >: in the library alone)"
    head -n 20 difference
}
# The sanitizers add symbols of their own.
nm -D --defined-only "$shared" | awk '{ print $3 }' |
    grep -vE '^(_init|_fini|__(asan|ubsan|sanitizer|odr_asan)[a-z_.]*.*)$' | sort -u >of_shared
nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | grep -vE '^__(asan|ubsan|sanitizer|odr_asan)' |
    sort -u >of_archive
same libmegalith.so of_shared
same libmegalith.a of_archive

version=$("$program" --version | sed -n 's/^megalith \([0-9]*\.[0-9]*\)\..*/\1/p')
soname=$(objdump -p "$shared" | awk '/SONAME/ { print $2 }')
[ "$soname" = "libmegalith.so.$version" ] || note "the soname is $soname, expected libmegalith.so.$version"

for file in "$program" "$shared"; do
    if [ -z "$(cache MEGA_SANITIZE)" ]; then
        ldd "$file" >needed || note "ldd $file"
        grep -E 'libOpenCL|libstdc\+\+|libgomp|libdnnl|not found' needed &&
            note "$file needs a library that it should not"
    fi
    if [ -z "$(cache MEGA_SANITIZE)" ] && [ "$(cache CMAKE_BUILD_TYPE)" = Release ]; then
        bytes=$(stat -Lc %s "$file") # installed, hence without symbols of local functions
        [ "$bytes" -lt 5250000 ] || note "$file has $bytes bytes, expected fewer than 5,250,000, with kernels for GPUs"
    fi
done
# Ignoring a status is a compiler error, for every function except the two that return the status that they get.
grep -hE '^mega_status mega_' "$include"/megalith/*.h | grep -vE '^mega_status mega_error_(set|restore)\(' &&
    note "functions without MEGA_CHECK_RESULT"
printf '#include <megalith/megalith.h>\nvoid f(mega_engine *e); void f(mega_engine *e) { mega_engine_allocate(e); }\n' \
    >drop.c
"$(cache CMAKE_C_COMPILER)" -Werror "-I$include" -c drop.c -o drop.o 2>log && note "a dropped status compiles"

echo "$(wc -l <wanted) functions of $(find "$include" -name '*.h' | wc -l) headers"
finish
