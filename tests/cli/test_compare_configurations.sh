#!/usr/bin/env bash
# Speed and memory of one model with several DeepSpeed JSONs on two ranks: a line for each, also for one that is
# refused, as a table and as JSON; the largest model that fits; no file is left. Libraries of the launcher never free
# some of their memory.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
cd "$work" || exit 1
export TMPDIR=$work/tmp
mkdir tmp
batch='"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}'
echo "{$batch, \"zero_optimization\": {\"stage\": 0}}" >plain.json
echo "{$batch, \"zero_optimization\": {\"stage\": 3, \"stage3_param_persistence_threshold\": 0}}" >zero3.json
echo "{$batch, \"zero_optimization\": {\"stage\": 7}, \"gradient_clipping\": -2}" >wrong.json
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 200 --num-threads 1)

"$MEGALITH" compare_configurations plain.json wrong.json zero3.json --ranks 2 --steps 2 --largest-in 32M "${model[@]}" \
    >table 2>log
status=$?
[ $status -eq 1 ] || note "exit status $status with a wrong JSON, expected 1: $(cat log table)"
grep -qE '^plain\.json +[0-9.e+]+ +[0-9.e+]+ +[0-9.]+ MB +[0-9.]+ MB +[0-9]+ layers?, [0-9,]+ parameters$' table ||
    note "no line of plain.json: $(cat table)"
grep -qE '^wrong\.json +error: .*gradient_clipping.*stage.* 7|^wrong\.json +error: .*stage.* 7.*gradient_clipping' \
    table || note "no error of wrong.json: $(cat table)"
layers() { sed -nE "s/^$1 .* ([0-9]+) layers?, .*/\1/p" table; }
if [ "$(layers zero3.json)" -le "$(layers plain.json)" ]; then
    note "ZeRO 3 fits no larger model than ZeRO 0: $(cat table)"
fi
# what it calls the largest model fits, and one more layer does not
plan() {
    "$MEGALITH" plan --deepspeed --deepspeed_config plain.json "${model[@]}" --world-size 2 --memory-limit 32M \
        --tokenizer-type NullTokenizer \
        --num-layers "$1" >/dev/null 2>&1
}
most=$(layers plain.json)
plan "$most" || note "$most layers do not fit"
plan $((most + 1)) && note "$((most + 1)) layers fit as well"

"$MEGALITH" compare_configurations plain.json --steps 1 --json "${model[@]}" >one.json 2>log ||
    note "one rank: $(cat log one.json)"
for key in '"configuration": "plain.json"' '"ranks": 1' '"samples_per_second": ' '"tokens_per_second": ' \
    '"planned_bytes": ' '"held_bytes": '; do
    grep -qF "$key" one.json || note "no $key in $(cat one.json)"
done

# Planned and held differ by 3 % or 1 MB, whichever is more; also where the last pipeline stage takes most, where data
# ranks share memory for their exchanges, and where 20 MB of data are mapped.
printf '7 %.0s' {1..2000} >line.txt
for _ in {1..5000}; do cat line.txt; echo; done >long.txt
"$MEGALITH" preprocess_data --input long.txt --output-prefix long --tokenizer-type NullTokenizer --vocab-size 8000 \
    >log 2>&1 || note "$(cat log)"
[ "$(stat -c %s long_text_document.bin)" -gt 15000000 ] || note "the data are no 20 MB: $(ls -l)"
for ranks in 1 "1 --data-path long_text_document --tokenizer-type NullTokenizer" "2 --tensor-model-parallel-size 2" \
    "4 --pipeline-model-parallel-size 4" 4; do
    is_sanitized && break # with memory of its own
    # shellcheck disable=SC2086  # a number and options
    "$MEGALITH" compare_configurations plain.json --steps 1 --json --num-layers 4 --hidden-size 128 \
        --num-attention-heads 4 --seq-length 128 \
        --vocab-size 8000 --num-threads 1 --ranks $ranks >one.json 2>log || note "$ranks ranks: $(cat log one.json)"
    awk -F'[:,]' '/"planned_bytes"/ { p = $2 } /"held_bytes"/ { h = $2 }
        END { d = h > p ? h - p : p - h; exit !(p > 0 && (d <= 1e6 || d <= 0.03 * p)) }' one.json || note "$ranks ranks: planned is not held: $(cat one.json)"
done

"$MEGALITH" compare_configurations --ranks 2 2>why && note "no file is accepted"
grep -q 'no file; give the DeepSpeed JSONs first' why || note "without a file: $(cat why)"
"$MEGALITH" compare_configurations plain.json --ranks 0 2>why && note "0 ranks are accepted"
grep -q -- '--ranks: found 0, expected a whole number from 1' why || note "0 ranks: $(cat why)"
# Monitors of a JSON write nothing where the user's own runs write; another spelling of --data-path counts as well.
mkdir -p here && cd here || exit 1
echo \
    "{$batch, \"tensorboard\": {\"enabled\": true}, \"csv_monitor\": {\"enabled\": true, \"output_path\": \"csv\"}, \"wandb\": {\"enabled\": true},
    \"flops_profiler\": {\"enabled\": true, \"profile_step\": 1, \"output_file\": \"flops.txt\"}}" >monitors.json
"$MEGALITH" compare_configurations monitors.json --steps 1 "${model[@]}" >out 2>&1 || note "with monitors: $(cat out)"
[ "$(ls)" = "$(printf 'monitors.json\nout')" ] || note "written beside the JSON: $(ls)"
"$MEGALITH" compare_configurations monitors.json --steps 1 "${model[@]}" --data_path=none >out 2>&1 &&
    note "--data_path=none: random data instead"
grep -q 'none.bin' out || note "--data_path=none: $(cat out)"
cd ..
for words in "--largest-in 0" "--largest-in x" "--save here" "--train_iters=3" "--deepspeed_config plain.json" \
    "--tensorboard-dir x" "--monitor-csv-path=x"; do
    # shellcheck disable=SC2086  # an option and its value
    "$MEGALITH" compare_configurations plain.json $words 2>why && note "$words is accepted"
    grep -qE -- '--largest-in: found (0|x), expected a size|compare_configurations itself sets it' why ||
        note "$words: $(cat why)"
done
[ -z "$(ls -A tmp)" ] || note "left in TMPDIR: $(ls tmp)"
finish
