#!/usr/bin/env bash
# What ARCHITECTURE.md, the pages about the source in docs/, and the guides of the rooms say about the source is true:
# - files, tests, make targets, options and identifiers in back quotes exist; for `FILE:NAME`, the file has that
# function or variable
#   - the table of rooms lists exactly what the files of each room include, and each is on a lower floor of the drawing
#   - the table "State of the process" lists exactly the writable static memory in the object files
#   - the guide of each room has the table of its files that tools/make_maps.sh makes of their first comments
#   - links of Markdown lead to files and headings, and its lines of prose are wrapped at 120 columns
#   - in every Markdown file, a table has its heading and the line below it, and no row stands apart
# A source file has at most 600 lines, except a generated one, and a function of C or of the shell at most 70. No two
# source files of src/ have a static function of one name.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
cd "$MEGA_SOURCE" || exit 1
temp=$work
guides=(src/*/README.md)
[ "$(wc -c <README.md)" -le 6000 ] || note \
    "README.md has $(wc -c <README.md) bytes, and a first screen at most 6000: put lists into docs/what-works.md"
[ "${#guides[@]}" = "$(ls -d src/*/ | wc -l)" ] ||
    note "a room has no README.md: $(for r in src/*/; do [ -f "$r/README.md" ] || echo "$r"; done)"
for guide in "${guides[@]}"; do
    lines=$(sed '/^## Files/,$d' "$guide" | wc -l)
    [ "$lines" -le 60 ] || note "$guide is longer than a screen of 60 lines before its table of files: $lines"
done
tools/make_maps.sh check || note "write the tables of files again: tools/make_maps.sh"
listed=$(cat "${guides[@]}" | grep -c '^| `')
[ "$listed" -ge 800 ] || note "the tables of files have only $listed rows"

# ---- names between back quotes ----

find . \( -name build -o -name 'build-*' -o -name .git -o -name demo -o -name try \) -prune -o -type f -printf '%P\n' \
    >"$temp/files"
grep -E '^(src|tests|tools|cmake|bench|examples)/|^(CMakeLists.txt|Makefile|CMakePresets.json)$' "$temp/files" |
    grep -v '\.md$' |
    xargs -d '\n' cat | grep -aoE '[A-Za-z_][A-Za-z_0-9]*' | sort -u >"$temp/words"
grep -ohE '\-\-[a-z0-9_-]+' docs/options{,-of-other-systems}.md src/launch/options.c src/cli/*.c | tr _ - |
    sort -u >"$temp/options"
sed -nE 's/^([a-z0-9-]+( [a-z0-9-]+)*):.*/\1/p' Makefile | tr ' ' '\n' | sort -u >"$temp/targets"
# Every row of folders and names that a path has, from the whole path to the name at its end.
awk -F/ \
    '{ for (i = 1; i <= NF; i++) { part = $i; print part; for (k = i + 1; k <= NF; k++) { part = part "/" $k; print part } } }' "$temp/files" | sort -u >"$temp/parts"
# Sets, so that a look-up needs no other process.
declare -A is_word is_option is_target is_part
while read -r name; do is_word[$name]=1; done <"$temp/words"
while read -r name; do is_option[$name]=1; done <"$temp/options"
while read -r name; do is_target[$name]=1; done <"$temp/targets"
while read -r name; do is_part[$name]=1; done <"$temp/parts"

# Prints the files that a name may mean: a whole path, a path below src/ or below the folder of the guide, or the end of
# a path; * is a wildcard.
file_pattern() { sed -e 's/[.+]/\\&/g' -e 's/\*/[^\/]*/g' <<<"$1"; }
find_files() { # NAME FOLDER: every file that the name may mean; a bare name means the one in the folder first
    local pattern
    pattern=$(file_pattern "${1%/}")
    grep -E "^$2/$pattern(/|\$)" "$temp/files" || grep -E "(^|/)$pattern(/|\$)" "$temp/files"
}
is_test() { # unit_test_x, ranks_x, cli_test_x, …: the name of a test or of a program of one
    local kind=${1%%_*} rest=${1#*_}
    case $kind in
    unit) compgen -G "src/*/tests/$rest.c" >/dev/null ;;
    *) compgen -G "tests/$kind/$rest.sh" >/dev/null || compgen -G "tests/$kind/$rest.c" >/dev/null ;;
    esac
}
check_token() { # PAGE LINE TOKEN FOLDER
    local token=${3%()} files function name
    case $token in
    make\ *)
        token=${token#make }
        [ -n "${is_target[${token%% *}]:-}" ] || note "$1:$2: Makefile has no target ${token%% *}"
        ;;
    --[a-z]*)
        token=${token%% *} name=${token%%=*}
        [ -n "${is_option[${name//_/-}]:-}" ] || note "$1:$2: there is no option $token"
        ;;
    *.[ch]:*)
        function=${token##*:}
        files=$(find_files "${token%:*}" "$4") || { note "$1:$2: there is no file ${token%:*}"; return; }
        # shellcheck disable=SC2086  # a list of files
        grep -qE "\b$function(\(|;| = |\[)" $files || note "$1:$2: ${token%:*} has no function or variable $function"
        ;;
    *[!A-Za-z0-9_./*-]*) return ;; # code, a path of a run, an expression
    *NAME* | *FAMILY* | *ROOM* | */N*) return ;;
    unit_test_* | ops_test_* | parity_test_* | golden_test_* | fault_test_* | fuzz_test_* | ranks_test_* | cli_test_*)
        is_test "$token" || note "$1:$2: there is no test $token"
        ;;
    *.[ch] | *.sh | *.awk | *.cmake | *.patch | *.py | *.md | *.txt | */)
        [ -n "${is_part[${token%/}]:-}" ] || find_files "$token" "$4" >/dev/null ||
            note "$1:$2: there is no file $token"
        ;;
    *[./*-]*) return ;;
    *_*)
        # a name such as _step (for mega_engine_step) is the end of a longer name
        if [[ $token == _* ]]; then grep -q -- "$token\$" "$temp/words"; else [ -n "${is_word[$token]:-}" ]; fi ||
            note "$1:$2: nothing in the source is called $token"
        ;;
    *) return ;;
    esac
    checked=$((checked + 1))
}
checked=0
pages=(ARCHITECTURE.md docs/{kernels,recipes,tests}.md "${guides[@]}")
[ ! -f docs/strangers.md ] || pages+=(docs/strangers.md)
for page in "${pages[@]}"; do
    folder=$(dirname "$page")
    while IFS=$'\t' read -r line token; do
        check_token "$page" "$line" "$token" "$folder"
    done < <(awk \
        '/^```/ { code = !code; next } !code { rest = $0; while (match(rest, /`[^`]+`/)) { print NR "\t" substr(rest, RSTART + 1, RLENGTH - 2); rest = substr(rest, RSTART + RLENGTH) } }' "$page")
done
[ "$checked" -ge 300 ] || note "only $checked names were found"

# ---- families ----

# What the recipe "A family" asks for: cases of the comparisons with transformers, and a row of the page.
# unit_test_features has its own check.
cases_of() { sed -n '/^CASES = {/,/^}/p' "$1"; }
families=$(sed -n 's/^MEGA_FAMILY([0-9]*, \([a-z0-9_]*\)).*/\1/p' src/families/models/*.c)
[ "$(wc -w <<<"$families")" -ge 20 ] || note "only these families were found in families/models: $families"
for name in $families; do
    type=$(sed -n 's/.*\(\.model_type = \|HF_TABLES(\)"\([^"]*\)".*/\2/p' "src/families/models/$name.c")
    grep -qF "\`$type\`" docs/families.md || note "docs/families.md has no row of the family $type"
    [ "$name" != megalith_gpt ] || continue # transformers has no such class
    cases_of tools/make_family_golden.py | grep -qF ": (\"$type\"," ||
        note "tools/make_family_golden.py: CASES has no model of the family $type"
    # it writes no text
    ! sed -n 's/^\(ENCODERS\|ENCODER_DECODERS\) = //p' tools/make_family_golden.py | grep -qF "\"$type\"" || continue
    cases_of tests/golden/test_generate_families.sh | grep -qF "    \"$type\": " ||
        note "tests/golden/test_generate_families.sh: CASES has no $type"
done

# ---- lengths ----

grep -E '\.(c|h|cu|sh|py|cmake)$' "$temp/files" | grep -vx python/megalith.py | sort >"$temp/sources"
xargs -d '\n' wc -l <"$temp/sources" | awk \
    '$1 > 600 && $2 != "total" { print $2 " has " $1 " lines, expected at most 600: give each subject a file" }' \
    >"$temp/long"
# A function of C ends with the first line that is only a }, one of the shell too.
# shellcheck disable=SC2016  # a program of awk
functions='
    FNR == 1 { head = 0; inside = 0 }
    !inside && (/^[A-Za-z_]/ || /^}/) && !head { head = FNR; name = $0 }
    !inside && (/^{/ || /^[A-Za-z_].*\).*{$/) && head { inside = 1; count++ }
    inside && /^}$/ { if (FNR - head + 1 > 70) print FILENAME ":" head ": " FNR - head + 1 " lines, expected at most 70: " name; inside = 0; head = 0; next }
    !inside && (/^$/ || /;$/ || /^#/ || /\*\/$/ || /^}/) { head = 0 }
    END { print count + 0 >counted }'
grep -E '\.(c|h|cu|sh)$' "$temp/sources" | xargs -d '\n' awk -v counted="$temp/counted" "$functions" >>"$temp/long"
while read -r what; do note "$what"; done <"$temp/long"
[ "$(cat "$temp/counted")" -ge 5000 ] || note "only $(cat "$temp/counted") functions were found"

# ---- names of static functions ----

# Of loops that are compiled for several instruction sets or types (*_body.c), one may have two forms.
grep -E '^src/.*\.c$' "$temp/files" | grep -vE '/tests/|_body\.c$' | xargs -d '\n' awk '
    FNR == 1 { name = "" }
    /^static [^=;]*\(/ && !/__attribute__/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    /^}/ { name = "" }
    /^{/ && name != "" { print name, FILENAME; name = "" }' | sort -u >"$temp/statics"
while read -r name; do
    note "several files have a static function $name; give it the noun of its file:" \
        "$(awk -v name="$name" '$1 == name { print $2 }' "$temp/statics" | xargs)"
done < <(cut -d' ' -f1 "$temp/statics" | uniq -d)
[ "$(wc -l <"$temp/statics")" -ge 4000 ] || note "only $(wc -l <"$temp/statics") static functions were found"

# ---- who includes whom ----

for header in src/*/include/megalith/*.h; do
    room=${header#src/}
    echo "${header##*/} ${room%%/*}"
done >"$temp/owners"
awk '/^```floors/ { inside = 1; next } /^```/ { inside = 0 } inside { for (i = 2; i <= NF; i++) print $i, $1 }' \
    ARCHITECTURE.md >"$temp/floors"
[ "$(cut -d' ' -f1 "$temp/floors" | sort)" = "$(ls src | sort)" ] ||
    note "ARCHITECTURE.md: the drawing of floors does not have every room of src/ once"
arrows=0
for room in src/*/; do
    room=$(basename "$room")
    # megalith.h is for programs: it includes rooms beside its own
    included=$(find "src/$room" -name '*.[ch]' ! -path '*/tests/*' ! -name megalith.h -exec grep -hoE \
        '^#include "megalith/[a-z_0-9]+\.h"' {} + |
        sed 's/.*megalith.//; s/"//' | sort -u |
            awk 'FNR == NR { room[$1] = $2; next } { print room[$1] }' "$temp/owners" - | sort -u | grep -vx "$room")
    said=$(awk -F'|' -v room=" \`$room/\` " '$2 == room { print $3 }' ARCHITECTURE.md | tr ' ' '\n' | grep -v '^$' |
        sort -u)
    [ "$included" = "$said" ] || note \
        "ARCHITECTURE.md: $room/ includes $(echo $included), and the table of rooms has $(echo $said)"
    awk -v room="$room" -v list="$(echo $included)" \
        '{ floor[$1] = $2 } END { n = split(list, other, " "); for (i = 1; i <= n; i++) if (floor[other[i]] + 0 >= floor[room] + 0) exit 1 }' "$temp/floors" ||
        note "ARCHITECTURE.md: $room/ includes a room that is not on a lower floor of the drawing"
    arrows=$((arrows + $(wc -w <<<"$included")))
done
[ "$arrows" -ge 40 ] || note "only $arrows includes between rooms were found"

# ---- tables ----

grep '\.md$' "$temp/files" | while read -r page; do
    awk -v page="$page" '
        function ends() { if (lines == 1) print page ":" FNR - 1 ": a row of a table stands apart"; lines = 0 }
        /^```/ { ends(); is_code = !is_code }
        is_code || !/^\|/ { ends(); next }
        ++lines == 2 && !/^\|[-:| ]+\|$/ { print page ":" FNR ": a table has no line below its heading" }
        END { FNR++; ends() }' "$page"
done >"$temp/tables"
while read -r line; do note "$line"; done <"$temp/tables"

# ---- links, and lengths of lines of prose ----

if command -v python3 >/dev/null; then
    grep '\.md$' "$temp/files" | xargs -d '\n' tests/kit/page_links.py >"$temp/dead"
    grep '\.md$' "$temp/files" | while read -r page; do
        # A page that a program writes has its lines.
        head -4 "$page" | grep -qE '^Written by `|writes this page' || echo "$page"
    done | xargs -d '\n' tools/wrap_markdown.py check >>"$temp/dead"
    while read -r line; do note "$line"; done <"$temp/dead"
fi

# The same of comments.
if command -v python3 >/dev/null; then
    find src tests bench examples -name '*.[ch]' -o -name '*.cu' | xargs python3 -c 'import sys
for path in sys.argv[1:]:
    for n, line in enumerate(open(path, encoding="utf-8"), 1):
        if len(line) > 121 and line.lstrip().startswith(("/*", "* ")):
            print(f"{path}:{n}: a comment is longer than 120 columns")' >"$temp/long"
    while read -r line; do note "$line"; done <"$temp/long"
fi

# ---- state of the process ----

if is_sanitized; then
    echo "the sanitizers have variables of their own: the state of the process was not looked at"
else
    find "$MEGA_BUILD/CMakeFiles" -path '*mega_*.dir/src/*' -name '*.o' ! -path '*shuffled*' ! -path '*mega_cli.dir*' |
        while read -r object; do
        file=${object#*.dir/src/}
        [ ! -f "src/${file%.o}" ] || echo "$object" # otherwise of a file that is no longer there
    done | xargs -d '\n' objdump -t | awk '
            / file format / { file = $1; sub(/.*\.dir\/src\//, "", file); sub(/\.o:$/, "", file); next }
            $NF ~ /^\./ || $NF ~ /^(\.L|__)/ { next }
            { for (i = 1; i < NF; i++) if ($i ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $i !~ /^\.data\.rel\.ro/) { sub(/\.[0-9]+$/, "", $NF); print file ":" $NF } }' |
        sort -u >"$temp/held"
    [ -s "$temp/held" ] || note "no object of a room was found in $MEGA_BUILD"
    sed -n '/^## State of the process/,/^## /p' ARCHITECTURE.md | grep -oE '`[a-z_]+(/[a-z_]+)*\.c:[a-z_]+`' |
        tr -d '`' | sort -u >"$temp/listed"
    while read -r variable; do note "ARCHITECTURE.md does not list the variable $variable"; done < <(comm -23 \
        "$temp/held" "$temp/listed")
    while read -r variable; do note "ARCHITECTURE.md lists $variable, which is no variable of the program"; done < \
        <(comm -13 "$temp/held" "$temp/listed")
fi
echo \
    "$checked names, $(cat "$temp/counted") functions, $arrows includes between rooms, $(wc -l <"$temp/listed" 2>/dev/null) variables"
finish
