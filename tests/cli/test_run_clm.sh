#!/usr/bin/env bash
# run_clm: the lines, files and numbers of transformers' script, on text files; the same in any layout; resumed, it
# equals the run that was never interrupted; a signal keeps the state; what it does not do is refused.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
megalith_on_path
export OMP_NUM_THREADS=2
unset MEGA_LAUNCH
cat "$MEGA_SOURCE"/docs/t*.md | head -c 40000 >train.txt
cat "$MEGA_SOURCE"/docs/e*.md | head -c 6000 >validation.txt
megalith train_tokenizer --input train.txt --vocab-size 300 --output tokenizer >out 2>&1 || fail "train_tokenizer"

small=(--config_name gpt2 --tokenizer_name tokenizer --num-layers 2 --hidden-size 32 --num-attention-heads 2 \
    --block_size 32
    --max-position-embeddings 32 --learning_rate 1e-3 --log-interval 1000)
files=(--train_file train.txt --validation_file validation.txt)
clm() { # NAME ARGS…: runs it, and keeps what it says in NAME.log
    local name=$1
    shift
    "$MEGALITH" run_clm "${small[@]}" "$@" >"$name.log" 2>&1 </dev/null || { cp "$name.log" out; fail "run_clm $name"; }
}
says() { grep -qE -- "$2" "$1.log" || { cp "$1.log" out; note "$1 does not say: $2"; }; }
value() { sed -n "s/.*\"$2\": \([-0-9.e+]*\).*/\1/p" "$1/all_results.json"; }
run_holds() { # THREADS WIDTH OPTIONS…: what a run plans, a dry run plans too, and the run holds
    local threads=$1 width=$2 run total
    shift 2
    rm -rf held.jsonl* held
    run=(--train_file long.txt --validation_split_percentage 0 --max_train_steps 2 --hidden-size "$width"
        --num-threads "$threads" "$@")
    clm held "${run[@]}" --metrics-file held.jsonl
    rm -rf held
    "$MEGALITH" plan run_clm "${small[@]}" "${run[@]}" >plan.log 2>&1 || note "plan: $(cat plan.log)"
    total=$(sed -nE 's/^  total +([0-9.]+) MB.*/\1/p' plan.log)
    tr ',' '\n' <held.jsonl.run.json | awk -F': ' -v shown="$total" \
        'function far(a, b) { return (a > b ? a - b : b - a) > (0.03 * a > 1e6 ? 0.03 * a : 1e6) }
        /"largest_rank_bytes"/ { p = $NF + 0 } /"held_bytes"/ { h = $NF + 0 }
        END { exit !(p > 0 && h > 0 && !far(p, h) && !far(1e6 * shown, h)) }'
}

# ---- lines and files ----
clm whole "${files[@]}" --num_train_epochs 2 --per_device_train_batch_size 16 --per_device_eval_batch_size 3 \
    --checkpointing_steps epoch \
    --with_tracking --report_to tensorboard --monitor-csv --monitor-csv-path curves --output_dir whole
[ "$(grep -cE '^[0-9]+,' curves/*/Train_Samples_eval_loss.csv)" = 2 ] ||
    note "not one eval_loss for each epoch: $(cat curves/*/Train_Samples_eval_loss.csv)"
stamp='^[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9:]{8} - INFO - run_clm -'
says whole "$stamp \*{5} Running training \*{5}\$"
says whole "$stamp   Num Epochs = 2\$"
says whole "$stamp   Instantaneous batch size per device = 16\$"
says whole "$stamp   Total train batch size \(w. parallel, distributed & accumulation\) = 16\$"
says whole "$stamp   Gradient Accumulation steps = 1\$"
examples=$(sed -n 's/.*Num examples = //p' whole.log)
steps=$(((examples + 15) / 16))
says whole "$stamp   Total optimization steps = $((2 * steps))\$"
for epoch in 0 1; do says whole "$stamp epoch $epoch: perplexity: [0-9.]+ eval_loss: [0-9.]+\$"; done
[ "$(grep -c 'eval_loss' whole.log)" = 2 ] || note "not one evaluation for each epoch"
for file in config.json model.safetensors tokenizer.json vocab.json merges.txt all_results.json epoch_0/state/run.json \
    epoch_1/model.safetensors \
    final/model.safetensors; do
    [ -s whole/$file ] || note "there is no whole/$file"
done
cmp -s whole/model.safetensors whole/epoch_1/model.safetensors || note "the final model is not that of the last epoch"
[ -s whole/final/state/exp_avg.safetensors ] && note "the final model holds moments"
ls whole/clm_no_trainer/*tfevents* >/dev/null 2>&1 || note "no TensorBoard file"
grep -aq perplexity whole/clm_no_trainer/*tfevents* || note "no perplexity in TensorBoard"
[ "$(value whole perplexity)" = "$(sed -n 's/.*epoch 1: perplexity: \([0-9.]*\) .*/\1/p' whole.log)" ] ||
    note "all_results.json has another perplexity"
awk -v p="$(value whole perplexity)" -v l="$(value whole eval_loss)" \
    'BEGIN { exit !(p / exp(l) > 0.999999 && p / exp(l) < 1.000001 && l < 5.6) }' ||
    note "perplexity $(value whole perplexity) is not e^$(value whole eval_loss)"
awk -F': ' '/eval_loss/ { n++; if (n == 2 && $NF >= first) bad = 1; first = $NF } END { exit bad }' whole.log ||
    note "the second epoch taught nothing"

# The loss is that of the text: LM_LOSS over windows that do not overlap is near it.
megalith tasks --task LM_LOSS --load whole --valid-data validation.txt >out 2>&1 || note "tasks --load whole"
awk -v l="$(value whole eval_loss)" \
    '/avg loss/ { sub(/.*avg loss: /, ""); d = $1 - l; ok = d > -0.2 && d < 0.2 } END { exit !ok }' out ||
    note "LM_LOSS is far from the eval_loss"
megalith generate_samples_gpt --load whole --prompt "The" --out-seq-length 4 >out 2>&1 ||
    note "generate_samples_gpt --load whole"

# A schedule of a DeepSpeed JSON that leaves its length to the run gets the run's number of steps, also where that is
# counted in epochs.
lengths() { # NAME TOTAL TYPE ARGS…: the learning rates of a run with this schedule
    local name=$1 total=$2 type=$3
    shift 3
    printf \
        '{"train_micro_batch_size_per_gpu": "auto", "scheduler": {"type": "%s", "params": {"warmup_num_steps": 3, "total_num_steps": %s}}}' \
        "$type" "$total" >"$name.json"
    clm "$name" "${files[@]}" --num_train_epochs 1 --per_device_train_batch_size 64 --log-interval 1 --deepspeed \
        "$name.json" --output_dir "$name" "$@"
    grep -oE 'learning rate: [^ ]+' "$name.log" || note "$name prints no learning rate"
}
for type in WarmupDecayLR WarmupCosineLR; do
    lengths "auto_$type" '"auto"' $type >auto_rates
    lengths "given_$type" "$(wc -l <auto_rates)" $type >given_rates
    cmp -s auto_rates given_rates || note "$type: \"auto\" is not the number of steps"
done

# ---- resuming ----
half=$((steps + steps / 2))
clm parts "${files[@]}" --num_train_epochs 2 --per_device_train_batch_size 16 --checkpointing_steps $half --output_dir \
    parts
[ -d parts/step_$half ] || note "no step_$half"
refuses "another batch" \
    "its steps have 16 samples, and those of this run 8|the same batch (--per_device_train_batch_size" run_clm \
    "${small[@]}" "${files[@]}" \
    --num_train_epochs 2 --per_device_train_batch_size 8 --resume_from_checkpoint parts/step_$half --output_dir rest
clm rest "${files[@]}" --num_train_epochs 2 --per_device_train_batch_size 16 --resume_from_checkpoint parts/step_$half \
    --output_dir rest
says rest "^Resumed from checkpoint: parts/step_$half\$"
cmp -s whole/model.safetensors rest/model.safetensors || note "the resumed run has other weights"
cmp -s whole/all_results.json rest/all_results.json ||
    note "the resumed run has other results: $(cat whole/all_results.json rest/all_results.json)"

# Resumed by its own command, a run is the one that was never cut, whatever its network and its options; it warns of
# nothing else.
mkdir llama gemma2
sizes='"hidden_size":32,"intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"vocab_size":300'
echo "{\"model_type\":\"llama\",$sizes,\"max_position_embeddings\":64}" >llama/config.json
echo "{\"model_type\":\"gemma2\",$sizes,\"max_position_embeddings\":64,\"sliding_window\":8}" >gemma2/config.json
resumes() { # options
    local same=(run_clm "$@" --tokenizer_name tokenizer --block_size 32 --learning_rate 1e-3 "${files[@]}" \
        --max_train_samples 40 --max_train_steps 4
        --checkpointing_steps 2 --per_device_train_batch_size 4)
    rm -rf uncut resumed
    "$MEGALITH" "${same[@]}" --output_dir uncut >uncut.log 2>&1 ||
        { note "run_clm $*: $(tail -n 3 uncut.log)"; return; }
    "$MEGALITH" "${same[@]}" --resume_from_checkpoint uncut/step_2 --output_dir resumed >resumed.log 2>&1 ||
        note "resumed $*: $(tail -n 3 resumed.log)"
    for file in model.safetensors config.json all_results.json step_4/state/optimizer.safetensors; do
        cmp -s uncut/$file resumed/$file || note "$file of the resumed run differs: $*"
    done
    grep -i warning resumed.log | grep -vxFf <(grep -i warning uncut.log; echo .) | sed "s/^/new: /" >new.log
    [ -s new.log ] && note "run_clm $* warns: $(cat new.log)"
}
resumes --model_type gpt2 --config_overrides \
    n_embd=16,n_head=2,n_layer=1,n_positions=32,layer_norm_epsilon=1e-3,resid_pdrop=0.3,embd_pdrop=0.3
resumes --config_name llama --num-layers 1 --bf16 --gradient_accumulation_steps 2 --seed 77
resumes --config_name gemma2 --attention-dropout 0.2 --optimizer lion --lr_scheduler_type cosine --num_warmup_steps 1 \
    --weight_decay 0.1

# The folder of a run that has ended leads to its newest state, not to the final model, which has weights alone; the run
# may be longer.
clm longer "${files[@]}" --num_train_epochs 3 --lr-decay-style constant --override-opt_param-scheduler \
    --per_device_train_batch_size 16 --resume_from_checkpoint whole \
    --output_dir longer
says longer '^Resumed from checkpoint: whole/epoch_1$'
says longer 'epoch 2: perplexity'
grep -qE 'epoch [01]: perplexity' longer.log && note "epochs are made again: $(grep perplexity longer.log)"
clm bare "${files[@]}" --max_train_steps 1 --output_dir bare
refuses "weights alone" \
    "--resume_from_checkpoint bare: that run has ended, and kept its model alone|--model_name_or_path bare" run_clm \
    "${small[@]}" "${files[@]}" \
    --resume_from_checkpoint bare
refuses "a name of the hub" \
    "--model_name_or_path gpt2: nothing is downloaded, and there is no such folder|hf download gpt2|--config_name gpt2" run_clm --model_name_or_path gpt2 \
    --train_file train.txt --output_dir fresh
refuses "names that were typed" "--output_dir train.txt: it is a file" run_clm "${small[@]}" "${files[@]}" \
    --output_dir train.txt
refuses "indexed data" \
    "3 mistakes|--data_path x (argument 1) is not an option of run_clm|give --validation_split_percentage|--train_file FILE" \
    run_clm --data_path x --splits_string 90,10,0 --config_name gpt2 --tokenizer_name tokenizer --output_dir fresh
refuses "a batch of 0" '--per_device_eval_batch_size: ' run_clm "${small[@]}" "${files[@]}" \
    --per_device_eval_batch_size 0

# ---- other forms ----
clm further --model_name_or_path whole --train_file train.txt --max_train_steps 3 --output_dir further
says further 'Num Epochs = 1$'
says further 'weights alone: iteration 0'
[ "$(value further step)" = 3 ] || note "--max_train_steps 3 made $(value further step) steps"
mkdir -p data/own/first
awk '{ gsub(/["\\\t]/, ""); printf "{\"text\": \"%s\"}\n", $0 }' train.txt >data/own/first/own.train.jsonl
cp validation.txt data/own/first/own.valid.txt
clm named --dataset_name own --dataset_config_name first --max_train_steps 2
says named 'epoch 0: perplexity'

# A new model by its type, changes to it, a table, the first blocks of it: the same weights as from options and lines.
awk 'BEGIN { print "id,text" } { gsub(/"/, "\"\""); printf "%d,\"%s\n\"\n", NR, $0 }' train.txt >table.csv
"$MEGALITH" run_clm --model_type gpt2 \
    --config_overrides="n_embd=32,n_layer=2,n_head=2,n_positions=32,resid_pdrop=0.05,embd_pdrop=0.05,use_cache=false" \
    --tokenizer_name tokenizer --train_file table.csv --max_train_samples 40 --max_eval_samples 2 --learning_rate 1e-3 \
    --lr_scheduler_type cosine_with_restarts --max_train_steps 4 --output_dir typed >typed.log 2>&1 </dev/null ||
    { cp typed.log out; note "--model_type"; }
says typed 'Num examples = 40$'
clm lines --train_file train.txt --max_train_samples 40 --max_eval_samples 2 --hidden-dropout 0.05 --lr-decay-style \
    cosine --max_train_steps 4 --output_dir lines
cmp -s typed/model.safetensors lines/model.safetensors ||
    note "--model_type and CSV: other weights than options and lines"
cmp -s typed/all_results.json lines/all_results.json ||
    note "--model_type and CSV: other results: $(cat typed/all_results.json lines/all_results.json)"

[ "$(grep -c 'will not be kept' named.log)" = 1 ] || note "not one warning: $(grep 'will not be kept' named.log)"
clm frozen --train_file train.txt --max_train_steps 1 --parameter-group '*wte*:frozen'
says frozen '^ > trained parameters: [0-9,]+ of [0-9,]+; the others are frozen$'
# As transformers' Trainer is called: truth values behind switches, strategies, a JSON whose "auto" is what the options
# say.
cat >ds.json <<'JSON'
{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
 "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1},
 "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}}
JSON
clm trainer --train_file train.txt --do_train True --do_eval True --keep_linebreaks False --eval_strategy epoch \
    --save_strategy no --logging_strategy steps \
    --bf16 False --deepspeed ds.json --max_train_steps 3 --output_dir trainer --print-options
says trainer '^  zero_stage \.+ 1$'
[ "$(sed -n 's/.*Num examples = //p' trainer.log)" -lt "$(sed -n 's/.*Num examples = //p' whole.log)" ] ||
    note "--keep_linebreaks False keeps them"

clm wandb --train_file train.txt --max_train_steps 2 --with_tracking --report_to wandb --output_dir tracked
ls -d tracked/wandb/offline-run-* >/dev/null 2>&1 || note "no offline run of wandb: $(ls tracked tracked/wandb)"
[ -e tracked/clm_no_trainer ] && note "--report_to wandb writes TensorBoard events"

# A tqdm bar on a terminal, no bar elsewhere.
grep -q 'it/s\]' whole.log && note "a bar in a file"
if command -v script >/dev/null; then
    bar=' +[0-9]+%\|[#█▏▎▍▌▋▊▉ ]+\| [0-9]+/60 \[[0-9:]+<[0-9:]+, [0-9.]+(it/s|s/it), loss=[0-9]\.[0-9]+, '
    bar+='tokens/s=[1-9][0-9]*\]'
    script -qec "stty cols 100; $MEGALITH run_clm ${small[*]} --train_file train.txt --max_train_steps 60" /dev/null \
        >out 2>&1 </dev/null
    grep -aqE "$bar" out || note "no progress bar on a terminal"
fi

# A signal keeps the state.
"$MEGALITH" run_clm "${small[@]}" "${files[@]}" --num_train_epochs 10000 --output_dir stopped >stopped.log 2>&1 \
    </dev/null &
pid=$!
for ((i = 0; i < 300; i++)); do grep -q 'iteration *1/' stopped.log && break; sleep 0.1; done
kill -TERM $pid
wait $pid || note "a stopped run exits with $?"
says stopped 'result: checkpoint stopped/step_[0-9]+; --resume_from_checkpoint'
ls -d stopped/step_* >/dev/null 2>&1 || note "a stopped run saved nothing"
[ -e stopped/all_results.json ] && note "a stopped run has results"

# ---- ranks ----
if command -v mpirun >/dev/null && ! megalith doctor | grep -qE '^  MPI  *none'; then
    export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
    if command -v script >/dev/null; then
        script -qec "stty cols 100; $MEGALITH launch --nproc_per_node 2 run_clm ${small[*]} --train_file train.txt \
            --max_train_steps 60" /dev/null >out 2>&1 </dev/null
        grep -aqE "\[K$bar" out || note "no progress bar on the launcher's terminal"
    fi
    for layout in "--per_device_train_batch_size 8 --zero-stage 3" \
        "--per_device_train_batch_size 16 --tensor-model-parallel-size 2" \
        "--per_device_train_batch_size 4 --gradient_accumulation_steps 4 --pipeline-model-parallel-size 2"; do
        rm -rf ranks
        # shellcheck disable=SC2086  # a list of words
        "$MEGALITH" accelerate launch --num_processes 2 run_clm "${small[@]}" "${files[@]}" --num_train_epochs 2 \
            $layout --output_dir ranks >out 2>&1 </dev/null ||
            note "run_clm $layout"
        awk -v a="$(value whole eval_loss)" -v b="$(value ranks eval_loss)" \
            'BEGIN { d = a - b; exit !(b > 0 && d < 1e-4 && d > -1e-4) }' ||
            note "$layout: eval_loss $(value ranks eval_loss), on one rank $(value whole eval_loss)"
    done
fi

# ---- a new model of another family, of the shape of its config.json: its folder has the same keys, and is trained on
# ----
mkdir gemma && cat >gemma/config.json <<'JSON'
{"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 32, "sliding_window": 8,
 "query_pre_attn_scalar": 16, "final_logit_softcapping": 20.0, "initializer_range": 0.03, "eos_token_id": 1}
JSON
new=(--config_name gemma --tokenizer_name tokenizer --learning_rate 1e-3 --log-interval 1000 "${files[@]}" \
    --max_train_steps 3)
"$MEGALITH" run_clm "${new[@]}" --output_dir new >new.log 2>&1 </dev/null || { cp new.log out; fail "a new gemma2"; }
for key in '"model_type": "gemma2"' '"head_dim": 16' '"num_key_value_heads": 2' '"sliding_window": 8' \
    '"final_logit_softcapping": 20.0' '"initializer_range": 0.03'; do
    grep -qF "$key" new/config.json || note "the new model's config.json does not have $key"
done
"$MEGALITH" run_clm --model_name_or_path new "${files[@]}" --max_train_steps 1 --output_dir more >out 2>&1 </dev/null ||
    note "the new gemma2 is not trained on"

# ---- what is refused ----
refuses "another kind" "--swiglu|the folder of --config_name, a gemma2, has another kind of network" run_clm \
    "${new[@]}" --swiglu
refuses "sizes that do not fit" "its config.json cannot be changed to 2 layers, hidden size 64" run_clm "${new[@]}" \
    --hidden-size 64 --num-attention-heads 3
refuses "nothing is given" "missing: --train_file FILE|--config_name gpt2|missing: --tokenizer_name FOLDER" run_clm \
    --num_train_epochs 1
refuses "no such data" "nothing is downloaded|looked for wikitext/raw, data/wikitext/raw, raw, data/raw" run_clm \
    "${small[@]}" --dataset_name wikitext --dataset_config_name raw
refuses "no such names" \
    "2 mistakes|--config_name nix: no such config.json, and no folder with one|--tokenizer_name nix: nothing is downloaded" run_clm --config_name nix --tokenizer_name nix --train_file train.txt
refuses "options of other commands" \
    "--split 9,1 (argument|give --validation_split_percentage|--train-samples 5|--eval-interval 3" run_clm \
    "${small[@]}" "${files[@]}" \
    --split 9,1 --train-samples 5 --eval-interval 3
refuses "too long a block" "no block of 30000 tokens|a smaller --block_size" run_clm "${small[@]}" --train_file \
    validation.txt --block_size 30000 --max-position-embeddings 30000
head -n 4 train.txt >few.txt
refuses "a share of no text" \
    "the validation data are 5 % of the 4 texts of few.txt, which is less than one|--validation_split_percentage, or 0" \
    run_clm "${small[@]}" --train_file few.txt --block_size 8
echo 'a,b' >head.csv
refuses "a table without its column" \
    "head.csv: the first line names no column body, but a, b; give --text_column_name" run_clm "${small[@]}" \
    --train_file head.csv \
    --text_column_name body
refuses "changes to another configuration" \
    "--config_overrides changes the configuration of --model_type gpt2; leave it or --config_name gpt2 (argument" \
    run_clm "${small[@]}" --train_file train.txt --config_overrides n_embd=64
refuses "keys of a configuration" \
    "n_width=3: GPT2Config has no such key|scale_attn_weights=false: not implemented yet; only true is|resid_pdrop is 0.2 and embd_pdrop 0.1" \
    run_clm --model_type gpt2 --config_overrides n_width=3,scale_attn_weights=false,resid_pdrop=0.2 --tokenizer_name \
    tokenizer --train_file train.txt
refuses "another type" "--model_type bloom: makes a new gpt2 alone; --config_name FOLDER makes a model of the family" \
    run_clm --model_type bloom --tokenizer_name tokenizer --train_file train.txt
refuses "another's tracker" '--report_to: "comet_ml" is not implemented yet' run_clm "${small[@]}" "${files[@]}" \
    --report_to comet_ml
mkdir model
echo '{}' >model/config.json
refuses "a model of another" "it holds a model (config.json) that run_clm did not write|--overwrite_output_dir" \
    run_clm "${small[@]}" "${files[@]}" --output_dir model
clm over "${files[@]}" --max_train_steps 1 --output_dir model --overwrite_output_dir
[ -s model/model.safetensors ] || note "--overwrite_output_dir wrote nothing"

# Planned and held differ by 3 % or 1 MB, whichever is more: reading the texts takes more than this engine, and less
# than a wider one, which writes its checkpoint by large buffers. The plan of a dry run is that of the run.
for _ in {1..60}; do cat train.txt; done >long.txt
for way in "1 32" "2 32" "2 256" "1 256 --output_dir held"; do
    is_sanitized && break # with memory of its own
    # shellcheck disable=SC2086  # a list of words
    measured run_holds $way ||
        note "$way: planned is not held: plan $(grep '^  total' plan.log); $(grep -oE '"(largest_rank|held)_bytes": [0-9]+' held.jsonl.run.json)"
done
finish
