#!/usr/bin/env bash
# Accelerate's YAML with launch and with commands: ranks, hosts, layout and precision, where no option says otherwise.
# Libraries of the launcher never free some of their memory.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
unset RANK WORLD_SIZE SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS_PER_NODE
export HOME=$work/home OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir "$HOME"
"$MEGALITH" doctor 2>/dev/null | grep -q '^  MPI  *\(Open MPI\|MPICH\)' || skip "no MPI: one rank only"

printf '%s\n' 0 2 '' '' '' yes 2 '' 1 '' '' 0.5 2 bf16 | "$MEGALITH" config --config_file two.yaml >log 2>&1 ||
    fail "config"
fox_lines 60 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix text >log 2>&1 || fail "data"
train=(pretrain_gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2 --lr \
    1e-3 --train-iters 2 --log-interval 1
    --tokenizer-type ByteTokenizer --data-path text_text_document --split 90,10,0 --eval-iters 0)
losses() { grep -o 'lm loss: [^ ]*' "$1"; }
has() { grep -qF -- "$2" "$1" || note "$3: \"$2\" is not said"; }

# --- two ranks as tensor parallelism, three ways to start them; the same losses as with options
"$MEGALITH" launch --nproc_per_node 2 "${train[@]}" --tensor-model-parallel-size 2 --sequence-parallel --bf16 \
    --use-distributed-optimizer --clip-grad 0.5 \
    --recompute-granularity selective >options.log 2>&1 || fail "options: $(tail -n 3 options.log)"
"$MEGALITH" accelerate launch --config_file two.yaml "${train[@]}" --print-options >yaml.log 2>&1 ||
    note "accelerate launch: $(tail -n 3 yaml.log)"
"$MEGALITH" "${train[@]}" --config_file two.yaml --print-options >alone.log 2>&1 ||
    note "pretrain_gpt --config_file: $(tail -n 3 alone.log)"
[ "$(losses options.log | wc -l)" = 2 ] || note "two losses"
for log in yaml alone; do
    [ "$(losses $log.log)" = "$(losses options.log)" ] ||
        note "$log: other losses: $(losses $log.log) for $(losses options.log)"
    has $log.log 'set by two.yaml' $log
    grep -q 'tensor_model_parallel_size \.* "megatron_lm_config.megatron_lm_tp_degree" 2 (line 15)' $log.log ||
        note "$log: who set it"
done
has alone.log 'megalith pretrain_gpt: 2 ranks are started, as two.yaml says' alone

# --- the example of Accelerate's documentation, with the file of its transcript
printf '%s\n' 0 2 '' '' '' yes 2 '' 2 2 '' '' '' 4 bf16 |
    "$MEGALITH" config --config_file megatron_gpt_config.yaml >log 2>&1 || note "the transcript"
"$MEGALITH" train_tokenizer --input text.txt --vocab-size 270 --workers 1 --output tokenizer >log 2>&1 ||
    note "a tokenizer"
clm=(--config_name gpt2 --tokenizer_name tokenizer --num-layers 2 --hidden-size 16 --num-attention-heads 2 \
    --block_size 16 --max-position-embeddings 16
    --learning_rate 1e-3 --train_file text.txt --num_train_epochs 1 --per_device_train_batch_size 8)
"$MEGALITH" accelerate launch --config_file megatron_gpt_config.yaml \
    examples/by_feature/megatron_lm_gpt_pretraining.py "${clm[@]}" --output_dir awesome >out 2>&1 ||
    note "the documentation's example"
has out 'INFO - run_clm - epoch 0: perplexity: ' 'the example'
has out 'using world size: 4, data-parallel-size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 2' \
    'the example'
"$MEGALITH" run_clm "${clm[@]}" --config_file two.yaml --output_dir alone >out 2>&1 || note "run_clm --config_file"
has out 'megalith run_clm: 2 ranks are started, as two.yaml says' 'run_clm'

# --- options win
"$MEGALITH" launch --config_file two.yaml --num_processes 1 --mixed_precision no --megatron_lm_tp_degree 1 \
    "${train[@]}" --clip-grad 1 --no-such 2>err >/dev/null && note "--no-such"
has err '--no-such is not an option of pretrain_gpt' 'a mistake'
"$MEGALITH" launch --config_file two.yaml --num_processes 1 --mixed_precision no --megatron_lm_tp_degree 1 \
    "${train[@]}" >out 2>&1 || note "one rank: $(tail -n 3 out)"
has out 'no effect here: "num_processes" 2 (two.yaml): this run was started with 1 rank' 'one rank'
grep -q \
    '^warning: --tp_degree 1 (argument [0-9]*) counts; "megatron_lm_config.megatron_lm_tp_degree" 2 (two.yaml, line 15) does not' out || note "one rank: both origins"
"$MEGALITH" plan "${train[@]:1}" --config_file two.yaml >out 2>&1 && grep -q 'tensor' out ||
    note "plan: $(tail -n 3 out)"

# --- what launch makes of it
shows() { # 'part|part' ARGUMENTS…
    local parts=$1 part
    shift
    "$MEGALITH" "$@" >out 2>&1 || note "$*: $(tail -n 2 out)"
    while IFS= read -r part; do grep -qF -- "$part" out ||
        note "$*: \"$part\" is not in $(cat out)"; done < <(tr '|' '\n' <<<"$parts")
}
printf '#!/bin/sh\necho "$RANK of $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $*"\n' >own && chmod +x own
printf 'import sys\nprint(sys.argv)\n' >own.py
cat >own.yaml <<'END'
deepspeed_config: {zero_stage: 3, gradient_clipping: 0.5, gradient_accumulation_steps: auto, offload_param_device: none}
distributed_type: DEEPSPEED
main_process_port: 29501
megatron_lm_config:
  megatron_lm_tp_degree: 1
  megatron_lm_no_load_optim: false
  megatron_lm_use_distributed_optimizer: true
mixed_precision: bf16
num_machines: 1
num_processes: 2
END
shows ' 2 |--zero-stage 3 --clip-grad 0.5' launch --dry-run --config_file own.yaml ./own
"$MEGALITH" launch --config_file own.yaml ./own --bf16 >out 2>&1 || note "own program"
has out \
    ':29501 --bf16 --mixed-precision bf16 --zero-stage 3 --clip-grad 0.5 --tp_degree 1 --use_distributed_optimizer' \
    'own program'
printf '  megatron_lm_recompute_activations: true\n  megatron_lm_sequence_parallelism: true\n' |
    sed '/^megatron_lm_config/r /dev/stdin' own.yaml >model.yaml
"$MEGALITH" launch --config_file model.yaml --num_processes 1 ./own >out 2>&1 ||
    note "own program, settings of its model"
has out 'no effect here: megatron_lm_recompute_activations, megatron_lm_sequence_parallelism (model.yaml): the model' \
    'its model'
grep -q -- '--recompute' out && note "settings of the model are passed on"
"$MEGALITH" launch --config_file own.yaml --zero_stage 1 ./own --clip-grad 2 >out 2>&1 ||
    note "own program, with options"
has out ' --clip-grad 2 --zero-stage 1 --mixed-precision bf16 --tp_degree 1' 'own program, with options'
"$MEGALITH" launch --config_file own.yaml --num_processes 1 python3 own.py a >out 2>&1 &&
    has out "['own.py', 'a']" python || note "python: $(cat out)"
has out 'its other settings do not reach own.py' python
sed 's/num_machines: 1/num_machines: 2\nmachine_rank: 1\nmain_process_ip: node0/' own.yaml >hosts.yaml
shows 'megalith launch: --node_rank 1: node 0 (node0) starts the ranks of this host too' launch --config_file \
    hosts.yaml ./own
mkdir -p "$HOME/.cache/huggingface/accelerate" && cp own.yaml "$HOME/.cache/huggingface/accelerate/default_config.yaml"
shows "settings of $HOME/.cache/huggingface/accelerate/default_config.yaml| 2 " accelerate launch --dry-run ./own
"$MEGALITH" launch --dry-run ./own >out 2>&1 && ! grep -q 'zero-stage' out || note "launch alone reads no default"
printf 'distributed_type: DEEPSPEED\nnum_processes: 1\ndeepspeed_config: {zero_stage: 3}\n' >three.yaml
"$MEGALITH" launch --config_file three.yaml --use_deepspeed ./own >out 2>&1 || note "--use_deepspeed with a stage"
grep -q -- '--zero-stage 3' out && ! grep -q -- '--zero-stage 2' out ||
    note "--use_deepspeed counts before the file: $(cat out)"
"$MEGALITH" launch --use_deepspeed python3 own.py a >out 2>&1 && has out "['own.py', 'a']" '--use_deepspeed, python' ||
    note "--use_deepspeed, python: $(cat out)"
shows '--deepspeed_config ds.json' launch --dry-run --deepspeed_config_file ds.json ./own

# --- mistakes
refuses "no such file" 'none.yaml: cannot open for reading: No such file' launch --config_file none.yaml ./own
printf 'distributed_type: NO\n\tnum_processes: 2\n' >tab.yaml
for way in "launch --config_file tab.yaml ./own" "launch --config_file tab.yaml pretrain_gpt" \
    "plan --config_file tab.yaml"; do
    # shellcheck disable=SC2086
    refuses "a tab: $way" 'tab.yaml, line 2: ' $way
done
printf 'distributed_type: NO\nnum_proceses: 2\nnum_machines: two\n' >names.yaml
refuses "wrong keys, own program" \
    'names.yaml, line 2: "num_proceses" is not a key of a configuration; did you mean "num_processes"?|names.yaml, line 3: "num_machines": expected a whole number' launch --config_file names.yaml ./own
refuses "wrong keys, a command" \
    '"num_proceses" (names.yaml, line 2) is not a key of a configuration; did you mean "num_processes"?|found "two", expected a whole number' \
    plan --config_file names.yaml --preset tiny --micro-batch-size 1
printf 'distributed_type: MULTI_GPU\nnum_processes: -1\n' >open.yaml
refuses "an open number" 'open.yaml, line 2: num_processes is -1|--num_processes N' launch --config_file open.yaml ./own
for number in 0 -1 99999999999 4000; do
    printf 'distributed_type: MULTI_GPU\nnum_processes: %s\n' $number >number.yaml
    "$MEGALITH" "${train[@]}" --config_file number.yaml >out 2>&1 && note "$number ranks of a command"
    grep -qE \
        '"num_processes" (\(number.yaml, line 2\): found (0|-1|99999999999), expected 1 to|4000 \(number.yaml\): a command itself starts at most 1024)' out || note "$number ranks: $(cat out)"
    grep -q 'ranks are started' out && note "$number ranks are started"
done
# The whole file and all options are read before any rank is started.
printf 'distributed_type: MULTI_GPU\nnum_processes: 2\nmegatron_lm_config: {megatron_lm_tp_degre: 2}\n' >early.yaml
refuses "a mistake in the file" \
    '"megatron_lm_config.megatron_lm_tp_degre" (early.yaml, line 3) is not a key|--clip-grad: "x"|--micro-batch-size' \
    pretrain_gpt --preset tiny \
    --config_file early.yaml --clip-grad x
grep -q 'ranks are started' <<<"$refused" && note "ranks are started despite a mistake"
refuses "a command without it" '--config_file is an option of' launch --config_file own.yaml tokenize --text x
finish
