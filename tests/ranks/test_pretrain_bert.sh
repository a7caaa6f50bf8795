#!/usr/bin/env bash
# pretrain_bert: its two losses in log lines and evaluations, the same losses over tp, sp, pp, dp and ZeRO as on one
# rank, resumed bit for bit; folders of megatron-bert, bert and without a head for pairs, which transformers loads
# whole; what is refused.
set -u
. "$MEGA_SOURCE/tests/kit/ranks_train.sh"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl '##s' runs jumps sleeps over under \
    quick lazy red blue one two three \
    four five six seven '##teen' '##ty' >vocab.txt
awk \
    'BEGIN { split("fox dog cat owl foxs dogs cats owls", animal); split("runs jumps sleeps", verb); split("quick lazy red blue", kind)
    split("one two three four five six seven sixteen seventeen sixty seventy", number)
    for (i = 1; i <= 160; i++) { for (k = 0; k < 3 + i % 5; k++) printf "The %s %s %s over %s %s. ", kind[1 + (i + k) % 4], animal[1 + (i * 7 + k) % 8],
        verb[1 + (i + k * k) % 3], number[1 + (i * 3 + k) % 11], animal[1 + (i * 5 + 3 * k) % 8]; print "\n" } }' >fables.txt
"$MEGALITH" preprocess_data --input fables.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix f >prepare.log 2>&1 || fail "preprocessing: $(tail -3 prepare.log)"
base=(pretrain_bert --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 2 \
    --global-batch-size 8 --lr 1e-3
    --lr-decay-iters 20 --log-interval 1 --eval-interval 5 --eval-iters 2 --num-threads 1 --vocab-file vocab.txt \
        --data-path f_text_sentence
    --split 80,20,0)
losses() { grep -oE '"(iteration|loss|lm_loss|sop_loss|grad_norm|validation_loss)": *[0-9.e+-]+' "$1"; }
"$MEGALITH" "${base[@]}" --train-iters 10 --save one --save-interval 5 --metrics-file one.jsonl >one.log 2>&1 ||
    fail "one rank: $(tail -3 one.log)"
grep -qE '^ iteration +10/ +10 .* global batch size: +8 \| lm loss: [0-9.E+-]+ \| sop loss: [0-9.E+-]+ \| loss scale:' \
    one.log ||
    fail "no line of two losses: $(grep '^ iteration' one.log)"
grep -qE \
    'validation loss at iteration 5 \| lm loss value: [0-9.E+-]+ \| lm loss PPL: [0-9.E+-]+ \| sop loss value: [0-9.E+-]+ \| sop loss PPL: [0-9.E+-]+ \| $' \
    one.log || fail "no line of an evaluation: $(grep validation one.log)"

# Resumed from iteration 5, it computes the same bits.
mkdir half && cp -r one/iter_0000005 half && echo 5 >half/latest_checkpointed_iteration.txt
"$MEGALITH" "${base[@]}" --train-iters 10 --load half --metrics-file rest.jsonl >rest.log 2>&1 ||
    fail "resuming: $(tail -3 rest.log)"
diff <(losses one.jsonl | tail -n "$(losses rest.jsonl | wc -l)") <(losses rest.jsonl) >diff.log &&
    [ "$(losses rest.jsonl | wc -l)" -ge 20 ] ||
    fail "a resumed run differs: $(head -5 diff.log)"

# The same losses in other layouts.
over() { # ranks, options
    local n=$1
    shift
    ranks "$n" "$MEGALITH" "${base[@]}" --train-iters 10 --metrics-file many.jsonl "$@" >many.log 2>&1 </dev/null ||
        fail "$n ranks, $*: $(tail -3 many.log)"
    near many.jsonl one.jsonl 3e-5 || fail \
        "$n ranks, $*: other losses than one rank: $(paste <(losses many.jsonl) <(losses one.jsonl) | head -12)"
    rm many.jsonl
}
over 2 --tensor-model-parallel-size 2 --sequence-parallel
over 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 \
    --recompute-granularity full
over 4 --pipeline-model-parallel-size 2 --zero-stage 1 --recompute-granularity selective
over 2 --zero-stage 3

# 16 bits, and the other forms.
for form in "--bf16" "--fp16" "--bert-form bert --bert-nsp" "--bert-no-binary-head --mask-prob 0.3"; do
    # shellcheck disable=SC2086 # options and values
    "$MEGALITH" "${base[@]}" $form --train-iters 3 --eval-iters 0 --save "form${form// /}" >form.log 2>&1 ||
        fail "$form: $(tail -3 form.log)"
done
grep -q 'sop loss' form.log && fail "--bert-no-binary-head shows a loss of pairs"
grep -q '"BertForPreTraining"' form--bert-formbert--bert-nsp/iter_*/config.json ||
    fail "--bert-form bert: $(cat form--bert-form*/iter_*/config.json)"
grep -q '"MegatronBertForMaskedLM"' form--bert-no-binary-head*/iter_*/config.json ||
    fail "--bert-no-binary-head: $(cat form--bert-no*/iter_*/config.json)"
# A folder without a head for pairs says so itself, and is trained further without the options that made it.
"$MEGALITH" pretrain_bert --load form--bert-no-binary-head--mask-prob0.3 --finetune --seq-length 48 --micro-batch-size \
    2 --lr 1e-3 --train-iters 2 --eval-iters 0 \
    --data-path f_text_sentence >again.log 2>&1 || fail "a folder alone: $(tail -3 again.log)"
if [ -x "${MEGA_PEERS:-}" ]; then
    cat >load.py <<'PY'
import glob, transformers
for pattern, kind in (("one/iter_0000010", "MegatronBertForPreTraining"), ("form--bert-formbert--bert-nsp/iter_*", "BertForPreTraining"),
                      ("form--bert-no-binary-head*/iter_*", "MegatronBertForMaskedLM")):
    model, info = getattr(transformers, kind).from_pretrained(glob.glob(pattern)[0], output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], (pattern, info)
PY
    "$MEGA_PEERS" load.py >load.log 2>&1 || fail "transformers: $(tail -3 load.log)"
fi

refused() { # text, options
    local text=$1
    shift
    "$MEGALITH" "$@" >refused.log 2>&1 && fail "$* is not refused"
    grep -q -- "$text" refused.log || fail "$*: $(tail -3 refused.log)"
}
refused 'error: --bert-nsp: there is no binary head' "${base[@]}" --train-iters 1 --bert-nsp --bert-no-binary-head
again=(pretrain_bert --load one --finetune --seq-length 48 --micro-batch-size 2 --lr 1e-3 --train-iters 1 --data-path \
    f_text_sentence)
refused '--bert-form bert .*, --openai-gelu .* has another kind of network' "${again[@]}" --bert-form bert --openai-gelu
"$MEGALITH" "${again[@]}" --bert-form megatron --dry-run >again.log 2>&1 ||
    fail "the form of the folder: $(tail -3 again.log)"
refused '--seq-length 9 .*: expected 10 or more' "${base[@]}" --train-iters 1 --seq-length 9
"$MEGALITH" "${base[@]}" --train-iters 1 --seq-length 10 --dry-run >again.log 2>&1 ||
    fail "--seq-length 10: $(tail -3 again.log)"
refused '48 .*: expected 10003 or more' "${base[@]}" --train-iters 1 --mask-prob 0.0001
refused 'is about several documents' "${base[@]}" --train-iters 1 --reset-attention-mask
refused 'lacks \[CLS\]' "${base[@]}" --train-iters 1 --tokenizer-type ByteTokenizer
refused 'which pretrain_bert trains' pretrain_gpt --load one --finetune --seq-length 32 --micro-batch-size 2 --lr 1e-3 \
    --train-iters 1 --data-path d_text_document
refused 'continues no text' generate_samples_gpt --load one --prompt fox --out-seq-length 4
refused '--bert-no-binary-head .* trains the head for pairs .* give --finetune' "${base[@]}" --train-iters 12 --load \
    one --bert-no-binary-head
refused 'error: --load: the folder holds an encoder (megatron-bert), which pretrain_bert trains' pretrain_t5 \
    "${again[@]:1}"
refused 'error: --swiglu (argument [0-9]*): no config.json' "${base[@]}" --train-iters 1 --swiglu
refused '--position-embedding-type rope .*this combination of options' "${base[@]}" --train-iters 1 \
    --position-embedding-type rope
