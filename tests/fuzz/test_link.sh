#!/usr/bin/env bash
# The fuzzer of options links: the files that cmake/fuzz.cmake lists call no function of the program that neither they,
# the rooms that are linked whole, nor fuzz_options.c itself defines. Told from the objects of this build: the fuzzer's
# own build takes minutes.
set -u
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
cd "$MEGA_BUILD" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names() { # OBJECT… ; nm's other options come first
    nm -P "$@" | sed -n 's/^\([A-Za-z_][A-Za-z_0-9]*\) .*/\1/p' | sort -u
}
read -ra rooms <<<"$(sed -n '1s/;/ /gp' fuzz_options.list)"
mapfile -t files < <(sed -n '2p' fuzz_options.list | tr ';' '\n')
objects=(CMakeFiles/mega_cli.dir/foreign/*.o CMakeFiles/mega_engine.dir/foreign/*.o)
for file in "${files[@]}"; do
    file=${file#"$MEGA_SOURCE"/src/}
    objects+=("CMakeFiles/mega_${file%%/*}.dir/src/$file.o")
done
linked=()
for room in "${rooms[@]}"; do mapfile -t -O ${#linked[@]} linked < <(find "CMakeFiles/mega_$room.dir" -name '*.o'); done
mapfile -t all < <(find CMakeFiles/mega_*.dir -name '*.c.o')
names -u "${objects[@]}" >"$work/needed"
names --defined-only "${objects[@]}" "${linked[@]}" >"$work/defined"
names --defined-only "${all[@]}" >"$work/own"
sed -nE 's/^[a-z][a-z_ ]*[ *](mega_[a-z_0-9]+)\(.*[^;]$/\1/p' "$MEGA_SOURCE/tests/fuzz/fuzz_options.c" | sort -u >"$work/replaced"
missing=$(comm -12 "$work/needed" "$work/own" | comm -23 - "$work/defined" | comm -23 - "$work/replaced")
if [ "$(wc -l <"$work/needed")" -lt 100 ]; then
    echo "FAILED: only $(wc -l <"$work/needed") names are needed by the files of fuzz_options.list"
    exit 1
fi
if [ -n "$missing" ]; then
    echo "FAILED: fuzz_options does not link: list the file in cmake/fuzz.cmake, or replace in tests/fuzz/fuzz_options.c:"
    echo "$missing"
    exit 1
fi
