#!/usr/bin/env bash
# The monitors and profilers of a DeepSpeed JSON, and Megatron's options for wandb, as a user meets them. Their files
# are read back by the real tensorboard and wandb where MEGA_PEERS has them.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
# Libraries of the launcher never free some of their memory.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
unset LC_ALL LC_CTYPE LANG COLUMNS
has() { # NAME PART FILE
    grep -qF -- "$2" "$3" || note "$1: \"$2\" is not in $3"
}

fox_lines 200 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 ||
    fail "preprocess_data"
cat >ds.json <<'JSON'
{
  "train_batch_size": 8,
  "train_micro_batch_size_per_gpu": 2,
  "fp16": {"enabled": true},
  "steps_per_print": 4,
  "wall_clock_breakdown": true,
  "tensorboard": {"enabled": true, "output_path": "board", "job_name": "first"},
  "csv_monitor": {"enabled": true, "output_path": "csv", "job_name": "first"},
  "wandb": {"enabled": true, "project": "poems", "group": null},
  "flops_profiler": {"enabled": true, "profile_step": 2, "output_file": "flops.txt"},
  "comms_logger": {"enabled": true, "verbose": false, "prof_ops": ["all_reduce", "reduce_scatter"], "prof_all": false}
}
JSON
base=(pretrain_gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --lr 1e-3 --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --eval-iters 1 \
        --eval-interval 4
    --train-iters 8 --num-threads 1)

# --- nothing is written before the first step
"$MEGALITH" "${base[@]}" --deepspeed --deepspeed_config ds.json --dry-run >log 2>&1 || fail "--dry-run"
for made in board csv wandb flops.txt; do [ ! -e $made ] || note "--dry-run made $made"; done

# --- one rank: the files agree with the metrics file, and the losses with a run without monitors
"$MEGALITH" "${base[@]}" --deepspeed --deepspeed_config ds.json --metrics-file with.jsonl >out 2>&1 ||
    fail "a training with monitors"
"$MEGALITH" "${base[@]}" --micro-batch-size 2 --global-batch-size 8 --fp16 --initial-scale-power 16 --metrics-file \
    without.jsonl \
    >log 2>&1 || fail "a training without"
losses() { sed -n 's/.*"consumed_samples": \([0-9]*\),.* "lm_loss": \([^,]*\),.*/\1,\2/p' "$1"; }
[ "$(losses with.jsonl | wc -l)" = 8 ] || note "the metrics file has no 8 losses"
[ "$(losses with.jsonl)" = "$(losses without.jsonl)" ] || note "monitors changed a loss"
[ "$(cat csv/first/Train_Samples_train_loss.csv)" = "step,train_loss
$(losses with.jsonl)" ] || note "the losses of the CSV file: $(cat csv/first/Train_Samples_train_loss.csv)"
[ "$(head -n 2 csv/first/Train_Samples_loss_scale.csv | tr '\n' ' ')" = "step,loss_scale 8,65536.0 " ] ||
    note "the loss scale"
[ "$(cut -d, -f1 csv/first/Train_Samples_eval_loss.csv | tr '\n' ' ')" = "step 32 64 " ] || note "the validation losses"
[ -s csv/first/run.json ] || note "no settings beside the CSV files"
has "steps_per_print" "step=4, skipped=0, lr=[" out
has "steps_per_print" "epoch=0/micro_step=16/global_step=4, RunningAvgSamplesPerSec=" out
has "wall_clock_breakdown" "time (ms) | fwd: " out
[ "$(grep -c 'fwd_microstep' out)" = 32 ] || note "not one line for each micro-batch"
has "flops_profiler" "Profile Summary at step 3:" flops.txt
has "flops_profiler" "        (c_fc): 1.09 K = " flops.txt
run=$(echo wandb/offline-run-*)
for file in config.yaml wandb-metadata.json wandb-summary.json; do [ -s "$run/files/$file" ] ||
    note "no $file in $run"; done

# --- a second run appends to the CSV files and replaces its own report
"$MEGALITH" "${base[@]}" --deepspeed_config ds.json --train-iters 3 >log 2>&1 || fail "a second training"
[ "$(grep -c '^8,' csv/first/Train_Samples_lr.csv)" = 2 ] || note "the second run did not append"
echo mine >flops.txt
refuses "a report over another file" "flops.txt: this file is there already and is not a report of the flops profiler" \
    "${base[@]}" --deepspeed_config ds.json
rm flops.txt

# --- Megatron's options for wandb
"$MEGALITH" "${base[@]}" --micro-batch-size 2 --wandb-project verses --wandb-exp-name first --wandb-save-dir far \
    --tensorboard-dir board/megatron --tensorboard-log-interval 3 --log-optimizer-states-to-tensorboard >log 2>&1 ||
    fail "--wandb-project"
grep -aq "optimizer/variance_sqrt_abs_max vs tokens" board/megatron/*tfevents* ||
    note "no norms of the optimizer's states"
has "--wandb-project" "wandb: far/wandb/offline-run-" log
"$MEGALITH" "${base[@]}" --micro-batch-size 2 --wandb-project "" --train-iters 1 >log 2>&1 ||
    fail "an empty --wandb-project"
refuses "a run without a name" "missing: --wandb-exp-name NAME, the name of the run of --wandb-project x" \
    "${base[@]}" --micro-batch-size 2 --wandb-project x
sed 's/"csv_monitor"/"comet"/; s/, "output_path": "csv", "job_name": "first"//' ds.json >comet.json
refuses "comet" '"comet.enabled" (comet.json, line 8): true is refused: comet takes values over the network alone' \
    "${base[@]}" --deepspeed_config comet.json

# --- two ranks: the table of exchanges, and the exposed time of each in the profile
if "$MEGALITH" doctor | grep -qE '^  MPI  .*none'; then
    echo "two ranks were not started: this build has no MPI"
else
    sed -i 's/"csv", "job_name": "first"/"csv", "job_name": "two"/' ds.json
    "$MEGALITH" launch --nproc_per_node 2 "${base[@]}" --deepspeed_config ds.json --zero-stage 2 --profile-table \
        --profile-step-start 3 \
        --profile-step-end 5 --comms-logger-stragglers --metrics-file two.jsonl >out 2>&1 || fail "two ranks"
    [ "$(wc -l <csv/two/Train_Samples_train_loss.csv)" = 9 ] || note "two ranks wrote one file"
    grep -qE \
        'Comm. Op +Message Size +Count +Total Latency\(ms\) +Avg Latency\(ms\) +tput_avg \(Gbps\) +busbw_avg \(Gbps\) +Exposed\(ms\)' out ||
        note "no table of exchanges"
    grep -qE '^(\[0\] )?reduce_scatter' out || note "no reduce_scatter in the table"
    grep -qE '^(\[0\] )?all_gather *$' out && note "prof_ops did not name all_gather"
    [ "$(grep -cE '^(\[0\] )?Comm. Op ' out)" = 2 ] || note "not one table of exchanges and one of stragglers"
    sed -n '/Breakdown with straggler effect/,$p' out |
        grep -qE '^(\[0\] )?  dp +[0-9.]+ [KMG]?B +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ *$' ||
        note "no stragglers: $(grep -A20 'Breakdown' out)"
    for row in reduce_wait loss_sum "all exchanges"; do
        sed -n '/exposed exchanges/,$p' out | grep -qE "^(\[0\] )? *$row +[0-9.]+ +[0-9.]+" ||
            note "no exposed time of $row"
    done
fi

if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED in part: MEGA_PEERS names no Python that has tensorboard and wandb"
else
    "$MEGA_PEERS" "$MEGA_SOURCE/tests/cli/monitors_read.py" "$run" far/wandb/offline-run-* >log 2>&1 ||
        note "read back: $(tail -n 5 log)"
    grep SKIPPED log
fi
finish
