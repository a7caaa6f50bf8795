#!/usr/bin/env bash
# kill -9 at many moments of train_tokenizer over an older tokenizer: the pair of vocab.json and merges.txt is the old one,
# the new one, or lacks vocab.json; tokenizer.json is the old or the new one; what is left behind does not pile up. Half of
# the time a second process writes to the same folder: it is refused, or goes on after the first was killed, and is killed, too.
#
#   MEGA_KILLS=N (default 20) kills
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
kills=${MEGA_KILLS:-20}
for i in $(seq 1 3000); do echo "line $i: a quick fox $((i * 7919 % 100000)) jumps over $((i * 104729 % 99991)) dogs"; done >t.txt
learn() { exec "$MEGALITH" train_tokenizer --input t.txt --vocab-size "$1" --output "$2" --workers 1; }
(learn 300 old) >log 2>&1 || fail "an old tokenizer"
begin=$(date +%s%N)
(learn 700 new) >log 2>&1 || fail "a new tokenizer"
span=$((($(date +%s%N) - begin) / 1000000 + 1))
old=0
new=0
refused=0
cp -r old out
for i in $(seq 1 "$kills"); do
    (learn 700 out) >log 2>&1 &
    pid=$!
    moment=$((span * (i % 24) / 20)) # from the start to a little behind the usual end
    second=
    if [ $((RANDOM % 2)) -eq 0 ]; then
        sleep "$(printf '%d.%03d' $((moment / 2000)) $((moment / 2 % 1000)))"
        (learn 700 out) >log2 2>&1 &
        second=$!
        moment=$((moment - moment / 2))
    fi
    sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    rc=$?
    if [ -n "$second" ]; then
        kill -9 "$second" 2>/dev/null
        wait "$second" 2>/dev/null
        if [ $? -eq 1 ]; then
            grep -q "error: --output out: process $pid on host $(hostname) has been writing there since" log2 || fail "refused for another reason: $(cat log2)"
            refused=$((refused + 1))
        fi
    fi
    # The machine's speed changes: a run that was over has become shorter, one that lived past its end longer.
    if [ $rc -ne 137 ]; then span=$((span * 4 / 5 + 1)); elif [ -z "$second" ] && [ "$moment" -gt "$span" ]; then span=$moment; fi
    if [ ! -e out/vocab.json ]; then
        "$MEGALITH" tokenize --vocab-file out/vocab.json --merge-file out/merges.txt --text a >log 2>&1 && fail "a tokenizer without its vocabulary"
    elif cmp -s out/vocab.json old/vocab.json; then
        cmp -s out/merges.txt old/merges.txt && cmp -s out/tokenizer.json old/tokenizer.json || fail "an old vocab.json beside new files"
        old=$((old + 1))
    else
        diff -rq --exclude='*.tmp-*' out new >/dev/null || fail "a new vocab.json beside old files"
        new=$((new + 1))
        rm -rf out
        cp -r old out
    fi
    [ "$(ls out | wc -l)" -le 8 ] || fail "leftovers pile up"
done
(learn 700 out) >log 2>&1 || fail "the run after the last kill"
diff -rq out new >/dev/null || fail "another tokenizer after the kills"
[ -z "$(find . -maxdepth 1 -name 'out.*')" ] || fail "left behind: $(ls)"
[ "$refused" -gt 0 ] || [ "$kills" -lt 20 ] || fail "no second process was refused"
[ "$old" -gt 0 ] || fail "no run was cut (a run takes $span ms)"
echo "$kills kills: $old times the old tokenizer was left, $new times the new one; $refused second processes refused"
exit 0
