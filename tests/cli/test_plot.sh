#!/usr/bin/env bash
# megalith plot as a user types it: one file, several, keys, SVG, and mistakes.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
unset LC_ALL LC_CTYPE LANG COLUMNS
fail() { note "$@"; }
has() { # NAME PART TEXT
    case "$3" in
    *"$2"*) ;;
    *) fail "$1: \"$2\" is not in: $3" ;;
    esac
}

for i in 1 2 3 4 5 6 7 8 9 10; do
    echo "{\"iteration\": $i, \"consumed_samples\": $((i * 4)), \"lm_loss\": $((20 - i)).5, \"learning_rate\": 0.00$i}"
    [ $((i % 5)) = 0 ] && echo "{\"iteration\": $i, \"validation_loss\": $((21 - i)), \"final\": false}"
done >a.jsonl
mkdir other && sed 's/9\.5/8.25/' a.jsonl >other/a.jsonl
printf '{"iteration": 11, "lm_l' >>a.jsonl # a run is writing

text=$("$MEGALITH" plot a.jsonl) || fail "one file"
has "one file" "lm_loss of a.jsonl" "$text"
has "one file" "lm_loss: 10 points, last 10.5 at iteration 10, lowest 10.5 at 10" "$text"
[ "$(wc -L <<<"$text")" -le 80 ] || fail "wider than 80 characters: $text"
[ "$(wc -l <<<"$text")" = 25 ] || fail "not 24 lines and the summary: $text"
text=$(LANG=C.UTF-8 "$MEGALITH" plot a.jsonl --width 50 --height 10 --x consumed_samples) || fail "braille"
has "braille" "┤" "$text"
has "the other axis" "at consumed_samples 40" "$text"
text=$("$MEGALITH" plot a.jsonl other/a.jsonl --smooth 0.5) || fail "two files"
has "two files of one name" "* a.jsonl   o other/a.jsonl" "$text"
has "smoothing" "(smoothed, 0.5)" "$text"
text=$("$MEGALITH" plot a.jsonl --key lm_loss validation_loss --smooth 0.9 --svg new.svg) || fail "two keys"
has "two keys" "* lm_loss   o validation_loss" "$text"
has "a mean over more than there is" \
    "validation_loss: 2 points, last 11 at iteration 10, lowest 11 at 10 (too few points to smooth)" "$text"
has "svg" "wrote new.svg" "$text"
has "svg" "<svg xmlns=" "$(cat new.svg)"
has "log" "lowest 0.001 at 1" "$("$MEGALITH" plot a.jsonl --key learning_rate --log-x --log-y)"

refuses "no file" "missing: the metrics files" plot --key lm_loss
refuses "a file that is not there" "none.jsonl: cannot open" plot none.jsonl
refuses "a key that is not there" "it has iteration, consumed_samples, lm_loss" plot a.jsonl --key loss
printf '{"iteration": 1}\n\nhello\n' >broken.jsonl
text=$("$MEGALITH" plot a.jsonl broken.jsonl none.jsonl --key loss 2>&1) && fail "three mistakes: exit status 0"
has "three mistakes" "broken.jsonl: line 3" "$text"
has "three mistakes" "none.jsonl: cannot open" "$text"
has "three mistakes" "a.jsonl: none of its 12 rows" "$text"
refuses "a folder without rights" "/proc/none/a.svg" plot a.jsonl --svg /proc/none/a.svg
cp a.jsonl kept.jsonl && ln -s kept.jsonl link && ln kept.jsonl hard
for name in kept.jsonl ./kept.jsonl link hard; do
    refuses "drawing over the metrics: $name" \
        "--svg $name: this is the metrics file kept.jsonl|other name|kept.jsonl.svg" plot other/a.jsonl kept.jsonl \
        --svg $name
    cmp -s a.jsonl kept.jsonl || fail "--svg $name replaced the metrics"
done
echo '{"iteration": 1, "lm_loss": -1}' >negative.jsonl
refuses "logarithm" "logarithmic axis" plot negative.jsonl --log-y
finish
