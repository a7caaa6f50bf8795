#!/usr/bin/env bash
# A run cut at iteration 1, 7 or 50 and resumed equals the one that was never cut, bit for bit: metrics (times
# excepted), final weights and moments. With dropout, evaluation, a schedule and gradient accumulation; fp32 and bf16.
set -euo pipefail
: "${MEGALITH:?run by ctest}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 1 300); do echo \
    "$i: pack my box with $((i * 7919 % 1000)) dozen liquor jugs, said the $((i * 31 % 17)) wizards"; echo; done \
    >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1
run() { # FOLDER ARGS…
    local to=$1
    shift
    "$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 24 \
        --micro-batch-size 2 \
        --global-batch-size 4 --lr 2e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 5 --weight-decay 0.1 \
        --start-weight-decay 0.01 --end-weight-decay 0.1 --weight-decay-incr-style cosine --eod-mask-loss \
        --reset-position-ids \
        --reset-attention-mask --log-params-norm --log-num-zeros-in-grad --tokenizer-type ByteTokenizer --data-path \
        text_text_document \
        --split 90,10,0 --eval-iters 2 --eval-interval 10 --train-iters 60 --log-interval 20 --num-threads 2 \
        --save "$to" --load "$to" --metrics-file "$to.jsonl" "$@" >"$to.log" 2>&1 || { tail -20 "$to.log"; exit 1; }
}
rows() { sed -E 's/, "(iteration_time_ms|tokens_per_second|cpu_taken_by_[a-z]+|run)": [^,}]*//g' "$1"; }
same() { # A B
    cmp <(rows "$1.jsonl") <(rows "$2.jsonl") ||
        { echo "metrics of $1 and $2 differ"; diff <(rows "$1.jsonl") <(rows "$2.jsonl") | head -4; exit 1; }
    cmp "$1/iter_0000060/model.safetensors" "$2/iter_0000060/model.safetensors"
    cmp "$1/iter_0000060/state/optimizer.safetensors" "$2/iter_0000060/state/optimizer.safetensors"
}
run whole
[ "$(wc -l <whole.jsonl)" = 67 ] || { echo "67 rows expected: 60 of training, 6 evaluations, one at the end"; wc -l \
    whole.jsonl; exit 1; }
run again
same whole again
for cut in 1 7 50; do
    run "cut$cut" --exit-interval $cut
    run "cut$cut"
    same whole "cut$cut"
done
# killed without warning: the rows of this run after the last checkpoint are cut off on --load
cp -r cut7 killed && rm -rf killed/iter_0000060 && printf 7 >killed/latest_checkpointed_iteration.txt
sed "s/$(cat whole/run_id.txt)/$(cat cut7/run_id.txt)/" whole.jsonl >killed.jsonl
run killed
same whole killed
# another number of threads changes nothing
for threads in 1 3; do
    run "threads$threads" --num-threads $threads
    same whole "threads$threads"
done
run bf16 --bf16
for threads in 1 3; do
    run "bf16threads$threads" --bf16 --num-threads $threads
    same bf16 "bf16threads$threads"
done
run bf16cut --bf16 --exit-interval 7
run bf16cut --bf16
same bf16 bf16cut
cmp -s whole/iter_0000060/model.safetensors bf16/iter_0000060/model.safetensors &&
    { echo "bf16 changes nothing?"; exit 1; }
# smaller weights in the folder: the exact ones are kept beside them
run narrow --save-dtype bf16 --exit-interval 7
run narrow
same whole narrow
# counted in samples, with a batch that grows and samples drawn anew every epoch
ramp() {
    local to=$1
    shift
    "$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 \
        --micro-batch-size 2 \
        --global-batch-size 8 --rampup-batch-size 2 2 60 --train-samples 200 --lr 2e-3 --lr-decay-style linear \
        --lr-warmup-samples 20 \
        --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --dataloader-type cyclic \
        --eval-iters 1 \
        --eval-interval 10 --calculate-per-token-loss --eod-mask-loss --optimizer sgd --num-threads 2 \
        --save "$to" --load "$to" --metrics-file "$to.jsonl" "$@" >"$to.log" 2>&1 || { tail -20 "$to.log"; exit 1; }
}
ramp grown
ramp growing --exit-interval 9
ramp growing
cmp <(rows grown.jsonl) <(rows growing.jsonl)
last=$(cat grown/latest_checkpointed_iteration.txt)
cmp "$(printf grown/iter_%07d "$last")/model.safetensors" "$(printf growing/iter_%07d "$last")/model.safetensors"
# samples that grow while the batch does, with a training and a learning rate that are counted in tokens; cut where the
# length changes, and between
curriculum() { # FOLDER OPTIONS…
    ramp "$1" --curriculum-learning --curriculum-min-difficulty 8 --curriculum-total-steps 20 --lr-warmup-samples 0 \
        --lr-warmup-tokens 100 \
        --lr-decay-tokens 2000 --train-tokens 2400 --log-interval 1 "${@:2}"
}
curriculum lengths
# floor(t / 20 * 16 + 8), rounded down to a multiple of 8
seen=$(sed -n 's/.* curriculum seqlen: *\([0-9]*\) .*/\1/p' lengths.log | uniq -c |
    awk '{printf "%s%d x %d", (NR > 1 ? ", " : ""), $1, $2}')
grep -qE '^9 x 8, 10 x 16, [0-9]+ x 24$' <<<"$seen" || { echo "lengths of samples: $seen"; exit 1; }
# the training ends with the first iteration that has read 2,400 tokens
awk \
    '/ consumed tokens: / {match($0, /consumed tokens: +[0-9]+/); before = now; now = substr($0, RSTART + 16, RLENGTH - 16) + 0}
    END {exit !(before < 2400 && now >= 2400)}' lengths.log || { echo "tokens: $(grep -oE 'consumed tokens: +[0-9]+' lengths.log | tail -n 2)"; exit 1; }
last=$(cat lengths/latest_checkpointed_iteration.txt)
for cut in 9 12 19; do
    curriculum "lengths$cut" --exit-interval $cut
    [ "$(cat "lengths$cut/latest_checkpointed_iteration.txt")" = $cut ] || { echo "not cut at $cut"; exit 1; }
    curriculum "lengths$cut"
    cmp <(rows lengths.jsonl) <(rows "lengths$cut.jsonl")
    cmp "$(printf lengths/iter_%07d "$last")/model.safetensors" \
        "$(printf "lengths$cut/iter_%07d" "$last")/model.safetensors"
done
# A run that is given more iterations keeps the order of the samples that it has begun, although a run of that length
# would shuffle all its epochs together; and it is cut and resumed as any other.
longer() { # FOLDER TO LOAD, FOLDER TO SAVE, OPTIONS
    "$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 \
        --micro-batch-size 2 --global-batch-size 4 \
        --lr 2e-3 --lr-decay-iters 1000 --tokenizer-type ByteTokenizer --data-path text_text_document --split 12,88,0 \
        --eval-iters 0 --log-interval 50 \
        --num-threads 1 --load "$1" --save "$2" --metrics-file "$2.jsonl" "${@:3}" >"$2.log" 2>&1 ||
        { tail -20 "$2.log"; exit 1; }
}
losses() { grep -oE '"(iteration|lm_loss)": [^,]*' "$1"; }
longer order_epoch order_epoch --train-iters 20
held=$(sed -nE 's/^ > train: .* 1 epoch, ([0-9]+) samples$/\1/p' order_epoch.log)
[ "${held:-0}" -ge 80 ] || { echo "the data should hold one epoch of 80 samples or more"; grep '> train' \
    order_epoch.log; exit 1; }
longer order_begun order_begun --train-iters 10
longer order_begun order_grown --train-iters $((held / 2))
diff <(losses order_epoch.jsonl | tail -n 20) <(losses order_grown.jsonl | head -n 20) ||
    { echo "a longer run has another order of samples"; exit 1; }
grep -q \
    "warning: --train-iters .* the order of the checkpoint (--load order_begun) holds $held: .* after sample $held it reads" order_grown.log ||
    { echo "the new part of the order is not told"; grep warning order_grown.log; exit 1; }
longer order_begun order_parts --train-iters $((held / 2)) --exit-interval $((held / 2 - 3))
longer order_parts order_parts --train-iters $((held / 2))
grep 'warning: --train-iters' order_parts.log && { echo "the same order is told as another"; exit 1; }
last=$(printf iter_%07d $((held / 2)))
cmp "order_grown/$last/model.safetensors" "order_parts/$last/model.safetensors"
