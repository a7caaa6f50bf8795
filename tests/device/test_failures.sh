#!/usr/bin/env bash
# A GPU that fails in the middle of a run by several ranks: all ranks say so, with the device's message and the number
# of its rank, and never what only follows from it (a loss that is not finite, wrong labels); no save is begun of what
# it held, and the checkpoint before stays whole and is named; no call of an engine waits for it afterwards, and another
# engine trains in the same world (ranks_gpu_fails). `make check-device` tries more calls.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device_ranks.sh"
options+=(--device cuda)

# run NAME CALL OPTIONS…: CALL fails on the second of two ranks
run() {
    two_ranks "$1" "MEGA_SOFTWARE_CUDA_COUNTS=1 MEGA_SOFTWARE_CUDA_FAIL=$2" "${@:3}"
}
# says NAME REGEX…: the run has failed, NAME.log has such lines, and none of what only follows
says() {
    local name=$1 line
    shift
    [ $status -ne 0 ] || note "$name: nobody says so"
    for line in 'error: rank 1: cuda:0: .*of CUDA' "$@"; do
        grep -qE "$line" "$name.log" || note "$name: no line like: $line: $(grep -E 'error|warning' "$name.log")"
    done
    ! grep -qiE 'not finite|infinite|not a number|label' "$name.log" ||
        note "$name: $(grep -iE 'not finite|infinite|not a number|label' "$name.log")"
}

run probe none --train-iters 1 --eval-iters 0
[ $status -eq 0 ] || note "$(grep -m 3 error probe.log)"

# --- no more pinned memory for an exchange on one rank, here the first, which warns: it is made through other memory
export MEGA_SOFTWARE_CUDA_FAIL=cuMemHostAlloc:$(calls probe cuMemHostAlloc)
run pinned none --train-iters 1 --eval-iters 0
unset MEGA_SOFTWARE_CUDA_FAIL
[ $status -eq 0 ] && grep -qE 'warning: .* of pinned memory for exchanges.*; other memory is used' pinned.log ||
    note "no pinned memory: status $status: $(grep -E 'error|warning' pinned.log)"

# --- an evaluation: each of its copies to the host, and some of its launches
run whole none --train-iters 1
for function in cuMemcpyDtoHAsync_v2 cuLaunchKernel; do
    first=$(($(calls probe $function) + 1)) last=$(calls whole $function)
    [ "$last" -ge "$first" ] || note "an evaluation makes no calls of $function"
    for call in $(printf '%s\n' "$first" "$last" | sort -u); do
        run evaluation $function:"$call" --train-iters 1 --eval-iters 1
        says evaluation
    done
done

# --- a save: that of the first iteration stays whole, and the CPU goes on with it
saving=(--train-iters 2 --eval-iters 0 --save-interval 1)
run once none --train-iters 1 --eval-iters 0 --save once
run twice none "${saving[@]}" --save twice
copies=$(calls once cuMemcpyDtoHAsync_v2)
for call in $((copies + copies / 2)) "$(calls twice cuMemcpyDtoHAsync_v2)"; do
    rm -rf out
    run save cuMemcpyDtoHAsync_v2:"$call" "${saving[@]}" --save out
    says save 'a GPU has failed, so its state is not saved: the checkpoint of iteration 1 in out stays whole'
    [ "$(cat out/latest_checkpointed_iteration.txt)" = 1 ] || note "call $call: the save is taken for a whole one"
    "$MEGALITH" pretrain_gpt "${options[@]}" --device cpu --train-iters 2 --eval-iters 0 --load out >cpu.log 2>&1 ||
        note "call $call: the CPU does not go on: $(tail -2 cpu.log)"
done
# A step that fails begins no save.
launches=$(calls once cuLaunchKernel)
rm -rf out
run step cuLaunchKernel:$((launches + 20)) "${saving[@]}" --save out
says step 'the checkpoint of iteration 1 in out stays whole'
[ "$(grep -c 'saving checkpoint at' step.log)" -eq 1 ] || note "a save is begun of what a GPU has lost: $(cat step.log)"

# --- engines of a C program: LAYOUT CALL. Launch 100 is about the check of the first step.
rows="zero2 cuLaunchKernel:60
zero2 cuLaunchKernel:107
zero2 cuLaunchKernel:281
zero2 cuMemcpyDtoHAsync_v2:9
zero3 cuLaunchKernel:165
labels cuMemcpyDtoHAsync_v2:7
tp cuLaunchKernel:20
tp cuLaunchKernel:223
pp cuLaunchKernel:20
pp cuLaunchKernel:136"
if [ -n "${MEGA_DEVICE_SEEDS:-}" ]; then
    rows=$(for from in dp:20 zero2:20 zero3:20 tp:8 pp:8 labels:20; do
        seq -f "${from%:*} cuLaunchKernel:%g" "${from#*:}" 13 190
        seq -f "${from%:*} cuMemcpyDtoHAsync_v2:%g" 4 20
    done)
fi
while read -r layout call; do
    status=0
    ranks 2 timeout -s KILL 60 "$MEGA_BUILD/tests/ranks_gpu_fails" "$layout" "$call" "$PWD/lost" >lost.log 2>&1 \
        </dev/null || status=$?
    [ $status -eq 0 ] || note "$layout, $call: status $status: $(grep -E 'rank|error' lost.log)"
    grep -qE '^call [0-9] failed' lost.log || note "$layout, $call: nothing has failed: $(tail -2 lost.log)"
    rm -rf lost
done <<<"$rows"
finish
