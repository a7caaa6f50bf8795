#!/usr/bin/env bash
# --moe-init-from over ranks: losses and norms of gradients are those of one rank, wherever experts, routers and the
# parts of attention are.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"

fox_lines 100 >text.txt
mkdir small
cat >small/config.json <<'END'
{"model_type": "llama", "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 32}
END
clm=("$MEGALITH" run_clm --tokenizer-type ByteTokenizer --train_file text.txt --block_size 16 --learning_rate 3e-3
    --per_device_train_batch_size 1 --global-batch-size 4 --log-interval 1 --num-threads 1 --fp64)
"${clm[@]}" --config_name small --max_steps 2 --output_dir dense >log 2>&1 </dev/null || fail "a dense model"
mixture=("${clm[@]}" --moe-init-from dense --num-experts 4 --moe-aux-loss-coeff 0.01 --max_steps 3)
numbers() { grep -oE '"(loss|lm_loss|grad_norm)": [^,]*' "$1" | awk '{ print $2 }'; }
"${mixture[@]}" --metrics-file one.json >log 2>&1 </dev/null || fail "one rank"
[ "$(numbers one.json | wc -l)" -eq 9 ] || fail "numbers of one rank: $(numbers one.json)"
# with four ranks of tp and two heads of keys and values, Q, K and V are parameters of their own
ep=--expert-model-parallel-size tp=--tensor-model-parallel-size pp=--pipeline-model-parallel-size
while read -r n words; do
    rm -f many.json
    # shellcheck disable=SC2086  # a list of words
    ranks "$n" "${mixture[@]}" $words --metrics-file many.json >log 2>&1 </dev/null || fail "$n $words"
    paste <(numbers one.json) <(numbers many.json) | awk '
        { d = $1 - $2; if (NF != 2 || d * d > 1e-20 * $1 * $1) exit 1; n++ } END { exit n != 9 }' ||
        note "$n $words: $(paste <(numbers one.json) <(numbers many.json))"
done <<END
2 $ep 2
2 $pp 2
4 $tp 4
4 $ep 2 --zero-stage 1
4 $ep 4 --zero-stage 3
4 $ep 2 $tp 2 --sequence-parallel --zero-stage 2
END
finish
