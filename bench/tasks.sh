#!/usr/bin/env bash
# What a BERT learns of a task with labels: pairs of sentences made by a rule, 5,000 to learn from and 1,000 others to
# be told. The label compares both sentences: 1 if who sees something in the first is who hears something in the second.
# No word says it, nor does a sum over words.
#
#   MEGALITH=build/megalith bench/tasks.sh
#
# It takes minutes, and prints the accuracies of a BERT pre-trained on texts of such sentences, of one with random
# weights, and of a logistic regression on the words (which needs a Python with NumPy: MEGA_PEERS). MEGA_TASKS_ITERS:
# steps of the pre-training (2000).
set -eu
MEGALITH=$(realpath "${MEGALITH:-build/megalith}")
python=${MEGA_PEERS:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

animals="fox dog cat owl bear wolf hare crow deer seal lynx goat"
# shellcheck disable=SC2086 # a list of words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . '?' the sees hears $animals >vocab.txt
awk -v names="$animals" 'BEGIN { n = split(names, a, " "); srand(7)
    for (f = 0; f < 2; f++) { file = f ? "dev.tsv" : "train.tsv"; print "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate" >file
        for (i = 0; i < (f ? 1000 : 5000); i++) { x = 1 + int(n * rand()); y = 1 + int(n * rand()); same = rand() < 0.5
            do z = 1 + int(n * rand()); while (!same && z == x)
            printf "%d\t1\t2\tthe %s sees the %s .\tthe %s hears the %s .\t%d\n", i, a[x], a[y], a[same ? x : z], a[1 + int(n * rand())], same >file } }
    for (d = 0; d < 4000; d++) { x = 1 + int(n * rand())
        for (k = 0; k < 6; k++) printf "The %s %s the %s. ", a[x], rand() < 0.5 ? "sees" : "hears", a[1 + int(n * rand())] >"texts.txt"
        print "\n" >"texts.txt" } }'
"$MEGALITH" preprocess_data --input texts.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix texts >log 2>&1
sizes=(--num-layers 4 --hidden-size 128 --num-attention-heads 4 --max-position-embeddings 64)
echo "pre-training: ${MEGA_TASKS_ITERS:-2000} steps"
"$MEGALITH" pretrain_bert "${sizes[@]}" --seq-length 64 --micro-batch-size 32 --train-iters \
    "${MEGA_TASKS_ITERS:-2000}" --lr 1e-3 --lr-warmup-fraction 0.05 \
    --min-lr 1e-5 --log-interval 500 --eval-iters 0 --data-path texts_text_sentence --split 100,0,0 --vocab-file \
    vocab.txt --save bert | grep '^ iteration'
echo "pre-training took $SECONDS s"
tuned=(--task QQP "${sizes[@]}" --seq-length 16 --vocab-file vocab.txt --train-data train.tsv --valid-data dev.tsv \
    --micro-batch-size 32 --lr 3e-4
    --lr-decay-style linear --lr-warmup-fraction 0.065 --weight-decay 1.0e-1 --clip-grad 1.0 --epochs 10 \
        --eval-interval 100000)
for from in "--pretrained-checkpoint bert" ""; do
    echo "QQP made by a rule, ${from:-random weights}:"
    # shellcheck disable=SC2086 # options and values
    "$MEGALITH" tasks "${tuned[@]}" $from --save "tuned${from:+_bert}" | sed -n '/^ >> /p; /^ results/,/^   dev/p'
done
cat >words.py <<'PY'
import numpy as np

def read(file):
    rows = [line.rstrip("\n").split("\t") for line in open(file)][1:]
    return [(row[3] + " " + row[4]).split() for row in rows], np.array([int(row[5]) for row in rows])

(train, y), (dev, z) = read("train.tsv"), read("dev.tsv")
words = {word: i for i, word in enumerate(sorted({word for text in train for word in text}))}
count = lambda texts: np.array([[text.count(word) for word in words] for text in texts], float)
x, v, w, b = count(train), count(dev), np.zeros(len(words)), 0.0
for _ in range(3000):
    p = 1 / (1 + np.exp(-(x @ w + b)))
    w, b = w - 0.1 * x.T @ (p - y) / len(y), b - 0.1 * (p - y).mean()
print(f"a logistic regression on the counts of words: {100 * ((v @ w + b > 0) == z).mean():.1f} %")
PY
"$python" words.py
