#!/usr/bin/env bash
# Models of several families from Megatron's options: the folder that a run writes has the family and the keys, another run
# goes on from it in another layout with the same losses, and text is generated from it. Options that contradict a folder
# are refused, and so are combinations that no family has.
. "${MEGA_SOURCE:?}/tests/kit/kit.sh"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # ranks under a launcher: Open MPI leaks
for i in $(seq 1 60); do echo "the cat sat on the mat and the dog sat on the log $i"; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix text >log 2>&1
base=(pretrain_gpt --hidden-size 32 --num-layers 2 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --global-batch-size 4
    --lr 1e-3 --eval-iters 0 --log-interval 1 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0
    --attention-dropout 0 --hidden-dropout 0 --num-threads 1)
onward=(pretrain_gpt --finetune --seq-length 16 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --eval-iters 0 --log-interval 1
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
    "$MEGALITH" launch --nproc_per_node 4 "$MEGALITH" "${onward[@]}" --load "$name/iter_0000002" --tensor-model-parallel-size 2 \
        --pipeline-model-parallel-size 2 >four 2>&1 || fail "$name, on four ranks: $(tail -3 four)"
    same_losses one four || fail "$name: losses $(grep -o 'lm loss: [^|]*' one four | tr '\n' ' ')"
    "$MEGALITH" generate_samples_gpt --load "$name" --prompt "the cat" --out-seq-length 4 --greedy >log 2>&1 || fail "$name: $(tail -3 log)"
}
rope=(--position-embedding-type rope)
llama=("${rope[@]}" --normalization RMSNorm --swiglu --disable-bias-linear)
family llama 'num_key_value_heads=2,tie_word_embeddings=false' "${llama[@]}" --num-key-value-heads 2 --untie-embeddings-and-output-weights \
    --max-shard-size 20K
[ -e llama/iter_0000002/model-00007-of-00007.safetensors ] || fail "seven files of weights: $(ls llama/iter_0000002)"
# Four ranks write files of the same names and sizes as one, and the same index.
"$MEGALITH" launch --nproc_per_node 4 "$MEGALITH" "${onward[@]}" --load llama --save shards --max-shard-size 20K --no-save-optim \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >log 2>&1 || fail "saving on four ranks: $(tail -3 log)"
"$MEGALITH" "${onward[@]}" --load llama --save alone --max-shard-size 20K --no-save-optim >log 2>&1 || fail "saving: $(tail -3 log)"
(cd shards/iter_* && stat -c '%n %s' model* && cat model.safetensors.index.json) >four
(cd alone/iter_* && stat -c '%n %s' model* && cat model.safetensors.index.json) >one
cmp one four && grep -q 00002-of one || fail "files of four ranks differ from those of one: $(cat one four)"
"$MEGALITH" generate_samples_gpt --load shards --prompt "the cat" --out-seq-length 4 --greedy >log 2>&1 || fail "shards: $(tail -3 log)"
family llama-scaled 'rope_type=.llama3,rope_theta=5000' "${llama[@]}" --rotary-base 5000 --use-rope-scaling
family llama-geglu 'hidden_act=.gelu' "${rope[@]}" --normalization RMSNorm --disable-bias-linear --glu-activation geglu
family mistral 'sliding_window=6' "${llama[@]}" --window-size 5,0
family qwen2 'num_key_value_heads=1' "${llama[@]}" --add-qkv-bias --group-query-attention
family gpt_neox 'rotary_pct=0.5,use_parallel_residual=false' "${rope[@]}" --rotary-percent 0.5 --untie-embeddings-and-output-weights
family starcoder2 'num_key_value_heads=2,use_bias=true' "${rope[@]}" --num-query-groups 2 --group-query-attention
family bloom 'n_head=4' --position-embedding-type alibi --embed-layernorm
family gpt2 'activation_function=.relu2' --squared-relu

refuses 'contradiction' 'has another kind of network' "${onward[@]}" --load llama/iter_0000002 --num-key-value-heads 4
refuses 'no family' 'has this combination of options' "${base[@]}" --train-iters 1 --normalization RMSNorm --position-embedding-type alibi
refuses 'heads' 'expected a divisor' "${base[@]}" --train-iters 1 "${llama[@]}" --num-key-value-heads 3
finish
