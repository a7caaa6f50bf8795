#!/usr/bin/env bash
# megalith config: the questions of `accelerate config`, and the same YAML (tests/golden/accelerate, made by accelerate
# itself).
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export HOME=$work/home
mkdir "$HOME"

# --- the transcript of the documentation
answers() { printf '%s\n' 0 2 '' '' '' yes 2 '' 2 2 '' '' '' 4 bf16; }
answers | "$MEGALITH" config --config_file megatron_gpt_config.yaml >out 2>&1 || fail "the transcript"
cat >expected <<'END'
compute_environment: LOCAL_MACHINE
deepspeed_config: {}
distributed_type: MEGATRON_LM
downcast_bf16: 'no'
fsdp_config: {}
machine_rank: 0
main_process_ip: null
main_process_port: null
main_training_function: main
megatron_lm_config:
  megatron_lm_gradient_clipping: 1.0
  megatron_lm_num_micro_batches: 2
  megatron_lm_pp_degree: 2
  megatron_lm_recompute_activations: true
  megatron_lm_sequence_parallelism: true
  megatron_lm_tp_degree: 2
  megatron_lm_use_distributed_optimizer: true
mixed_precision: bf16
num_machines: 1
num_processes: 4
rdzv_backend: static
same_network: true
use_cpu: false
END
diff megatron_gpt_config.yaml expected || note "the YAML of the documentation"
grep -qx 'What is the number of micro-batches? \[1\]:2' out ||
    note "questions and answers are shown as in the transcript"
[ "$(grep -c '?' out)" = 15 ] || note "fifteen questions"
tail -n 1 out | grep -qx 'accelerate configuration saved at megatron_gpt_config.yaml' || note "the last line"

# --- what accelerate itself writes for these answers
count=0
for file in "$MEGA_SOURCE"/tests/golden/accelerate/*.yaml; do
    name=$(basename "$file" .yaml)
    form=()
    case $name in full_*) form=(--full) ;; esac
    rm -f made.yaml
    "$MEGALITH" config "${form[@]}" --config_file made.yaml <"${file%.yaml}.answers" >out 2>&1 || note "$name"
    diff made.yaml "$file" >difference || note "$name: (<: here; >: accelerate) $(cat difference)"
    count=$((count + 1))
done
[ $count -ge 20 ] || note "only $count files of accelerate"

# --- wrong answers are asked again, in either form
printf '%s\n' 2 1 0 x -1 0 maybe YES '' fp8 fp16 | "$MEGALITH" config --config_file again.yaml >out 2>&1 ||
    note "wrong answers"
for line in 'Please enter 0 or 1.' \
    'Not available here: ranks are started on this machine, or by a hostfile and Slurm.' 'Please enter yes or no.'; do
    grep -qFx "$line" out || note "\"$line\" is not said"
done
refused_tpu=$(printf '%s\n' 0 3 0 '' '' '' fp8 fp16 | "$MEGALITH" config --config_file again.yaml) ||
    note "TPU, then one process"
grep -q "^Not available here: ranks run on CPU cores" <<<"$refused_tpu" &&
    grep -qx 'Please enter no, fp16 or bf16.' <<<"$refused_tpu" || note "$refused_tpu"
grep -qx "mixed_precision: fp16" again.yaml || note "the last answer counts"
printf '%s\n' 0 4 0 x 1 '' '' '' '' '' 1 2 '' '' '' | "$MEGALITH" config --full --config_file again.yaml >out 2>&1 ||
    note "wrong answers to --full"
grep -qx 'Please enter an integer.' out && grep -q '^Please enter an integer from 1 to' out &&
    grep -q '^Multi-GPU training takes more than one GPU' out ||
    note "numbers are asked again"
grep -qx '  \[4\] multi-GPU' out || note "a menu"

# --- the end of the input writes nothing
for n in 0 1 5 14; do
    answers | head -n $n | "$MEGALITH" config --config_file short.yaml >out 2>err
    status=$?
    [ $status = 2 ] && [ ! -e short.yaml ] && grep -q 'error: the input ends at the question "' err ||
        note "$n answers: exit status $status"
done
cp megatron_gpt_config.yaml before.yaml
answers | head -n 9 | "$MEGALITH" config --config_file megatron_gpt_config.yaml >out 2>&1 && note "half the answers"
cmp -s megatron_gpt_config.yaml before.yaml || note "half the answers changed the file"

# --- where it goes
"$MEGALITH" config --default >out 2>&1 || note "--default"
there=$HOME/.cache/huggingface/accelerate/default_config.yaml
grep -qx "distributed_type: 'NO'" "$there" && grep -qx "num_processes: 1" "$there" &&
    grep -qx 'use_cpu: true' "$there" || note "--default: $(cat "$there")"
HF_HOME=$work/hub "$MEGALITH" config default --mixed_precision bf16 >out 2>&1 &&
    grep -qx 'mixed_precision: bf16' hub/accelerate/default_config.yaml || note "HF_HOME"
XDG_CACHE_HOME=$work/cache "$MEGALITH" config default >out 2>&1 &&
    [ -s cache/huggingface/accelerate/default_config.yaml ] || note "XDG_CACHE_HOME"
"$MEGALITH" accelerate config --default >out 2>&1 || note "accelerate config"
answers | "$MEGALITH" config --config_file a.json >out 2>&1 &&
    [ "$(head -n 2 a.json | tail -n 1)" = '  "compute_environment": "LOCAL_MACHINE",' ] &&
    grep -qx '    "megatron_lm_tp_degree": 2,' a.json || note "a JSON: $(cat a.json)"

# --- what cannot be written is said before the first question; a configuration with comments is somebody's work
answers >given
config() { "$MEGALITH" config "$@" <given; }
refuses "a missing folder" "--config-file no/such/a.yaml: there is no folder no/such" config --config_file \
    no/such/a.yaml
cp again.yaml mine.yaml && echo '# for the cluster' >>mine.yaml
refuses "a file with comments" \
    "--config-file mine.yaml: this file is there already and is not a configuration without comments|--overwrite" \
    config --config_file mine.yaml
config --config_file mine.yaml --overwrite >out 2>&1 && ! grep -q cluster mine.yaml || note "--overwrite"
config --config_file mine.yaml >out 2>&1 || note "over its own file"
refuses "two mistakes" "2 mistakes|\"update\": expected no word|--full asks all questions" config update --full
refuses "precision" "--mixed-precision belongs to --default" config --mixed_precision bf16
refuses "full and default" "--full asks all questions, --default asks none" config --full --default
[ "$(config --dry-run --config_file dry.yaml)" = \
    "dry run: the options are in order; a configuration would be written to dry.yaml" ] && [ ! -e dry.yaml ] ||
    note "--dry-run"
finish
