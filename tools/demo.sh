#!/usr/bin/env bash
# make demo: from real text to a tokenizer, an indexed data set, a trained GPT, a perplexity and generated text.
# Usage: tools/demo.sh [FOLDER]     MEGALITH=path/to/megalith, DEMO_TEXT=file override what is used.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
megalith=${MEGALITH:-$top/build/megalith}
folder=${1:-$top/demo}
started=$(date +%s)

say() { printf '\n== %s\n' "$*"; }
# Prints a command as it can be typed, and runs it.
show() {
    local word
    printf '$'
    for word; do case $word in *[!A-Za-z0-9_./,=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac done
    echo
}
run() { show megalith "$@"; "$megalith" "$@"; }
note() { printf '(%s)\n' "$*"; }
# The log of the training has more than a newcomer needs: it goes to a file; the screen shows progress,
# loss and speed.
shorten() {
    tee "$1" | sed -u -nE '
        s/^ iteration +([0-9]+)\/ +([0-9]+) .*lm loss: ([0-9.]+)[0-9]{3}E\+00 .*tokens\/s: ([0-9]+)[0-9.]* .*time left: ([^|]*) \|.*/  iteration \1 of \2: loss \3, \4 tokens a second, \5 left/p
        s/^ iteration +([0-9]+)\/ +([0-9]+) .*lm loss: ([0-9.E+-]+) .*tokens\/s: ([0-9]+)[0-9.]* .*time left: ([^|]*) \|.*/  iteration \1 of \2: loss \3, \4 tokens a second, \5 left/p
        s/^ > number of parameters .*: ([0-9]+)$/  \1 parameters/p
        s/^ validation loss at iteration [0-9]+ \| lm loss value: ([0-9.]+)[0-9]{3}E.*/  on text that it is not trained on: loss \1/p
        /^([$] |warning|megalith)/p'
}

# One verse a line, a blank line after every chapter; every 20th chapter is held out.
kjv_chapters() {
    bible -f 'gen1:1-rev22:21' | awk -v train="$1" -v held="$2" '
        { chapter = substr($1, 1, index($1, ":") - 1); sub(/^[^ ]+ /, "") }
        chapter != last { if (NR > 1) print "" > out; n++; out = n % 20 == 0 ? held : train; last = chapter }
        { print > out }
        END { print "" > out }'
}
# Any other text, paragraph by paragraph.
paragraphs() {
    awk -v RS= -v train="$1" -v held="$2" '{ print $0 "\n" > (NR % 20 == 0 ? held : train) }'
}

# Its own text is looked at before anything is removed: the demo works in another folder.
if [ -n "${DEMO_TEXT:-}" ]; then
    if [ ! -r "$DEMO_TEXT" ] || [ -d "$DEMO_TEXT" ]; then
        echo "demo: DEMO_TEXT=$DEMO_TEXT is no file that can be read; name a text file" >&2
        exit 1
    fi
    DEMO_TEXT=$(realpath "$DEMO_TEXT")
    if [ "$(awk -v RS= 'END { print NR }' "$DEMO_TEXT")" -lt 20 ]; then
        echo "demo: $DEMO_TEXT has fewer than 20 paragraphs (blank lines divide them); every 20th is held out" >&2
        exit 1
    fi
fi
# Only what an earlier demo has written is removed.
if [ -n "$(ls -A "$folder" 2>/dev/null)" ] && [ ! -e "$folder/.demo" ]; then
    echo "demo: $folder holds files that no demo wrote; name another folder: tools/demo.sh FOLDER" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
touch "$folder/.demo"
cd "$folder"
if [ -n "${DEMO_TEXT:-}" ]; then
    paragraphs train.txt held-out.txt <"$DEMO_TEXT"; source="$DEMO_TEXT"; prompt="The"
elif command -v bible >/dev/null; then
    kjv_chapters train.txt held-out.txt; source="the King James Bible (Debian package bible-kjv)"; \
        prompt="And God said unto Moses,"
else # the licences that every Debian system carries
    cat /usr/share/common-licenses/* | paragraphs train.txt held-out.txt; source="/usr/share/common-licenses"; \
        prompt="This program is free software"
fi
say "1/5  the text: $source"
wc -c train.txt held-out.txt

say "2/5  a tokenizer learned from it (byte-level BPE, as GPT-2's)"
run train_tokenizer --input train.txt --vocab-size 2048 --output tokenizer

say "3/5  the data set (Megatron's .bin/.idx)"
run preprocess_data --input train.txt --split-on-blank-lines --tokenizer-type GPT2BPETokenizer \
    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt --append-eod --output-prefix text

# Two ranks that share each batch, if there are two cores and an MPI launcher; otherwise one rank with all cores.
if [ "$(nproc)" -ge 2 ] && command -v mpirun >/dev/null && "$megalith" doctor | grep -q '^  MPI  .*Open MPI'; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    train() { show mpirun -n 2 megalith "$@"; mpirun -n 2 "$megalith" "$@"; }
    ranks="two ranks"
else
    train() { run "$@"; }
    ranks="one rank"
fi
say \
    "4/5  training a GPT on $ranks: each step it sees 8 pieces of text, and the loss says how badly it predicts the next token"
train pretrain_gpt --num-layers 4 --hidden-size 192 --num-attention-heads 6 --seq-length 128 --max-position-embeddings \
    128 \
    --micro-batch-size 4 --global-batch-size 8 --train-iters "${DEMO_ITERS:-600}" --lr 3e-3 --min-lr 1e-4 \
    --lr-decay-style cosine \
    --lr-warmup-iters 40 --adam-beta2 0.98 --weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 \
    --data-path text_text_document --split 98,2,0 --tokenizer-type GPT2BPETokenizer \
    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt \
    --log-interval 50 --eval-interval 300 --eval-iters 10 --save checkpoints --save-interval 300 --metrics-file \
    metrics.jsonl 2>&1 | shorten train.log
note "the whole log is in $folder/train.log; its lines are those of Megatron-LM. What it learned is in checkpoints/"

say "5/5  the model on text it has not seen, and text of its own"
run tasks --task LM_LOSS --load checkpoints --valid-data held-out.txt
note \
    "ppl: on average the model is as unsure as somebody who chooses between that many tokens; unigram ppl: that of a model which only knows how frequent each token is"
run generate_samples_gpt --load checkpoints --prompt "$prompt" --out-seq-length 80 --temperature 0.8 --top_k 40 --seed 4

say \
    "done in $(($(date +%s) - started)) s; everything is in $folder (checkpoints/iter_* opens in Hugging Face transformers as it is)"
