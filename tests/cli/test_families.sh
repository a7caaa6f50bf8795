#!/usr/bin/env bash
# Models of several families from Megatron's options: the folder that a run writes has the family and the keys, another
# run goes on from it in another layout with the same losses, and text is generated from it. Options that contradict a
# folder are refused.
. "${MEGA_SOURCE:?}/tests/kit/kit.sh"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # ranks under a launcher: Open MPI leaks
for i in $(seq 1 60); do echo "the cat sat on the mat and the dog sat on the log $i"; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix text >log 2>&1
base=(pretrain_gpt --hidden-size 32 --num-layers 2 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 \
    --global-batch-size 4
    --lr 1e-3 --eval-iters 0 --log-interval 1 --tokenizer-type ByteTokenizer --data-path text_text_document --split \
        100,0,0
    --attention-dropout 0 --hidden-dropout 0 --num-threads 1)
onward=(pretrain_gpt --finetune --seq-length 16 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --eval-iters 0 \
    --log-interval 1
    --data-path text_text_document --split 100,0,0 --num-threads 1 --train-iters 2)

# Two runs have as many losses, which agree within fp32's sums in another order.
same_losses() {
    paste <(grep -oE 'lm loss: [0-9.E+-]+' "$1") <(grep -oE 'lm loss: [0-9.E+-]+' "$2") |
        awk '{ d = $3 - $6; if (NF != 6 || d > 3e-5 || d < -3e-5) bad = 1; n++ } END { exit bad || n != 2 }'
}

# family NAME PATTERN-OF-KEYS OPTION...: trains it, checks its config.json, goes on from it on two stages of two ranks.
family() {
    local name=$1 keys=$2 key
    shift 2
    "$MEGALITH" "${base[@]}" --train-iters 2 --save "$name" "$@" >log 2>&1 || fail "$name: $(tail -3 log)"
    for key in "\"model_type\": \"${name%%-*}\"" ${keys//,/ }; do
        grep -q "${key/=/\": }" "$name/iter_0000002/config.json" || fail "$name: config.json does not have $key"
    done
    "$MEGALITH" "${onward[@]}" --load "$name/iter_0000002" >one 2>&1 || fail "$name, loaded: $(tail -3 one)"
    "$MEGALITH" launch --nproc_per_node 4 "$MEGALITH" "${onward[@]}" --load "$name/iter_0000002" \
        --tensor-model-parallel-size 2 \
        --pipeline-model-parallel-size 2 >four 2>&1 || fail "$name, on four ranks: $(tail -3 four)"
    same_losses one four || fail "$name: losses $(grep -o 'lm loss: [^|]*' one four | tr '\n' ' ')"
    "$MEGALITH" generate_samples_gpt --load "$name" --prompt "the cat" --out-seq-length 4 --greedy >log 2>&1 ||
        fail "$name: $(tail -3 log)"
}
rope=(--position-embedding-type rope)
llama=("${rope[@]}" --normalization RMSNorm --swiglu --disable-bias-linear)
family llama 'num_key_value_heads=2,tie_word_embeddings=false' "${llama[@]}" --num-key-value-heads 2 \
    --untie-embeddings-and-output-weights \
    --max-shard-size 20K
[ -e llama/iter_0000002/model-00007-of-00007.safetensors ] || fail "seven files of weights: $(ls llama/iter_0000002)"
# Four ranks write files of the same names and sizes as one, and the same index.
"$MEGALITH" launch --nproc_per_node 4 "$MEGALITH" "${onward[@]}" --load llama --save shards --max-shard-size 20K \
    --no-save-optim \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >log 2>&1 ||
    fail "saving on four ranks: $(tail -3 log)"
"$MEGALITH" "${onward[@]}" --load llama --save alone --max-shard-size 20K --no-save-optim >log 2>&1 ||
    fail "saving: $(tail -3 log)"
(cd shards/iter_* && stat -c '%n %s' model* && cat model.safetensors.index.json) >four
(cd alone/iter_* && stat -c '%n %s' model* && cat model.safetensors.index.json) >one
cmp one four && grep -q 00002-of one || fail "files of four ranks differ from those of one: $(cat one four)"
"$MEGALITH" generate_samples_gpt --load shards --prompt "the cat" --out-seq-length 4 --greedy >log 2>&1 ||
    fail "shards: $(tail -3 log)"
family llama-scaled 'rope_type=.llama3,rope_theta=5000' "${llama[@]}" --rotary-base 5000 --use-rope-scaling
family llama-geglu 'hidden_act=.gelu' "${rope[@]}" --normalization RMSNorm --disable-bias-linear --glu-activation geglu
family mistral 'sliding_window=6' "${llama[@]}" --window-size 5,0
family qwen2 'num_key_value_heads=1' "${llama[@]}" --add-qkv-bias --group-query-attention
family gpt_neox 'rotary_pct=0.5,use_parallel_residual=false' "${rope[@]}" --rotary-percent 0.5 \
    --untie-embeddings-and-output-weights
family starcoder2 'num_key_value_heads=2,use_bias=true' "${rope[@]}" --num-query-groups 2 --group-query-attention
family bloom 'n_head=4' --position-embedding-type alibi --embed-layernorm
family gpt2 'activation_function=.relu2' --squared-relu
family smollm3 'no_rope_layers=.1' "${llama[@]}" --no-rope-freq 2
family gpt_bigcode 'multi_query=true' --attention-head-type multiquery

# Two ranks hold rows of one tensor, keys and values whole: they write it as it was, also in shards, and resume as one
# rank does.
still=(--lr 1e-30 --min-lr 0 --weight-decay 0 --train-iters 1)
"$MEGALITH" launch --nproc_per_node 4 "$MEGALITH" "${onward[@]}" "${still[@]}" --load gpt_bigcode --save rows \
    --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2 >log 2>&1 || fail "rows: $(tail -3 log)"
cmp rows/iter_0000001/model.safetensors gpt_bigcode/iter_0000002/model.safetensors || fail "two ranks write other rows"
"$MEGALITH" launch --nproc_per_node 2 "$MEGALITH" "${onward[@]}" "${still[@]}" --load gpt_bigcode --save rows2 \
    --tensor-model-parallel-size 2 \
    --max-shard-size 20K >log 2>&1 || fail "rows in shards: $(tail -3 log)"
"$MEGALITH" "${onward[@]}" "${still[@]}" --load gpt_bigcode --save rows1 --max-shard-size 20K >log 2>&1 ||
    fail "rows of one rank: $(tail -3 log)"
(cd rows1/iter_0000001 && sha256sum model* state/optimizer.safetensors) >one
(cd rows2/iter_0000001 && sha256sum model*) >four
diff <(grep model one) four || fail "shards of two ranks differ"
for load in rows1 rows2; do
    "$MEGALITH" launch --nproc_per_node 2 "$MEGALITH" pretrain_gpt "${onward[@]:2}" --train-iters 3 --lr 1e-3 \
        --override-opt_param-scheduler --load $load \
        --tensor-model-parallel-size 2 >$load.log 2>&1 || fail "$load, resumed: $(tail -3 $load.log)"
done
same_losses rows1.log rows2.log || fail \
    "states of two ranks: $(grep -o 'lm loss: [^|]*' rows1.log rows2.log | tr '\n' ' ')"

# The same options in Accelerate's YAML.
cat >net.yaml <<'YAML'
distributed_type: MEGATRON_LM
mixed_precision: 'no'
num_machines: 1
num_processes: 1
megatron_lm_config:
  megatron_lm_tp_degree: 1
  other_megatron_args:
    position_embedding_type: rope
    rotary_base: 5000
    normalization: RMSNorm
    swiglu: true
    add_bias_linear: false
    add_qkv_bias: true
    group_query_attention: true
    num_query_groups: 2
    untie_embeddings_and_output_weights: true
    kv_channels: 16
YAML
"$MEGALITH" "${base[@]}" --config_file net.yaml --train-iters 1 --save yaml >log 2>&1 || fail "YAML: $(tail -3 log)"
"$MEGALITH" "${base[@]}" --train-iters 1 --save typed "${llama[@]}" --rotary-base 5000 --add-qkv-bias \
    --group-query-attention --num-query-groups 2 \
    --untie-embeddings-and-output-weights --kv-channels 16 >log 2>&1 || fail "typed: $(tail -3 log)"
for name in config.json model.safetensors; do cmp yaml/iter_0000001/$name typed/iter_0000001/$name ||
    fail "a YAML gives another $name"; done
grep -q '"model_type": "qwen2"' yaml/iter_0000001/config.json &&
    grep -q '"head_dim": 16' yaml/iter_0000001/config.json || fail "the YAML's options do not reach the model"

# The ids of a new model are those of its tokenizer's folder; a run that goes on from it keeps them.
"$MEGALITH" train_tokenizer --input text.txt --vocab-size 300 --output words >log 2>&1 || fail "tokenizer: $(cat log)"
echo '{"bos_token": {"content": "a"}, "eos_token": "<|endoftext|>", "pad_token": "b"}' >words/tokenizer_config.json
hf=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model words)
"$MEGALITH" preprocess_data --input text.txt "${hf[@]}" --append-eod --output-prefix words >log 2>&1 ||
    fail "data: $(cat log)"
"$MEGALITH" "${base[@]}" "${llama[@]}" "${hf[@]}" --data-path words_text_document --train-iters 1 --save named >log \
    2>&1 || fail "named: $(tail -3 log)"
"$MEGALITH" "${onward[@]}" --load named --data-path words_text_document --save again >log 2>&1 ||
    fail "named again: $(tail -3 log)"
for file in named/iter_0000001/config.json again/iter_0000002/config.json named/iter_0000001/generation_config.json; do
    grep -E '"(bos|pad)_token_id": [0-9]+' "$file" | tr -d ' \n,' >ids
    [ "$(cat ids)" = '"bos_token_id":64"pad_token_id":65' ] || fail "$file: $(cat ids)"
done

# A model without a table of positions is trained on longer sequences, and its new folder says so.
longer=("${onward[@]}" --seq-length 32)
for name in llama-scaled bloom; do
    refuses "$name: longer sequences" \
        '--max-position-embeddings 16 (from the checkpoint) is shorter|make it 32 or more' "${longer[@]}" --load \
        "$name/iter_0000002"
    "$MEGALITH" "${longer[@]}" --load "$name/iter_0000002" --max-position-embeddings 32 --save "$name-long" >log 2>&1 ||
        fail "$name, longer: $(tail -3 log)"
    grep -qE '"(max_position_embeddings|seq_length)": 32' "$name-long/iter_0000002/config.json" ||
        fail "$name: positions $(cat "$name-long/iter_0000002/config.json")"
done
grep -q '"original_max_position_embeddings": 8192' llama-scaled-long/iter_0000002/config.json ||
    fail "the scaling changed"
refuses 'a table of positions' 'shorten the sequence: this model has no more positions' "${longer[@]}" --load \
    gpt2/iter_0000002
refuses 'a table with another size' '--max-position-embeddings is 32 here, 16 in the checkpoint' "${longer[@]}" --load \
    gpt2/iter_0000002 --max-position-embeddings 32

refuses 'two contradictions' '--rotary-base 7.0 (argument|--window-size 4,0 (argument|has another kind of network' \
    "${onward[@]}" --load llama/iter_0000002 \
    --rotary-base 7 --window-size 4,0
refuses 'contradiction' 'has another kind of network' "${onward[@]}" --load llama/iter_0000002 --num-key-value-heads 4
# What no model of transformers has is saved as megalith_gpt, which is said; the run is resumed to the same losses.
family llama-yarn 'rope_type=.yarn,factor=4.0' "${llama[@]}" --rope-type yarn --rotary-scaling-factor 4 \
    --yarn-original-max-position-embeddings 16
family megalith_gpt-rms_alibi 'rms_norm=true,position_embedding_type=.alibi' --normalization RMSNorm \
    --position-embedding-type alibi
family megalith_gpt-interleaved 'rotary_interleaved=true,no_rope_layers=.1,rope_type=.yarn,attention_factor=1.27' \
    "${llama[@]}" --rotary-interleaved --no-rope-freq 2 \
    --rope-type yarn --rotary-scaling-factor 4 --mscale 2
one_plus=(--position-embedding-type none --apply-layernorm-1p --qk-layernorm --glu-activation reglu --kv-channels 16 \
    --window-size 9,0)
family megalith_gpt-none \
    'position_embedding_type=.none,norm_one_plus_weight=true,gate_second=true,head_dim=16,sliding_window=10' \
    "${one_plus[@]}"
"$MEGALITH" "${base[@]}" "${one_plus[@]}" --train-iters 4 --save-interval 2 --save whole >one 2>&1 ||
    fail "own: $(tail -3 one)"
grep -q 'save whole: transformers cannot load these checkpoints' one || fail "an own model is not said: $(cat one)"
"$MEGALITH" "${base[@]}" "${one_plus[@]}" --train-iters 4 --load whole/iter_0000002 --save part >log 2>&1 ||
    fail "resumed: $(tail -3 log)"
cmp whole/iter_0000004/model.safetensors part/iter_0000004/model.safetensors || fail "a resumed own model differs"
rm -r whole part
geglu=("${rope[@]}" --normalization RMSNorm --disable-bias-linear --glu-activation geglu --lr 0.1 --clip-grad 0.01)
"$MEGALITH" "${base[@]}" "${geglu[@]}" --train-iters 8 --save-interval 2 --save whole >log 2>&1 ||
    fail "geglu: $(tail -3 log)"
"$MEGALITH" "${base[@]}" "${geglu[@]}" --train-iters 8 --load whole/iter_0000002 --save part >log 2>&1 ||
    fail "geglu, resumed: $(tail -3 log)"
cmp whole/iter_0000008/model.safetensors part/iter_0000008/model.safetensors ||
    fail "a resumed model with its gate behind differs"

# A dropout for which the family has no key counts in a resumed run, also in another layout.
rm -r whole part
"$MEGALITH" "${base[@]}" "${llama[@]}" --hidden-dropout 0.3 --train-iters 4 --save-interval 2 --save whole >log 2>&1 ||
    fail "dropout: $(tail -3 log)"
"$MEGALITH" launch --nproc_per_node 2 "$MEGALITH" pretrain_gpt "${onward[@]:2}" --train-iters 4 --load \
    whole/iter_0000002 \
    --tensor-model-parallel-size 2 >four 2>&1 || fail "dropout, resumed on two ranks: $(tail -3 four)"
grep '^ iteration' log | tail -n 2 >one
same_losses one four || fail "a resumed run has another dropout: $(grep -o 'lm loss: [^|]*' one four | tr '\n' ' ')"
grep 'options differ' four && fail "a resumed run names options that nobody has changed"

# What a folder says of generation, and its tokenizer, is saved as it was.
mkdir elsewhere && cp llama/iter_0000002/*.json llama/iter_0000002/*.safetensors elsewhere
printf '{ "temperature": 0.7,"top_p":0.8 }' >elsewhere/generation_config.json
printf '{ "model_max_length": 16}' >elsewhere/tokenizer_config.json
"$MEGALITH" "${onward[@]}" --load elsewhere --save kept --save-dtype fp64 >log 2>&1 || fail "elsewhere: $(tail -3 log)"
"$MEGALITH" pretrain_gpt "${onward[@]:2}" --load kept --save again --restart --train-iters 3 \
    --override-opt_param-scheduler >log 2>&1 || fail "kept, resumed: $(tail -3 log)"
for name in generation_config.json tokenizer_config.json tokenizer.json; do
    cmp elsewhere/$name kept/iter_0000002/$name && cmp elsewhere/$name again/iter_0000003/$name ||
        fail "$name is not kept"
done
head -c 400 kept/iter_0000002/model.safetensors | grep -q '"F64"' ||
    fail "--save-dtype fp64: $(head -c 400 kept/iter_0000002/model.safetensors)"
refuses 'heads' 'expected a divisor' "${base[@]}" --train-iters 1 "${llama[@]}" --num-key-value-heads 3
finish
