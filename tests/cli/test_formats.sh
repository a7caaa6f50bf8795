#!/usr/bin/env bash
# docs/formats.md describes files byte by byte. Runs the commands of the page, then checks the files that they write
# against its tables:
#   "Bytes of `FILE`": a value of the given type is at each offset (an expression that may use names of earlier rows).
#                      If the last column is not empty, it has this value. The offset of a row of type `end` is the size
#                      of the file.
#   "Keys of `FILE`":  the file has all keys of the table (except those marked optional) and no others at the outermost
#                      level
#   "Lines of `FILE`": each line begins as the row says, and there are no others; a row … means any number of lines
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
megalith_on_path
page=$MEGA_SOURCE/docs/formats.md
awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$page" >example.sh
bash -euo pipefail example.sh >out 2>&1 </dev/null || fail "the commands of the page"
rm out

# offset TAB type TAB name TAB value for the rows of a table of bytes; without back quotes
values=0
read_value() { # FILE OFFSET TYPE COUNT: numbers of FILE on one line
    local size kind
    case $3 in
    u8) kind=u1 size=1 ;;
    u16) kind=u2 size=2 ;;
    u32) kind=u4 size=4 ;;
    u64) kind=u8 size=8 ;;
    i32) kind=d4 size=4 ;;
    i64) kind=d8 size=8 ;;
    *) return 1 ;;
    esac
    [ $(($2 + size * $4)) -le "$(stat -c %s "$1")" ] || return 1
    od -An -v -w65536 --endian=little -t $kind -j "$2" -N $((size * ($4 < 8 ? $4 : 8))) "$1" | tr -s ' ' | sed 's/^ //'
}
check_bytes() { # LINE FILE OFFSET TYPE NAME VALUE
    local line=$1 file=$2 offset=$(($3)) type=$4 name=$5 value=$6 count=1 found
    case $type in
    end)
        [ "$(stat -c %s "$file")" = "$offset" ] ||
            note "line $line: $file has $(stat -c %s "$file") bytes, the page says $offset"
        ;;
    text*)
        count=$((${type#text }))
        cmp -s <(tail -c +$((offset + 1)) "$file" | head -c $count) <(printf '%b' "$value") ||
            note "line $line: $file has at $offset: $(tail -c +$((offset + 1)) "$file" | head -c $count | tr -d '\0')"
        ;;
    *)
        [[ $type != *' x '* ]] || count=$((${type#* x }))
        found=$(read_value "$file" $offset "${type%% *}" $count) ||
            note "line $line: $file ends before $count $type at $offset"
        [ -z "$value" ] || [[ "$found " == "$value "* ]] ||
            note "line $line: $file has $found at $offset, the page says $value"
        [ -z "$name" ] || declare -g "$name=$found"
        ;;
    esac
    values=$((values + 1))
}
keys_of() { # FILE: its outermost keys
    case $1 in
    *.jsonl) grep -oE '[{,] *"[a-z_]+":' "$1" | grep -oE '[a-z_]+' ;;
    *) awk 'match($0, /^[{ ]*"[A-Za-z_]+":/) {
            key = substr($0, RSTART, RLENGTH)
            before = index(key, "\"")
            if (least == 0 || before < least) { least = before; keys = "" }
            if (before == least) { gsub(/[{ ":]/, "", key); keys = keys key "\n" }
        }
        END { printf "%s", keys }' "$1" ;;
    esac | sort -u
}
check_table() { # KIND FILE ROWS(line TAB cells…)
    local kind=$1 file row line cells lines=0 keys=
    # shellcheck disable=SC2086  # a pattern
    file=$(ls -d $2 2>/dev/null | head -n 1)
    [ -f "$file" ] || { note "$2 of the page is not there"; return; }
    while IFS=$'\t' read -r line cells; do
        case $kind in
        Bytes)
            IFS=$'\x1f' read -r offset type what value _ <<<"$cells"
            local name=
            [[ $what =~ ^\`([A-Z])\`: ]] && name=${BASH_REMATCH[1]}
            value=$(sed 's/\\|/|/g' <<<"${value//\`/}")
            check_bytes "$line" "$file" "${offset//\`/}" "${type//\`/}" "$name" "$value"
            ;;
        Keys)
            while read -r key; do
                keys+="$key"$'\n'
                grep -qx -- "$key" <(keys_of "$file") || [[ $cells == *'(optional)'* ]] ||
                    note "line $line: $file has no key $key"
                values=$((values + 1))
            done < <(cut -d $'\x1f' -f 1 <<<"$cells" | grep -oE '`[A-Za-z_]+`' | tr -d '`')
            ;;
        Lines)
            row=$(cut -d $'\x1f' -f 1 <<<"$cells")
            [ "$row" = … ] && lines= && continue
            row=${row#\`}
            row=${row%\`}
            lines=$((lines + 1))
            [[ "$(sed -n ${lines}p "$file")" == "$row"* ]] ||
                note "line $line: line $lines of $file is $(sed -n ${lines}p "$file")"
            values=$((values + 1))
            ;;
        esac
    done <<<"$3"
    if [ "$kind" = Keys ]; then
        while read -r key; do
            grep -qx -- "$key" <<<"$keys" || note "$file has the key $key, which the page does not"
        done < <(keys_of "$file")
    fi
    [ "$kind" != Lines ] || [ -z "$lines" ] || [ "$lines" = "$(wc -l <"$file")" ] ||
        note "$file has $(wc -l <"$file") lines, the page $lines"
}
tables=0
while IFS=$'\t' read -r kind file rows; do
    check_table "$kind" "$file" "$(tr '\036' '\n' <<<"$rows")"
    tables=$((tables + 1))
done < <(awk '
    function flush_table() { if (rows != "") { sub(/\036$/, "", rows); printf "%s\t%s\t%s\n", kind, file, rows; kind = "" } rows = "" }
    /^(Bytes|Keys|Lines) of `[^`]+`/ { kind = $1; file = $0; sub(/^[A-Za-z]+ of `/, "", file); sub(/`.*/, "", file); next }
    kind != "" && /^\|/ {
        if ($0 ~ /^\|[-|]+$/ || $0 ~ /^\| (offset|key|line) \|/) next
        text = $0
        gsub(/\\\|/, "\035", text)
        sub(/^\| /, "", text)
        sub(/ *\|$/, "", text)
        gsub(/ *\| */, "\037", text)
        gsub("\035", "\\|", text)
        rows = rows NR "\t" text "\036"
        next
    }
    { flush_table() }
    END { flush_table() }' "$page")
[ "$tables" -ge 14 ] && [ "$values" -ge 90 ] || note "only $tables tables with $values values were found in $page"
echo "$tables tables, $values values"
finish
