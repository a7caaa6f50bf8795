#!/usr/bin/env bash
# MEGA_CHECK=1, which ends a run at the first value that is not finite: a healthy run has the losses that it has
# without, also where a rank holds only padding of the vocabulary, and in fp16 at a loss scale from which it comes down;
# a sick one is told what made the value.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
export OMP_NUM_THREADS=1
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "preparing the data"
run=(pretrain_gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2 \
    --global-batch-size 4 --train-iters 24
    --lr 1e-3 --log-interval 1 --tokenizer-type ByteTokenizer --data-path t_text_document --split 90,10,0 --eval-iters \
        1 --num-threads 1)
numbers() { grep -oE \
    '^ iteration +[0-9]+|lm loss( value)?: [0-9.E+-]+|loss scale: [0-9.]+|skipped iterations: +[0-9]+' "$1"; }
# healthy NAME RANKS OPTIONS…
healthy() {
    local name=$1 n=$2 check
    shift 2
    for check in 0 1; do
        # Two files: mpirun passes on output and errors by pieces, and may put a warning into the middle of a line.
        MEGA_CHECK=$check ranks "$n" "$MEGALITH" "${run[@]}" "$@" >log 2>errors </dev/null ||
            note "$name, MEGA_CHECK=$check: $(cat errors)"
        ! grep -q $'\r' log || note "$name: a status line, though mpirun is the reader: $(grep -c $'\r' log) of them"
        numbers log >numbers$check
    done
    cmp -s numbers0 numbers1 && [ -s numbers1 ] ||
        note "$name: MEGA_CHECK changes numbers: $(diff numbers0 numbers1 | head -4)"
}
healthy "a rank of padding" 2 --tensor-model-parallel-size 2 --make-vocab-size-divisible-by 512
healthy "fp16" 1 --fp16
grep -q 'skipped iterations: *1' numbers1 || note "fp16: no step overflowed: $(head -3 numbers1)"
healthy "fp16 over tp" 2 --fp16 --tensor-model-parallel-size 2 --make-vocab-size-divisible-by 512
healthy "fp16 over pp" 2 --fp16 --pipeline-model-parallel-size 2
# Weights of 1e38 overflow in the forward. Every rank goes on with its calls, and none is said to make others.
for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" \
    "--data-parallel-sharding-strategy no_shard"; do
    # shellcheck disable=SC2086 # an option and its value
    MEGA_CHECK=1 ranks 2 "$MEGALITH" "${run[@]}" $layout --init-method-std 1e38 >log 2>&1 </dev/null &&
        note "$layout: weights of 1e38 train"
    grep -q 'error: .*made a value that is not finite: tensor' log || note "$layout: no word of what made it"
    ! grep -q 'different calls' log || note "$layout: blames the calls"
done
finish
