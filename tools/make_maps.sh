#!/usr/bin/env bash
# Writes the table of files in the guide of each room, src/ROOM/README.md, between its two markers: a row for each
# source file outside of tests/, with the first sentence of the file's first comment. A header shares the row of the
# source file of its name in the same folder; a public header has a row of its own. A file whose first comment is
# missing is a mistake. A table (src/foreign/*.txt) is a source file too.
#   tools/make_maps.sh [check] [ROOM...]     with check: writes nothing, and ends with 1 if a guide would change
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
check=
[ "${1:-}" != check ] || { check=1; shift; }
[ $# -gt 0 ] || mapfile -t rooms < <(cd src && ls)
[ $# -eq 0 ] || rooms=("$@")
begin='<!-- files: tools/make_maps.sh writes this table -->'
end='<!-- end of files -->'
made=$(mktemp) guide_made=$(mktemp)
trap 'rm -f "$made" "$guide_made"' EXIT
status=0

# Paths below the room, sorted: its own files first, then each folder, public headers last.
room_files() { # ROOM
    find "src/$1" -name tests -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.txt' \) -printf '%P\n' |
        awk \
            '{ n = split($0, part, "/"); folder = substr($0, 1, length($0) - length(part[n])); print (folder ~ /^include\// ? "~" folder : folder) "\t" part[n] "\t" $0 }' |
        sort -t "$(printf '\t')" -k1,1 -k2,2 | cut -f3
}

# shellcheck disable=SC2016  # a program of awk
table='
    # The first paragraph of the comment with which a file begins, on one line; empty without one.
    function first_comment(path,   line, text) {
        text = line = ""
        if ((getline line <path) > 0 && line ~ /^\/\*/) {
            sub(/^\/\*[ *]*/, "", line)
            while (line !~ /^[ *]*$/ && line !~ /^ / || text == "") { # an indented line begins a list
                text = text " " line
                if (line ~ /\*\// || (getline line <path) <= 0) break
                sub(/^ \* ?/, "", line)
            }
        }
        while (line ~ /^# /) { # a table
            text = text " " substr(line, 3)
            if ((getline line <path) <= 0) break
        }
        close(path)
        sub(/\*\/.*/, "", text)
        gsub(/[ \t]+/, " ", text)
        sub(/^ /, "", text); sub(/:? $/, "", text); sub(/:$/, "", text)
        return text
    }
    # Up to the full stop of the first sentence, without it; of a long sentence the part before its details.
    function first_sentence(text,   rest) {
        gsub(/et al\. /, "et al.\001", text)
        sub(/\. .*/, "", text)
        gsub(/\001/, " ", text)
        sub(/\.$/, "", text)
        if (length(text) > 150 && match(text, /[:;] /) > 40) {
            rest = substr(text, 1, RSTART - 1)
            if (gsub(/\(/, "(", rest) == gsub(/\)/, ")", rest)) text = rest
        }
        return text
    }
    function cell(text) { gsub(/[|<*\\]/, "\\\\&", text); return text }
    function base_of(path) { sub(/\.[ch]$/, "", path); return path }
    { files[++count] = $0; if (/\.c$/ && !(base_of($0) in source)) source[base_of($0)] = $0 }
    END {
        for (i = 1; i <= count; i++) if (files[i] ~ /\.h$/ && base_of(files[i]) in source) header[source[base_of(files[i])]] = files[i]
        print "| file | what |"
        print "|---|---|"
        for (i = 1; i <= count; i++) {
            file = files[i]
            if (file ~ /\.h$/ && base_of(file) in source) continue
            text = first_comment(folder file)
            if (text == "" && file in header) text = first_comment(folder header[file])
            if (text == "") { print folder file " does not begin with a comment" >"/dev/stderr"; failed = 1 }
            name = "`" file "`"
            if (file in header) { short = header[file]; sub(/.*\//, "", short); name = name ", `" short "`" }
            print "| " name " | " cell(first_sentence(text)) " |"
        }
        exit failed
    }'

for room in "${rooms[@]}"; do
    guide=src/$room/README.md
    room_files "$room" | awk -v folder="src/$room/" "$table" >"$made" || status=1
    awk -v begin="$begin" -v end="$end" -v made="$made" '
        $0 == begin { print; while ((getline line <made) > 0) print line; inside = 1; found++ }
        $0 == end { inside = 0; found++ }
        !inside
        END { exit found != 2 }' "$guide" >"$guide_made" || { echo "$guide needs one line \"$begin\" and, after it, one \"$end\"" >&2; status=1; continue; }
    cmp -s "$guide_made" "$guide" && continue
    if [ -n "$check" ]; then
        echo "$guide does not have the table that tools/make_maps.sh writes:"
        diff "$guide" "$guide_made" | grep '^[<>]' | head -4
        status=1
    else
        cat "$guide_made" >"$guide"
    fi
done
exit $status
