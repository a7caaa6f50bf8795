#!/usr/bin/env bash
# kill -9 at many moments of train_tokenizer that replaces an older tokenizer. Afterwards its files are all old or all
# new, or vocab.json is missing; temporary files do not accumulate. Half of the time a second process writes another
# tokenizer to the same folder: it is refused, or continues after the first was killed, and is killed too.
#
#   MEGA_KILLS=N (default 20) kills; `make crash` asks for 1,000
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/kills.sh"
for i in $(seq 1 3000); do echo "line $i: a quick fox $((i * 7919 % 100000)) jumps over $((i * 104729 % 99991)) dogs"; \
    done >t.txt
learn() { exec "$MEGALITH" train_tokenizer --input "$3" --vocab-size "$1" --output "$2" --workers 1; }
size=(300 600 700)
begin=$(date +%s%N)
for n in 0 1 2; do (learn "${size[n]}" "whole$n" t.txt) >log 2>&1 || fail "a whole run"; done
span=$((($(date +%s%N) - begin) / 3000000 + 1))

make_one() { learn "${size[$1]}" out t.txt; }
look() {
    # temporary files of two dead processes and of a running one
    [ "$(ls out | wc -l)" -le $(($(ls whole0 | wc -l) * 4)) ] || fail "leftovers pile up: $(ls out)"
    found=none
    [ -e out/vocab.json ] || {
        "$MEGALITH" tokenize --vocab-file out/vocab.json --merge-file out/merges.txt --text a >log 2>&1 &&
            fail "a tokenizer without its vocabulary"
        return
    }
    for found in 0 1 2; do diff -rq --exclude='*.tmp-*' --exclude=train_tokenizer.lock out "whole$found" >/dev/null &&
        return; done
    fail "after kill $killed: a mixture: $(md5sum out/* whole?/*)"
}
lock=out/train_tokenizer.lock
subject="--output out"
was=0
cp -r whole0 out
kill_rounds "${MEGA_KILLS:-20}"
diff -rq out whole1 >/dev/null || fail "left in the folder: $(ls out)"
# While the first process reads (until the pipe is closed), no other process writes there; after a signal that it can
# handle there are no temporary files.
mkfifo pipe
(learn 600 fresh pipe) >err 2>&1 &
pid=$!
exec 3>pipe # continues when the other end is opened
refuses "a second train_tokenizer" \
    "--output fresh: process $pid on host $host has been writing there since 20|choose another --output" \
    train_tokenizer --input t.txt --vocab-size 300 --output fresh
# A folder may be named in several ways, and may be the only one in which this user may write.
for name in ./fresh/ fresh/. link link/; do
    ln -sfn fresh link
    refuses "a second train_tokenizer in $name" "--output $name: process $pid on host $host has been writing there" \
        train_tokenizer --input t.txt --vocab-size 300 --output $name
done
rm link
kill -TERM $pid
wait $pid && fail "status 0 for an interrupted run"
exec 3>&-
compgen -G 'fresh*' >/dev/null && fail "left by an interrupted run: $(ls -d fresh*)"
mkdir -p closed/open
chmod 555 closed
run=()
if [ "$(id -u)" -eq 0 ]; then # whom rights do not keep from anything
    run=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    chmod 711 .
    chmod 777 closed/open
fi
cd closed/open || exit 1
if ${run[@]+"${run[@]}"} "$MEGALITH" --version >/dev/null 2>&1; then
    ${run[@]+"${run[@]}"} "$MEGALITH" train_tokenizer --input ../../t.txt --vocab-size 300 --output . >log 2>&1 ||
        fail "a folder in one that may not be written to"
fi
cd "$work" && chmod 755 closed
finish
