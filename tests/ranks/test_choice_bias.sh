#!/usr/bin/env bash
# The bias of the choice of experts that steps update (--moe-router-enable-expert-bias): the same bits in every layout,
# after a resume in another one, and where a folder of glm4_moe is fine-tuned; what does not work says so.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if ! command -v python3 >/dev/null; then
    echo "SKIPPED: no python3, which reads the saved biases"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "FAILED: $1"
    exit 1
}
for i in $(seq 1 100); do echo "the cat sat on the mat and the dog sat on the log, $i times"; done >cats.txt
# One line a layer: the bytes of its bias in the last checkpoint of a folder.
cat >biases.py <<'END_OF_PYTHON'
import glob, json, struct, sys
path = sorted(glob.glob(sys.argv[1] + "/iter_*/model.safetensors") or glob.glob(sys.argv[1] + "/model.safetensors"))[-1]
data = open(path, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
for name, t in sorted(json.loads(data[8:8 + size]).items()):
    if name.endswith("mlp.gate.e_score_correction_bias"):
        begin, end = t["data_offsets"]
        print(name, t["dtype"], data[8 + size + begin:8 + size + end].hex())
END_OF_PYTHON
gpt=("$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --num-experts 8
    --moe-ffn-hidden-size 16 --disable-bias-linear --swiglu --normalization RMSNorm --position-embedding-type rope
    --untie-embeddings-and-output-weights --moe-router-score-function sigmoid --moe-router-enable-expert-bias
    --moe-router-bias-update-rate 0.01 --tokenizer-type ByteTokenizer --train-data-path cats.txt --global-batch-size 8
    --lr 1e-2 --lr-decay-style constant --num-threads 1 --log-interval 1 --fp64)
"${gpt[@]}" --micro-batch-size 8 --train-iters 4 --save one >one.log 2>&1 || fail "one rank: $(tail -3 one.log)"
python3 biases.py one >one.bias || fail "no biases"
[ "$(wc -l <one.bias)" -eq 2 ] || fail "biases of one rank: $(cat one.bias)"
grep -qE ' (0{8})+$' one.bias && fail "a bias is as it was: $(cat one.bias)"
same() { # FOLDER WHAT
    python3 biases.py "$1" | cmp -s - one.bias || fail "$2: $(python3 biases.py "$1"); on one rank $(cat one.bias)"
}
while read -r n words; do
    rm -rf many
    # shellcheck disable=SC2086  # a list of words
    ranks "$n" "${gpt[@]}" --train-iters 4 --save many $words >many.log 2>&1 </dev/null ||
        fail "$n $words: $(grep -m 2 error many.log)"
    same many "$n $words"
done <<END
1 --micro-batch-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
2 --micro-batch-size 2 --expert-model-parallel-size 2 --zero-stage 1
2 --micro-batch-size 1 --pipeline-model-parallel-size 2
4 --micro-batch-size 2 --tensor-model-parallel-size 2 --sequence-parallel --zero-stage 2
4 --micro-batch-size 1 --expert-model-parallel-size 2 --zero-stage 3 --recompute-granularity full --recompute-method uniform
END

# Two steps, and two more of a run that resumes in another layout.
ranks 2 "${gpt[@]}" --micro-batch-size 2 --zero-stage 2 --train-iters 2 --save half >half.log 2>&1 </dev/null ||
    fail "the first half: $(grep -m 2 error half.log)"
python3 biases.py half | cmp -s - one.bias && fail "biases after 2 steps are those after 4"
"${gpt[@]}" --micro-batch-size 4 --train-iters 4 --load half --save half >half.log 2>&1 ||
    fail "the second half: $(tail -3 half.log)"
same half "a resumed run"

# In 16 bits: the biases are not rounded, neither on ranks that hold slices of them nor in folders of 16 bits. Sums over
# tp round other numbers than one rank does.
fp64=("${gpt[@]}")
unset 'gpt[-1]' # --fp64
gpt+=(--bf16 --save-dtype bf16)
rm -rf one
"${gpt[@]}" --micro-batch-size 8 --train-iters 4 --save one >one.log 2>&1 || fail "one rank in bf16: $(tail -3 one.log)"
python3 biases.py one >one.bias || fail "no biases in bf16"
[ "$(grep -c ' F32 ' one.bias)" -eq 2 ] || fail "biases in bf16: $(cat one.bias)"
grep -qE ' (0{4}.{4})+$' one.bias && fail "a bias is rounded: $(cat one.bias)"
loss_of() { grep -o 'lm loss: [0-9.E+-]*' "$1" | tail -1; }
while read -r n words; do
    rm -rf many
    # shellcheck disable=SC2086  # a list of words
    ranks "$n" "${gpt[@]}" --train-iters 4 --save many $words >many.log 2>&1 </dev/null ||
        fail "bf16, $n $words: $(grep -m 2 error many.log)"
    same many "bf16, $n $words"
    awk -v a="$(loss_of one.log)" -v b="$(loss_of many.log)" 'BEGIN {
        split(a, x, " "); split(b, y, " "); d = x[3] - y[3]; exit !(d < 2e-3 && d > -2e-3 && x[3] > 0) }' ||
        fail "bf16, $n $words: $(loss_of many.log); on one rank $(loss_of one.log)"
done <<END
1 --micro-batch-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
2 --micro-batch-size 2 --expert-model-parallel-size 2 --zero-stage 1
2 --micro-batch-size 1 --pipeline-model-parallel-size 2
2 --micro-batch-size 1 --zero-stage 3 --stage3-param-persistence-threshold 0
4 --micro-batch-size 1 --expert-model-parallel-size 2 --zero-stage 3
END
ranks 2 "${gpt[@]}" --micro-batch-size 2 --zero-stage 2 --train-iters 2 --save bf16 >half.log 2>&1 </dev/null ||
    fail "the first half in bf16: $(grep -m 2 error half.log)"
"${gpt[@]}" --micro-batch-size 4 --train-iters 4 --load bf16 --save bf16 >half.log 2>&1 ||
    fail "the second half in bf16: $(tail -3 half.log)"
same bf16 "a resumed run in bf16"
gpt=("${fp64[@]}")

# A folder whose family has such biases: they are updated only where that is asked for.
mkdir glm
cat >glm/config.json <<'END'
{"model_type": "glm4_moe", "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 8,
 "num_experts_per_tok": 2, "first_k_dense_replace": 1, "max_position_embeddings": 32}
END
clm=("$MEGALITH" run_clm --tokenizer-type ByteTokenizer --train_file cats.txt --block_size 16 --max_steps 2
    --learning_rate 1e-3 --per_device_train_batch_size 4 --num-threads 1)
bias=(--moe-router-enable-expert-bias --moe-router-bias-update-rate 0.25)
"${clm[@]}" --config_name glm --output_dir kept >clm.log 2>&1 || fail "run_clm: $(tail -3 clm.log)"
python3 biases.py kept | grep -qE ' (0{8})+$' || fail "a constant bias: $(python3 biases.py kept)"
"${clm[@]}" --model_name_or_path kept --output_dir tuned "${bias[@]}" >clm.log 2>&1 || fail "tuned: $(tail -3 clm.log)"
python3 biases.py tuned | grep -qE '(0000803e|000080be|0000003f|000000bf)' || fail "tuned: $(python3 biases.py tuned)"

refuses() { # WORDS COMMAND…
    "${@:2}" >many.log 2>&1 && fail "accepted: ${*: -3}"
    grep -qF -- "$1" many.log || fail "${*: -3}: $(grep -m 2 error many.log)"
}
refuses 'give --moe-router-score-function sigmoid' "${gpt[@]}" --micro-batch-size 8 --train-iters 1 \
    --moe-router-score-function softmax
refuses 'not counted exactly in fp32; expected at most 16777216 tokens a step' "${gpt[@]}" --micro-batch-size 8 \
    --train-iters 1 --global-batch-size 1048584
sed -i 's/glm4_moe/qwen3_moe/; s/n_routed_experts/num_experts/; s/"first_k_dense_replace": 1, //' glm/config.json
refuses 'has another kind of network' "${clm[@]}" --config_name glm --output_dir none "${bias[@]}"
unset 'gpt[-1]' # --fp64
refuses 'optimizer one_bit_adam: with biases of the choice' "${gpt[@]}" --micro-batch-size 8 --train-iters 1 \
    --optimizer one_bit_adam
