#!/usr/bin/env bash
# What a command would write over: rows of another run stay in a metrics file, links are followed, and a file that the
# command did not write itself is replaced with --overwrite alone.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

fox_lines 120 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer --output-prefix text >log 2>&1 ||
    fail "preprocess_data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2 --global-batch-size 2 --lr 1e-3
    --train-iters 4 --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --eval-iters 1 --num-threads 1)
train() { "$MEGALITH" "${base[@]}" "$@" >log 2>&1 || note "pretrain_gpt $*"; }
ids() { grep -o '"run": "[^"]*"' "$1" | sort -u; }

# --- metrics: a second run, a --finetune, a resumed one, one that does not start
train --save a --save-interval 2 --metrics-file m.jsonl
[ "$(ids m.jsonl | wc -l)" = 1 ] && grep -q "$(cat a/run_id.txt)" m.jsonl || note "rows name the run of --save: $(head -1 m.jsonl)"
cp m.jsonl first.jsonl
starts_with() { head -c "$(stat -c %s "$2")" "$1" | cmp -s - "$2" || note "$3: rows of an earlier run are gone"; }
train --metrics-file m.jsonl
starts_with m.jsonl first.jsonl "a second run"
[ "$(grep -c '"lm_loss"' m.jsonl)" = 8 ] && [ "$(ids m.jsonl | wc -l)" = 2 ] || note "two runs in one file"
cp m.jsonl second.jsonl
train --load a --finetune --metrics-file m.jsonl
starts_with m.jsonl second.jsonl "--finetune"
[ "$(ids m.jsonl | wc -l)" = 3 ] || note "--finetune is a run of its own"
train --load a/iter_0000002 --train-iters 4 --metrics-file m.jsonl
[ "$(ids m.jsonl | wc -l)" = 3 ] && [ "$(grep -c '"lm_loss"' m.jsonl)" = 12 ] || note "a resumed run adds to its own rows"
[ "$(grep -F "$(ids first.jsonl)" m.jsonl | sed 's/, "[a-z]*_\(time_ms\|per_second\)": [^,]*//g' | cksum)" = \
    "$(sed 's/, "[a-z]*_\(time_ms\|per_second\)": [^,]*//g' first.jsonl | cksum)" ] || note "a resumed run has other rows"
[ "$(grep -vF "$(ids first.jsonl)" m.jsonl | wc -l)" = "$(($(wc -l <second.jsonl) - $(wc -l <first.jsonl) + $(wc -l <first.jsonl)))" ] ||
    note "a resumed run cut rows of others"
cp m.jsonl before.jsonl
"$MEGALITH" "${base[@]}" --metrics-file m.jsonl --data-path text_text_document --split 0,100,0 >log 2>&1 && note "no data for training"
"$MEGALITH" "${base[@]}" --metrics-file m.jsonl --load a/iter_0000002 --profile-table --profile-step-start 7 --profile-step-end 9 >log 2>&1 && note "a profile past the end"
cmp -s m.jsonl before.jsonl || note "a run that does not start changed the metrics"

# --- and what is drawn of them
plotted() { "$MEGALITH" plot m.jsonl "$@" --width 60 --height 8 2>&1; }
plotted | grep -q "^m.jsonl holds rows of 3 runs (.*); the last is drawn, --run ID draws another$" || note "plot: $(plotted | tail -1)"
plotted --run "$(cat a/run_id.txt)" | grep -q '^lm_loss: 4 points' || note "plot --run: $(plotted --run "$(cat a/run_id.txt)" | tail -1)"
refuses "a run that is not there" 'none of its rows is of run "x"; it has rows of' plot m.jsonl --run x

# --- a link stays, and its target gets the rows
mkdir far && cp first.jsonl far/m.jsonl && ln -s far/m.jsonl link.jsonl
train --load a/iter_0000002 --metrics-file link.jsonl
[ -L link.jsonl ] && [ "$(grep -c '"lm_loss"' far/m.jsonl)" = 4 ] || note "a link to the metrics file"
# --- a pipe is written as it is
mkfifo pipe && { cat pipe >piped & }
train --metrics-file pipe
wait
[ "$(grep -c '"lm_loss"' piped)" = 4 ] || note "rows through a pipe: $(cat piped)"
finish
