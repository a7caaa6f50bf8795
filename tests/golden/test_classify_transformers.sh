#!/usr/bin/env bash
# Classifiers that tasks has trained: transformers loads the folders whole, and finds the same samples right with the
# same loss; a bert of transformers, with and without a classifier, is taken as it is.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
[ -x "${MEGA_PEERS:-}" ] || skip "MEGA_PEERS names no Python that has transformers"
export OMP_NUM_THREADS=1
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . '?' ',' the is here fox dog cat owl who a b c d e f g h \
    sleeps runs >vocab.txt
words() { awk -v n="$1" -v s="$2" \
    'BEGIN { split("the is here fox dog cat owl who a b c d e f g h sleeps runs , . ?", w, " "); srand(s)
    for (i = 0; i < n; i++) { printf "%s%s", i ? " " : "", w[1 + int(21 * rand())] } }'; }
labels=(contradiction entailment neutral)
tasks=(MNLI QQP RACE SST-2 CoLA MRPC QNLI RTE WNLI)
mkdir "${tasks[@]}"
printf 'index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2\tgold_label\n' >MNLI/a.tsv
printf 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n' >QQP/a.tsv
printf 'sentence\tlabel\n' >SST-2/a.tsv
printf 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n' >MRPC/a.tsv
for task in QNLI RTE WNLI; do printf 'index\tsentence1\tsentence2\tlabel\n' >$task/a.tsv; done
entailed=(entailment not_entailment)
for i in $(seq 0 29); do
    one=$(words $((1 + i % 11)) $((2 * i + 1))) two=$(words $((1 + i * 7 % 13)) $((2 * i + 2)))
    printf '%d\t0\t0\tg\t\t\t\t\t%s\t%s\t%s\n' "$i" "$one" "$two" "${labels[i % 3]}" >>MNLI/a.tsv
    printf '%d\t1\t2\t%s\t%s\t%d\n' "$i" "$one" "$two" $((i % 2)) >>QQP/a.tsv
    printf '%s \t%d\n' "$one" $((i % 2)) >>SST-2/a.tsv
    printf 'x\t%d\t\t%s\n' $((i % 2)) "$one" >>CoLA/a.tsv
    printf '%d\t1\t2\t%s\t%s\n' $((i % 2)) "$one" "$two" >>MRPC/a.tsv
    for task in QNLI RTE; do printf '%d\t%s\t%s\t%s\n' "$i" "$one" "$two" "${entailed[i % 2]}" >>$task/a.tsv; done
    printf '%d\t%s\t%s\t%d\n' "$i" "$one" "$two" $((i % 2)) >>WNLI/a.tsv
    printf \
        '{"article": "%s", "questions": ["%s", "the _ sleeps"], "options": [["a b", "c", "d", "e f"], ["fox", "dog", "cat", "owl"]], "answers": ["%s", "%s"]}\n' \
        "$one" "$two" "$(printf 'ABCD' | cut -c$((1 + i % 4)))" "$(printf 'ABCD' | cut -c$((1 + i * 3 % 4)))" \
        >>RACE/a.txt
done
cat >begin.py <<'PY'
import torch
import transformers
torch.manual_seed(0)
config = transformers.BertConfig(vocab_size=26, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=24,
                                 initializer_range=0.2)
transformers.BertForPreTraining(config).save_pretrained("bert")
transformers.BertTokenizerFast("vocab.txt").save_pretrained("bert")
PY
"$MEGA_PEERS" begin.py >out 2>err || fail "making a BERT: $(tail -1 err)"
cases=()
for task in "${tasks[@]}"; do
    data=$task/a.tsv
    [ $task = RACE ] && data=RACE/a.txt
    for from in "--pretrained-checkpoint bert" \
        "--vocab-file vocab.txt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 24 --init-method-std 0.2"; do
        saved=$task${#from}
        # shellcheck disable=SC2086 # options and values
        "$MEGALITH" tasks --task $task $from --seq-length 20 --train-data "$data" --valid-data "$data" \
            --micro-batch-size 10 --lr 1e-3 --epochs 2 \
            --eval-interval 1000 --save "$saved" >"$saved.log" 2>&1 || fail "$task $from: $(tail -2 "$saved.log")"
        folder=$(echo "$saved"/iter_*"$(cat "$saved/latest_checkpointed_iteration.txt")")
        "$MEGALITH" tasks --task $task --load "$folder" --seq-length 20 --valid-data "$data" --micro-batch-size 10 \
            --metrics-file "$saved.jsonl" >log 2>&1 ||
            note "$task: evaluated alone: $(tail -2 log)"
        cases+=("$folder" "$task" 20 "$data")
    done
done
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/classify_transformers.py" "${cases[@]}" >theirs 2>err ||
    fail "transformers: $(tail -1 err)"
[ "$(wc -l <theirs)" = $((${#cases[@]} / 4)) ] || note "transformers evaluated other folders: $(cat theirs)"
while read -r folder right total loss; do
    saved=${folder%%/*} samples=30
    case $saved in RACE*) samples=60 ;; esac
    [ "$total" = $samples ] || note "$saved: transformers has $total samples"
    ours=$(sed -n 's/^ >> |epoch: 1| overall: correct \/ total = \([0-9]*\) \/ .*/\1/p' "$saved.log")
    [ "$ours" = "$right" ] || note "$saved: $ours samples are right, transformers says $right"
    awk -v a="$loss" -v b="$(sed -n 's/.*"validation_loss": *\([0-9.e+-]*\).*/\1/p' "$saved.jsonl" | tail -1)" \
        'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 && d > -1e-5) }' ||
        note "$saved: the loss is $loss in transformers, here: $(tail -1 "$saved.jsonl")"
done <theirs
finish
