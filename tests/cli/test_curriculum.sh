#!/usr/bin/env bash
# A curriculum of sequence length: what a log shows, what is counted in tokens, the plan of a large model, and mistakes.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

for i in $(seq 1 200); do echo "$i: pack my box with $((i * 7919 % 1000)) dozen liquor jugs"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod --output-prefix text >out 2>&1 || fail "$(cat out)"
model="--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3"
run="$model --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --eval-iters 1 --eval-interval 5 --log-interval 1 --num-threads 1 --clip-grad 1.0 --weight-decay 0.01"
lengths() { sed -n 's/.* curriculum seqlen: *\([0-9]*\) .*/\1/p' "$1" | tr '\n' ' '; }

# The JSON of DeepSpeed and the options are the same training.
cat >curriculum.json <<'JSON'
{"curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 24, "schedule_type": "fixed_root",
  "schedule_config": {"total_curriculum_step": 6, "difficulty_step": 8, "root_degree": 2}}}
JSON
# shellcheck disable=SC2086  # lists of words
"$MEGALITH" pretrain_gpt $run --train-iters 7 --deepspeed --deepspeed_config curriculum.json --metrics-file json.jsonl >json.log 2>&1 || fail "$(cat json.log)"
# floor(sqrt(t / 6) * 16 + 8), rounded down to a multiple of 8
[ "$(lengths json.log)" = '8 16 16 16 16 24 24 ' ] || fail "lengths: $(lengths json.log)"
grep -q 'iteration        7/       7 | consumed samples:           28 | consumed tokens:          480 |' json.log || fail "tokens: $(grep 'iteration  ' json.log)"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt $run --train-iters 7 --curriculum-learning --curriculum-schedule fixed_root --curriculum-min-difficulty 8 --curriculum-total-steps 6 \
    --curriculum-root-degree 2 --metrics-file options.jsonl >options.log 2>&1 || fail "$(cat options.log)"
losses() { grep -oE '"(iteration|lm_loss|grad_norm)": [^,]*' "$1"; }
diff <(losses json.jsonl) <(losses options.jsonl) >out || fail "JSON and options differ: $(head -n 4 out)"

# Whole samples from the first step on are the training without a curriculum.
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt $run --train-iters 3 --metrics-file plain.jsonl >plain.log 2>&1 || fail "$(cat plain.log)"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt $run --train-iters 3 --curriculum-learning --curriculum-schedule fixed_discrete --curriculum-difficulty 24 --metrics-file stair.jsonl >stair.log 2>&1 ||
    fail "$(cat stair.log)"
diff <(losses plain.jsonl) <(losses stair.jsonl) >out || fail "a curriculum of whole samples: $(head -n 4 out)"

# Tokens end the training: 4 samples of 8, 8, 16, 16, 24, … tokens.
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt $run --train-tokens 200 --train-iters 100 --curriculum-learning --curriculum-schedule fixed_discrete --curriculum-difficulty 8 16 24 \
    --curriculum-max-step 2 4 --lr-decay-style linear --lr-warmup-iters 2 --lr-decay-tokens 192 >tokens.log 2>&1 || fail "$(cat tokens.log)"
grep -q 'iteration        5/       5 | consumed samples:           20 | consumed tokens:          288 |' tokens.log || fail "tokens: $(grep 'iteration  ' tokens.log)"
# a warm-up in iterations, then a decay from token 64 to token 192: after 0, 32, 64, 128, 192 tokens
rates=$(sed -n 's/.* learning rate: *\([^ ]*\) .*/\1/p' tokens.log | tr '\n' ' ')
[ "$rates" = '0.000E+00 5.000E-04 1.000E-03 5.000E-04 0.000E+00 ' ] || fail "learning rates: $rates"

# A dry run of the GPT-3 of Megatron's documentation, all options of pretrain_gpt3_175B.sh, its ramp among them; and with a curriculum counted in tokens.
"$MEGALITH" train_tokenizer --input text.txt --vocab-size 300 --output gpt2 >out 2>&1 || fail "$(cat out)"
gpt3="--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048
    --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 --train-samples 146484375
    --lr-decay-samples 126953125 --lr-warmup-samples 183105 --lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine --log-interval 10 --eval-iters 40
    --eval-interval 1000 --data-path 0.2 text_text_document 0.3 text_text_document 0.5 text_text_document --vocab-file gpt2/vocab.json
    --merge-file gpt2/merges.txt --save-interval 1000 --save gpt3 --load gpt3 --split 98,2,0 --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9
    --adam-beta2 0.95 --init-method-std 0.006 --tensorboard-dir tensorboard --fp16 --checkpoint-activations"
# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 1024 --memory-limit 4000G >whole.log 2>&1 || fail "$(tail -n 3 whole.log)"
# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 1024 --memory-limit 4000G --train-tokens 300000000000 --lr-decay-tokens 260000000000 --lr-warmup-tokens 375000000 \
    --curriculum-learning --curriculum-min-difficulty 80 --curriculum-total-steps 45000 >grown.log 2>&1 || fail "$(tail -n 3 grown.log)"
for log in whole grown; do
    grep -q '^layout       1,024 ranks: tensor 8 x pipeline 16 x data 8$' $log.log || fail "$log: $(cat $log.log)"
    grep -q '^parameters   173,990,387,712 ' $log.log || fail "$log: $(cat $log.log)"
done
# memory is planned for whole samples
for row in weights masters gradients optimizer saved scratch inputs packed data; do
    [ "$(grep "^  $row " whole.log)" = "$(grep "^  $row " grown.log)" ] || fail "$row: $(grep "^  $row " whole.log grown.log)"
done

# Mistakes.
refuses() { # TEXT COMMAND OPTIONS…
    # shellcheck disable=SC2086
    "$MEGALITH" "$2" $model --train-iters 3 "${@:3}" >out 2>&1 && fail "${*:2} is accepted"
    grep -qF -- "$1" out || fail "${*:2}: not refused with \"$1\": $(cat out)"
}
on=(--curriculum-learning --curriculum-min-difficulty 8 --curriculum-total-steps 6)
refuses 'missing: --curriculum-min-difficulty' plan --curriculum-learning
refuses 'custom' plan --curriculum-learning --curriculum-schedule custom
! grep -q 'missing: --curriculum' out || fail "a schedule that is refused asks for details: $(cat out)"
refuses 'missing: --curriculum-root-degree' plan "${on[@]}" --curriculum-schedule fixed_root
stairs=(--curriculum-learning --curriculum-schedule fixed_discrete)
refuses '2 numbers, and 2 of --curriculum-max-step; expected one last step' plan "${stairs[@]}" --curriculum-difficulty 8 16 --curriculum-max-step 2 4
refuses '2 numbers, and 0 of --curriculum-max-step' plan "${stairs[@]}" --curriculum-difficulty 8 16
refuses '--curriculum-max-step: number 2 is 2' plan "${stairs[@]}" --curriculum-difficulty 8 16 24 --curriculum-max-step 2 2
! grep -qF -- '--curriculum-difficulty 8' out || fail "a mistake of --curriculum-max-step is said to be of --curriculum-difficulty: $(cat out)"
refuses '--curriculum-max-difficulty 4 (argument' plan "${on[@]}" --curriculum-max-difficulty 4
refuses 'multiple of 64 (--curriculum-difficulty-step)' plan "${on[@]}" --curriculum-difficulty-step 64
! grep -q 'read 0 positions' out || fail "a step above the first length is told twice: $(cat out)"
refuses '--curriculum-root-degree: 0 must be greater' plan "${on[@]}" --curriculum-schedule fixed_root --curriculum-root-degree 0
! grep -qF 'curriculum.degree' out || fail "a degree of 0 is told twice: $(cat out)"
refuses '--curriculum-min-difficulty' plan "${on[@]}" --curriculum-min-difficulty 0
[ "$(grep -c 'error:.*curriculum' out)" = 1 ] || fail "one mistake is told twice: $(cat out)"
refuses '--curriculum-min-difficulty 99: expected at most the' plan "${on[@]}" --curriculum-min-difficulty 99
refuses 'each length has programs of its own' plan "${on[@]}" --profile-table
refuses '--lr-warmup-tokens 9' plan "${on[@]}" --lr-warmup-tokens 9 --lr-decay-tokens 9
refuses 'reads its samples whole' run_clm --curriculum-learning --curriculum-schedule fixed_discrete --curriculum-difficulty 8
refuses 'reads its samples whole' pretrain_bert --curriculum-learning --curriculum-schedule fixed_discrete --curriculum-difficulty 8
# shellcheck disable=SC2086
"$MEGALITH" plan $model --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel "${on[@]}" --curriculum-difficulty-step 1 --micro-batch-size 1 \
    --global-batch-size 1 >out 2>&1 && fail "odd rows are shared out over 2 ranks"
grep -q 'sequence parallelism cuts the' out || fail "odd rows: $(cat out)"
# shellcheck disable=SC2086
"$MEGALITH" plan $model --curriculum-max-difficulty 8 >out 2>&1 || fail "$(cat out)"
grep -q -- '--curriculum-max-difficulty 8 .*has no effect without --curriculum-learning' out || fail "$(cat out)"

# DeepSpeed asks for both difficulties under fixed_discrete: no warning, unless it would leave the stairs because of them.
stairs_of() { # MIN MAX
    printf '{"curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": %d, "max_difficulty": %d,
      "schedule_type": "fixed_discrete", "schedule_config": {"difficulty": [8, 16, 24], "max_step": [2, 4]}}}' "$1" "$2" >stairs.json
    # shellcheck disable=SC2086
    "$MEGALITH" pretrain_gpt $run --train-iters 3 --dry-run --deepspeed --deepspeed_config stairs.json >out 2>&1 || fail "stairs of a JSON: $(cat out)"
    grep -c 'has no effect with a curriculum' out
}
[ "$(stairs_of 8 24)" = 0 ] || fail "a warning of keys that DeepSpeed asks for: $(cat out)"
[ "$(stairs_of 8 16)" = 2 ] || fail "no warning of stairs above max_difficulty: $(cat out)"

# A mistake names the key of the JSON that made it.
echo '{"curriculum_learning": {"enabled": true, "min_difficulty": 99, "schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 6}}}' >long.json
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt $run --train-iters 3 --dry-run --deepspeed --deepspeed_config long.json >out 2>&1 && fail "samples of 99 tokens are accepted"
grep -qF '"curriculum_learning.min_difficulty" 99: expected at most the' out || fail "$(cat out)"
exit 0
