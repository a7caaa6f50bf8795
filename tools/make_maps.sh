#!/usr/bin/env bash
# Writes the table of files in the guide of each room, src/ROOM/README.md, between its two markers: a row for each
# source file outside of tests/, with the first sentence of the file's first comment. A header shares the row of the
# source file of its name in the same folder, a body that of the file that includes it, a kernel of cpu/ or cuda/ that of
# the plain one; a public header has a row of its own. A file whose first comment is missing is a mistake. A table
# (src/foreign/*.txt) is a source file too.
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
    function base_of(path) { sub(/\.(c|h|cu)$/, "", path); return path }
    function folder_of(path) { return match(path, /^.*\//) ? substr(path, 1, RLENGTH) : "" }
    # The file in whose row this one stands: itself, the source of a header, the file to which a body belongs, or the
    # plain kernel, which defines what the others of its name compute.
    function owner_of(path,   base, name) {
        base = base_of(path)
        if (path ~ /\.h$/) return (base ".c") in is_file ? base ".c" : path
        sub(/_body$/, "", base)
        name = substr(base, length(folder_of(base)) + 1)
        if (path ~ /^(cpu|cuda)\// && ("plain/" name ".c") in is_file) return "plain/" name ".c"
        return (base ".c") in is_file ? base ".c" : (base ".cu") in is_file ? base ".cu" : path
    }
    { files[++count] = $0; is_file[$0] = 1 }
    END {
        for (i = 1; i <= count; i++) {
            file = files[i]
            owner = owner_of(file)
            if (owner == file) continue
            text = file
            if (folder_of(file) == folder_of(owner)) sub(/.*\//, "", text)
            shares[owner] = shares[owner] ", `" text "`"
            if (file ~ /\.h$/) header[owner] = file
        }
        print "| file | what |"
        print "|---|---|"
        for (i = 1; i <= count; i++) {
            file = files[i]
            text = first_comment(folder file)
            if (text == "" && file in header) text = first_comment(folder header[file])
            if (text == "") { print folder file " does not begin with a comment" >"/dev/stderr"; failed = 1 }
            if (owner_of(file) != file) continue
            text = first_sentence(text)
            if (file in shares) sub(/: plain kernels?/, "", text)
            print "| `" file "`" shares[file] " | " cell(text) " |"
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
