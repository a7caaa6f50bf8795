#!/usr/bin/env bash
# kill -9 at many moments of preprocess_data and of data merge over an older pair: the pair is the old one, the new one, and
# never anything else; nothing is left behind by the next run. Half of the time a second process works on the same prefix:
# it is refused, or goes on after the first was killed, and is killed at some moment, too.
#
#   MEGA_KILLS=N (default 12) kills; `make crash` asks for 1,000
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
kills=${MEGA_KILLS:-12}
# Three inputs with .bin files of one size, so that a mixture would open; it is found by comparing all bytes.
seq 100001 300000 | sed 's/.*/{"text": "document & of a long input, & & &"}/' >input0.jsonl
tac input0.jsonl | sed 's/ of a long input,/ of a long inpet,/' >input1.jsonl
sed 's/ a long input, / A LONG INPUT, /' input0.jsonl >input2.jsonl
make_pair() { # INPUT PREFIX
    exec "$MEGALITH" preprocess_data --tokenizer-type ByteTokenizer --input "input$1.jsonl" --output-prefix "$2" --workers 2
}
merge_pair() { exec "$MEGALITH" data merge --input "whole$1_text_document" "whole$((($1 + 1) % 3))_text_document" --output-prefix m_text_document; }
begin=$(date +%s%N)
for n in 0 1 2; do (make_pair $n whole$n) >log 2>&1 || fail "the whole run $n"; done
took=$((($(date +%s%N) - begin) / 3000000))
for n in 0 1 2; do (merge_pair $n) >log 2>&1 && mv m_text_document.bin merged$n.bin && mv m_text_document.idx merged$n.idx || fail "the whole merge $n"; done
[ "$(stat -c %s whole0_text_document.bin)" = "$(stat -c %s whole1_text_document.bin)" ] || fail "the inputs differ in length"

# is_one PREFIX KIND: the pair is KIND0, KIND1 or KIND2; which one goes to $found
is_one() {
    "$MEGALITH" data verify "$1_text_document" >log 2>&1 || fail "after kill $killed: no whole pair: $(cat log)"
    for found in 0 1 2; do cmp -s "$1_text_document.idx" "$2$found$3.idx" && cmp -s "$1_text_document.bin" "$2$found$3.bin" && return; done
    ls -l "$1"_text_document*
    fail "after kill $killed: a pair that is none of the three"
}
milliseconds() { sleep "$(awk -v t="$1" 'BEGIN { printf "%.3f", t / 1000 }')"; }
killed=0
kept=0
replaced=0
turned_away=0
went_on=0
kill_it() { # PID: whether it lived to be killed
    kill -9 "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    [ $? -eq 137 ]
}
# one COMMAND PREFIX KIND ENDING: a round of kills
one() {
    local old new=$(((was + 1) % 3)) other=$(((was + 2) % 3)) i=$round at percent pid second=
    ("$1" $new "$2") >log1 2>&1 &
    pid=$!
    # half of the moments lie anywhere, half around the end of a usual run, where files get their names
    percent=$((i % 2 == 0 ? RANDOM % 85 : 85 + RANDOM % 25))
    at=$((span * percent / 100))
    if [ $((RANDOM % 2)) -eq 0 ]; then
        milliseconds $((at / 2))
        ("$1" $other "$2") >log2 2>&1 &
        second=$!
        milliseconds $((at - at / 2))
    else
        milliseconds "$at"
    fi
    killed=$((killed + 1))
    # the machine's speed changes
    if kill_it $pid; then
        if [ $percent -gt 100 ]; then span=$((span * 21 / 20 + 1)); fi
    elif [ $percent -lt 100 ] && [ "$span" -gt 20 ]; then
        span=$((span * 19 / 20))
    fi
    if [ -n "$second" ]; then
        milliseconds $((RANDOM % (span / 4 + 2)))
        if kill_it $second; then
            went_on=$((went_on + 1))
            killed=$((killed + 1))
        elif grep -q 'error:' log2; then
            grep -q "error: .*data set $2_text_document: process $pid on host $(hostname) has been writing there since" log2 || fail "refused for another reason: $(cat log2)"
            turned_away=$((turned_away + 1))
        fi
    fi
    is_one "$2" "$3" "$4"
    old=$was
    was=$found
    if [ "$was" = "$old" ]; then kept=$((kept + 1)); else replaced=$((replaced + 1)); fi
    [ $((round % 100)) -ne 0 ] || echo "$killed kills, $kept times the old pair, $replaced times a new one, $turned_away second writers refused; a run takes $span ms"
}
run_rounds() { # COMMAND PREFIX KIND ENDING SPAN KILLS
    span=$5
    was=0
    killed=0
    for round in $(seq 1 "$6"); do
        [ "$killed" -lt "$6" ] || break
        one "$1" "$2" "$3" "$4"
    done
    # What killed runs left does not stand in the way of the next, and is gone after it.
    ("$1" 1 "$2") >log 2>&1 || fail "the run after the kills"
    is_one "$2" "$3" "$4"
    [ "$found" = 1 ] || fail "the run after the kills left another pair"
    [ "$(ls "$2"_text_document* | wc -l)" -eq 2 ] || fail "left behind: $(ls "$2"_text_document*)"
    total=$((total + killed))
}
total=0
cp whole0_text_document.bin k_text_document.bin
cp whole0_text_document.idx k_text_document.idx
cp merged0.bin m_text_document.bin
cp merged0.idx m_text_document.idx
run_rounds make_pair k whole _text_document "$took" $((kills * 3 / 4))
run_rounds merge_pair m merged "" 60 $((kills / 4))
[ "$kept" -gt 0 ] || fail "no run was cut (a run takes $span ms)"
[ "$turned_away" -gt 0 ] || [ "$kills" -lt 100 ] || fail "no second writer was refused"

# A signal that can be answered leaves nothing at all.
rm -f k_text_document.*
mkfifo pipe
"$MEGALITH" preprocess_data --tokenizer-type ByteTokenizer --input - --output-prefix t <pipe >/dev/null 2>err &
pid=$!
exec 3>pipe
head -c 3000000 input0.jsonl >&3
for _ in $(seq 1 100); do
    compgen -G 't_text_document.bin.tmp-*' >/dev/null && break
    sleep 0.02
done
# Meanwhile nobody else writes there.
refuses "a second preprocess_data" "data set t_text_document: process $pid on host $(hostname) has been writing there since 20|choose another --output-prefix" \
    preprocess_data --tokenizer-type ByteTokenizer --input input0.jsonl --output-prefix t
refuses "a merge to the same prefix" "data set t_text_document: process $pid on host $(hostname)" data merge whole0_text_document --output-prefix t_text_document
kill -TERM "$pid"
wait "$pid" && fail "status 0 for an interrupted run"
exec 3>&-
grep -q 'interrupted' err || fail "no word of the interruption: $(cat err)"
ls t_text_document* >/dev/null 2>&1 && fail "files left behind by an interrupted run: $(ls)"
echo "$total kills: $kept times the old pair was there, $replaced times a new one; $turned_away second writers refused, $went_on went on and were killed"
finish
