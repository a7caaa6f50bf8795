#!/usr/bin/env bash
# Training on GPUs by several ranks, on the software device: layouts have the losses of the CPU in fp32; a checkpoint of
# a GPU goes on with the CPU in another layout, and the reverse; what ranks take of a host's GPUs is said; a call that
# fails on one rank ends all with its message. `make check-device` runs every layout and more calls.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device_ranks.sh"
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --num-query-groups 2 --ffn-hidden-size 48)

# --- layouts: RANKS OPTIONS, all against one rank of the CPU
train cpu --train-iters 3 --save cpu
train deep --num-layers 4 --train-iters 3
train llama "${llama[@]}" --train-iters 3
tp2="--tensor-model-parallel-size 2"
pp2="--pipeline-model-parallel-size 2"
turns="$pp2 --num-layers 4 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1"
rows="cpu 2 --zero-stage 2
cpu 2 $tp2 --sequence-parallel
cpu 2 $pp2 --micro-batch-size 1
cpu 4 $tp2 --zero-stage 3"
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || rows="$rows
cpu 2 --micro-batch-size 1
cpu 2 --zero-stage 1
cpu 2 --zero-stage 3 --micro-batch-size 1
cpu 2 $tp2
deep 2 $turns
cpu 4 --micro-batch-size 1 --zero-stage 2
cpu 4 $tp2 $pp2 --sequence-parallel
cpu 4 $pp2 --micro-batch-size 1 --zero-stage 1
deep 4 $turns --tensor-model-parallel-size 2
llama 2 $tp2 --sequence-parallel ${llama[*]}
llama 4 $tp2 --zero-stage 2 ${llama[*]}"
while read -r row; do
    # shellcheck disable=SC2086  # a list of words
    row_alike $row
done <<<"$rows"

# ... as many graphs as a plan says, of the first rank: whole passes of a stage, pieces between exchanges. They change no
# bit.
rows="--micro-batch-size 1 $pp2
$tp2 --sequence-parallel
--micro-batch-size 1 --zero-stage 2
--zero-stage 3"
while read -r words; do
    # shellcheck disable=SC2086
    train_over 2 graphs --train-iters 2 --device cuda $words
    # shellcheck disable=SC2086
    train_over 2 launches --train-iters 2 --device cuda --cuda-graph-impl none $words
    cmp -s graphs.losses launches.losses || note "graphs change the losses of $words"
    # shellcheck disable=SC2086
    "$MEGALITH" plan "${options[@]}" --train-iters 2 --device cuda --world-size 2 $words >plan.txt 2>&1 ||
        note "a plan with $words: $(tail -2 plan.txt)"
    graphs=$(sed -n 's/^ *graphs on the GPU: train \([0-9]*\), .*/\1/p' plan.txt)
    grep -q "graphs on the GPU: ${graphs:-none}, with" graphs.log ||
        note "$words: ${graphs:-no} graphs: $(grep graphs graphs.log)"
done <<<"$rows"

# --- a checkpoint of the one goes on with the other, in another layout
train straight --train-iters 5 --load cpu --save nowhere --save-interval 100
# shellcheck disable=SC2086
train_over 2 there --train-iters 5 --device cuda --load cpu --save gpu $tp2 --sequence-parallel && alike straight there
train straight --train-iters 7 --load gpu --save again --save-interval 100
train_over 2 back --train-iters 7 --device cuda --load gpu --save back --save-interval 100 --zero-stage 3 &&
    alike straight back

# --- what ranks take of a host's GPUs
short=(--train-iters 1 --eval-iters 0 --log-interval 1)
says() { # WORDS RANKS GPUS OPTIONS…
    local words=$1 n=$2
    export MEGA_SOFTWARE_CUDA_DEVICES=$3
    shift 3
    train_over "$n" said "${short[@]}" "$@"
    unset MEGA_SOFTWARE_CUDA_DEVICES
    grep -qF "$words" said.log || note "$n ranks, $*: $(grep computing said.log)"
}
says 'driver for CUDA 12.4; the 2 ranks of a host share it' 2 1 --device cuda
says 'the 2 ranks of a host have a GPU each' 2 2 --device auto
says 'computing on cuda:1: ' 2 3 --device cuda:1
grep -q 'the 2 ranks of a host share it' said.log || note "cuda:1 with two ranks: $(grep computing said.log)"

# apart NAME VISIBLE VISIBLE OPTIONS…: as train, two ranks, each of which sees other GPUs, as srun --gpus-per-task shows
# them, on a host of three with so much memory that one is too small for two ranks. No word of a failure.
apart() {
    local name=$1 first=$2 second=$3
    shift 3
    set -- "$MEGALITH" pretrain_gpt "${options[@]}" "${short[@]}" "$@"
    MEGA_SOFTWARE_CUDA_DEVICES=3 MEGA_SOFTWARE_CUDA_MEMORY=800000000 ranks 1 env CUDA_VISIBLE_DEVICES="$first" \
        timeout 300 "$@" : -n 1 env CUDA_VISIBLE_DEVICES="$second" timeout 300 "$@" >"$name.log" 2>&1 </dev/null
}
for seen in '0 2' '1,0 0,2' 'MIG-software-0 MIG-software-1'; do
    # shellcheck disable=SC2086  # two words
    apart own $seen --device cuda || note "ranks that see $seen: $(grep -m 3 error own.log)"
    grep -q '; the 2 ranks of a host have a GPU each$' own.log || note "ranks that see $seen: $(grep computing own.log)"
done
for seen in '1 1' '0,1 1,0' 'MIG-software-1 MIG-software-1'; do
    # shellcheck disable=SC2086
    apart shared $seen --device cuda && note "two ranks that see $seen fit on one GPU"
    grep -q 'memory of the GPU, which ranks share' shared.log && grep -q '; the 2 ranks of a host share it$' shared.log ||
        note "ranks that see $seen: $(grep -E 'computing|error' shared.log)"
done
# ... auto is for all ranks
apart both 0 1 --device auto || note "auto with two GPUs: $(tail -2 both.log)"
grep -q '^computing on cuda:0: .*have a GPU each$' both.log || note "auto with two GPUs: $(grep computing both.log)"
for seen in '0 7' '7 0'; do
    # shellcheck disable=SC2086
    apart none $seen --device auto || note "auto with a GPU for one of two ranks: $(tail -2 none.log)"
    [ "${seen:0:1}" = 7 ] && without=0 || without=1
    grep -qE "^computing on the CPU: rank $without on host [^ ]+ has no GPU that can: .*CUDA_VISIBLE_DEVICES" none.log ||
        note "auto with a GPU for one of two ranks: $(grep computing none.log)"
done

# --- a call that fails on one rank: all end, with its message and an error; also where the others go on to exchange
# weights (launch 101 is the check of a step)
calls="40 cuMemcpyDtoHAsync_v2:8 cuLaunchKernel:101 cuLaunchKernel:150"
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || calls="$calls $(seq 90 47 800)"
for call in $calls; do
    two_ranks failed MEGA_SOFTWARE_CUDA_FAIL="$call" --train-iters 2 --device cuda --zero-stage 2
    [ $SECONDS -le "$(at_most 20)" ] || note "call $call of rank 1 fails: the ranks ended after $SECONDS s"
    case $status in
    0) note "call $call of rank 1 fails, and nobody says so" ;;
    *) grep -q 'error: .*of CUDA' failed.log || note "call $call of rank 1: no message: $(tail -3 failed.log)" ;;
    esac
done

# --- one iteration that is watched
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda_watched.so
train_over 2 watched "${short[@]}" --device cuda --zero-stage 2
finish
