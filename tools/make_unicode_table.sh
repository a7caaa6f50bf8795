#!/bin/sh
# usage: tools/make_unicode_table.sh FOLDER > src/text/unicode/categories.txt
# FOLDER holds UnicodeData.txt and PropList.txt of the version that `tokenizers` and `tiktoken` know, now 16.0 (Debian:
# unicode-data, /usr/share/unicode, of that version). The build makes C of it (cmake/unicode.awk).
set -eu
folder=${1:?the folder of UnicodeData.txt and PropList.txt}
for file in UnicodeData.txt PropList.txt; do
    [ -r "$folder/$file" ] || { echo "$folder/$file: not found; install it with: apt-get install unicode-data" >&2; \
        exit 1; }
done
version=$(sed -n '1s/.*PropList-\([0-9.]*\)\.txt.*/\1/p' "$folder/PropList.txt")

awk -F ';' -v version="$version" '
function hex(text,    i, value) {
    value = 0
    for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789ABCDEF", toupper(substr(text, i, 1))) - 1
    return value
}
function put(cp, category,    item) {
    item = sprintf("%04X %s", cp, category)
    if (length(line) + length(item) > 118) { print line; line = "" }
    line = line (line == "" ? "" : "  ") item
    open = category
}
BEGIN {
    print "# The general categories of Unicode " version ", made by tools/make_unicode_table.sh: each from a code point to the next"
    print "# one. cmake/unicode.awk makes C of it."
}
{
    cp = hex($1)
    if ($2 ~ /, First>$/) { first = cp; next }
    from = $2 ~ /, Last>$/ ? first : cp
    if (from > next_cp && open != "Cn") put(next_cp, "Cn") # code points between two lines are not assigned
    if ($3 != open) put(from, $3)
    next_cp = cp + 1
}
END {
    if (next_cp < 1114112) put(next_cp, "Cn")
    print line
}' "$folder/UnicodeData.txt"
