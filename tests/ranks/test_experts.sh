#!/usr/bin/env bash
# Layers of experts over two and four ranks of expert parallelism.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for way in shm mpi; do
    export MEGA_COMM=$way
    for n in 2 4; do passes_on "$n" ranks_experts; done
done

# run_clm: losses, norms of gradients and parameters, and zeros are those of one rank, wherever the experts are; what
# does not work says so.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "FAILED: $1"
    exit 1
}
for i in $(seq 1 100); do echo "the cat sat on the mat and the dog sat on the log, $i times"; done >cats.txt
mkdir small
cat >small/config.json <<'END'
{"model_type": "qwen3_moe", "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "norm_topk_prob": true,
 "max_position_embeddings": 32, "num_experts": 8, "num_experts_per_tok": 2}
END
clm=("$MEGALITH" run_clm --config_name small --tokenizer-type ByteTokenizer --train_file cats.txt --block_size 16
    --max_steps 3 --learning_rate 3e-3 --per_device_train_batch_size 2 --global-batch-size 8 --log-interval 1
    --num-threads 1 --seed 5 --log-params-norm --log-num-zeros-in-grad)
numbers() { grep -oE '(lm loss|grad norm|params norm|num zeros): [0-9.E+-]+' "$1" | awk '{ print $NF }'; }
"${clm[@]}" >one.log 2>&1 || fail "one rank: $(tail -3 one.log)"
[ "$(numbers one.log | wc -l)" -eq 12 ] || fail "numbers of one rank: $(numbers one.log)"
ep=--expert-model-parallel-size
while read -r n words; do
    # shellcheck disable=SC2086  # a list of words
    ranks "$n" "${clm[@]}" $words >many.log 2>&1 </dev/null || fail "$n $words: $(grep -m 2 error many.log)"
    paste <(numbers one.log) <(numbers many.log) | awk '
        { d = $1 - $2; d = d < 0 ? -d : d; if (NF != 2 || d > 2e-5 * $1) exit 1; n++ } END { exit n != 12 }' ||
        fail "$n $words: $(paste <(numbers one.log) <(numbers many.log))"
done <<END
2 $ep 2
4 $ep 2 --zero-stage 1
4 $ep 4 --zero-stage 3
4 $ep 2 --tensor-model-parallel-size 2 --sequence-parallel --zero-stage 2
2 $ep 2 --moe-buffer-factor 0.3 --metrics-file rounds.jsonl
END
# Rounds after the first are counted where ranks exchange rows: with a small buffer some in each step.
later() { grep -oE 'later rounds: [0-9.E+-]+' "$1" | awk '$3 >= 1 { n++ } END { print n + 0 }'; }
[ "$(later many.log)" -eq 3 ] || fail "rounds of a small buffer: $(grep -m 1 'lm loss' many.log)"
[ "$(grep -cE '"later_rounds": ?[1-9]' rounds.jsonl)" -eq 3 ] || fail "metrics of rounds: $(tail -1 rounds.jsonl)"
grep -q 'later rounds' one.log && fail "rounds of one rank: $(grep -m 1 'later rounds' one.log)"

# With capacities, too: what is dropped depends on the samples of a micro-batch alone.
capacity="--moe-expert-capacity-factor 0.75 --moe-min-capacity 2"
for policy in probs position; do
    # shellcheck disable=SC2086
    "${clm[@]}" $capacity --moe-token-drop-policy $policy >one.log 2>&1 || fail "$policy: $(tail -3 one.log)"
    grep -oE 'dropped choices: [0-9.E+-]+' one.log >dropped.one
    awk '{ if ($3 <= 0 || $3 >= 0.8) exit 1; n++ } END { exit n != 3 }' dropped.one || fail "$policy: $(cat dropped.one)"
    for words in "$ep 2" "$ep 1 --zero-stage 2" "$ep 1 --tensor-model-parallel-size 2 --sequence-parallel"; do
        # shellcheck disable=SC2086
        ranks 2 "${clm[@]}" $capacity --moe-token-drop-policy $policy $words >many.log 2>&1 </dev/null ||
            fail "$policy $words: $(grep -m 2 error many.log)"
        paste <(numbers one.log) <(numbers many.log) | awk '
            { d = $1 - $2; d = d < 0 ? -d : d; if (NF != 2 || d > 2e-5 * $1) exit 1; n++ } END { exit n != 12 }' ||
            fail "$policy $words: $(paste <(numbers one.log) <(numbers many.log))"
        grep -oE 'dropped choices: [0-9.E+-]+' many.log | cmp -s - dropped.one || fail "$policy $words: dropped choices"
    done
done
refuses() { # WORDS RANKS OPTIONS…
    ranks "$2" "${clm[@]}" "${@:3}" >many.log 2>&1 </dev/null && fail "accepted: ${*:3}"
    grep -qF "$1" many.log || fail "${*:3}: $(grep -m 2 error many.log)"
}
refuses 'does not divide the 2 data-parallel ranks' 2 $ep 4
ranks 2 "${clm[@]}" $ep 2 --output_dir saved >many.log 2>&1 </dev/null || fail "saving: $(grep -m 2 error many.log)"
"$MEGALITH" generate_samples_gpt --load saved --prompt cat --out-seq-length 4 >one.txt 2>one.log ||
    fail "a text of one rank: $(cat one.log)"
ranks 2 "$MEGALITH" generate_samples_gpt --load saved $ep 2 --prompt cat --out-seq-length 4 >many.txt 2>many.log \
    </dev/null && cmp -s one.txt many.txt || fail "a text of two ranks: $(cat many.txt many.log)"
refuses 'optimizer one_bit_adam: with experts that are divided over ranks' 2 $ep 2 --optimizer one_bit_adam
sed -i 's/"num_experts": 8/"num_experts": 5/' small/config.json
refuses '5 experts over 2 ranks of ep; expected a multiple' 2 $ep 2
