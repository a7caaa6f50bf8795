#!/usr/bin/env bash
# The commands of the field's documentation that prepare data for a GPT, BERT or T5, train, evaluate or generate, as
# they stand there: each file of blocks/ is one. Here `python`, `deepspeed`, `torchrun` and `accelerate` are this
# program, as if the first word were changed, and options that make the sizes small come after those of the block. The
# head of a block says:
#
#   # from: where it stands
#   # body: BLOCK           its commands are those of another block, with what `set` changes; not run by slow builds
#   # set: SED              numbers of ranks, and names that the reader has to fill in
#   # before: COMMAND       what the reader has done by then
#   # small: KIND OPTIONS   options that come last (below)
#   # expect: TEXT          it is refused with this message; without the line it has to succeed
#   # waits: WHAT           it is not run yet, because this is not built; take the line away with it
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
megalith_on_path
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
command -v mpirun >/dev/null && ! megalith doctor | grep -qE '^  MPI  *none' ||
    skip "most blocks start several ranks, and there is no MPI"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

# The first words: what python is given goes to megalith as it stands, with the small sizes behind it.
for word in python python3 torchrun deepspeed deepspeed.pt accelerate; do
    case $word in
    python*) first='' ;;
    deepspeed*) first=deepspeed ;;
    *) first=$word ;;
    esac
    # shellcheck disable=SC2016,SC2086  # for the script itself
    printf '#!/usr/bin/env bash\nexec megalith %s "$@" $SMALL\n' $first >bin/$word
    chmod +x bin/$word
done

model="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32"
batch="--micro-batch-size 1 --global-batch-size 4 --log-interval 1 --save-interval 2 --eval-interval 2 --eval-iters 1 --split 80,10,10"
sizes_of() { # KIND
    case $1 in
    model) echo "$model" ;;
    training) echo "$model $batch --train-iters 2 --lr-decay-iters 2" ;;
    samples) echo "$model $batch --train-samples 8 --lr-decay-samples 8 --lr-warmup-samples 2" ;;
    t5) echo \
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --kv-channels 16 --ffn-hidden-size 64 --encoder-seq-length 32 --decoder-seq-length 16
        --max-position-embeddings 32 $batch --train-iters 2 --lr-decay-iters 2" ;;
    task) echo "$model --epochs 1 --micro-batch-size 4 --log-interval 1 --eval-interval 2 --eval-iters 1" ;;
    clm) echo \
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --block_size 32 --max-position-embeddings 32 --per_device_train_batch_size 1
        --max_train_steps 2" ;;
    esac
}

# The texts and vocabularies that the blocks name.
cat "$MEGA_SOURCE"/docs/[a-e]*.md | tr -d '"\\\t' |
    awk -v RS= '{ gsub(/\n/, " "); printf "{\"text\": \"%s\", \"content\": \"%s\"}\n", $0, $0 }' >codeparrot_data.json
cp codeparrot_data.json my-corpus.json
for i in $(seq 30); do # the last tenth, where a BERT is tested, has to have sentences
    text="The cat has $i names. It knows all of them. Nobody told it the last one."
    printf '{"text": "%s", "content": "%s"}\n' "$text" "$text"
done >>my-corpus.json
cat "$MEGA_SOURCE"/docs/e*.md | head -c 3000 >wikitext.txt
cut -c1-200 my-corpus.json | sed -n '1,8s/", "content.*//; 1,8s/"*}*$/"}/p' >lambada.json
megalith train_tokenizer --input my-corpus.json --vocab-size 400 --output gpt2 >out || fail "train_tokenizer"
cp gpt2/vocab.json gpt2-vocab.json && cp gpt2/vocab.json . && cp gpt2/merges.txt gpt2-merges.txt && cp gpt2/merges.txt .
cp -r gpt2 gpt2-large
megalith train_tokenizer --input my-corpus.json --tokenizer-type BertWordPieceLowerCase --vocab-size 800 --output bert \
    >out || fail "train_tokenizer of BERT"
cp bert/vocab.txt bert-vocab.txt && cp bert/vocab.txt t5-vocab.txt
head -c 30000 my-corpus.json >train.txt && tail -c 6000 codeparrot_data.json >validation.txt
mkdir -p wikitext/wikitext-2-raw-v1 checkpoints
cp train.txt wikitext/wikitext-2-raw-v1/wiki.train.raw
cp validation.txt wikitext/wikitext-2-raw-v1/wiki.valid.raw

# A few rows of the tasks' data.
mkdir -p data/glue_data/MNLI data/RACE/train/middle data/RACE/dev/middle data/RACE/dev/high
for name in train dev_matched dev_mismatched; do
    awk 'BEGIN {
        split("contradiction entailment neutral", label, " ")
        for (i = 0; i < 12; i++) printf "column%d%s", i, i < 11 ? "\t" : "\n"
        for (row = 0; row < 16; row++) printf "%d\t.\t.\t.\t.\t.\t.\t.\tA cat has %d names.\tIt has %d names.\t.\t%s\n", row, row, row % 4, label[row % 3 + 1]
    }' >data/glue_data/MNLI/$name.tsv
done
for part in train/middle dev/middle dev/high; do
    for row in $(seq 8); do
        printf \
            '{"article": "A cat has %s names.", "questions": ["A _ has names."], "options": [["cat", "dog", "cow", "hen"]], "answers": ["A"], "id": "%s"}\n' "$row" "$row"
    done >data/RACE/$part/1.txt
done

# What scripts ask about a cluster.
printf '#!/bin/sh\necho gpu\necho gpu\n' >bin/nvidia-smi
printf '#!/bin/sh\nfor i in 1 2 3 4 5 6; do echo worker; done\n' >bin/ds_ssh
chmod +x bin/nvidia-smi bin/ds_ssh

blocks=$MEGA_SOURCE/tests/documentation/blocks
head_of() { sed -n "s/^# $1: *//p" "$2"; }
run_block() { # FILE
    local name expect set small kind body status
    name=$(basename "$1" .block)
    expect=$(head_of expect "$1") set=$(head_of 'set' "$1") small=$(head_of small "$1")
    kind=${small%% *} body=$(head_of body "$1")
    if grep -q '^# waits: ' "$1"; then
        waiting=$((waiting + 1))
        return
    fi
    [ -z "$body" ] || [ "${MEGA_MATRIX:-full}" = full ] || return
    SMALL=$(sizes_of "$kind" | tr '\n' ' ')
    [ "$kind" = "$small" ] || SMALL="$SMALL ${small#* }"
    export SMALL
    (eval "$(head_of before "$1")") >out 2>&1 || note "$name: what comes before it"
    [ -z "$body" ] && body=$name
    sed -e '/^# /d' -e "$set" "$blocks/$body.block" >"$name.sh"
    bash "$name.sh" >out 2>&1 </dev/null
    status=$?
    if [ -n "$expect" ]; then
        [ $status -ne 0 ] || note "$name ($(head_of from "$1")) runs; its head expects a refusal"
        grep -qF -- "$expect" out || note "$name: not refused with: $expect"
    elif [ $status -ne 0 ] || grep -qE '^megalith .*error:' out; then
        note "$name ($(head_of from "$1")): exit status $status"
    fi
    count=$((count + 1))
}
count=0 waiting=0
for block in "$blocks"/${BLOCK:-*}.block; do run_block "$block"; done

# What blocks leave behind for the next, and for their reader.
if [ -z "${BLOCK:-}" ]; then
    [ -s my-gpt2_text_document.idx ] || note "no my-gpt2_text_document.idx"
    [ -s my-bert_text_sentence.idx ] || note "no my-bert_text_sentence.idx"
    [ -s checkpoints/bert_345m/iter_0000002/model.safetensors ] || note "no checkpoint of the README's BERT"
    [ -s checkpoints/gpt2_345m/iter_0000002/model.safetensors ] || note "no checkpoint of the README's training"
    [ "$(wc -l <samples.json)" = 2 ] || note "samples.json has not two samples"
    [ -s test-clm/all_results.json ] || note "no all_results.json of run_clm"
fi
echo \
    "$count blocks; $waiting wait for what is not built: $(sed -n 's/^# waits: //p' "$blocks"/*.block | sort -u | tr '\n' ' ')"
finish
