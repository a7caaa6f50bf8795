#!/usr/bin/env bash
# kill -9 at many moments: there is never a pair that opens and is not the whole one.
#
#   MEGA_KILLS=N (default 12) kills; `make crash` asks for 1,000
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
seq 1 400000 | sed 's/.*/{"text": "document & of a long input, & & &"}/' >a.jsonl
args=(preprocess_data --tokenizer-type ByteTokenizer --input a.jsonl --output-prefix k --workers 2)
begin=$(date +%s%N)
"$MEGALITH" "${args[@]}" >/dev/null 2>&1 || fail "the whole run"
took=$((($(date +%s%N) - begin) / 1000000))
mv k_text_document.bin whole.bin
mv k_text_document.idx whole.idx

check() {
    if "$MEGALITH" data verify k_text_document >/dev/null 2>&1; then
        cmp -s k_text_document.bin whole.bin && cmp -s k_text_document.idx whole.idx || fail "a pair opens that is not whole"
        whole=$((whole + 1))
    else
        [ -e k_text_document.idx ] && fail "an index that cannot be read"
        cut=$((cut + 1))
    fi
}
whole=0
cut=0
for i in $(seq 1 "${MEGA_KILLS:-12}"); do
    rm -f k_text_document.*
    "$MEGALITH" "${args[@]}" >/dev/null 2>&1 &
    pid=$!
    # moments from the start to a little behind the usual end
    sleep "$(awk -v t="$took" -v i="$i" 'BEGIN { printf "%.3f", t * (1 + i % 12 * 0.99 + i % 97 / 97) / 10 / 1000 }')"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    # The machine's speed changes: a run that was over has become shorter, one that lived past its end longer.
    if [ $? -ne 137 ]; then took=$((took * 4 / 5 + 1)); elif [ $((i % 12)) -ge 10 ]; then took=$((took * 6 / 5)); fi
    check
    [ $((i % 100)) -ne 0 ] || echo "$i kills, $cut times no pair; a run takes $took ms"
done
[ "$cut" -gt 0 ] || fail "no run was cut (a run takes $took ms)"

# A signal that can be answered leaves nothing at all.
rm -f k_text_document.*
mkfifo pipe
"$MEGALITH" preprocess_data --tokenizer-type ByteTokenizer --input - --output-prefix t <pipe >/dev/null 2>err &
pid=$!
exec 3>pipe
head -c 3000000 a.jsonl >&3
for _ in $(seq 1 100); do
    [ -e t_text_document.bin.tmp ] && break
    sleep 0.02
done
kill -TERM "$pid"
wait "$pid" && fail "status 0 for an interrupted run"
exec 3>&-
grep -q 'interrupted' err || fail "no word of the interruption: $(cat err)"
ls t_text_document* >/dev/null 2>&1 && fail "files left behind by an interrupted run: $(ls)"
# What a killed run left does not stand in the way of the next.
"$MEGALITH" "${args[@]}" >/dev/null 2>&1 || fail "the run after"
check
[ "$whole" -gt 0 ] || fail "no whole pair at the end"
echo "${MEGA_KILLS:-12} kills: $cut times no pair opened, $((whole - 1)) times the whole one was there"
