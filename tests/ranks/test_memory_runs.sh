#!/usr/bin/env bash
# The peak that a small run prints before its first step is the peak that it uses: within 3 % or 1 MB, whichever is
# more. Each family on one rank, each layout with one family, and all pairs of both with MEGA_ALL=1.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
is_sanitized && skip "a sanitizer has memory of its own"
is_far && skip "a plan does not count the copies of exchanges in a far build"
fox_lines 300 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix d >log 2>&1 || fail "preprocess_data"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the line a quick fox {0..9} >vocab.txt
for i in {1..80}; do
    for ((k = 0; k < 4 + i % 5; k++)); do echo "The quick fox $((i % 10)) has $((k * i % 10)) lines of a fox."; done
    echo
done >fables.txt
"$MEGALITH" preprocess_data --input fables.txt --split-on-blank-lines --split-sentences --vocab-file vocab.txt \
    --tokenizer-type BertWordPieceLowerCase --output-prefix f >log 2>&1 || fail "preprocess_data of sentences"
"$MEGALITH" train_tokenizer --input t.txt --vocab-size 300 --output bytes >log 2>&1 || fail "train_tokenizer"

shape=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64)
steps=(--micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 3 --eval-iters 1 --split 80,20,0
    --num-threads 1)
gpt=(pretrain_gpt "${shape[@]}" "${steps[@]}" --tokenizer-type ByteTokenizer --data-path d_text_document)
llama=("${gpt[@]}" --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2)
bert=(pretrain_bert "${shape[@]}" "${steps[@]}" --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt
    --data-path f_text_sentence)
t5=(pretrain_t5 "${shape[@]}" "${steps[@]}" --decoder-seq-length 32 --vocab-file vocab.txt --vocab-extra-ids 20
    --tokenizer-type BertWordPieceLowerCase --data-path f_text_sentence)
clm=(run_clm --model_type gpt2 --config_overrides n_embd=64,n_layer=4,n_head=4,n_positions=64 --tokenizer_name bytes
    --train_file t.txt --do_train --block_size 64 --per_device_train_batch_size 2 --max_steps 3 --learning_rate 1e-3
    --save_strategy no --output_dir trained --num-threads 1)

# number FILE KEY
number() { grep -oE "\"$2\": *[0-9]+" "$1" | grep -oE '[0-9]+$'; }
# holds RANKS FAMILY OPTIONS…
holds() {
    [ "$1" -eq 1 ] || [ $mpi_kind = openmpi ] || return # its memory is what was measured
    measured run_holds "$@" || note "planned is not held: $*"
}
run_holds() {
    local n=$1 start=(ranks "$1") planned held
    declare -n family=$2
    [ "$n" -gt 1 ] || start=()
    rm -rf m.jsonl* trained
    "${start[@]}" "$MEGALITH" "${family[@]}" "${@:3}" --metrics-file m.jsonl >log 2>&1 </dev/null ||
        { note "$* does not run"; return 0; } # said
    planned=$(number m.jsonl.run.json largest_rank_bytes) held=$(number m.jsonl.run.json held_bytes)
    awk -v p="$planned" -v h="$held" -v what="$*" 'BEGIN {
        far = h > p ? h - p : p - h
        printf "%s: planned %.2f MB, held %.2f MB\n", what, p / 1e6, h / 1e6
        exit !(p > 0 && h > 0 && (far <= 1e6 || far <= 0.03 * p))
    }'
}
tp=--tensor-model-parallel-size pp=--pipeline-model-parallel-size
layouts=("--zero-stage 1" "$tp 2" "$pp 2" "--zero-stage 3" "$tp 2 --sequence-parallel" "--micro-batch-size 2"
    "--zero-stage 2" "$pp 2 --num-virtual-stages-per-pipeline-rank 2")
families=(gpt llama bert t5)
for ((i = 0; i < ${#families[@]}; i++)); do
    holds 1 ${families[i]}
    for ((k = 0; k < ${#layouts[@]}; k++)); do
        # shellcheck disable=SC2086  # a list of words
        [ "${MEGA_ALL:-0}" != 1 ] && [ $((k % ${#families[@]})) -ne $i ] || holds 2 ${families[i]} ${layouts[k]}
    done
done
holds 1 clm
holds 2 clm --zero-stage 2
holds 2 clm $tp 2
holds 4 gpt $tp 2 --zero-stage 1
holds 4 bert $tp 2 $pp 2
holds 1 gpt --hidden-size 256 --bf16
holds 2 gpt --hidden-size 256 # whole buckets through the memory that ranks share
MEGA_COMM=mpi holds 2 gpt --hidden-size 128
finish
