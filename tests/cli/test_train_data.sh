#!/usr/bin/env bash
# --train-data FILE of 2019: pretrain_gpt trains straight from a text or JSON lines; also the other names of 2019.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 60 >text.txt
awk 'NF {printf "{\"text\": \"%s\"}\n", $0}' text.txt >lines.json
train=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings \
    16 --micro-batch-size 2
    --global-batch-size 2 --lr 1e-3 --train-iters 3 --tokenizer-type ByteTokenizer --split "90,10,0" --eval-iters 0 \
        --num-threads 1 --log-interval 1)
run() { "$MEGALITH" "${train[@]}" "$@" >out 2>&1 </dev/null; }
losses() { grep -o 'lm loss: [^ ]*' out; }

run --train-data text.txt || fail "a text"
grep -q 'text.txt was tokenized into ./text.txt-' out || note "it is not said where the tokens are"
[ "$(losses | wc -l)" = 3 ] || note "three iterations"
straight=$(losses)
ls text.txt-*_text_document.bin >/dev/null || note "the tokens are not beside the text"
run --train-data text.txt || fail "a text again"
grep -q 'was tokenized' out && note "it is tokenized again"
[ "$(losses)" = "$straight" ] || note "other losses from the kept tokens"
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix made >log 2>&1
run --data-path made_text_document || fail "a data set"
[ "$(losses)" = "$straight" ] || note "other losses than from preprocess_data"
echo >>text.txt "one line more"
run --train-data text.txt --dry-run || note "a dry run"
grep -q 'text.txt would be tokenized into' out || note "a dry run does not say what it would do"
[ "$(find . -name 'text.txt-*.bin' | wc -l)" = 1 ] || note "a dry run writes"

cp "$MEGALITH" program
for how in '' --dry-run; do
    # shellcheck disable=SC2086
    run --train-data program $how && note "a program as a text, $how"
    grep -q 'program: found a program (ELF), expected JSON lines or plain text in UTF-8; program holds no text' out ||
        note "a program as a text, $how: $(cat out)"
    grep -q 'tokenized into' out && note "tokens of a program are announced, $how"
done

mkdir -p data/webtext cache && mv lines.json data/webtext/data.json
run --train-data webtext --data-cache-path cache || fail "a name of 2019"
ls cache/data.json-*_text_document.idx >/dev/null || note "the tokens are not under --data-cache-path"
refuses "a name that is nowhere" \
    'wikipedia.bin and wikipedia.idx are not there|nor is wikipedia a text|nor is data/wikipedia/data.json there' \
    "${train[@]}" --train-data wikipedia
printf '{"text": "a"}\n{broken\n' >bad.json
refuses "a broken line" 'bad.json: line 2' "${train[@]}" --train-data bad.json

echo '{"train_batch_size": 2, "zero_optimization": true, "fp16": {"enabled": false}}' >ds.json
run --train-data text.txt --deepscale --deepscale_config ds.json --deepscale-activation-checkpointing --fp32-allreduce \
    --cpu-optimizer \
    --save saved --load saved || fail "the names of 2019"
for line in 'DeepScale is enabled.' 'Unable to load checkpoint.'; do grep -qF "$line" out ||
    note "the line \"$line\""; done
for part in '--deepscale -> --deepspeed' '--fp32-allreduce' '--cpu-optimizer'; do grep -qF -- "$part" out ||
    note "no note: $part"; done
run --train-data text.txt --deepspeed --deepspeed_config ds.json || fail "--deepspeed"
grep -qF 'DeepSpeed is enabled.' out || note "the line \"DeepSpeed is enabled.\""
finish
