#!/usr/bin/env bash
# Existing outputs: rows of another run stay in a metrics file, links are followed, and a file that the
# command did not write itself is replaced only with --overwrite.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

fox_lines 120 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix text >log 2>&1 ||
    fail "preprocess_data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2 \
    --global-batch-size 2 --lr 1e-3
    --train-iters 4 --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --eval-iters 1 \
        --num-threads 1)
train() { "$MEGALITH" "${base[@]}" "$@" >log 2>&1 || note "pretrain_gpt $*"; }
ids() { grep -o '"run": "[^"]*"' "$1" | sort -u; }

# --- metrics: a second run, a --finetune, a resumed one, one that does not start
train --save a --save-interval 2 --metrics-file m.jsonl
[ "$(ids m.jsonl | wc -l)" = 1 ] && grep -q "$(cat a/run_id.txt)" m.jsonl ||
    note "rows name the run of --save: $(head -1 m.jsonl)"
cp m.jsonl first.jsonl
starts_with() { head -c "$(stat -c %s "$2")" "$1" | cmp -s - "$2" || note "$3: rows of an earlier run are gone"; }
train --metrics-file m.jsonl
starts_with m.jsonl first.jsonl "a second run"
[ "$(grep -c '"lm_loss"' m.jsonl)" = 8 ] && [ "$(ids m.jsonl | wc -l)" = 2 ] || note "two runs in one file"
cp m.jsonl second.jsonl
train --load a --finetune --metrics-file m.jsonl
starts_with m.jsonl second.jsonl "--finetune"
[ "$(ids m.jsonl | wc -l)" = 3 ] || note "--finetune is a run of its own"
train --load a/iter_0000002 --train-iters 4 --save a --metrics-file m.jsonl
[ "$(ids m.jsonl | wc -l)" = 3 ] && [ "$(grep -c '"lm_loss"' m.jsonl)" = 12 ] ||
    note "a resumed run adds to its own rows"
[ "$(grep -F "$(ids first.jsonl)" m.jsonl | sed 's/, "[a-z]*_\(time_ms\|per_second\)": [^,]*//g' | cksum)" = \
    "$(sed 's/, "[a-z]*_\(time_ms\|per_second\)": [^,]*//g' first.jsonl | cksum)" ] ||
    note "a resumed run has other rows"
[ "$(grep -vF "$(ids first.jsonl)" m.jsonl | wc -l)" = \
    "$(($(wc -l <second.jsonl) - $(wc -l <first.jsonl) + $(wc -l <first.jsonl)))" ] ||
    note "a resumed run cut rows of others"
cp first.jsonl branch.jsonl
train --load a/iter_0000002 --train-iters 4 --save branch --metrics-file branch.jsonl
starts_with branch.jsonl first.jsonl "a run that saves elsewhere"
cp first.jsonl branch.jsonl
train --load a/iter_0000002 --train-iters 4 --metrics-file branch.jsonl
starts_with branch.jsonl first.jsonl "a run that saves nowhere"
[ "$(ids branch.jsonl | wc -l)" = 2 ] || note "a run that saves nowhere has the id of the run that it comes from"
train --load a/iter_0000002 --skip-train --metrics-file branch.jsonl
[ "$(ids branch.jsonl | wc -l)" = 2 ] && [ "$(grep -c "$(cat a/run_id.txt).*" branch.jsonl)" -gt \
    "$(wc -l <first.jsonl)" ] || note "an evaluation is of the run that it looks at"
# If a standard stream is closed, no file of ours gets its number.
"$MEGALITH" "${base[@]}" --log-interval 1 --metrics-file closed.jsonl >&- 2>>log
[ "$(grep -vc '^{"iteration": ' closed.jsonl)" = 0 ] || note "log lines in a metrics file"
cp m.jsonl before.jsonl
"$MEGALITH" "${base[@]}" --metrics-file m.jsonl --data-path text_text_document --split 0,100,0 >log 2>&1 &&
    note "no data for training"
"$MEGALITH" "${base[@]}" --metrics-file m.jsonl --load a/iter_0000002 --profile-table --profile-step-start 7 \
    --profile-step-end 9 >log 2>&1 && note "a profile past the end"
cmp -s m.jsonl before.jsonl || note "a run that does not start changed the metrics"

# --- plots of a file with rows of several runs
plotted() { "$MEGALITH" plot m.jsonl "$@" --width 60 --height 8 2>&1; }
plotted | grep -q "^m.jsonl holds rows of 3 runs (.*); the last is drawn, --run ID draws another$" ||
    note "plot: $(plotted | tail -1)"
plotted --run "$(cat a/run_id.txt)" | grep -q '^lm_loss: 4 points' ||
    note "plot --run: $(plotted --run "$(cat a/run_id.txt)" | tail -1)"
refuses "a run that is not there" 'none of its rows is of run "x"; it has rows of' plot m.jsonl --run x

# --- a link stays, and its target gets the rows
mkdir far && cp first.jsonl far/m.jsonl && ln -s far/m.jsonl link.jsonl
train --load a/iter_0000002 --save a --metrics-file link.jsonl
[ -L link.jsonl ] && [ "$(grep -c '"lm_loss"' far/m.jsonl)" = 4 ] || note "a link to the metrics file"
# --- a pipe is written as it is
mkfifo pipe && { cat pipe >piped & }
train --metrics-file pipe
wait
[ "$(grep -c '"lm_loss"' piped)" = 4 ] || note "rows through a pipe: $(cat piped)"

# --- other outputs: files of others stay, files of the same command are replaced, --overwrite replaces all
corpus='{"text": "a document of a corpus"}'
# kept NAME FILE COMMAND…: refused, also with --dry-run, while FILE belongs to somebody else; then written, and written
# again
kept() {
    local name=$1 file=$2
    shift 2
    for words in "$corpus" "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>" '{"traceEvents":[]}' "some words"; do
        echo "$words" >"$file"
        for dry in '' --dry-run; do
            refuses "$name ${dry:-run}" \
                "$file: this file is there already and is not |nothing was changed|--overwrite" "$@" ${dry:+"$dry"}
        done
        [ "$(cat "$file")" = "$words" ] || note "$name: \"$words\" was replaced"
    done
    "$MEGALITH" "$@" --overwrite >log 2>&1 </dev/null || note "$name --overwrite"
    [ "$(head -c 20 "$file")" != "some words" ] || note "$name: --overwrite replaced nothing"
    cp "$file" written
    "$MEGALITH" "$@" >log 2>&1 </dev/null || note "$name: over its own output"
    : >"$file" # an empty file holds nothing
    "$MEGALITH" "$@" >log 2>&1 </dev/null || note "$name: over an empty file"
    mkdir -p linked && rm -f linked/* && mv "$file" linked/target && ln -s linked/target "$file"
    "$MEGALITH" "$@" >log 2>&1 </dev/null || note "$name: through a link"
    [ -L "$file" ] || note "$name: replaced a link"
    rm -f "$file"
    "$MEGALITH" "$@" >log 2>&1 </dev/null && [ -s "$file" ] || note "$name: where nothing was"
}
generate=(generate_samples_gpt --load a --out-seq-length 3 --num-threads 1 --seed 1)
kept --genfile texts.jsonl "${generate[@]}" --num-samples 2 --genfile texts.jsonl
echo "a quick" >prompts
kept --sample-output-file prompts.out "${generate[@]}" --sample-input-file prompts
kept --svg curve.svg plot first.jsonl --svg curve.svg
kept --profile-trace trace.json "${base[@]}" --profile-trace trace.json --profile-step-start 1 --profile-step-end 2
kept --schedule-svg schedule.svg plan pretrain_gpt --num-layers 4 --hidden-size 16 --num-attention-heads 2 \
    --seq-length 16 \
    --micro-batch-size 2 --global-batch-size 8 --world-size 2 --pipeline-model-parallel-size 2 --schedule-svg \
    schedule.svg

"$MEGALITH" config default --config_file default.yaml >log 2>&1 || note "config"
kept --config_file default.yaml config default --config_file default.yaml

# a tokenizer: never replaces a vocabulary of a model or of another program, always one of its own
learn() { "$MEGALITH" train_tokenizer --input text.txt --vocab-size 270 --workers 1 "$@" >log 2>&1 </dev/null; }
mkdir -p others model && echo '{"a": 0}' >others/vocab.json && echo 'a b' >others/merges.txt
learn --output own && learn --output own || note "train_tokenizer over its own output"
cp own/* model/ && echo '{"model_type": "gpt2"}' >model/config.json
cp -r others others.before && cp -r model model.before
for folder in others model; do
    for dry in '' --dry-run; do
        refuses "train_tokenizer over $folder ${dry:-run}" \
            "--output $folder: this vocabulary is there already and is not a tokenizer of train_tokenizer|--overwrite" \
            train_tokenizer --input text.txt --vocab-size 270 --output $folder ${dry:+"$dry"}
    done
    diff -r $folder $folder.before >/dev/null || note "train_tokenizer changed $folder"
done
learn --output others --overwrite && ! cmp -s others/vocab.json others.before/vocab.json ||
    note "train_tokenizer --overwrite"
mkdir notes && echo x >notes/readme && learn --output notes || note "train_tokenizer beside other files"

# a pair of files: replaces another pair, never an .idx of something else
echo "an index of a book" >book_text_document.idx
prepare=(preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --output-prefix book)
refuses "preprocess_data over a foreign .idx" \
    "book_text_document.idx: this file is there already and is not an index|--overwrite" "${prepare[@]}"
[ "$(cat book_text_document.idx)" = "an index of a book" ] && [ ! -e book_text_document.bin ] ||
    note "a foreign .idx was replaced"
"$MEGALITH" "${prepare[@]}" --overwrite >log 2>&1 && "$MEGALITH" "${prepare[@]}" >log 2>&1 ||
    note "preprocess_data --overwrite, and over its own pair"

# --- data merge sees through links
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --output-prefix two \
    >log 2>&1 || note "two"
sum=$(cat text_text_document.* | cksum)
ln -s text_text_document.bin alias.bin && ln -s text_text_document.idx alias.idx && ln -s . here
for output in alias here/text_text_document ./text_text_document; do
    for dry in '' --dry-run; do
        refuses "merge into $output ${dry:-run}" "--output-prefix $output is one of the data sets to merge" data merge \
            --input text_text_document two_text_document --output-prefix $output ${dry:+"$dry"}
    done
done
refuses "merge of a link into its target" \
    "--output-prefix text_text_document is one of the data sets to merge (alias)" data merge \
    --input alias two_text_document --output-prefix text_text_document
[ "$(cat text_text_document.* | cksum)" = "$sum" ] || note "merge replaced its input"
finish
