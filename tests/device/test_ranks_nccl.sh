#!/usr/bin/env bash
# Ranks that have a GPU each exchange by NCCL, here its stand-in on software devices: layouts have the losses of the
# CPU; what is used is said, and --distributed-backend chooses it; an event that is left out is noticed; a call of NCCL
# that fails on one rank ends all with its message, and a rank that is gone or stopped is reported with the exchange
# that waits for it. `make check-device` runs every layout and event.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device_ranks.sh"
export MEGA_NCCL_LIBRARY=$MEGA_CUDA_LIBRARY MEGA_SOFTWARE_CUDA_DEVICES=4

train_over 1 probe --train-iters 1 --eval-iters 0 --device cuda
! grep -q 'ranks exchange' probe.log || note "one rank says how ranks exchange"

# --- layouts: RANKS OPTIONS, all against one rank of the CPU; nothing of a step goes through the memory of the host
train cpu --train-iters 3
train deep --num-layers 4 --train-iters 3
train muon --optimizer muon --train-iters 3
tp2="--tensor-model-parallel-size 2"
pp2="--pipeline-model-parallel-size 2 --micro-batch-size 1"
turns="$pp2 --num-layers 4 --num-layers-per-virtual-pipeline-stage 1"
rows="cpu 2 --zero-stage 3 --micro-batch-size 1
cpu 2 $tp2 --sequence-parallel
deep 2 $turns
cpu 4 $tp2 $pp2
muon 2 --optimizer muon --zero-stage 2"
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || rows="$rows
deep 4 --pipeline-model-parallel-size 4 --num-layers 4 --micro-batch-size 1
cpu 2 --micro-batch-size 1
cpu 2 --zero-stage 1
cpu 2 --zero-stage 2
cpu 2 $tp2
cpu 2 $pp2
cpu 4 $tp2 --zero-stage 3
cpu 4 --micro-batch-size 1 --zero-stage 2
cpu 4 $pp2 --zero-stage 1
muon 2 --optimizer muon
muon 4 --optimizer muon --zero-stage 1 --micro-batch-size 1
deep 4 $turns $tp2 --sequence-parallel"
while read -r row; do
    # shellcheck disable=SC2086  # a list of words
    row_alike $row --profile-table --profile-step-start 1 --profile-step-end 2
    ! grep -q 'through memory of the host' gpu.log || note "$row: $(grep 'memory of the host' gpu.log)"
    grep -q '^ranks exchange by NCCL 2.20.0$' gpu.log || note "$row: $(grep 'ranks exchange' gpu.log)"
done <<<"$rows"
# Times of exchanges are the device's, here a microsecond for each: not those of the host, which notices later.
echo '{"train_batch_size": 4, "comms_logger": {"enabled": true, "prof_all": true}}' >logged.json
train_over 2 logged --train-iters 2 --eval-iters 0 --device cuda --tensor-model-parallel-size 2 --deepspeed \
    --deepspeed_config logged.json
awk '$1 == "tp" && $3 == "KB" { n += $4; ms += $5 } END { exit !(n >= 20 && ms > 0 && ms < n * 0.1) }' logged.log ||
    note "times of exchanges: $(grep '^  tp' logged.log)"

# --- what is used, and where NCCL cannot be: WORDS, OPTIONS…
short=(--train-iters 1 --eval-iters 0 --log-interval 1 --device cuda)
says() {
    local words=$1
    shift
    train_over 2 said "${short[@]}" "$@"
    grep -qF "$words" said.log || note "$*: not '$words' but: $(grep 'ranks exchange' said.log)"
}
refuses() { # WORDS, in a run with --distributed-backend nccl
    local status=0
    ranks 2 timeout 60 "$MEGALITH" pretrain_gpt "${options[@]}" "${short[@]}" --distributed-backend nccl >no.log 2>&1 \
        </dev/null || status=$?
    [ $status != 0 ] && grep -q "error: .*--distributed-backend nccl: .*$1" no.log ||
        note "not refused for $1: $(tail -3 no.log)"
}
says 'ranks exchange by NCCL 2.20.0' --distributed-backend nccl
train_over 2 said "${short[@]}" --distributed-backend gloo
! grep -q 'by NCCL' said.log || note "gloo: $(grep 'ranks exchange' said.log)"
MEGA_NCCL_LIBRARY=/no-such.so says 'through the memory of their hosts: rank 0 has MEGA_NCCL_LIBRARY: /no-such.so'
MEGA_NCCL_LIBRARY= says 'no NCCL that knows the driver of MEGA_CUDA_LIBRARY'
MEGA_NCCL_LIBRARY=libm.so.6 says 'NCCL has no function ncclGetVersion'
MEGA_SOFTWARE_CUDA_DEVICES=1 says 'ranks 0 and 1 share the GPU 0000:01:00.0, which NCCL refuses'
MEGA_NCCL_LIBRARY=/no-such.so refuses '/no-such.so'
MEGA_SOFTWARE_CUDA_DEVICES=1 refuses 'share the GPU'
train_over 2 said --train-iters 1 --eval-iters 0 --distributed-backend nccl # on CPUs
! grep -q 'ranks exchange' said.log || note "CPUs: $(grep 'ranks exchange' said.log)"

# --- a call that fails on one rank
one_rank() { # VARIABLE=VALUE OPTIONS…
    two_ranks failed "$1" --train-iters 2 --device cuda "${@:2}"
    [ $SECONDS -le "$(at_most 20)" ] || note "$1: the ranks ended after $SECONDS s"
}
for call in ncclCommInitRank:1 ncclReduceScatter:2 ncclAllGather:3 cuStreamQuery:5; do
    one_rank MEGA_SOFTWARE_CUDA_FAIL=$call --zero-stage 2
    case $status in
    0) note "$call of rank 1 fails, and nobody says so" ;;
    *)
        grep -qE 'error: .*(rank 1|cuda:1): .*of (NCCL|CUDA)' failed.log ||
            note "$call: no message: $(tail -3 failed.log)"
        ;;
    esac
done
# one of a pipeline, whose first calls are those that connect
one_rank MEGA_SOFTWARE_CUDA_FAIL=ncclRecv:3 --pipeline-model-parallel-size 2 --micro-batch-size 1
received='ncclRecv (activation) of messages from the rank before of group pp, rank 1 of 2: .*of NCCL'
[ $status != 0 ] && grep -q "$received" failed.log || note "ncclRecv fails: status $status: $(tail -3 failed.log)"
# a rank does not come out of the call that connects its GPU: all say so when the limit has passed
one_rank MEGA_SOFTWARE_CUDA_HANG=ncclCommInitRank:1 --zero-stage 2 --distributed-timeout-minutes 0.1
[ $status != 0 ] && grep -qE 'barrier #0 \(connecting devices\) of group dp' failed.log &&
    grep -q 'NCCL does not come to the end of connecting their GPUs' failed.log ||
    note "ncclCommInitRank hangs: status $status: $(tail -3 failed.log)"
# ... and one of Muon's pieces, which go together
one_rank MEGA_SOFTWARE_CUDA_FAIL=ncclSend:1 --optimizer muon --zero-stage 2
[ $status != 0 ] && grep -q 'ncclSend and ncclRecv (pieces of matrices) of group dp, rank 1 of 2: ' failed.log ||
    note "ncclSend fails: status $status: $(tail -3 failed.log)"
# NCCL is not there on one rank alone: none uses it
one_rank MEGA_NCCL_LIBRARY=/no-such.so --zero-stage 2
[ $status = 0 ] && grep -q 'rank 1 has MEGA_NCCL_LIBRARY: /no-such.so' failed.log ||
    note "NCCL on one rank: $(tail -3 failed.log)"

# --- a rank that is gone, and one that is stopped: at any instant, so in any exchange, of GPUs or of hosts
call='[a-z_]+ #[0-9]+ \([a-z ]+\) of group (dp|world)'
for signal in KILL STOP; do
    ranks 2 timeout 100 "$MEGALITH" pretrain_gpt "${options[@]}" --train-iters 5000 --device cuda --zero-stage 2 \
        --distributed-timeout-minutes 0.1 >stall.log 2>&1 </dev/null &
    for _ in $(seq 300); do
        ! grep -qE 'iteration +2/' stall.log || break
        sleep 0.1
    done
    for victim in $(pgrep -x megalith); do
        [ "$(readlink "/proc/$victim/cwd")" != "$PWD" ] || ! grep -qzE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$' \
            "/proc/$victim/environ" || kill -$signal "$victim"
    done
    ! wait $! || note "$signal: the run ended well"
    grep -qE "error: .*(waited in $call|in $call, for rank 1)|exited on signal 9" stall.log ||
        note "$signal: $(grep error: stall.log)"
done

# --- one iteration that is watched; without one of the events of an exchange the watch ends the run, or, as work of
# streams is in random order, an exchange that the other rank waits for does not come
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda_watched.so MEGA_SOFTWARE_CUDA_PATIENCE=20
export MEGA_NCCL_LIBRARY=$MEGA_CUDA_LIBRARY
train_over 2 watched "${short[@]}" --zero-stage 2
train_over 2 watched "${short[@]}" --pipeline-model-parallel-size 2 --micro-batch-size 1
events="5 9"
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || events=$(seq 4 15)
export MEGA_SOFTWARE_CUDA_STOP=1
for event in $events; do
    # (an exchange that the other rank never begins is given up after a while, which one_rank would call too long)
    two_ranks failed MEGA_SOFTWARE_CUDA_LEAVE_OUT=cuStreamWaitEvent:"$event" --device cuda --train-iters 1 \
        --eval-iters 0 --zero-stage 2
    [ $status != 0 ] && grep -qE 'no event orders it|NCCL: rank [01] waits for a rank that does not come' failed.log ||
        note "event $event is left out: status $status: $(tail -3 failed.log)"
done
finish
