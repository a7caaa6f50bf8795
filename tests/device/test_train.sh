#!/usr/bin/env bash
# Training on a GPU, by the software device: a GPT and a Llama have the CPU's losses, in fp32 and bf16; a checkpoint of
# either goes on with the other and evaluates and writes texts alike; failed calls of the driver and what is not built
# end with a message. `make check-device` runs 20 iterations of 4 layers, and lets more calls fail.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"

base+=(--lr-decay-iters 20)
iterations=4
if [ -n "${MEGA_DEVICE_SEEDS:-}" ]; then iterations=20; fi
options=("${base[@]}" --log-interval 1 --eval-interval 100 --train-iters $iterations)
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || options+=(--num-layers 4 --hidden-size 128)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --num-query-groups 2 --ffn-hidden-size 48)

train probe --train-iters 1 --eval-iters 0 --device cuda
grep -q '^computing on cuda:0: software device, compute capability' probe.log || note "no line says what computes"

train gpt_cpu --device cpu && train gpt_gpu --device cuda && alike gpt_cpu gpt_gpu 1e-5
train llama_cpu "${llama[@]}" --device cpu && train llama_gpu "${llama[@]}" --device cuda && alike llama_cpu llama_gpu 1e-5
train half_cpu --bf16 --device cpu --save cpu && train half_gpu --bf16 --device cuda --save gpu && alike half_cpu half_gpu 1e-2

# A graph of a pass has the bits of its launches, also where gradients held in 16 bits make two graphs of a backward.
same_bits() { # NAME OPTIONS…: with graphs and without
    train $1_graphs "${@:2}" --device cuda --save $1_graphs
    train $1_launches "${@:2}" --device cuda --save $1_launches --cuda-graph-impl none
    cmp $1_graphs.losses $1_launches.losses || note "$1: other losses with graphs than without"
    for file in $1_graphs/iter_*/*.safetensors; do
        cmp "$file" "$1_launches/${file#*/}" || note "$1: another $file with graphs than without"
    done
    grep -qE "graphs on the GPU: $graphs, with [0-9]{2,} launches" $1_graphs.log ||
        note "$1: not $graphs graphs: $(grep graphs $1_graphs.log)"
    ! grep -q 'graphs on the GPU' $1_launches.log || note "$1: graphs, though none were asked for"
}
graphs=4 same_bits fp32 --hidden-dropout 0.1 --attention-dropout 0.1
# A graph for which there is no memory is not needed.
MEGA_SOFTWARE_CUDA_FAIL=cuGraphInstantiateWithFlags:1 MEGA_SOFTWARE_CUDA_ERROR=2 train refused --hidden-dropout 0.1 \
    --attention-dropout 0.1 --device cuda
cmp refused.losses fp32_launches.losses || note "other losses where a graph has no memory: $(tail -2 refused.log)"
grep -q 'no memory for a graph of [0-9]* launches' refused.log && grep -q 'graphs on the GPU: 3, with' refused.log ||
    note "no word of the graph that was refused: $(grep -i graph refused.log)"
graphs=6 same_bits held --bf16 --grad-accum-dtype bf16 "${llama[@]}"

# Late results: the same lines, in the same order, and the same checkpoints; whether or not steps are looked at.
timed='(tokens.s|TFLOP.s|TFLOP.s \(PaLM\)|of [a-z]* peak|time left):'
lines() {
    sed -E "s/ (elapsed time per iteration|throughput per GPU)[^|]*\|| $timed[^|]*\|//g" "$1" |
        grep -E '^ (iteration|validation)|^  successfully saved|number of skipped' | grep -vE 'seconds|MB'
}
late() { # NAME OPTIONS…
    train $1_now "${@:2}" --device cuda --save $1_now
    train $1_late "${@:2}" --device cuda --save $1_late --late-results
    lines $1_now.log | sed "s/$1_now/DIR/" >now.lines
    lines $1_late.log | sed "s/$1_late/DIR/" >late.lines
    [ "$(grep -c iteration now.lines)" -ge 6 ] && cmp now.lines late.lines || note "$1: other lines: $(diff now.lines late.lines)"
    for file in $1_now/iter_*/*.safetensors $1_now/iter_*/state/*.safetensors; do
        cmp "$file" "$1_late/${file#*/}" || note "$1: another $file with late results"
    done
}
late every --train-iters 7 --eval-interval 3 --save-interval 2 --hidden-dropout 0.1
late seldom --train-iters 7 --log-interval 3 --fp16 --initial-loss-scale 8388608 --hysteresis 1 --log-params-norm
late longer --train-iters 7 --bf16 --exit-interval 5 --curriculum-learning --curriculum-min-difficulty 8 --curriculum-total-steps 6

# Products by cuBLASLt, whose stand-in is in the same file: the first micro-batch of a step, which overwrites, has
# graphs of its own, also of the forward, in which the head's gradient is.
graphs=6 same_bits library --matmul-library "$MEGA_CUDA_LIBRARY"
alike gpt_cpu library_graphs 1e-5
grep -q "^matrix products by cuBLASLt [0-9.]* ($MEGA_CUDA_LIBRARY)" library_graphs.log || note "no line says what multiplies"
train library_half --bf16 --device cuda --matmul-library "$MEGA_CUDA_LIBRARY" && alike half_cpu library_half 1e-2
! MEGA_SOFTWARE_CUDA_FAIL=cublasLtMatmul:7 "$MEGALITH" pretrain_gpt "${options[@]}" --device cuda --matmul-library \
    "$MEGA_CUDA_LIBRARY" >failed.log 2>&1 && grep -q 'cuBLASLt: a product: execution failed (status 13)' failed.log ||
    note "a product that failed: $(tail -2 failed.log)"
! "$MEGALITH" pretrain_gpt "${options[@]}" --device cuda --matmul-library cublas >failed.log 2>&1 &&
    grep -q -- '--matmul-library.*: expected auto, own, cublaslt, or a path' failed.log ||
    note "a library that is none: $(tail -2 failed.log)"

for optimizer in sgd lamb muon lion; do
    train cpu_$optimizer --optimizer $optimizer --device cpu && train gpu_$optimizer --optimizer $optimizer --device cuda &&
        alike cpu_$optimizer gpu_$optimizer 1e-5
done

# The same tokens follow a prompt.
for device in cpu cuda; do
    printf 'a prompt\n' >prompt.txt
    "$MEGALITH" generate_samples_gpt --load cpu --device $device --greedy --out-seq-length 12 --sample-input-file prompt.txt \
        --sample-output-file $device.jsonl >generate.log 2>&1 || note "generating on $device: $(tail -2 generate.log)"
done
cmp -s cpu.jsonl cuda.jsonl || note "other tokens on the GPU: $(cat cpu.jsonl cuda.jsonl)"

# Both go on, each from the other's checkpoint.
more=(--bf16 --train-iters $((iterations + 3)))
train on_cpu "${more[@]}" --device cpu --load gpu && train on_gpu "${more[@]}" --device cuda --load cpu && alike on_cpu on_gpu 1e-2
grep -q 'backend: cpu here, cuda in the checkpoint\|backend.*cuda.*cpu' on_cpu.log ||
    note "no word of the other backend: $(grep -i backend on_cpu.log)"

# --- what fails: a message, the status of an error, no hang, and the checkpoint before stays
small=("${base[@]}" --train-iters 2 --eval-iters 0 --save broken --save-interval 1)
calls="cuStreamCreate:1 40 90 cuModuleLoadDataEx:3 cuLaunchKernel:100 cuMemcpyDtoHAsync_v2:9 cuStreamSynchronize:12"
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || calls="$calls $(seq 8 7 400)"
for call in $calls; do
    rm -rf broken
    status=0
    MEGA_SOFTWARE_CUDA_FAIL=$call timeout 60 "$MEGALITH" pretrain_gpt "${small[@]}" --device cuda >failed.log 2>&1 ||
        status=$?
    case $status in
    [1-9]) grep -q 'error: .*of CUDA' failed.log || note "call $call: no message: $(tail -2 failed.log)" ;;
    *) note "call $call fails: status $status: $(tail -2 failed.log)" ;;
    esac
    [ ! -e broken/latest_checkpointed_iteration.txt ] ||
        "$MEGALITH" pretrain_gpt "${small[@]}" --save after --load broken --train-iters 3 --device cpu >after.log 2>&1 ||
        note "call $call: its checkpoint is damaged: $(tail -2 after.log)"
    rm -rf after
done

refuses "double" '--device cuda|--fp64|does not compute in double' pretrain_gpt "${small[@]}" --device cuda --fp64
# What asks for the host's memory beside that of a GPU is refused, whoever asks for it; `none` asks for nothing.
printf '{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "%s"}}}' cpu >offload.json
for asks in --optimizer-cpu-offload --checkpoint-in-cpu --cpu-optimizer '--deepspeed_config offload.json'; do
    # shellcheck disable=SC2086  # two words
    refuses "$asks" 'cpu|with a GPU nothing is moved to the memory of the host yet' pretrain_gpt "${small[@]}" \
        --device cuda $asks --dry-run
    # shellcheck disable=SC2086
    "$MEGALITH" pretrain_gpt "${small[@]}" --device auto $asks --dry-run >auto.log 2>&1 || note "auto $asks: $(tail -2 auto.log)"
    grep -q '^computing on the CPU: .*: nothing is offloaded from a GPU yet$' auto.log || note "auto $asks: $(grep computing auto.log)"
done
sed -i s/cpu/none/ offload.json
"$MEGALITH" pretrain_gpt "${small[@]}" --device cuda --deepspeed_config offload.json --dry-run >none.log 2>&1 ||
    note "a JSON that offloads to none: $(tail -2 none.log)"
refuses "a number" '--device gpu|expected cpu, cuda, cuda:N or auto' pretrain_gpt "${small[@]}" --device gpu
refuses "GPU 3" 'cuda:3|shows 1 GPU' pretrain_gpt "${small[@]}" --device cuda:3
MEGA_CUDA_LIBRARY=/no-such.so refuses "no driver" 'MEGA_CUDA_LIBRARY: /no-such.so' pretrain_gpt "${small[@]}" --device cuda
MEGA_SOFTWARE_CUDA_MEMORY=4300000 refuses "no memory" 'this run needs|memory of the GPU' pretrain_gpt \
    "${small[@]}" --device cuda
MEGA_CUDA_LIBRARY=/no-such.so "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 1 --eval-iters 0 --device auto >auto.log 2>&1 ||
    note "auto without a driver: $(tail -2 auto.log)"
grep -q '^computing on the CPU: .*no-such.so' auto.log || note "auto does not say why the CPU computes"

# --- one iteration that is watched: no access but to what is declared and written, no race, no missing order
MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda_watched.so timeout 300 "$MEGALITH" pretrain_gpt "${base[@]}" \
    --train-iters 1 --eval-iters 1 --device cuda >watched.log 2>&1 || note "watched: status $?: $(tail -4 watched.log)"
# Kernels wait for what the host has written: without one of these waits the watch ends the run.
for wait in 1 4 9; do
    status=0
    MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda_watched.so MEGA_SOFTWARE_CUDA_LEAVE_OUT=cuStreamWaitEvent:$wait \
        MEGA_SOFTWARE_CUDA_STOP=1 timeout 300 "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 1 --eval-iters 0 \
        --device cuda >left_out.log 2>&1 || status=$?
    [ $status = 88 ] || note "wait $wait is left out: status $status: $(tail -3 left_out.log)"
done
finish
