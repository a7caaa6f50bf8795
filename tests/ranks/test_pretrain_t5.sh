#!/usr/bin/env bash
# pretrain_t5: the same losses over tp, sp, pp (cut between the stacks, by weights and interleaved), dp and ZeRO as on
# one rank, resumed bit for bit; folders of megatron-t5, t5, mt5 and umt5, of which transformers loads the last three
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
base=(pretrain_t5 --num-layers 2 --decoder-num-layers 3 --hidden-size 32 --num-attention-heads 4 --encoder-seq-length \
    48 --decoder-seq-length 24
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 5 \
        --eval-iters 2 --num-threads 1
    --vocab-file vocab.txt --vocab-extra-ids 20 --data-path f_text_sentence --split 80,20,0)
losses() { grep -oE '"(iteration|loss|lm_loss|grad_norm|validation_loss)": *[0-9.e+-]+' "$1"; }
"$MEGALITH" "${base[@]}" --train-iters 10 --save one --save-interval 5 --metrics-file one.jsonl >one.log 2>&1 ||
    fail "one rank: $(tail -3 one.log)"
grep -qE '^ iteration +10/ +10 .* global batch size: +8 \| lm loss: [0-9.E+-]+ \| loss scale:' one.log ||
    fail "no line of a loss: $(grep '^ iteration' one.log)"
grep -q 'transformers cannot load these checkpoints.*model_type megatron-t5' one.log ||
    fail "the form of Megatron is not told: $(grep -i warn one.log)"
grep -q '"decoder_start_token_id": ' one/iter_0000010/config.json || fail "the beginning of the decoder is not saved"

# Resumed from iteration 5, it computes the same bits.
mkdir half && cp -r one/iter_0000005 half && echo 5 >half/latest_checkpointed_iteration.txt
"$MEGALITH" "${base[@]}" --train-iters 10 --load half --metrics-file rest.jsonl >rest.log 2>&1 ||
    fail "resuming: $(tail -3 rest.log)"
diff <(losses one.jsonl | tail -n "$(losses rest.jsonl | wc -l)") <(losses rest.jsonl) >diff.log &&
    [ "$(losses rest.jsonl | wc -l)" -ge 15 ] ||
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
over 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-split-rank 1 \
    --recompute-granularity full
over 4 --pipeline-model-parallel-size 4 --recompute-granularity selective
over 4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --zero-stage 1
over 2 --zero-stage 3
# A large vocabulary leaves the last stage the head alone, which reads nothing of the encoder.
over 2 --pipeline-model-parallel-size 2 --make-vocab-size-divisible-by 8192
over 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --make-vocab-size-divisible-by 8192

# 16 bits, and the other forms.
for form in "--bf16" "--fp16" "--t5-form t5" "--t5-form v1.1" "--t5-form mt5 --swiglu --ffn-hidden-size 64" \
    "--t5-form umt5"; do
    # shellcheck disable=SC2086 # options and values
    "$MEGALITH" "${base[@]}" $form --train-iters 3 --eval-iters 0 --save "form${form// /}" >form.log 2>&1 ||
        fail "$form: $(tail -3 form.log)"
done
grep -q '"T5ForConditionalGeneration"' form--t5-formt5/iter_*/config.json ||
    fail "--t5-form t5: $(cat form--t5-formt5/iter_*/config.json)"
grep -q '"gated-gelu"' form--t5-formv1.1/iter_*/config.json ||
    fail "--t5-form v1.1: $(cat form--t5-formv1.1/iter_*/config.json)"
grep -q '"gated-silu"' form--t5-formmt5*/iter_*/config.json ||
    fail "--t5-form mt5 --swiglu: $(cat form--t5-formmt5*/iter_*/config.json)"
# A folder says its form itself.
"$MEGALITH" pretrain_t5 --load form--t5-formv1.1 --finetune --seq-length 48 --decoder-seq-length 30 --micro-batch-size \
    2 --lr 1e-3 --train-iters 2 \
    --eval-iters 0 --data-path f_text_sentence >again.log 2>&1 || fail "a folder alone: $(tail -3 again.log)"
if [ -x "${MEGA_PEERS:-}" ]; then
    cat >load.py <<'PY'
import glob, transformers
for pattern, kind in (("form--t5-formt5/iter_*", "T5ForConditionalGeneration"), ("form--t5-formv1.1/iter_*", "T5ForConditionalGeneration"),
                      ("form--t5-formmt5*/iter_*", "MT5ForConditionalGeneration"), ("form--t5-formumt5/iter_*", "UMT5ForConditionalGeneration")):
    model, info = getattr(transformers, kind).from_pretrained(glob.glob(pattern)[0], output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], (pattern, info)
    assert model.config.num_decoder_layers == 3 and model.config.d_kv == 8, model.config
PY
    "$MEGA_PEERS" load.py >load.log 2>&1 || fail "transformers: $(tail -3 load.log)"
fi

refused() { # text, options
    local text=$1
    shift
    "$MEGALITH" "$@" >refused.log 2>&1 && fail "$* is not refused"
    grep -q -- "$text" refused.log || fail "$*: $(tail -3 refused.log)"
}
refused 'error: the tokenizer .* lacks <extra_id_0>' "${base[@]}" --train-iters 1 --vocab-extra-ids 0
again=(pretrain_t5 --load one --finetune --seq-length 48 --micro-batch-size 2 --lr 1e-3 --train-iters 1 --data-path \
    f_text_sentence)
refused '--t5-form v1.1 .* has another kind of network' "${again[@]}" --t5-form v1.1
refused '--vocab-extra-ids 10 .* has 20 tokens <extra_id_0>' "${again[@]}" --vocab-extra-ids 10
refused '--t5-form t5 .* has another kind of network' "${again[@]}" --load form--t5-formv1.1 --t5-form t5
"$MEGALITH" "${again[@]}" --load form--t5-formv1.1 --t5-form v1.1 --vocab-extra-ids 20 --dry-run >again.log 2>&1 ||
    fail "the form of the folder: $(tail -3 again.log)"
refused 'the decoder begins in this stage' "${base[@]}" --train-iters 1 --pipeline-model-parallel-split-rank 1
refused 'pretrain_t5 reads its samples whole' "${base[@]}" --train-iters 1 --curriculum-learning --curriculum-type \
    seqlen
refused 'error: --reset-attention-mask .* is about several documents' "${base[@]}" --train-iters 1 \
    --reset-attention-mask
refused 'error: --seq-length 1 .*: expected 9 or more' "${base[@]}" --train-iters 1 --seq-length 1 \
    --max-position-embeddings 48
refused 'have one dropout' "${base[@]}" --train-iters 1 --t5-form t5 --hidden-dropout 0
refused 'is longer than the 48 positions' "${base[@]}" --train-iters 1 --decoder-seq-length 50
refused 'positions of this --t5-form are relative' "${base[@]}" --train-iters 1 --t5-form t5 --max-position-embeddings \
    10
refused 'missing: --hidden-size, --num-attention-heads; .* none of the sizes' "${again[@]}" --num-layers 2
refused 'error: --position-embedding-type rope (.*cannot say this combination' "${base[@]}" --train-iters 1 --t5-form \
    v1.1 --position-embedding-type rope
refused 'cannot say this combination' "${base[@]}" --train-iters 1 --position-embedding-type rope
refused 'but it has 4; increase --decoder-seq-length' "${base[@]}" --train-iters 1 --decoder-seq-length 4
refused 'which pretrain_t5 trains' pretrain_gpt --load one --finetune --seq-length 32 --micro-batch-size 2 --lr 1e-3 \
    --train-iters 1 --data-path d_text_document
refused 'which pretrain_t5 trains' pretrain_bert --load one --finetune --seq-length 32 --micro-batch-size 2 --lr 1e-3 \
    --train-iters 1 --data-path f_text_sentence
refused '--model-type GPT: found an encoder with a decoder in' merge_mp_partitions --model-type GPT --load one
refused '--model-type BERT: found an encoder with a decoder in' merge_mp_partitions --model-type BERT --load one
refused 'the model has 5 layers' merge_mp_partitions --model-type T5 --load one --target-pipeline-model-parallel-size 6
"$MEGALITH" merge_mp_partitions --model-type T5 --load one --target-pipeline-model-parallel-size 5 >merge.log 2>&1 ||
    fail "--model-type T5: $(cat merge.log)"
refused '--relative-attention-num-buckets 8 .*have 32 buckets' "${base[@]}" --train-iters 1 --t5-form t5 \
    --relative-attention-num-buckets 8
refused 'of which tasks takes none' tasks --task LM_LOSS --load one --valid-data fables.txt
refused 'of which the server takes none' run_text_generation_server --load one
refused 'so at most 48 prompt tokens fit' generate_samples_gpt --load one --prompt "$(yes fox | head -49)" \
    --out-seq-length 4
refused 'is refused: texts are the same wherever stages begin' generate_samples_gpt --load one --prompt fox \
    --pipeline-model-parallel-split-rank 1
vocabulary=$(ls one/iter_*/vocab.txt | head -n 1)
sed '$s/.*/duck/' "$vocabulary" >ducks.txt
refused 'another tokenizer than the one in the folder' generate_samples_gpt --load one --prompt fox --vocab-file \
    ducks.txt
"$MEGALITH" generate_samples_gpt --load one --prompt "" --out-seq-length 48 --vocab-file "$vocabulary" >text.log 2>&1 ||
    fail "an empty prompt: $(tail -3 text.log)"
grep -q 'out-seq-length 48: the model has 48 positions' text.log ||
    fail "nothing is said of 48 tokens in 48 positions: $(cat text.log)"
refused 'not computed for an encoder' generate_samples_gpt --load one --prompt fox --out-seq-length 4 --num-beams 2 \
    --logprobs --genfile x.jsonl

# Text: the encoder reads a prompt once. The same in any layout, side by side or one by one, and without caches; beams
# too.
text() { # ranks, options
    local n=$1
    shift
    local run=("$MEGALITH" generate_samples_gpt --load one --prompt \
        "the quick <extra_id_0> jumps over the lazy dog. the <extra_id_1>." --prompt "a dog runs"
        --prompt fox --out-seq-length 12 --num-threads 1 --overwrite --genfile many.jsonl "$@")
    [ "$n" -eq 1 ] || run=(ranks "$n" "${run[@]}")
    "${run[@]}" >text.log 2>&1 </dev/null || fail "text on $n ranks, $*: $(tail -3 text.log)"
    [ "$(wc -l <many.jsonl)" -eq 3 ] || fail "text on $n ranks, $*: $(cat many.jsonl)"
}
# Layouts sum in other orders: texts are equal, scores within 2e-5.
texts() { sed 's/"score":[-+.0-9e]*/"score":/' "$1"; }
scores() { grep -o '"score":[-+.0-9e]*' "$1" | cut -d : -f 2; }
same_text() {
    text "$@"
    diff <(texts first.jsonl) <(texts many.jsonl) >diff.log || fail "other text: $*: $(cat diff.log)"
    paste <(scores first.jsonl) <(scores many.jsonl) | awk '{ d = $1 - $2 } d * d > 4e-10 { exit 1 }' ||
        fail "other scores: $*: $(cat first.jsonl many.jsonl)"
}
for way in "--greedy" "--top_k 5 --temperature 0.8 --seed 3" "--num-beams 3 --beam-rules transformers"; do
    read -ra options <<<"$way"
    text 1 "${options[@]}"
    mv many.jsonl first.jsonl
    grep -q '"text":"[^"]' first.jsonl || fail "no text: $(cat first.jsonl)"
    same_text 1 "${options[@]}" --recompute
    same_text 2 "${options[@]}"
    same_text 4 "${options[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
        --inference-micro-batches 2
    case "$way" in --num-beams*) continue ;; esac
    same_text 1 "${options[@]}" --batch 3
    same_text 4 "${options[@]}" --pipeline-model-parallel-size 4 --batch 3 --inference-micro-batches 3
done
# Prompts of a file are read with as much padding as the model has positions, which the decoder does not see.
printf 'fox\n' >fox.txt
"$MEGALITH" generate_samples_gpt --load one --sample-input-file fox.txt --out-seq-length 12 --greedy --logprobs \
    --genfile fox.jsonl >text.log 2>&1 ||
    fail "$(tail -3 text.log)"
text 1 --greedy --logprobs
paste -d '\n' <(tail -n 1 many.jsonl) fox.jsonl | sed 's/.*"logprobs":\[\([^]]*\)\].*/\1/' | awk -F, '
    NR == 1 { n = split($0, a) }
    NR == 2 { for (i = 1; i <= n; i++) if ((a[i] - $i) ^ 2 > 1e-8) exit 1; exit NF != n || n < 1 }' ||
    fail "padding changes the text: $(tail -n 1 many.jsonl) $(cat fox.jsonl)"
