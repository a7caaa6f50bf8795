# Compares what a page shows with what its commands printed.
#
#   awk [-v sections=1] [-v ranks=1] -f page_prints.awk LOG PAGE
#
# Each line of a ```text block of PAGE must be a line of LOG, where runs of blanks are one blank, "…" stands for anything, and a
# line "..." or "…" for lines that are left out. Numbers must agree:
#   - a whole number is equal; a number with a point or an exponent agrees within 2 %, or 1 in the last digit that is shown;
#   - ```text within 5 %: all numbers of the block, whole ones too, agree within 5 %;
#   - ```text exact: times and rates too, which are computed and not measured;
#   - dates, times and rates are free: a number with such a unit after it (ms, s, tokens/s) or with such a name before it ("elapsed time");
#   - ```text free: samples/s held: the columns of a table with these headings are free.
# ```text needs FILE is left out where there is no FILE. With sections=1 a block is compared with what was printed between the lines
# "@@ ## HEADING" of its section; with ranks=1 a prefix "rank 0: " of printed lines is taken away.
# Prints each line of the page that was not printed, with the line that differs from it in the fewest numbers, and exits with 1.

# Splits text into plain[key], in which each number is "#", and number[key, 1…n], before[key, i], after[key, i]; returns n.
function split_line(text, key,    n, rest, shown, i) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    gsub(/#/, "\001", text)
    gsub(/[0-9]+\/[0-9]+\/[0-9]+ [0-9]+:[0-9]+:[0-9]+/, "DATE", text)
    rest = text
    shown = ""
    while (match(rest, /[0-9]+(,[0-9][0-9][0-9])*(\.[0-9]+)?([Ee][-+]?[0-9]+)?/)) {
        n++
        before[key, n] = (n > 1 ? "" : shown) substr(rest, 1, RSTART - 1)
        if (n > 1) after[key, n - 1] = substr(rest, 1, RSTART - 1)
        number[key, n] = substr(rest, RSTART, RLENGTH)
        shown = shown substr(rest, 1, RSTART - 1) "#"
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (n > 0) after[key, n] = rest
    plain[key] = shown rest
    return n + 0
}

function is_free(i,    label) {
    if (i in free_number) return 1
    if (exact) return 0
    if (after["w", i] ~ /^ ?(ms|us|s|sec|seconds?|minutes?|hours?|h|[A-Za-z]*\/s|GFLOPS|TFLOPS)([^A-Za-z_]|$)/) return 1
    label = before["w", i]
    if (i > 1) sub(/^ ?[A-Za-z]*\/s/, "", label) # the unit of the number before
    sub(/^.*[|,;]/, "", label)
    if (label ~ /\/s([^A-Za-z|,;#][^|,;#]*)?$/) return 1
    return label ~ /([Tt]ime|[Ll]atency|[Ee]lapsed|[Ss]peed|per second|tput|busbw|\((ms|s|sec)\))[^|,;#]*$/
}

function agree(a, b, i,    d, most, digit, point) {
    if (a == b || is_free(i)) return 1
    gsub(/,/, "", a)
    gsub(/,/, "", b)
    d = a - b
    if (d < 0) d = -d
    most = a + 0 > b + 0 ? a + 0 : b + 0
    if (within != "") return d <= within / 100 * most
    if (a !~ /[.Ee]/ || b !~ /[.Ee]/) return a + 0 == b + 0 && length(a) == length(b)
    digit = 0
    if (a !~ /[Ee]/ && (point = index(a, "."))) digit = 10 ^ -(length(a) - point)
    return d <= 0.02 * most || d <= digit * 1.0001
}

function count_numbers(text) { return gsub(/#/, "", text) }

# Returns how many numbers of the line `key` differ from what is wanted; -1 if its text differs.
function differences(key,    i, k, at, rest, seen, used, others) {
    if (pieces == 1 && plain[key] != plain["w"]) return -1
    rest = plain[key]
    if (piece[1] != "" && index(rest, piece[1]) != 1) return -1
    for (i = 1; i <= pieces; i++) {
        if (piece[i] == "") continue
        if (!(at = index(rest, piece[i]))) return -1
        seen += count_numbers(substr(rest, 1, at - 1))
        k = count_numbers(piece[i])
        for (; k > 0; k--) if (!agree(number["w", ++used], number[key, ++seen], used)) others++
        rest = substr(rest, at + length(piece[i]))
    }
    return piece[pieces] == "" || rest == "" ? others + 0 : -1
}

# Marks the numbers of the wanted line that stand in columns which the block calls free.
function mark_free(text,    word, n, i, before_it) {
    split("", free_number)
    n = split(text, word, " ")
    before_it = 0
    for (i = 1; i <= n; i++) {
        if (i in free_column && word[i] ~ /[0-9]/) free_number[before_it + 1] = 1
        before_it += gsub(/[0-9]+(,[0-9][0-9][0-9])*(\.[0-9]+)?([Ee][-+]?[0-9]+)?/, "", word[i])
    }
}

function find_columns(text,    word, n, i) {
    if (free == "") return
    n = split(text, word, " ")
    for (i = 1; i <= n; i++) if (index(" " free " ", " " word[i] " ")) free_column[i] = 1
}

function compare(text,    i, others, least, near) {
    find_columns(text)
    mark_free(text)
    split_line(text, "w")
    pieces = split(plain["w"], piece, / ?… ?/)
    for (i = 0; i < count[section]; i++) {
        others = differences(section SUBSEP i)
        if (others == 0) return
        if (others > 0 && (near == "" || others < least)) {
            near = line[section, i]
            least = others
        }
    }
    print FILENAME ":" FNR ": not printed: " text
    if (near != "") print "    printed: " near
    failed = 1
}

FNR == 1 { file++ }
file == 1 && sections && /^@@ / { section = substr($0, 4); next }
file == 1 {
    if (ranks) sub(/^rank [0-9]+: /, "")
    i = count[section]++
    line[section, i] = $0
    split_line($0, section SUBSEP i)
    next
}
file == 2 && FNR == 1 { section = "" }
sections && /^## / && !on { section = $0 }
/^```text/ {
    head = substr($0, 8)
    on = !match(head, /needs [^ ]+/) || (getline text < substr(head, RSTART + 6, RLENGTH - 6)) >= 0
    exact = head ~ / exact/
    within = match(head, /within [0-9.]+/) ? substr(head, RSTART + 7, RLENGTH - 7) : ""
    free = match(head, /free: [^,]+/) ? substr(head, RSTART + 6, RLENGTH - 6) : ""
    split("", free_column)
    next
}
/^```/ { on = 0; next }
on && $0 != "..." && $0 !~ /^ *…$/ { compared++; compare($0) }
END {
    if (sections) print compared + 0 " lines compared"
    exit failed
}
