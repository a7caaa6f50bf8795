#!/bin/sh
# usage: tools/make_unicode_table.sh FOLDER > src/text/unicode/unicode_table.c
# FOLDER holds UnicodeData.txt and PropList.txt of the version that `tokenizers` and `tiktoken` know, now 16.0 (Debian:
# unicode-data, /usr/share/unicode, of that version). Every code point below the limit gets two bits: 0 other, 1 letter
# (category L*), 2 number (N*), 3 White_Space. Blocks of 128 code points that are equal are stored once. The general
# categories follow as ranges: the first code point times 32, plus the number of the category.
set -eu
folder=${1:?the folder of UnicodeData.txt and PropList.txt}
for file in UnicodeData.txt PropList.txt; do
    [ -r "$folder/$file" ] || { echo "$folder/$file: not found; install it with: apt-get install unicode-data" >&2; \
        exit 1; }
done
version=$(sed -n '1s/.*PropList-\([0-9.]*\)\.txt.*/\1/p' "$folder/PropList.txt")

awk -v version="$version" -v names=LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn '
function hex(text,    i, value) {
    value = 0
    for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789ABCDEF", toupper(substr(text, i, 1))) - 1
    return value
}
function mark(from, to, class,    cp) {
    for (cp = from; cp <= to; cp++) class_of[cp] = class
    if (to > last) last = to
}
function put_range(from, category) {
    ranges = ranges (count % 20 == 0 ? "\n    " : "") sprintf("%d,", from * 32 + (index(names, category) - 1) / 2)
    count++
}
# Code points between two lines of the file are not assigned.
function categorize(from, to, category) {
    if (from > next_cp && open != "Cn") { put_range(next_cp, "Cn"); open = "Cn" }
    if (category != open) put_range(from, category)
    open = category
    next_cp = to + 1
}
FILENAME ~ /UnicodeData/ {
    split($0, field, ";")
    cp = hex(field[1])
    if (field[2] ~ /, First>$/) { first = cp; next }
    from = field[2] ~ /, Last>$/ ? first : cp
    categorize(from, cp, field[3])
    if (field[3] ~ /^L/) mark(from, cp, 1)
    else if (field[3] ~ /^N/) mark(from, cp, 2)
    next
}
/^[0-9A-F.]+ *; White_Space/ {
    split($1, range, /\.\./)
    mark(hex(range[1]), range[2] == "" ? hex(range[1]) : hex(range[2]), 3)
}
END {
    blocks = int(last / 128) + 1
    for (b = 0; b < blocks; b++) {
        row = ""
        for (i = 0; i < 32; i++) {
            byte = 0
            for (k = 3; k >= 0; k--) byte = byte * 4 + class_of[b * 128 + i * 4 + k]
            row = row (i == 0 ? "" : ",") byte
        }
        if (!(row in number)) { number[row] = unique; rows[unique++] = row }
        block[b] = number[row]
    }
    if (unique > 256) { print "more than 256 different blocks; widen mega_unicode_block" > "/dev/stderr"; exit 1 }
    printf "/* Made by tools/make_unicode_table.sh from Unicode %s; do not edit. */\n", version
    print "#include \"unicode.h\"\n\n/* clang-format off */"
    printf "const uint32_t mega_unicode_limit = 0x%X;\n\n", blocks * 128
    printf "const uint8_t mega_unicode_block[] = {"
    for (b = 0; b < blocks; b++) printf "%s%d,", b % 32 == 0 ? "\n    " : "", block[b]
    print "\n};\n"
    print "const uint8_t mega_unicode_classes[][32] = {"
    for (u = 0; u < unique; u++) printf "    {%s},\n", rows[u]
    print "};\n"
    if (next_cp < 1114112) put_range(next_cp, "Cn")
    printf "const int mega_unicode_ranges_count = %d;\n\nconst uint32_t mega_unicode_ranges[] = {%s\n};\n", count, ranges
}' "$folder/UnicodeData.txt" "$folder/PropList.txt"
