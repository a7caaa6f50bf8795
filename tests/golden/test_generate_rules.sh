#!/usr/bin/env bash
# Tokens, log-probabilities and logits of generate_samples_gpt against the rules of Megatron-LM and transformers written
# in Python: the calls of Accelerate's guide to Megatron-LM (megatron_generate) but beams, and each rule by itself.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/python.sh"
if [ -z "$python" ]; then
    echo "SKIPPED: no Python that has NumPy"
    exit 77
fi
export OMP_NUM_THREADS=1
for i in $(seq 1 40); do echo "line $i: of a text"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 64 --micro-batch-size 4 \
    --lr 3e-3 \
    --train-iters 20 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save model >log 2>&1 || fail "$(tail -n 3 log)"

# The batch has prompts of different lengths.
prompts=(--prompt "line 1:" --prompt "l" --prompt "line 22: of a te" --prompt "of")
generate() {
    "$MEGALITH" generate_samples_gpt --load model --out-seq-length 16 --genfile texts.json --logprobs --return-logits \
        logits.safetensors --overwrite "$@" >out 2>err ||
        fail "$*: $(cat err)"
}
# the options, then what generate_rules.py is told of them
follows() {
    local options=$1
    shift
    # shellcheck disable=SC2086
    generate "${prompts[@]}" --batch 4 $options
    "$python" "$MEGA_SOURCE/tests/golden/generate_rules.py" texts.json logits.safetensors "$@" >rules 2>&1 ||
        fail "$options: $(cat rules)"
    [ "${MEGA_MATRIX:-full}" = full ] || return 0 # slow builds: other tests generate with and without a batch
    cp texts.json batch.json
    # shellcheck disable=SC2086
    generate "${prompts[@]}" $options
    cut -d '[' -f 1,2 texts.json | cmp -s - <(cut -d '[' -f 1,2 batch.json) || fail "$options: another text in a batch"
}
follows ""
follows "--greedy" greedy=1
follows "--top_p 0.8 --top_p_decay 0.5 --temperature 0.9" top_p=0.8 top_p_decay=0.5 temperature=0.9
follows "--top_k 50 --temperature 0.9" top_k=50 temperature=0.9
follows "--top_k 50 --temperature 0.9 --add_BOS" top_k=50 temperature=0.9 bos=256
follows "--top_p 0.9 --top_p_decay 0.8 --top_p_bound 0.5 --seed 7" top_p=0.9 top_p_decay=0.8 top_p_bound=0.5 seed=7
follows "--min_p 0.05 --repetition_penalty 1.3 --top_k 9 --top_p 0.95" min_p=0.05 repetition_penalty=1.3 top_k=9 \
    top_p=0.95
follows "--greedy --repetition_penalty 3 --recompute" greedy=1 repetition_penalty=3
follows "--greedy --prevent_newline_after_colon" greedy=1 colon=1

# The probability of each token of a prompt is that of the logits after the tokens before it.
generate --prompt "line 1" --greedy
cp texts.json whole.json
for n in 1 3 5; do
    generate --prompt "$(printf 'line 1' | head -c $n)" --greedy --out-seq-length 1
    "$python" - $n <<'PY' || fail "log-probability of token $n of a prompt"
import json, struct, sys
import numpy
n = int(sys.argv[1])
raw = open("logits.safetensors", "rb").read()
size, = struct.unpack("<Q", raw[:8])
begin, end = json.loads(raw[8 : 8 + size])["logits"]["data_offsets"]
row = numpy.frombuffer(raw[8 + size + begin : 8 + size + end], "<f4").astype(float)
whole = json.loads(open("whole.json").readline())
expected = row[whole["tokens"][n]] - row.max() - numpy.log(numpy.exp(row - row.max()).sum())
sys.exit(int(abs(whole["logprobs"][n - 1] - expected) > 1e-4))
PY
done
# .npy holds the same numbers, in the order of the texts
generate "${prompts[@]}" --batch 3
cp logits.safetensors kept.safetensors
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 16 "${prompts[@]}" --batch 3 --logprobs --genfile \
    other.json --return-logits logits.npy >out 2>err || fail "npy: $(cat err)"
"$python" -c \
    'import numpy; raw = open("kept.safetensors", "rb").read(); a = numpy.load("logits.npy"); assert a.dtype == "<f4" and a.shape[1] == 257, a.shape; assert a.tobytes() in raw' || fail "npy"
refuses "another file" "logits.npy|--overwrite" generate_samples_gpt --load model --prompt a --return-logits logits.npy

# The best text of a beam search: its score, its probabilities and its logits belong together.
generate --prompt "line 1:" --prompt "of" --num-beams 4 --length-penalty 0.7
"$python" - <<'PY' >rules 2>&1 || fail "beams: $(cat rules)"
import json, struct
import numpy
raw = open("logits.safetensors", "rb").read()
size, = struct.unpack("<Q", raw[:8])
head = json.loads(raw[8 : 8 + size])
part = lambda name, kind: numpy.frombuffer(raw[8 + size :][slice(*head[name]["data_offsets"])], kind)
logits, texts, tokens = part("logits", "<f4").reshape(-1, 257).astype(float), part("texts", "<i8"), part("tokens", "<i8")
rows = logits - logits.max(1, keepdims=True)
rows -= numpy.log(numpy.exp(rows).sum(1, keepdims=True))
lines = [json.loads(line) for line in open("texts.json")]
assert len(lines) == 2 and len(tokens) == 32, (len(lines), len(tokens))
for i, line in enumerate(lines):
    mine = texts == i
    assert list(tokens[mine]) == line["tokens"][-16:], (tokens[mine], line)
    found = rows[mine][numpy.arange(16), tokens[mine]]
    assert numpy.abs(found - line["logprobs"][-16:]).max() < 1e-4, (found, line)
    assert abs(found.sum() / 16**0.7 - line["score"]) < 1e-4, (found.sum(), line)
PY

# What ends a text
stopped() { # options, pattern of the text, finished
    # shellcheck disable=SC2086
    "$MEGALITH" generate_samples_gpt --load stops --prompt "abc" --greedy --out-seq-length 30 --genfile texts.json \
        --overwrite $1 >out 2>err || fail "$1: $(cat err)"
    grep -qE "^\{\"text\":\"abc$2\"" texts.json && grep -q "\"finished\":$3" texts.json || fail "$1: $(cat texts.json)"
}
for i in $(seq 60); do printf "abc: d\ne\n\n"; done >loop.txt
"$MEGALITH" preprocess_data --input loop.txt --tokenizer-type ByteTokenizer --output-prefix loop >log 2>&1 ||
    fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 48 --micro-batch-size 8 \
    --lr 1e-2 --lr-decay-style constant \
    --attention-dropout 0 --hidden-dropout 0 --train-iters 200 --tokenizer-type ByteTokenizer --data-path \
    loop_text_document --split 100,0,0 --eval-iters 0 --save stops >log 2>&1 ||
    fail "$(tail -n 3 log)"
stopped "" ': d\\n.*' false
stopped "--stop d" ': d' true
stopped "--stop never --stop c:" '[^c]*abc:' true
stopped "--stop_on_eol" ': d\\n' true
stopped "--stop_on_double_eol" '([^\\]|\\n[^\\])*\\n\\n' true
stopped "--stop_token 100" ': ' true
refuses "a stop token" "--stop_token 9999|0 to 256" generate_samples_gpt --load stops --prompt a --stop_token 9999
refuses "mistakes in rules" "--top_p_decay|goes with --top_p|--logprobs|goes with --genfile|.npy or .safetensors" \
    generate_samples_gpt --load stops --prompt a \
    --top_p_decay 0.5 --logprobs --return-logits x.txt
refuses "what beams do not follow" \
    "--stop_token alone ends a beam|as in Megatron, it has one prompt|a beam search (--num-beams 4" \
    generate_samples_gpt --load stops --prompt a --num-beams 4 --batch 2 \
    --genfile x --stop b
refuses "early stopping" "--early-stopping|--beam-rules transformers" generate_samples_gpt --load stops --prompt a \
    --num-beams 4 --early-stopping never
refuses "more beams than half the ids" "expected at most" generate_samples_gpt --load stops --prompt a --num-beams 200
finish
