# Makes the table of characters, unicode_table.c, of src/text/unicode/categories.txt.
#   awk -v output=FILE.c -f unicode.awk unicode.h categories.txt            (the header has the names of the categories)
# Every code point below the limit gets two bits: 0 other, 1 letter (category L*), 2 number (N*), 3 White_Space. Blocks
# of 128 code points that are equal are stored once. The categories follow as ranges: the first code point times 32,
# plus the number of the category.
function hex(text,   i, value) {
    value = 0
    for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789ABCDEF", substr(text, i, 1)) - 1
    return value
}
# Ends the range before `next_cp`.
function range(next_cp,   class, cp) {
    class = category ~ /^L/ ? 1 : category ~ /^N/ ? 2 : category ~ /^Z/ ? 3 : 0
    if (class == 0) return
    for (cp = begin; cp < next_cp; cp++) class_of[cp] = class
    last = next_cp - 1
}
FILENAME ~ /\.h$/ {
    if ($2 == "MEGA_CATEGORY_NAMES") names = substr($3, 2, length($3) - 2)
    next
}
/^#/ { next }
{
    for (i = 1; i <= NF; i += 2) {
        if (count > 0) range(hex($i))
        begin = hex($i); category = $(i + 1)
        number = index(names, category)
        if (number % 2 == 0) { print FILENAME ":" FNR ": error: no category " category >"/dev/stderr"; exit failed = 1 }
        ranges = ranges (count++ % 20 == 0 ? "\n    " : "") (begin * 32 + (number - 1) / 2) ","
    }
}
END {
    if (failed) exit 1
    range(1114112)
    for (cp = 9; cp <= 13; cp++) class_of[cp] = 3 # the controls of White_Space; the rest of it is Z*
    class_of[133] = 3
    blocks = int(last / 128) + 1
    for (b = 0; b < blocks; b++) {
        row = ""
        for (i = 0; i < 32; i++) {
            byte = 0
            for (k = 3; k >= 0; k--) byte = byte * 4 + class_of[b * 128 + i * 4 + k]
            row = row (i == 0 ? "" : ",") byte
        }
        if (!(row in row_number)) { row_number[row] = unique + 0; rows = rows "    {" row "},\n"; unique++ }
        block = block row_number[row] ","
    }
    if (unique > 256) { print "more than 256 different blocks; widen mega_unicode_block" >"/dev/stderr"; exit 1 }
    printf "/* Made of src/text/unicode/categories.txt by cmake/unicode.awk. */\n#include \"unicode.h\"\n" >output
    printf "const uint32_t mega_unicode_limit = %d;\n", blocks * 128 >output
    printf "const uint8_t mega_unicode_block[] = {%s};\n", block >output
    printf "const uint8_t mega_unicode_classes[][32] = {\n%s};\n", rows >output
    printf "const int mega_unicode_ranges_count = %d;\nconst uint32_t mega_unicode_ranges[] = {%s\n};\n", count, ranges >output
}
