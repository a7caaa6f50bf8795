#!/usr/bin/env bash
# tasks with labels in layouts of ranks: the losses of steps and the accuracies are those of one rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks_train.sh"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . '?' the is here fox dog cat owl who >vocab.txt
mkdir race
awk 'BEGIN { split("fox dog cat owl", animal)
    for (i = 0; i < 10; i++) { printf "{\"article\": \"The %s is here .\", \"questions\": [\"who is here ?\"], \"options\": [[\"the fox\", \"the dog\", \"the cat\", \"the owl\"]], \"answers\": [\"%c\"]}\n",
        animal[i % 4 + 1], 65 + i % 4 } }' >race/a.txt
awk 'BEGIN { print "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"; split("fox dog cat owl", animal)
    for (i = 0; i < 22; i++) printf "%d\t1\t2\tthe %s is here\twho is the %s ?\t%d\n", i, animal[i % 4 + 1], animal[int(i / 4) % 4 + 1], i % 2 }' >qqp.tsv
sizes=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 \
    --global-batch-size 4 --micro-batch-size 1 --lr 1e-3
    --log-interval 1 --eval-iters 0 --num-threads 1 --vocab-file vocab.txt --epochs 4)
losses() { grep -oE '"(iteration|loss|lm_loss|grad_norm|validation_loss)": *[0-9.e+-]+' "$1"; }
right() { sed -n 's/^ >> |epoch: 3| overall: correct \/ total = \([0-9]* \/ [0-9]*\) = .*/\1/p' "$1"; }
for task in RACE QQP; do
    data=$([ $task = RACE ] && echo race || echo qqp.tsv)
    base=(tasks --task $task --train-data "$data" --valid-data "$data" "${sizes[@]}")
    "$MEGALITH" "${base[@]}" --metrics-file one.jsonl >one.log 2>&1 || fail "$task, one rank: $(tail -3 one.log)"
    [ -n "$(right one.log)" ] || fail "$task: no accuracy: $(tail -3 one.log)"
    for layout in "2 --tensor-model-parallel-size 2 --sequence-parallel" "2 --zero-stage 2" \
        "4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --recompute-granularity full"; do
        # shellcheck disable=SC2086 # options and values
        ranks ${layout%% *} "$MEGALITH" "${base[@]}" ${layout#* } --metrics-file many.jsonl >many.log 2>&1 </dev/null ||
            fail "$task, $layout: $(tail -3 many.log)"
        near many.jsonl one.jsonl 3e-5 || fail \
            "$task, $layout: other losses than one rank: $(paste <(losses many.jsonl) <(losses one.jsonl) | head -12)"
        [ "$(right many.log)" = "$(right one.log)" ] ||
            fail "$task, $layout: $(right many.log) are right, on one rank $(right one.log)"
        rm many.jsonl
    done
    rm one.jsonl
done

# a classifier that begins from a folder: its heads are not read, and one of the ranks says so
for i in $(seq 1 20); do echo "The fox is here. Who is the dog? The owl is here."; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase \
    --vocab-file vocab.txt --output-prefix t >log 2>&1 || fail "preprocessing: $(tail -3 log)"
"$MEGALITH" pretrain_bert --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
    --max-position-embeddings 16 \
    --micro-batch-size 2 --train-iters 1 --lr 1e-3 --eval-iters 0 --data-path t_text_sentence --split 100,0,0 \
    --vocab-file vocab.txt \
    --save bert >log 2>&1 || fail "pretrain_bert: $(tail -3 log)"
ranks 2 "$MEGALITH" tasks --task QQP --pretrained-checkpoint bert --train-data qqp.tsv --valid-data qqp.tsv \
    "${sizes[@]}" >log 2>&1 </dev/null ||
    fail "QQP from a folder: $(tail -3 log)"
[ "$(grep -c 'tensors are not read, because this model does not use them: cls\.' log)" = 1 ] ||
    fail "which tensors are not read: $(grep 'not read' log)"
