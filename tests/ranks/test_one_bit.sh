#!/usr/bin/env bash
# 1-bit Adam on 1 to 4 ranks against a plain computation of all ranks, and resumed with the same bits; a checkpoint of 2
# ranks is continued by 3 with a message. --print-program shows the two kinds of updates.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for n in 1 2 3 4; do passes_on "$n" ranks_one_bit test "$folder/$n"; done
# If copies of a weight differed between ranks of tp, or a tied one between stages, the resumed run would differ: a
# folder has one of them.
passes_on 4 ranks_one_bit test "$folder/tp" --tensor-model-parallel-size 2
passes_on 4 ranks_one_bit test "$folder/pp" --pipeline-model-parallel-size 2
passes_on 2 ranks_one_bit test "$folder/tokens" --calculate-per-token-loss
out=$(ranks 3 "$MEGA_BUILD/tests/ranks_one_bit" other "$folder/2" 2>&1 </dev/null) || { echo "FAILED: $out"; exit 1; }
case $out in
*'has lost so far is of another number of ranks; it starts at 0'*) ;;
*)
    echo "FAILED: no message about the errors: $out"
    exit 1
    ;;
esac

# The padding of a vocabulary changes no number, and what compression has lost is in a checkpoint whole.
cd "$folder" || exit 1
seq 1 400 | sed 's/$/ bottles/' | tr '\n' ' ' | fold -w 300 >bottles.txt
"$MEGALITH" preprocess_data --input bottles.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix bottles \
    >log 2>&1 || { cat log; exit 1; }
run() { # METRICS OPTION…
    ranks 2 "$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
        --max-position-embeddings 16 --fp64 \
        --micro-batch-size 2 --global-batch-size 4 --train-iters 5 --lr 1e-3 --lr-decay-style constant --optimizer \
        one_bit_adam \
        --one-bit-adam-freeze-step 2 --tokenizer-type ByteTokenizer --data-path bottles_text_document --split 100,0,0 \
        --eval-iters 0 \
        --num-threads 1 --metrics-file "$@" >log 2>&1 </dev/null || { cat log; exit 1; }
}
losses() { sed -nE 's/.*"iteration": ([45]),.*"lm_loss": ([^,]*),.*/\1 \2/p' "$1"; }
run whole --save saved --save-interval 3
run rest --load saved/iter_0000003
run unpadded --make-vocab-size-divisible-by 1
for other in rest unpadded; do
    [ -n "$(losses whole)" ] && [ "$(losses whole)" = "$(losses $other)" ] ||
        { printf 'FAILED: %s: losses\n%s\nexpected\n%s\n' $other "$(losses $other)" "$(losses whole)"; exit 1; }
done
