#!/usr/bin/env bash
# What a run prints before its first step: at most 40 lines by default, the table of options on demand, nothing but
# errors at --log-level error; log, table and model card say what a folder holds, not the defaults of options.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "preparing the data"
for i in $(seq 1 30); do cp t_text_document.bin "t$i.bin" && cp t_text_document.idx "t$i.idx"; done
base=(pretrain_gpt --micro-batch-size 1 --global-batch-size 2 --train-iters 4 --lr 1e-3 --lr-decay-style constant \
    --split 80,10,10
    --eval-iters 1 --eval-interval 2 --log-interval 1 --num-threads 1)
shape=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16)
run() { # NAME ARGS…: NAME.log has both streams
    "$MEGALITH" "${base[@]}" "${@:2}" >"$1.log" 2>&1 </dev/null || fail "$1: $(tail -n 3 "$1.log")"
}
before() { sed '/^ iteration /,$d' "$1.log" | wc -l; }
has() { grep -qE -- "$2" "$1.log" || note "$1 has no $2: $(head -n 45 "$1.log")"; }
lacks() { grep -qE -- "$2" "$1.log" && note "$1 has $2: $(grep -E -m 1 -- "$2" "$1.log")"; }
brief() { [ "$(before "$1")" -le 40 ] || note "$1: $(before "$1") lines before the first step"; }

# --- by default
run plain "${shape[@]}" --tokenizer-type ByteTokenizer --data-path t_text_document
brief plain
has plain '^options that differ from their defaults \(--print-options shows all\):$'
has plain '^  --num-layers 2 --hidden-size 32 '
lacks plain '^  [a-z_]+ \.\.\.'
lacks plain '--adam-beta2'
has plain '^network      2 layers, hidden 32, 4 heads of 8'
has plain '^             LayerNorm, learned positions, GELU \(tanh\), biases, head tied to the embedding$'
has plain '^memory       [0-9.]+ MB of [0-9.]+ [MGT]B \('
# a blend of 30 data sets, a JSON, and many options
printf '{"train_micro_batch_size_per_gpu": 1,\n"gradient_clipping": 0.5}\n' >ds.json
run wide "${shape[@]}" --tokenizer-type ByteTokenizer --data-path $(for i in $(seq 1 30); do echo "$i t$i"; done) \
    --deepspeed --deepspeed_config ds.json \
    --adam-beta1 0.8 --adam-beta2 0.9 --adam-eps 1e-7 --weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 \
    --init-method-std 0.01 --seed 7 \
    --log-params-norm --log-num-zeros-in-grad --log-throughput --metrics-file m.jsonl --save wide --save-interval 2 \
    --ffn-hidden-size 96 --clip-grad 0.5 \
    --make-vocab-size-divisible-by 32 --max-position-embeddings 32 --no-save-rng --recompute-granularity full --swiglu \
    --normalization RMSNorm \
    --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --group-query-attention \
    --num-query-groups 2
brief wide
has wide 'and 29 more data sets \(--log-level debug lists them\)$'
lacks wide '^ > train: t9,'
# prefixes without weights are mixed by size, for one epoch and for more, and told as briefly
run sized "${shape[@]}" --tokenizer-type ByteTokenizer --data-path $(for i in $(seq 1 30); do echo "t$i"; done)
run sized_longer "${shape[@]}" --tokenizer-type ByteTokenizer --data-path t1 t2 t3 --train-iters 2000 --exit-interval 1
for name in sized sized_longer; do
    for part in 'train: t1' 'validation: t1' 'test: t1' 'and [0-9]+ more data sets'; do
        [ "$(grep -cE "^ > $part" $name.log)" = 1 ] || note "$name: \"$part\" $(grep -cE "^ > $part" $name.log) times"
    done
    lacks $name '^ > train: t2,'
done
has sized_longer '^ > train: t1, .* [0-9]+ epochs'
# a folder: what it holds is said, not the defaults
mkdir hf && cp wide/iter_0000004/{*.json,*.safetensors} hf
loaded=(--load hf --seq-length 16 --data-path t_text_document)
run loaded "${loaded[@]}" --save loaded --print-options
has loaded '^             RMSNorm, RoPE \(base 10000\), SwiGLU, no biases, a head of its own$'
for line in 'normalization RMSNorm' 'position_embedding_type rope' 'swiglu True' 'num_query_groups 2' \
    'add_bias_linear False' \
    'untie_embeddings_and_output_weights True' 'tokenizer_type ByteTokenizer' 'num_layers 2'; do
    has loaded "^  ${line% *} \.+ ${line#* }\$"
done
grep -qx '| kind | RMSNorm, RoPE (base 10000), SwiGLU, no biases, a head of its own |' loaded/iter_0000004/README.md ||
    note "the model card: $(cat loaded/iter_0000004/README.md)"
run short "${loaded[@]}"
brief short
run resumed --load wide --save wide --use-checkpoint-args --train-iters 6 --data-path $(for i in $(seq 1 30); do echo \
    "$i t$i"; done) \
    --use-checkpoint-opt_param-scheduler
brief resumed
has short '^  by the checkpoint: .*--num-layers 2'

# --- the table
has loaded '^-+ arguments -+$'
has loaded '^  adam_beta2 \.+ 0\.999$'
lacks loaded '^options that differ'
run debug "${loaded[@]}" --log-level debug
has debug '^  adam_beta2 \.+ 0\.999$'
"$MEGALITH" plan "${shape[@]}" --micro-batch-size 1 --print-options >plan.log 2>&1 || note "plan --print-options"
has plan '^  adam_beta2 \.+ 0\.999$'

# --- iteration and validation lines are the same at every level that prints them
lines() { grep -E '^ (iteration|validation loss)' "$1.log" | sed -E 's/elapsed time[^|]*\|//; s/tokens\/s.*//'; }
run warning "${loaded[@]}" --log-level warning
for name in short debug warning; do lines $name | diff - <(lines loaded) ||
    note "$name: other lines of iterations"; done
[ "$(lines loaded | wc -l)" -ge 6 ] || note "no lines to compare"
lacks warning '^network|^options|^building|^using'
has warning '^warning: no --save'

# --- why nothing is evaluated: the share is 0, or there are too few documents for it
"$MEGALITH" preprocess_data --input t.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix one >log 2>&1 ||
    fail "one document"
run one "${shape[@]}" --tokenizer-type ByteTokenizer --data-path one_text_document
has one \
    'no validation data: the data set has 1 document, which --split 80,10,10 shares out whole, .*--split-on-blank-lines'
run share "${shape[@]}" --tokenizer-type ByteTokenizer --data-path one_text_document --split 100,0,0
has share 'no validation data \(--split 100,0,0, or --valid-data-path\)'

# --- at error nothing but errors, in every form of the option
run none "${loaded[@]}" --log-level error
run early --log-level=error "${loaded[@]}"
run megatrons "${loaded[@]}" --logging-level 40
for name in none early megatrons; do [ -s $name.log ] && note "$name: $(cat $name.log)"; done
# but what an option asks for: the table, and the parameters of the ranks
for level in error warning; do
    run asked "${loaded[@]}" --print-options --log-level $level
    grep -vE \
        '^(warning: .*|-+ (end of )?arguments -+|-+|  [A-Za-z0-9_]+ \.+ .*| > number of parameters on .*| iteration .*| validation .*)$' asked.log >other
    [ $level = warning ] || [ ! -s other ] || note "--print-options at $level: $(cat other)"
    has asked '^  adam_beta2 \.+ 0\.999$'
    has asked '^ > number of parameters on \(tensor, pipeline\)'
    lacks asked '^using'
done
refuses "an error at error" "--num-layers: 0" "${base[@]}" --log-level error --num-layers 0
grep -q warning <<<"$refused" && note "warnings at error: $refused"
finish
