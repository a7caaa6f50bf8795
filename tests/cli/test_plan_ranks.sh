#!/usr/bin/env bash
# plan --world-size: any rank of any layout, without other ranks.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

gpt3="--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --micro-batch-size 1 --global-batch-size 1536 --bf16"
# shellcheck disable=SC2086  # a list of words
"$MEGALITH" plan $gpt3 --world-size 1024 --tensor-model-parallel-size 8 --rank 1019 >big.log 2>&1 ||
    fail "$(tail -n 3 big.log)"
grep -q '^layout       1,024 ranks: tensor 8 x pipeline 1 x data 128$' big.log || fail "layout: $(cat big.log)"
grep -q '^shown        rank 1019: tensor 3, pipeline 0, data 127' big.log || fail "shown: $(cat big.log)"
grep -q '^parameters   174,604,259,328 ' big.log || fail "parameters of the model: $(cat big.log)"
# 96 layers of 12 h^2 / 8 and their vectors, an eighth of 51,200 rows, 2,048 positions, the last norm
h=12288
want=$((96 * (12 * h * h / 8 + 7 * h / 8 + 6 * h) + 51200 / 8 * h + 2048 * h + 2 * h))
[ "$(grep -c "model parallel rank ([0-7], 0): $want\$" big.log)" = 8 ] ||
    fail "expected $want a rank: $(grep 'number of' big.log)"

# The head of GPT-2 costs as much as 4.9 layers, so two stages are balanced with 8 and 4 layers.
"$MEGALITH" plan --preset gpt2 --micro-batch-size 1 --global-batch-size 8 --world-size 2 \
    --pipeline-model-parallel-size 2 >two.log 2>&1 || fail "$(cat two.log)"
grep -q \
    'has 29 % more than the mean; --decoder-first-pipeline-num-layers 8 --decoder-last-pipeline-num-layers 4 would leave 5 %' two.log ||
    fail "balance: $(grep balance two.log)"
"$MEGALITH" plan --preset gpt2 --micro-batch-size 1 --global-batch-size 8 --world-size 2 \
    --pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 4 \
    >even.log 2>&1 || fail "$(cat even.log)"
grep -q '^balance      the stage that computes most has 5 % more than the mean$' even.log ||
    fail "balance: $(grep balance even.log)"

# docs/layouts.md: per layer, tensor parallelism sums four whole activations and sequence parallelism exchanges ten
# halves, 25 % more.
shape="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --world-size 2 --tensor-model-parallel-size 2 --print-program"
# shellcheck disable=SC2086
"$MEGALITH" plan $shape >sums.log 2>&1 && "$MEGALITH" plan $shape --sequence-parallel >shares.log 2>&1 ||
    fail "$(cat sums.log shares.log)"
of_layer() { sed -n '/ train /,/ evaluate /p' "$1" | grep -cE "^ +[0-9]+ +$2 +tp +(d\.)?h\.1\."; }
[ "$(of_layer sums.log all_reduce) $(of_layer shares.log all_gather) $(of_layer shares.log reduce_scatter)" = '4 6 4' \
    ] ||
    fail \
        "exchanges of a layer: $(of_layer sums.log all_reduce), $(of_layer shares.log all_gather), $(of_layer shares.log reduce_scatter)"
# Selective recomputation saves almost nothing, because scores are never stored.
saved() { "$MEGALITH" plan --preset gpt2 --micro-batch-size 1 --print-program "$@" |
    sed -n 's/^forward . train .* saved \([0-9.]*\) MB.*/\1/p'; }
awk -v all="$(saved)" -v less="$(saved --recompute-granularity selective)" \
    'BEGIN { exit !(less < all && less > 0.995 * all) }' ||
    fail "selective recomputation: $(saved) MB, $(saved --recompute-granularity selective) MB"

# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 8 --rank 8 >out 2>&1 && fail "rank 8 of 8 was planned"
grep -q 'rank 8 of a world of 8 ranks; expected 0 to 7' out || fail "$(cat out)"
# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 8 --tensor-model-parallel-size 3 >out 2>&1 && fail "8 ranks were cut in 3"
grep -q 'does not divide the world of 8 ranks; sizes that do: ' out || fail "$(cat out)"
# The limit of a rank is compared: this model does not fit into 100 GB.
# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 1024 --tensor-model-parallel-size 8 --memory-limit 100GB >out 2>&1 &&
    fail "it fits in 100 GB"
grep -q 'IT DOES NOT FIT' out || fail "$(cat out)"
grep -q 'it would fit \(with\|if\)\|makes it fit' out || fail "no suggestion: $(cat out)"
# shellcheck disable=SC2086
"$MEGALITH" plan $gpt3 --world-size 1024 --tensor-model-parallel-size 8 --memory-limit 100GB --no-suggestions >out \
    2>&1 && fail "it fits in 100 GB"
grep -q 'IT DOES NOT FIT' out && ! grep -q 'would fit\|makes it fit\|would make it fit' out ||
    fail "suggestions: $(cat out)"
# The rank that is shown fits, and those of a stage with more layers do not.
stages="--num-layers 6 --hidden-size 128 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --world-size 2 --pipeline-model-parallel-size 2
    --tokenizer-type NullTokenizer --vocab-size 500 --decoder-first-pipeline-num-layers 1"
# shellcheck disable=SC2086
"$MEGALITH" plan $stages >out 2>&1 || fail "$(cat out)"
totals() { awk '/^  stage / {rows = 1; next} rows && /^  [01] / {print $(NF - 1)}' out | tr '\n' ' '; }
between=$(totals | awk '{printf "%.0f", ($1 + $2) / 2 * 1000}')
# shellcheck disable=SC2086
"$MEGALITH" plan $stages --rank "$(totals | awk '{print $1 < $2 ? 0 : 1}')" --memory-limit "${between}K" >out 2>&1 &&
    fail "a stage that does not fit: $(totals) MB in ${between}K"
grep -q 'a rank of pipeline stage [01] needs .* of memory and may use' out || fail "$(cat out)"
# A stage in the middle needs most: advice is about it, whichever rank is shown, and no stage is too large for what is
# advised.
middle="--num-layers 10 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --micro-batch-size 4 --global-batch-size 32 --world-size 4
    --pipeline-model-parallel-size 4 --tokenizer-type NullTokenizer --vocab-size 100 --decoder-first-pipeline-num-layers 1
    --decoder-last-pipeline-num-layers 1"
for rank in 0 3; do
    # shellcheck disable=SC2086
    "$MEGALITH" plan $middle --rank $rank --memory-limit 60MB >out 2>&1 && fail "the stages in the middle fit"
    grep -q '(--memory-limit): it fits, BUT STAGE 1 DOES NOT$' out || fail "rank $rank, stage 1: $(cat out)"
    grep -q 'a rank of pipeline stage 1 needs .*, and this plan lists what would make it fit$' out || fail "$(cat out)"
    sed -n 's/^  \(--.*\): .* time$/\1/p' out >ways
    [ -s ways ] || fail "no advice for rank $rank: $(cat out)"
    while read -r way; do
        # The process is measured: 10 MB of the program's pages may have been taken away when the advice was made.
        # shellcheck disable=SC2086
        "$MEGALITH" plan $middle $way --memory-limit 71MB >way.log 2>&1 || fail "$way: $(tail -n 2 way.log)"
    done <ways
done

# The vocabulary: a preset's is its model's, a folder's its config.json's, which needs neither weights nor a tokenizer
# beside it; GPT-2's is called assumed where it is.
plan_says() { # expected line, options
    local line=$1
    shift
    "$MEGALITH" plan --micro-batch-size 1 --memory-limit 1TB "$@" >out 2>&1 || fail "plan $*: $(tail -n 3 out)"
    grep -qxF -- "$line" out || fail "plan $*: expected \"$line\": $(grep '^vocabulary\|^parameters' out)"
}
plan_says 'vocabulary   128,256 ids, padded to 128256' --preset llama-3.2-1b
plan_says 'parameters   1,235,814,400 (1,235,814,400 with the padding of the vocabulary)' --preset llama-3.2-1b
plan_says 'vocabulary   50,257 ids, padded to 50304' --preset gpt2
plan_says 'vocabulary   1,000 ids, padded to 1024' --preset llama-3.2-1b --vocab-size 1000
plan_says "vocabulary   50,257 ids, padded to 50304 (GPT-2's is assumed; --vocab-file says which)" --preset tiny
mkdir alone
echo \
    '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":172,"num_hidden_layers":2,
"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":32000,"max_position_embeddings":64,"rms_norm_eps":1e-5,"hidden_act":"silu",
"tie_word_embeddings":false,"rope_theta":10000.0}' >alone/config.json
plan_says 'vocabulary   32,000 ids, padded to 32000' --load alone
plan_says 'parameters   4,186,944 (4,186,944 with the padding of the vocabulary)' --load alone
# --config_name: the same plan; options win; weights and tokenizers beside the file are not looked at.
cp out loaded.log
plan_says 'vocabulary   32,000 ids, padded to 32000' --config_name alone
planned() { grep -vE '^  (process|reading|total) ' "$1"; } # the process is measured: a kernel may take its pages away
cmp <(planned out) <(planned loaded.log) ||
    fail "--config_name alone is not --load alone: $(diff out loaded.log)"
plan_says 'vocabulary   32,000 ids, padded to 32000' --config_name alone/config.json
cmp <(planned out) <(planned loaded.log) || fail "a config.json is not its folder: $(diff out loaded.log)"
cp -r alone beside
echo no | tee beside/model.safetensors >beside/tokenizer.json
plan_says 'network      5 layers, hidden 64, 4 heads of 16, ffn 172, positions 64, 2 key/value heads, llama' \
    --config_name beside --num-layers 5
plan_says 'vocabulary   100 ids, padded to 128' --config_name beside --vocab-size 100
plan_says 'vocabulary   50,257 ids, padded to 50304' --config_name gpt2
plan_refuses() { # expected text, options
    local text=$1
    shift
    "$MEGALITH" plan --micro-batch-size 1 --memory-limit 1TB "$@" >out 2>&1 && fail "plan $*: accepted"
    grep -qF -- "$text" out && ! grep -q ' mistakes:' out || fail "plan $*: expected \"$text\" alone: $(cat out)"
}
mkdir t5
echo '{"model_type":"t5","d_model":64,"d_kv":16,"d_ff":96,"num_layers":2,"num_heads":4,"vocab_size":100}' \
    >t5/config.json
plan_refuses '--config_name: the folder holds an encoder with a decoder (t5), which pretrain_t5 trains' --config_name t5
plan_refuses '--config_name nix: no such config.json, and no folder with one (looked for nix, data/nix)' --config_name \
    nix
plan_refuses '--config_name alone (argument 5) and --load alone (argument 7) both say what is planned' --config_name \
    alone --load alone

# The columns of a stage add up to its total; the target's instruction set decides whether bf16 weights are kept packed.
for target in avx512 amx; do
    (unset MEGA_ISA; "$MEGALITH" plan --preset tiny --bf16 --micro-batch-size 1 --global-batch-size 8 --world-size 4 \
        --pipeline-model-parallel-size 2 --instruction-set $target) >$target.log 2>&1 || fail "$(cat $target.log)"
    grep -qx "instructions $target, those of the target" $target.log || fail "target: $(cat $target.log)"
    awk 'BEGIN { of["bytes"] = 1; of["kB"] = 1e3; of["MB"] = 1e6; of["GB"] = 1e9 }
        /^  stage / { rows = 1; next }
        rows && /^  [01] / {
            sum = 0
            for (i = 2; i < NF - 1; i += 2) sum += $i * of[$(i + 1)]
            total = $(NF - 1) * of[$NF]; lines++
            if (sum < .99 * total || sum > 1.01 * total) { print "stage " $1 ": " sum " of " total; bad = 1 }
        }
        END { exit bad || lines != 2 }' $target.log || fail "stages: $(cat $target.log)"
done
grep -q '^  packed ' amx.log && ! grep -q '^  packed ' avx512.log || fail "packed weights: $(cat avx512.log amx.log)"

# Before a smaller network is advised, the ranks divide this one otherwise, and each way that is named fits.
divided="--preset gpt2 --micro-batch-size 1 --global-batch-size 8 --world-size 8 --memory-limit 1500MB"
# shellcheck disable=SC2086
"$MEGALITH" plan $divided >out 2>&1 && fail "1.5 GB suffice without a division"
sed -n 's/^  \(--.*\): .* a rank$/\1/p' out >ways
grep -q -- '--zero-stage' ways && grep -q -- '--tensor-model' ways || fail "ways: $(cat out)"
while read -r way; do
    # shellcheck disable=SC2086
    "$MEGALITH" plan $divided $way >way.log 2>&1 || fail "$way does not fit: $(tail -n 2 way.log)"
done <ways

# Muon with Q, K and V as one matrix: refused where the ranks hold Q apart from K and V, whose update would be that of
# two matrices
muon() { # TP KV-HEADS ARGS…
    "$MEGALITH" plan --num-layers 1 --hidden-size 16 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 \
        --global-batch-size 4 --lr 1e-3 \
        --world-size 4 --group-query-attention --num-query-groups "$2" --tensor-model-parallel-size "$1" "${@:3}" \
        >muon.log 2>&1 </dev/null
}
echo '{"optimizer": {"type": "Muon", "params": {"lr": 1e-3}}}' >muon.json
apart='2 ranks of tp each hold a slice of the rows of Q and all of K and V of transformer.h.0.attn.c_attn.weight.*give --muon-no-split-qkv False'
for options in "--optimizer muon --muon-no-split-qkv" "--deepspeed --deepspeed_config muon.json"; do
    # shellcheck disable=SC2086
    muon 2 1 $options && fail "one matrix that is held as two: $options"
    grep -q -- "$apart" muon.log || fail "$options: $(cat muon.log)"
    for cut in "1 1" "2 2"; do
        # shellcheck disable=SC2086
        muon $cut $options || fail "$options, $cut: $(tail -n 2 muon.log)"
    done
    # shellcheck disable=SC2086
    muon 2 1 $options --muon-no-split-qkv False || fail "$options, apart: $(tail -n 2 muon.log)"
done
exit 0
