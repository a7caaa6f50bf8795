#!/usr/bin/env bash
# All that is to be known of a GPU, in at most 45 minutes: make check-gpu. Each part writes its figures at once, so that
# a cut loses nothing; a part that fails does not stop the others.
#
#   check_gpu.sh BUILD OUT [quick] [PART…]     BUILD: build folder; OUT: where record.json, summary.txt and logs go
#
# quick: small sizes, as on the software device (MEGA_CUDA_LIBRARY), which says whether all of it runs and nothing about
# speed. Exit status 1 if a part failed, 77 if there is no GPU.
set -u
[ $# -ge 2 ] || { sed -n 2,9p "$0"; exit 2; }
build=$(cd "$1" && pwd) && mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
source=$(cd "$(dirname "$0")/../.." && pwd)
shift 2
quick=
if [ "${1:-}" = quick ]; then quick=1; shift; fi
chosen=" $* "
megalith=$build/megalith
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
: >"$out/lines"
: >"$out/summary.txt"
failed=0

# record NAME VALUE UNIT TEXT: VALUE a number, or null. record.json has the form of make bench's results.
record() {
    local text=${4//\\/\/}
    printf '{"name": "%s", "value": %s, "unit": "%s", "detail": {"text": "%s"}}\n' "$1" "$2" "$3" "${text//\"/\'}" |
        tr -d '\t\r' >>"$out/lines"
    { echo '['; sed '$!s/$/,/' "$out/lines"; echo ']'; } >"$out/record.json.new" && mv "$out/record.json.new" "$out/record.json"
}
# wrong TEXT: the part has failed, and goes on
wrong() {
    echo "  WRONG: $*" | tee -a "$out/summary.txt"
    is_wrong=1
}
# part NAME SECONDS FUNCTION: runs it, with its log in NAME.log, and records whether it passed and in which time
part() {
    local began=$SECONDS
    case "$chosen" in "  " | *" $1 "*) ;; *) return ;; esac
    echo "== $1 (at most $2 s)"
    is_wrong=0
    limit=$2
    until=$((SECONDS + $2))
    log=$out/$1.log
    : >"$log"
    "$3"
    if [ $is_wrong -ne 0 ]; then failed=$((failed + 1)); fi
    record "part_$1" $((1 - is_wrong)) passed "$((SECONDS - began)) s"
    echo "$1: $([ $is_wrong -eq 0 ] && echo passed || echo FAILED), $((SECONDS - began)) s" | tee -a "$out/summary.txt"
}
# run COMMAND…: with what is left of the part's time; its output goes to the log
run() {
    local left=$((until - SECONDS))
    if [ $left -lt 1 ]; then
        echo "no time was left for: $*" >>"$log"
        return 124
    fi
    echo "\$ $*" >>"$log"
    timeout $left "$@" >last 2>&1
    local status=$?
    [ $status -ne 124 ] || echo "it did not end in its time" >>last
    cat last >>"$log"
    return $status
}
last_line() { tail -n 1 last | cut -c1-300; }

small=(--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --micro-batch-size 4
    --global-batch-size 8)
iterations=20
if [ -n "$quick" ]; then
    small=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --micro-batch-size 2
        --global-batch-size 4)
    iterations=3
fi
base=("${small[@]}" --lr 1e-3 --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path text_text_document
    --split 90,10,0 --eval-iters 2 --eval-interval 100 --log-interval 1)
# train NAME OPTIONS…: leaves the losses and the norms of its iterations in NAME.losses
train() {
    local name=$1
    shift
    run "$megalith" pretrain_gpt "${base[@]}" --train-iters $iterations "$@" || { wrong "$name: $(last_line)"; return 1; }
    grep -oE '(lm loss|lm loss value|grad norm): [0-9.E+-]+' last | awk '{ print $NF }' >"$name.losses"
}
# apart A B: the largest relative difference of two lists of losses
apart() {
    paste "$1.losses" "$2.losses" | awk 'NF != 2 { bad = 1 } { d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (d > m) m = d; n++ }
        END { printf "%.3g", bad || n < 4 ? 9 : m }'
}
# at_most FIGURE LIMIT WHAT
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }' || wrong "$3: $1, at most $2"; }

# ---- parts

doctor() {
    run "$megalith" doctor || wrong "doctor: status $?"
    gpu=$(sed -n 's/^  GPU  *//p' last | head -1)
    case "$gpu" in *"--device cuda"*) ;; *) echo "no GPU: $gpu" && exit 77 ;; esac
    record gpu null "" "$gpu"
    record program null "" "$("$megalith" version)"
    if command -v nvidia-smi >/dev/null; then run nvidia-smi -q; fi
}

images() {
    local began what
    for what in first second; do # the driver compiles PTX at the first start, and keeps the result
        began=$(date +%s.%N)
        train start --device cuda --train-iters 1 --eval-iters 0
        record "start_${what}" "$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.3f", b - a }')" s \
            "a training of 1 iteration, from the command to its end; $(grep -m 1 '^computing on cuda' "$log" | cut -c1-200)"
    done
}

# After an error that a GPU does not get over, the rest of a process fails too: the kernels that failed in the run of all,
# or that it did not reach, are tried again by themselves, and those that fail then are wrong.
kernels() {
    local test=$build/tests/device_test_kernels name names number=0
    export MEGA_CUDA_LIBRARY=${MEGA_CUDA_LIBRARY:-libcuda.so.1}
    [ -x "$test" ] || { wrong "there is no $test"; return; }
    names=$("$test" --list | grep "^${quick:+layer_norm}")
    if run timeout 200 "$test" "${quick:+layer_norm}*"; then
        record kernels_passed "$(wc -w <<<"$names")" tests "kernels against the plain ones"
        names=
    else
        names=$(awk '/^\[       OK \]/ { good[$4] } FILENAME == "-" && !($1 in good)' last - <<<"$names")
        echo "tried again, each by itself: ${names//$'\n'/ }" | tee -a "$log"
    fi
    for name in $names; do
        run timeout 60 "$test" "$name" && number=$((number + 1)) && continue
        record "kernel_$name" 0 passed "$(grep -a -m 1 -E 'ERROR|software device:' last || last_line)"
        wrong "$name: $(grep -a -m 1 -E 'ERROR|software device:' last || last_line)"
    done
    [ -z "$names" ] || record kernels_passed $number tests "of $(wc -w <<<"$names") that were tried by themselves"
    if [ -z "$quick" ] && command -v compute-sanitizer >/dev/null; then
        for name in gemm attention layer_norm embedding_grad; do
            run compute-sanitizer --error-exitcode 9 "$test" $name ||
                wrong "compute-sanitizer, $name: $(grep -m 1 '=========' last)"
        done
    fi
}

losses() {
    train cpu_32 --device cpu && train gpu_32 --device cuda && {
        record losses_fp32 "$(apart cpu_32 gpu_32)" relative "CPU and GPU, $iterations iterations"
        at_most "$(apart cpu_32 gpu_32)" 1e-4 "losses in fp32"
    }
    train cpu_16 --bf16 --device cpu && train gpu_16 --bf16 --device cuda && {
        record losses_bf16 "$(apart cpu_16 gpu_16)" relative "CPU and GPU, $iterations iterations"
        at_most "$(apart cpu_16 gpu_16)" 1e-2 "losses in bf16"
    }
}

bits() {
    local options=(--bf16 --device cuda --attention-dropout 0.1 --hidden-dropout 0.1)
    train once "${options[@]}" --save once && train twice "${options[@]}" --save twice || return
    cmp -s once.losses twice.losses || wrong "other losses the second time"
    cmp -s "$(find once -name 'model*.safetensors' | head -1)" "$(find twice -name 'model*.safetensors' | head -1)" ||
        wrong "other weights the second time"
}

checkpoints() {
    local more=(--bf16 --train-iters $((iterations + 2)))
    train whole --bf16 --device cuda --train-iters $((iterations + 2)) && train saved --bf16 --device cuda --save saved || return
    train resumed "${more[@]}" --device cuda --load saved || return
    tail -n +$((2 * iterations + 1)) whole.losses >rest.losses
    diff <(head -4 rest.losses) <(head -4 resumed.losses) >>"$log" || wrong "a resumed run has other losses"
    train on_cpu "${more[@]}" --device cpu --load saved &&
        at_most "$(apart resumed on_cpu)" 1e-2 "the CPU goes on from the GPU's checkpoint"
    echo 'a prompt' >prompt.txt
    run "$megalith" generate_samples_gpt --load saved --device cuda --greedy --out-seq-length 12 --sample-input-file prompt.txt \
        --sample-output-file texts.jsonl || wrong "generation: $(last_line)"
}

failure() {
    run env CUDA_VISIBLE_DEVICES=99 "$megalith" pretrain_gpt "${base[@]}" --train-iters 1 --device cuda && wrong "GPU 99 is there"
    grep -q 'CUDA_VISIBLE_DEVICES=99' last || wrong "no word of CUDA_VISIBLE_DEVICES: $(last_line)"
    run "$megalith" pretrain_gpt "${base[@]}" --train-iters 1 --device cuda --num-layers 400 --hidden-size 16384 \
        --num-attention-heads 128 && wrong "5 TB fit"
    grep -q 'this run needs' last || wrong "no word of the memory: $(last_line)"
    # A run that is killed leaves its last checkpoint whole.
    "$megalith" pretrain_gpt "${base[@]}" --train-iters 100000 --device cuda --save killed --save-interval 1 >killed.log 2>&1 &
    local run=$! i
    for ((i = 0; i < 600; i++)); do
        [ -e killed/latest_checkpointed_iteration.txt ] && break
        sleep 0.1
    done
    kill -9 $run
    wait $run 2>/dev/null
    cat killed.log >>"$log"
    run "$megalith" pretrain_gpt "${base[@]}" --load killed --save killed --device cuda \
        --train-iters $(($(cat killed/latest_checkpointed_iteration.txt) + 1)) || wrong "after kill -9: $(last_line)"
}

measure() {
    run "$megalith" measure-device --device cuda ${quick:+--quick} --output measured.json || { wrong "$(last_line)"; return; }
    grep '"name"' measured.json | grep -v '"device"' | sed 's/,$//; s/^ *//' >>"$out/lines"
    record measured "$(grep -c '"name"' measured.json)" figures "megalith measure-device"
}

# mfu NAME LEAST OPTIONS…: tokens/s and the share of the published peak of one model. Returns whether it fits.
mfu() {
    local name=$1 least=$2 speed flops peak share
    shift 2
    run "$megalith" plan "$@" --device cuda
    if grep -q 'DOES NOT FIT' last; then
        record "step_$name" null tokens/s "does not fit: $(grep -o 'needs .* and may use .*' last | head -1)"
        return 1
    fi
    flops=$(sed -nE 's/^  a token, attention counted causal +([0-9.e+]+) MFLOP/\1/p' last)
    peak=$(sed -nE 's/.*published: .*, ([0-9.]+) TFLOP.s in 16 bits.*/\1/p' last | head -1)
    echo '{"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}' >plain.json
    run "$megalith" compare_configurations plain.json --steps "$([ -n "$quick" ] && echo 2 || echo 8)" --json "$@" --device cuda ||
        { wrong "$name: $(last_line)"; return 0; }
    speed=$(sed -nE 's/.*"tokens_per_second": ([0-9.e+]+).*/\1/p' last)
    record "step_$name" "${speed:-null}" tokens/s "$*"
    [ -n "$peak" ] && [ -n "$speed" ] || return 0
    share=$(awk -v s="$speed" -v f="$flops" -v p="$peak" 'BEGIN { printf "%.3f", s * f * 1e6 / (p * 1e12) }')
    record "mfu_$name" "$share" ratio "of the published $peak TFLOP/s, attention counted causal"
    awk -v a="$share" -v b="$least" 'BEGIN { exit !(a >= b) }' || wrong "$name: $share of the peak, at least $least wanted"
}

steps() {
    local layers
    if [ -n "$quick" ]; then
        mfu small 0 "${small[@]}" --bf16 --vocab-size 200
        mfu large 0 "${small[@]}" --vocab-size 200 --num-layers 400 --hidden-size 16384 && wrong "5 TB fit"
        return
    fi
    # A GPU that is too hot or lacks power is slower than its published peak.
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=timestamp,clocks.sm,power.draw,temperature.gpu,clocks_throttle_reasons.active --format=csv \
            --loop=1 >"$out/clocks.csv" 2>&1 &
        trap 'kill $!' RETURN
    fi
    mfu 124m 0.40 --preset gpt2 --bf16 --micro-batch-size 64 --global-batch-size 64 --vocab-size 50257
    mfu 1.5b 0.43 --num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 --bf16 \
        --micro-batch-size 16 --global-batch-size 16 --vocab-size 50257
    # Weights, moments and gradients of 7B parameters take 119 GB: as many of its layers as a GPU holds.
    for layers in 32 20 12 8 4; do
        mfu "7b_${layers}_layers" 0.50 --num-layers $layers --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 \
            --bf16 --micro-batch-size 6 --global-batch-size 6 --vocab-size 32000 && break
    done
    mfu host 0 --preset gpt2 --bf16 --micro-batch-size 1 --global-batch-size 1 --seq-length 256 --vocab-size 50257
}

# The times of each kind of op, in profile.log: where a step that is too slow spends its time.
profile() {
    local model=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --micro-batch-size 32
        --global-batch-size 32 --make-vocab-size-divisible-by 50304)
    if [ -n "$quick" ]; then model=(); fi
    run "$megalith" pretrain_gpt "${base[@]}" "${model[@]}" --bf16 --eval-iters 0 --train-iters 6 --device cuda \
        --profile-table --profile-step-start 3 --profile-step-end 5 || { wrong "$(last_line)"; return; }
    grep -q 'attention' last || wrong "no table of the kinds of ops: $(last_line)"
}

memory() {
    local planned taken
    run "$megalith" pretrain_gpt "${base[@]}" --train-iters $((iterations + 2)) --device cuda --metrics-file metrics.jsonl &
    local run=$!
    taken=0
    while kill -0 $run 2>/dev/null; do
        local now=0
        if command -v nvidia-smi >/dev/null; then
            now=$(nvidia-smi --query-compute-apps=used_memory --format=csv,noheader,nounits 2>/dev/null | sort -n | tail -1)
        fi
        if [ "${now:-0}" -gt "$taken" ] 2>/dev/null; then taken=$now; fi
        sleep 0.2
    done
    wait $run || wrong "$(last_line)"
    planned=$(grep -oE '"largest_rank_bytes": ?[0-9]+' metrics.jsonl.run.json | grep -oE '[0-9]+$' | head -1)
    record memory_planned "${planned:-null}" bytes "of a small model, with the context that is assumed"
    record memory_taken "$([ "$taken" -gt 0 ] && echo $((taken * 1048576)) || echo null)" bytes "as nvidia-smi shows it"
    [ -n "$planned" ] || wrong "the run does not say what it planned"
}

ranks() {
    local how
    if ! "$megalith" doctor | grep -qE '^  MPI  +(Open|MPICH)'; then
        record ranks null "" "no MPI: one rank only"
        return
    fi
    run "$megalith" launch --nproc_per_node 2 pretrain_gpt "${base[@]}" --train-iters $iterations --device cuda ||
        { wrong "two ranks: $(last_line)"; return; }
    grep -oE '(lm loss|lm loss value|grad norm): [0-9.E+-]+' last | awk '{ print $NF }' >two.losses
    how=$(grep -hoE 'the 2 ranks of a host .*|^ranks exchange .*' last | tr '\n' ';')
    train one --device cuda || return
    record ranks_apart "$(apart one two)" relative "losses of one rank and of two; $how"
    at_most "$(apart one two)" 1e-4 "two ranks"
}

# In quick, on the CPU: says whether the script of PyTorch runs.
torch() {
    local python=${MEGA_PEERS:-python3} ours theirs model=(cuda 12 768 12 1024 64 64)
    if [ -n "$quick" ]; then model=(cpu 1 32 2 32 2 1); fi
    "$python" -c "import torch; assert '$quick' or torch.cuda.is_available()" 2>/dev/null ||
        { record torch null "" "no PyTorch that can use ${model[0]} (MEGA_PEERS=PYTHON names another Python)"; return; }
    run "$python" "$source/tests/device/check_gpu_torch.py" "${model[@]}" || { wrong "$(last_line)"; return; }
    theirs=$(sed -nE 's/^tokens.s ([0-9.e+]+) .*/\1/p' last)
    if [ -n "$quick" ]; then record torch_small "${theirs:-null}" tokens/s "PyTorch on the CPU"; return; fi
    ours=$(sed -nE 's/.*"name": "step_124m", "value": ([0-9.e+]+),.*/\1/p' "$out/lines")
    record torch_124m "${theirs:-null}" tokens/s "PyTorch, compiled, bf16 by autocast, 64 x 1024"
    [ -z "$ours" ] || [ -z "$theirs" ] ||
        record of_torch_124m "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')" ratio "tokens/s of PyTorch; 1.0 wanted"
}

# Text for the small models.
for ((i = 1; i <= 400; i++)); do echo "line $i: the quick brown fox number $((i * 7919 % 1000)) jumps over the lazy dog"; \
    echo; done >text.txt
"$megalith" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >"$out/data.log" 2>&1 || { cat "$out/data.log"; exit 1; }

part doctor 60 doctor
part images 120 images
part kernels 420 kernels
part losses 180 losses
part bits 120 bits
part checkpoints 180 checkpoints
part failure 120 failure
part measure 270 measure
part steps 600 steps
part profile 90 profile
part memory 60 memory
part ranks 120 ranks
part torch 360 torch
echo "$failed parts failed; $out/record.json has the figures" | tee -a "$out/summary.txt"
[ "$failed" -eq 0 ]
