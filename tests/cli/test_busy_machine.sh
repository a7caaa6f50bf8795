#!/usr/bin/env bash
# A process that shares the only core of a training is named in the log and in the metrics file.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
command -v taskset >/dev/null || skip "taskset is not there"
if "$MEGALITH" doctor | grep -q '^  taken now  *the system does not tell'; then skip \
    "the system does not tell what its cores do"; fi
first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
for i in $(seq 1 50); do printf 'line %s of a text\n\n' "$i"; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >prepare.log 2>&1 ||
    { cat prepare.log; exit 1; }
taskset -c "$first" sh -c 'while :; do :; done' &
busy=$!
taskset -c "$first" "$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 \
    --micro-batch-size 1 \
    --global-batch-size 1 --lr 1e-3 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 \
    --eval-iters 0 \
    --train-iters 1000000 --log-interval 1 --num-threads 1 --metrics-file metrics.jsonl >run.log 2>&1 &
run=$!
for _ in $(seq 1 600); do
    if grep -q '"cpu_taken_by_quota"' metrics.jsonl 2>/dev/null; then break; fi
    kill -0 "$run" 2>/dev/null || break
    sleep 0.1
done
kill -TERM "$run"
wait "$run" || { tail -5 run.log; note "the run failed"; }
kill "$busy"
grep -Eq 'of measured peak: [0-9.]+% \((doubtful; )?others took [1-9][0-9]+ %.* of the cores\) \|' run.log ||
    { tail -3 run.log; note "the log does not name the others"; }
grep -Eq '"cpu_taken_by_others": 0\.[1-9][0-9]*, "cpu_taken_by_hypervisor": [0-9.]+, "cpu_taken_by_quota": [0-9.]+' \
    metrics.jsonl ||
    note "no such figures in the metrics file: $(tail -1 metrics.jsonl)"
finish
