#!/usr/bin/env bash
# --moe-init-from: a mixture of experts begins with the weights of a dense model, and with its loss.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

fox_lines 100 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --output-prefix \
    text >log 2>&1 || fail "the data"
run=(--tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --micro-batch-size 2
    --global-batch-size 4 --lr 1e-3 --lr-decay-iters 10 --log-interval 1 --eval-iters 0 --num-threads 1 --fp64)
shape=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --normalization RMSNorm
    --position-embedding-type rope)
gpt() { "$MEGALITH" pretrain_gpt "${run[@]}" "$@" >log 2>&1 </dev/null; }
loss() { grep -m 1 -oE '"lm_loss": [^,]*' "$1" | awk '{ print $2 }'; } # of the first step
same() { # NAME FILE FILE: the same loss in float64
    awk -v a="$(loss "$2")" -v b="$(loss "$3")" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= 1e-18 * a * a) }' ||
        note "$1: $(loss "$2"), expected $(loss "$3")"
}

# Sites of dropout are named after layers, which GPT-2 and our own folders call otherwise.
gpt2="--normalization LayerNorm --position-embedding-type learned_absolute --hidden-dropout 0 --attention-dropout 0"
plain=--disable-bias-linear
# options of a dense model, then the family and the options of the mixture that begins with it
while IFS='|' read -r name options family mixture; do
    # shellcheck disable=SC2086  # lists of words
    gpt "${shape[@]}" $options --train-iters 3 --save "$name" || fail "$name: a dense model"
    gpt --load "$name" --finetune --train-iters 1 --metrics-file "$name.json" || fail "$name: its loss"
    # shellcheck disable=SC2086
    gpt --moe-init-from "$name" --num-experts 4 $mixture --train-iters 2 --save "$name-moe" --metrics-file \
        "$name-moe.json" || fail "$name: a mixture"
    same "$name" "$name-moe.json" "$name.json"
    grep -q "\"model_type\": \"$family\"" "$name-moe/iter_0000002/config.json" || note "$name: its family"
done <<END
llama|$plain --swiglu --ffn-hidden-size 48 --untie-embeddings-and-output-weights|mixtral|--moe-router-topk 3
tied|$plain --swiglu --ffn-hidden-size 48 --num-key-value-heads 2|mixtral|--moe-aux-loss-coeff 0.01
qwen3|$plain --swiglu --ffn-hidden-size 48 --qk-layernorm|qwen3_moe|--moe-layer-freq 2
gelu|$plain --ffn-hidden-size 48|megalith_gpt|--moe-router-score-function sigmoid
biases|--ffn-hidden-size 48|megalith_gpt|--moe-layer-freq 2
gpt2|$gpt2 --max-position-embeddings 16|megalith_gpt|
END
grep -q 'routers with random weights' log || note "the log does not say what begins at random"

# the weights of a router follow from the seed: with a rate of almost 0 the norm differs by nothing else
norm() {
    gpt --moe-init-from llama --num-experts 4 --train-iters 1 --lr 1e-30 --seed "$1" --log-params-norm --metrics-file \
        "$1.json" || fail "seed $1"
    grep -o 'params_norm": [^,]*' "$1.json"
}
first=$(norm 98) other=$(norm 99)
[ -n "$first" ] && [ "$first" != "$other" ] || note "the routers of two seeds: $first and $other"

# weights that are a part of the softmax do not sum to 1: the log says by which factor
gpt --load qwen3 --finetune --train-iters 1 --metrics-file dense.json || fail "the loss of qwen3"
gpt --moe-init-from qwen3 --num-experts 8 --moe-router-pre-softmax --train-iters 1 || fail "parts of a softmax"
grep -q 'sum to about 0.25 at first.*--moe-router-topk-scaling-factor 4 makes up for it' log || note "no factor"
gpt --moe-init-from qwen3 --num-experts 8 --moe-router-pre-softmax --moe-router-topk 8 --train-iters 1 --metrics-file \
    all.json || fail "all experts"
same "the whole softmax" all.json dense.json
grep -q 'sum to' log && note "a factor for weights that sum to 1"

# one script begins a run and continues it, which does not need the dense model
script=(--load run --save run --moe-init-from llama --num-experts 4)
gpt "${script[@]}" --train-iters 2 || fail "the first run of a script"
gpt "${script[@]}" --train-iters 4 || fail "the second run of a script"
grep -q 'successfully loaded checkpoint from run/iter_0000002' log || note "the run does not continue"
gpt --save whole --moe-init-from llama --num-experts 4 --train-iters 4 || fail "a run in one piece"
cmp run/iter_0000004/model.safetensors whole/iter_0000004/model.safetensors || note "continued, other weights"
mv llama away
gpt "${script[@]}" --train-iters 5 || note "a run that continues without the dense model"
mv away llama

"$MEGALITH" plan --tokenizer-type ByteTokenizer --micro-batch-size 1 --moe-init-from llama --num-experts 4 \
    >log 2>&1 || note "a plan"
grep -q 'ffn 48, positions 16, mixtral' log || note "the network of a plan"
"$MEGALITH" run_clm --moe-init-from llama --num-experts 4 --tokenizer-type ByteTokenizer --train_file text.txt \
    --block_size 16 --max_steps 1 --output_dir clm >log 2>&1 </dev/null || note "run_clm"
grep -q mixtral clm/config.json || note "the folder of run_clm"

mistake() { refuses "$1" "$2" pretrain_gpt "${run[@]}" --train-iters 1 "${@:3}"; }
from=(--moe-init-from llama --num-experts 4)
mistake "no folder" '--moe-init-from nowhere: there is no such folder|a Hugging Face folder' --num-experts 4 \
    --moe-init-from nowhere
mistake "a file" '--moe-init-from text.txt|this is a file; expected the folder' --num-experts 4 --moe-init-from text.txt
mistake "a mixture" '--moe-init-from llama-moe: the folder holds a mixture of 4 experts already (mixtral)|--load' \
    --num-experts 4 --moe-init-from llama-moe
mistake "no number" '--moe-init-from llama|give --num-experts N' --moe-init-from llama
mistake "a width" '--moe-ffn-hidden-size 24|which is 48 wide; leave the option out|are not implemented yet' \
    "${from[@]}" --moe-ffn-hidden-size 24
mistake "other sizes" '--moe-init-from llama/iter_0000003: its network|--hidden-size is 64 here, 32|--ffn-hidden-size' \
    "${from[@]}" "${shape[@]}" --hidden-size 64 --ffn-hidden-size 96
mistake "another kind" '--squared-relu|--qk-layernorm|the folder of --moe-init-from, a llama, has another kind' \
    "${from[@]}" --squared-relu --qk-layernorm
mistake "an evaluation" '--skip-train trains nothing' "${from[@]}" --skip-train
mistake "a used folder" '--save run: it holds checkpoints' "${from[@]}" --save run
mistake "--load of a dense model" '--num-experts 4|the folder of --load, a llama, has another kind' --load llama \
    "${from[@]}"
mistake "Megatron's name" '--moe-use-upcycling|--moe-init-from' --load llama --moe-use-upcycling --num-experts 4
mistake "parts of experts" '--moe-upcycling-granularity 2|--moe-init-from' "${from[@]}" --moe-upcycling-granularity 2
gpt "${from[@]}" --train-iters 1 --moe-upcycling-granularity 1 || note "a granularity of 1"
refuses "a config.json" '--moe-init-from llama|both say the network; leave --config_name out' run_clm --config_name \
    llama/iter_0000003 --tokenizer-type ByteTokenizer --train_file text.txt "${from[@]}"
finish
