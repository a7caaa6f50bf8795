#!/usr/bin/env bash
# kill -9 at many moments of preprocess_data and of data merge that replace an older pair. Afterwards the pair is the
# old or the new one, never a mixture, and the next run leaves no temporary files. Half of the time a second process
# works on the same prefix: it is refused, or continues after the first was killed, and is killed at some moment too.
#
#   MEGA_KILLS=N (default 6) kills of each command; `make crash` sets 1,000
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/kills.sh"
kills=${MEGA_KILLS:-6}
# Three inputs whose .bin files have the same size, so that a mixture could be opened; comparing all bytes detects it.
seq 100001 300000 | sed 's/.*/{"text": "document & of a long input, & & &"}/' >input0.jsonl
tac input0.jsonl | sed 's/ of a long input,/ of a long inpet,/' >input1.jsonl
sed 's/ a long input, / A LONG INPUT, /' input0.jsonl >input2.jsonl
make_pair() { # INPUT PREFIX
    exec "$MEGALITH" preprocess_data --tokenizer-type ByteTokenizer --input "input$1.jsonl" --output-prefix "$2" \
        --workers 2
}
merge_pair() { exec "$MEGALITH" data merge --input "whole$1_text_document" "whole$((($1 + 1) % 3))_text_document" \
    --output-prefix "$2_text_document"; }
begin=$(date +%s%N)
for n in 0 1 2; do (make_pair $n whole$n) >log 2>&1 || fail "the whole run $n"; done
took=$((($(date +%s%N) - begin) / 3000000 + 1))
begin=$(date +%s%N)
for n in 0 1 2; do (merge_pair $n merged$n) >log 2>&1 || fail "the whole merge $n"; done
took_merge=$((($(date +%s%N) - begin) / 3000000 + 1))
[ "$(stat -c %s whole0_text_document.bin)" = "$(stat -c %s whole1_text_document.bin)" ] ||
    fail "the inputs differ in length"

# rounds_of COMMAND KIND: kills COMMAND while it replaces the pair k; the correct results are the pairs KIND0, KIND1 and
# KIND2
rounds_of() {
    command=$1
    kind=$2
    lock=k_text_document.lock
    subject="data set k_text_document"
    was=0
    for ending in bin idx; do cp "${kind}0_text_document.$ending" "k_text_document.$ending"; done
    kill_rounds "$kills"
    [ "$(ls k_text_document* | grep -vc 'tokenizer$')" -eq 2 ] || fail "left behind: $(ls k_text_document*)"
}
make_one() { $command "$1" k; }
look() {
    "$MEGALITH" data verify k_text_document >log 2>&1 || fail "after kill $killed: no whole pair: $(cat log)"
    for found in 0 1 2; do
        cmp -s k_text_document.idx "$kind${found}_text_document.idx" &&
            cmp -s k_text_document.bin "$kind${found}_text_document.bin" && return
    done
    fail "after kill $killed: a pair that is none of the three: $(ls -l k_text_document*)"
}
span=$took
rounds_of make_pair whole
span=$took_merge
rounds_of merge_pair merged

# After a signal that the program can handle there are no temporary files.
rm -f k_text_document.*
mkfifo pipe
"$MEGALITH" preprocess_data --tokenizer-type ByteTokenizer --input - --output-prefix t <pipe >/dev/null 2>err &
pid=$!
exec 3>pipe
head -c 3000000 input0.jsonl >&3
until compgen -G 't_text_document.bin.tmp-*' >/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
# While it runs, no other process writes there.
refuses "a second preprocess_data" \
    "data set t_text_document: process $pid on host $host has been writing there since 20|choose another --output-prefix" \
    preprocess_data --tokenizer-type ByteTokenizer --input input0.jsonl --output-prefix t
refuses "a merge to the same prefix" "data set t_text_document: process $pid on host $host" data merge \
    whole0_text_document --output-prefix t_text_document
kill -TERM "$pid"
wait "$pid" && fail "status 0 for an interrupted run"
exec 3>&-
grep -q 'interrupted' err || fail "no word of the interruption: $(cat err)"
ls t_text_document* >/dev/null 2>&1 && fail "files left behind by an interrupted run: $(ls)"
finish
