#!/usr/bin/env bash
# tasks with labels: MNLI, QQP, SST-2, CoLA and RACE learnt from a pre-trained BERT and from random weights; Megatron's
# lines, the table of results, the folders; resumed, evaluated alone, in other layouts; --keep-last; what is refused.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
megalith_on_path
export OMP_NUM_THREADS=2
unset MEGA_LAUNCH
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . '?' the is a red blue green yellow fox dog cat owl who sleeps \
    runs here there >vocab.txt

# Pairs whose label is the colour of the first sentence.
awk \
    'BEGIN { split("red blue green", colour); split("contradiction entailment neutral", label); split("fox dog cat owl", animal)
    split("sleeps runs", verb); srand(1)
    for (f = 0; f < 2; f++) { file = f ? "MNLI/dev_matched.tsv" : "MNLI/train.tsv"; system("mkdir -p MNLI QQP")
        print "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2\tlabel1\tgold_label" >file
        for (i = 0; i < (f ? 50 : 210); i++) { c = 1 + int(3 * rand()); a = animal[1 + int(4 * rand())]; b = animal[1 + int(4 * rand())]
            printf "%d\t0\t0\tg\t\t\t\t\tThe %s %s %s .\tA %s is here .\t%s\t%s\n", i, colour[c], a, verb[1 + int(2 * rand())], b, label[c], label[c] >file } } }'
awk -F'\t' 'NR == 1 { print "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"; next }
    { printf "%d\t1\t2\t%s\t%s\t%d\n", NR, $9, $10, $12 == "neutral" }' MNLI/train.tsv >QQP/train.tsv
sed -n '1,41p' QQP/train.tsv >QQP/dev.tsv
echo broken >>QQP/dev.tsv
mkdir -p RACE/train/high RACE/dev/high
awk 'BEGIN { split("fox dog cat owl", animal)
    for (i = 0; i < 40; i++) { file = (i < 28 ? "RACE/train/high/" : "RACE/dev/high/") i ".txt"; right = i % 4
        printf "{\"article\": \"The %s is here .\", \"questions\": [\"who is here ?\", \"the _ is here .\"], \"options\": [", animal[right + 1] >file
        for (q = 0; q < 2; q++) printf "%s[\"the fox\", \"the dog\", \"the cat\", \"the owl\"]", q ? ", " : "" >file
        printf "], \"answers\": [\"%c\", \"%c\"]}\n", 65 + right, 65 + right >file; close(file) } }'
for i in $(seq 1 40); do echo "The red fox sleeps. A dog is here. The green owl runs there. Who is the blue cat?"; \
    echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix t >log 2>&1 || fail "preprocessing"
sizes=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32)
"$MEGALITH" pretrain_bert "${sizes[@]}" --seq-length 32 --micro-batch-size 4 --train-iters 4 --lr 1e-3 \
    --init-method-std 0.05 --eval-iters 0 \
    --data-path t_text_sentence --split 100,0,0 --vocab-file vocab.txt --save bert >log 2>&1 || fail "pretrain_bert"

task() { # NAME ARGS…: runs it, and keeps what it says in NAME.log
    local name=$1
    shift
    "$MEGALITH" tasks "$@" >"$name.log" 2>&1 </dev/null || { cp "$name.log" out; fail "tasks $name"; }
}
says() { grep -qE -- "$2" "$1.log" || { cp "$1.log" out; note "$1 does not say: $2"; }; }
overall() { sed -n 's/^ >> |epoch: \([-0-9]*\)| overall: correct \/ total = \([0-9]*\) \/ .*/\1 \2/p' "$1.log" |
    tail -1; }

# ---- MNLI from a pre-trained folder ----
mnli=(--task MNLI "${sizes[@]}" --seq-length 16 --vocab-file vocab.txt --tokenizer-type BertWordPieceLowerCase \
    --train-data MNLI/train.tsv
    --valid-data MNLI/dev_matched.tsv MNLI/train.tsv --micro-batch-size 8 --lr 2e-3 --lr-decay-style linear \
        --lr-warmup-fraction 0.065
    --weight-decay 1.0e-1 --clip-grad 1.0 --hidden-dropout 0.1 --attention-dropout 0.1 --log-interval 10 \
        --eval-interval 13 --eval-iters 5)
task mnli "${mnli[@]}" --pretrained-checkpoint bert --epochs 4 --save mnli --metrics-file mnli.jsonl --monitor-csv \
    --monitor-csv-job points
says mnli '^building classification model'
says mnli '^ iteration +10/ +104 .* \| lm loss: [0-9.E+-]+ \| loss scale'
says mnli \
    '^ validation loss at iteration 13 \| lm loss value: [0-9.E+-]+ \| lm loss PPL: [0-9.E+-]+ \| accuracy value: [0-9.E+-]+ \| $'
for epoch in 0 1 2 3; do
    says mnli \
        "^ > \|epoch: $epoch\| metrics for dev-matched: correct / total = [0-9]+ / 50 = [0-9.]+ %, elapsed time \(sec\): [0-9.]+\$"
    says mnli "^ > \|epoch: $epoch\| metrics for train: correct / total = [0-9]+ / 210 = "
    says mnli "^ >> \|epoch: $epoch\| overall: correct / total = [0-9]+ / 260 = [0-9.]+ %\$"
done
says mnli '^ results of MNLI$'
says mnli '^   dev-matched +[0-9]+ +50 +[0-9.]+ +[0-9.]+ to +[0-9.]+$'
says mnli '^   overall +[0-9]+ +260 '
[ "$(grep -c '^ results of' mnli.log)" = 1 ] || note "not one table of results"
[ "$(overall mnli | cut -d' ' -f2)" -ge 200 ] || note "MNLI: little was learnt: $(overall mnli)"
# one point an iteration: where an epoch ends, that of all samples
[ "$(sed -n 's/.*"iteration": *\([0-9]*\),.*"validation_loss".*/\1/p' mnli.jsonl | tr '\n' ' ')" = \
    "13 26 39 52 65 78 91 104 " ] ||
    note "validation rows: $(grep validation_loss mnli.jsonl)"
[ "$(cut -d, -f1 points/Train_Samples_eval_loss.csv | tr '\n' ' ')" = "step 104 208 312 416 520 624 728 832 " ] ||
    note "validation points: $(cat points/Train_Samples_eval_loss.csv)"
for step in 26 52 78 104; do [ -s mnli/iter_0000$(printf %03d $step)/model.safetensors ] ||
    note "no checkpoint at the end of an epoch, iteration $step"; done
grep -q '"MegatronBertForSequenceClassification"' mnli/iter_0000104/config.json ||
    note "config.json: $(cat mnli/iter_0000104/config.json)"
grep -q '"2": "neutral"' mnli/iter_0000104/config.json || note "no names of classes in config.json"

# ---- the folder is evaluated alone, with the same result, also in other layouts ----
task alone --task MNLI --load mnli --valid-data MNLI/dev_matched.tsv MNLI/train.tsv --micro-batch-size 7 --seq-length \
    16 --metrics-file alone.jsonl
loss() { sed -n 's/.*"validation_loss": *\([0-9.e+-]*\).*/\1/p' "$1.jsonl" | tail -1; }
awk -v a="$(loss mnli)" -v b="$(loss alone)" 'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 && d > -1e-5) }' ||
    note "the last validation loss is $(loss mnli), alone $(loss alone)"
[ "$(overall alone)" = "-1 $(overall mnli | cut -d' ' -f2)" ] ||
    note "evaluated alone: $(overall alone), after the training $(overall mnli)"
says alone '^ results of MNLI$'

# ---- a folder that names its classes in another order is asked for the same labels ----
mkdir named && cp mnli/iter_0000104/{model.safetensors,tokenizer*,vocab.txt} named
sed \
    's/"0": "contradiction"/"0": "ENTAILMENT"/; s/"1": "entailment"/"1": "Neutral"/; s/"2": "neutral"/"2": "contradiction"/' mnli/iter_0000104/config.json >named/config.json
for file in dev_matched train; do
    sed 's/contradiction$/@/; s/neutral$/contradiction/; s/entailment$/neutral/; s/@$/entailment/' MNLI/$file.tsv \
        >$file-named.tsv
done
task named --task MNLI --load named --valid-data dev_matched-named.tsv train-named.tsv --micro-batch-size 7 \
    --seq-length 16
[ "$(overall named)" = "$(overall alone)" ] ||
    note "classes in another order: $(overall named), expected $(overall alone)"
sed -i 's/Neutral/other/' named/config.json
refuses "other classes" \
    "--load named: its config.json calls the classes ENTAILMENT, other, contradiction (id2label)|expected contradiction, entailment, neutral" \
    tasks --task MNLI --load named --valid-data MNLI/dev_matched.tsv --micro-batch-size 7 --seq-length 16

# ---- resumed after the second epoch, it is the run that was not interrupted ----
mkdir half && cp -r mnli/iter_0000052 half && echo 52 >half/latest_checkpointed_iteration.txt
task rest "${mnli[@]}" --pretrained-checkpoint bert --epochs 4 --load half --save rest
last=iter_0000104
for file in model.safetensors config.json state/optimizer.safetensors; do
    cmp -s mnli/$last/$file rest/$last/$file || note "$file of the resumed run differs: $(ls mnli rest)"
done
grep -i warning rest.log | grep -vxFf <(grep -i warning mnli.log; echo .) >out && note "the resumed run warns of more"
# whether the epoch of the checkpoint was evaluated is not known: that is done first
diff <(grep -E '^ >+ .epoch: [123]|^   (dev|train|overall)' mnli.log | sed 's/, elapsed.*//') \
    <(grep -E '^ >+ .epoch: [0123]|^   (dev|train|overall)' rest.log | sed 's/, elapsed.*//') >out ||
    note "a resumed run has other results"
mkdir empty
task again "${mnli[@]}" --pretrained-checkpoint bert --epochs 1 --load empty
says again 'loading checkpoint from bert/iter_0000004'
# every folder that can be loaded comes before --pretrained-checkpoint
mkdir released && cp -r mnli/iter_0000104 released/release && echo release >released/latest_checkpointed_iteration.txt
for folder in mnli/iter_0000104 released; do
    task first --task MNLI --pretrained-checkpoint bert --load $folder --valid-data MNLI/dev_matched.tsv \
        MNLI/train.tsv --micro-batch-size 7 --seq-length 16
    [ "$(overall first)" = "$(overall alone)" ] ||
        note "--load $folder is passed over: $(overall first), expected $(overall alone)"
done
says first '\(--epochs 0\)'

# ---- the last batch ----
task short --task QQP "${sizes[@]}" --seq-length 16 --vocab-file vocab.txt --train-data QQP/train.tsv --valid-data \
    QQP/dev.tsv --micro-batch-size 16 \
    --lr 1e-3 --epochs 1 --log-interval 1
says short '^ iteration +13/ +13 '
says short 'QQP/dev.tsv: 1 rows are left out'
task kept --task QQP "${sizes[@]}" --seq-length 16 --vocab-file vocab.txt --train-data QQP/train.tsv --valid-data \
    QQP/dev.tsv --micro-batch-size 16 \
    --lr 1e-3 --epochs 1 --log-interval 1 --keep-last
says kept '^ iteration +14/ +14 '
says kept '^ > \|epoch: 0\| metrics for dev: correct / total = [0-9]+ / 40 = '

# the samples that fill up the last batch weigh nothing, however many micro-batches they fill
last() { grep -oE '^ iteration +14/ .*' "$1.log" | grep -oE '(lm loss|grad norm): [0-9.E+-]+'; }
for micro in 16 4; do
    task kept$micro --task QQP "${sizes[@]}" --seq-length 16 --vocab-file vocab.txt --train-data QQP/train.tsv \
        --valid-data QQP/dev.tsv \
        --micro-batch-size $micro --global-batch-size 16 --lr 1e-3 --epochs 1 --log-interval 1 --keep-last \
        --hidden-dropout 0 --attention-dropout 0
done
paste <(last kept16) <(last kept4) | awk \
    '{ d = $3 - $6; if (d < 0) d = -d; if (d > 1e-3 * $3) wrong = 1; rows++ } END { exit !(rows == 2 && !wrong) }' ||
    note "the last batch of an epoch in micro-batches of 16 and of 4: $(last kept16) and $(last kept4)"

# ---- one sentence ----
mkdir SST-2
awk -F'\t' 'NR == 1 { print "sentence\tlabel"; next } { printf "%s\t%d\n", $9, $12 == "neutral" }' MNLI/train.tsv \
    >SST-2/train.tsv
awk -F'\t' 'NR == 1 { print "index\tsentence"; next } NR < 22 { printf "%d\t%s\n", NR - 2, $9 }' MNLI/train.tsv \
    >SST-2/test.tsv
task sentence --task SST-2 --pretrained-checkpoint bert --seq-length 16 --train-data SST-2/train.tsv --valid-data \
    SST-2/train.tsv SST-2/test.tsv \
    --vocab-file vocab.txt --micro-batch-size 8 --lr 2e-3 --epochs 4 --log-interval 10 --eval-interval 1000
says sentence '^   test +[0-9]+ +20 +[0-9.]+ +no labels$'
says sentence '^   overall .* no labels$'
says sentence 'SST-2/test.tsv: a test file of SST-2, without labels: all its samples count as "negative"'
says sentence '^ > \|epoch: 3\| metrics for test: correct / total = [0-9]+ / 20 = '
[ "$(sed -n 's/^ > |epoch: 3| metrics for train: correct \/ total = \([0-9]*\) .*/\1/p' sentence.log)" -ge 180 ] ||
    note "SST-2: little was learnt: $(overall sentence)"

mkdir CoLA # which has no names of columns
awk -F'\t' 'NR > 1 { printf "x\t%d\t\t%s\n", $12 == "neutral", $9 }' MNLI/train.tsv >CoLA/train.tsv
task cola --task CoLA --pretrained-checkpoint bert --seq-length 16 --train-data CoLA/train.tsv --valid-data \
    CoLA/train.tsv \
    --vocab-file vocab.txt --micro-batch-size 8 --lr 2e-3 --epochs 1 --log-interval 10 --eval-interval 1000 --save cola
says cola '^ > \|epoch: 0\| metrics for train: correct / total = [0-9]+ / 210 = '
grep -q '"unacceptable"' cola/iter_*/config.json || note "the names of the classes of CoLA"

{ printf 'source\tlabel\tmark\tsentence\n' && cat CoLA/train.tsv; } >CoLA/named.tsv

# ---- RACE ----
race=(--task RACE "${sizes[@]}" --seq-length 24 --vocab-file vocab.txt --train-data RACE/train/high --valid-data \
    RACE/dev/high --micro-batch-size 4
    --lr 1e-3 --log-interval 1 --eval-interval 1000)
task race "${race[@]}" --pretrained-checkpoint bert --epochs 1 --save race --log-progress --metrics-file race.jsonl
says race '^ > \|epoch: 0\| metrics for dev-high: correct / total = [0-9]+ / 24 = '
grep -q '"MegatronBertForMultipleChoice"' race/iter_0000014/config.json ||
    note "config.json: $(cat race/iter_0000014/config.json)"
task race2 --task RACE --load race --valid-data RACE/dev/high --micro-batch-size 3 --seq-length 24
[ "$(overall race2 | cut -d' ' -f2)" = "$(overall race | cut -d' ' -f2)" ] ||
    note "RACE evaluated alone: $(overall race2), $(overall race)"
grep -q 'tokens seen | 14, 56, 5,376 |' race/iter_0000014/README.md ||
    note "the card counts other tokens: $(grep 'tokens seen' race/iter_0000014/README.md)"
grep -q 'samples: 56.tokens: 5376$' race/progress.txt || note "progress.txt: $(cat race/progress.txt)"
[ -s race.jsonl.run.json ] || note "a run of RACE is not described"
"$MEGALITH" plan tasks "${race[@]}" --epochs 1 >out 2>&1 || note "plan of RACE"
awk \
    '/a token, attention/ { token = $(NF - 1) } /an iteration/ { step = $3; unit = $4 } END { d = step * 1000 / token / 384 - 1; exit !(unit == "GFLOP" && d * d < 1e-4) }' out ||
    note "plan of RACE: an iteration is not 384 tokens: $(grep -E 'a token|an iteration' out)"

# ---- real texts in the forms of the three tasks ----
data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}
if [ -f "$data/nli/snli-in-mnli-columns-train.tsv" ] && [ -f "$data/race/race-dev.txt" ] &&
    [ -f "$data/bert/vocab-uncased.txt" ]; then
    for part in train dev; do
        awk -F'\t' 'NR == 1 { print "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"; next }
            { printf "%d\t%d\t%d\t%s\t%s\t%d\n", NR, 2 * NR, 2 * NR + 1, $9, $10, $12 == "entailment" }' "$data/nli/snli-in-mnli-columns-$part.tsv" >"qqp-$part.tsv"
    done
    head -12 "$data/race/race-dev.txt" >race-train.txt
    sed -n '13,20p' "$data/race/race-dev.txt" >race-dev.txt
    real=("${sizes[@]}" --max-position-embeddings 128 --seq-length 128 --tokenizer-type BertWordPieceLowerCase \
        --vocab-file "$data/bert/vocab-uncased.txt"
        --micro-batch-size 4 --lr 1e-3 --epochs 1 --log-interval 10 --eval-interval 1000)
    task real_mnli --task MNLI "${real[@]}" --train-data "$data/nli/snli-in-mnli-columns-train.tsv" --valid-data \
        "$data/nli/snli-in-mnli-columns-dev.tsv"
    says real_mnli '^ >> .epoch: 0. overall: correct / total = [0-9]+ / 100 = '
    task real_qqp --task QQP "${real[@]}" --train-data qqp-train.tsv --valid-data qqp-dev.tsv
    says real_qqp '^ >> .epoch: 0. overall: correct / total = [0-9]+ / 100 = '
    task real_race --task RACE "${real[@]}" --train-data race-train.txt --valid-data race-dev.txt
    says real_race \
        "^ >> .epoch: 0. overall: correct / total = [0-9]+ / $(awk '{ n += gsub(/"[A-D]"/, "") } END { print n }' race-dev.txt) = "
fi

# ---- a task begun from the classifier of another ----
task other --task QQP --pretrained-checkpoint mnli --seq-length 16 --train-data QQP/train.tsv --valid-data QQP/dev.tsv \
    --micro-batch-size 16 --epochs 1 \
    --lr 1e-3 --save other
says other 'a new classifier begins with random weights; that of the folder, of another task, is left out'
says other '^ >> .epoch: 0. overall: correct / total = [0-9]+ / '
grep -q '"not_duplicate"' other/iter_*/config.json || note "the names of the classes of a task begun from another"

# ---- plans and refusals ----
tac vocab.txt >reversed.txt
"$MEGALITH" plan tasks "${mnli[@]}" --pretrained-checkpoint bert --epochs 4 >out 2>&1 || note "plan"
refuses "without a classifier" "the folder holds a megatron-bert without a classifier, and nothing is trained" tasks \
    --task MNLI --load bert --seq-length 16 \
    --valid-data MNLI/dev_matched.tsv --micro-batch-size 4
refuses "not begun" "--pretrained-checkpoint with this folder begins one" tasks "${mnli[@]}" --load bert --epochs 1
refuses "another batch" \
    "have 8 samples, and those of this run 4|give the same batch (--global-batch-size)|--pretrained-checkpoint mnli" \
    tasks "${mnli[@]}" --load mnli --epochs 5 --micro-batch-size 4
refuses "another task" "the folder holds a classifier of 3 classes, and QQP has 2 classes" tasks --task QQP --load \
    mnli --valid-data QQP/dev.tsv \
    --micro-batch-size 4 --seq-length 16
refuses "pretrain_bert" "the folder holds a classifier (megatron-bert), which megalith tasks trains" pretrain_bert \
    --load mnli --finetune --seq-length 16 \
    --micro-batch-size 4 --train-iters 1 --lr 1e-3 --data-path t_text_sentence
refuses "all mistakes" "missing: --train-data|no_such.tsv: there is no such file" tasks --task MNLI --epochs 1 \
    --valid-data no_such.tsv --lr 1e-3 \
    --micro-batch-size 4 --seq-length 16 --vocab-file vocab.txt "${sizes[@]}"
refuses "another length" "samples of decay|follow from --epochs, --train-data, --keep-last" tasks "${mnli[@]}" --load \
    half --epochs 5
refuses "all files" \
    "3 mistakes|QQP/dev.tsv:1: not the first|SST-2/train.tsv:1: not the first|SST-2/test.tsv:1: not the first" \
    tasks --task MNLI --load mnli --valid-data QQP/dev.tsv MNLI/dev_matched.tsv SST-2/train.tsv SST-2/test.tsv \
    --micro-batch-size 4 --seq-length 16
refuses "names in CoLA" "CoLA/named.tsv:1: names of columns, or a row without a label in column 2" tasks --task CoLA \
    --load cola --seq-length 16 \
    --valid-data CoLA/named.tsv --micro-batch-size 4
refuses "no labels to learn" "SST-2/test.tsv: its 2 columns are those of a test file of SST-2" tasks --task SST-2 \
    --pretrained-checkpoint bert --seq-length 16 \
    --train-data SST-2/test.tsv --valid-data SST-2/train.tsv --micro-batch-size 2 --lr 1e-3 --epochs 1
refuses "another tokenizer" "was trained with another tokenizer" tasks --task MNLI --load mnli --vocab-file \
    reversed.txt --valid-data MNLI/dev_matched.tsv \
    --micro-batch-size 4 --seq-length 16
case $refused in *"no memory"*) note "a refused tokenizer is taken for a lack of memory: $refused" ;; esac
refuses "options of others" \
    "4 mistakes|--overlapping-eval 4|--json-key x|--strict-lambada|--train-iters 3 (argument|--exit-interval N" tasks \
    "${mnli[@]}" \
    --pretrained-checkpoint bert --epochs 1 --train-iters 3 --overlapping-eval 4 --json-key x --strict-lambada
refuses "options of labels" "--strict-lambada|--keep-last (argument|only tasks with labels" tasks --task LM_LOSS \
    --load mnli --valid-data text.txt --keep-last --strict-lambada
task unused --task MNLI --load mnli --valid-data MNLI/dev_matched.tsv --micro-batch-size 7 --seq-length 16 --save \
    nowhere --lr 1e-3 --keep-last
says unused 'nothing is trained \(--epochs 0\), so that these have no effect: --keep-last, --save, --lr$'
refuses "a small file" "do not fill a batch of 512" tasks "${mnli[@]}" --pretrained-checkpoint bert --epochs 1 \
    --global-batch-size 512
refuses "a wrong file" "QQP/dev.tsv:1: not the first line of such a file" tasks --task MNLI --load mnli --valid-data \
    QQP/dev.tsv --micro-batch-size 4 --seq-length 16
finish
