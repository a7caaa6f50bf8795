#!/usr/bin/env bash
# A GPU that fails in the middle of a generation or of an evaluation by several ranks, with NCCL's stand-in: a message of
# its device, an error on all ranks, and no rank that waits. `make check-device` also tries exchanges through the memory
# of the host, and more calls.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda.so MEGA_SOFTWARE_CUDA_DEVICES=2
[ -e "$MEGA_CUDA_LIBRARY" ] || skip "the software device was not built"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"

"$MEGALITH" pretrain_gpt "${base[@]}" --lr-decay-iters 20 --num-threads 1 --device cuda --train-iters 1 --eval-iters 0 \
    --save model >saved.log 2>&1 || note "$(tail -3 saved.log)"
! grep -q 'this build has no kernels for GPUs' saved.log || skip "the build has no kernels for GPUs"
for i in 1 2 3 4 5 6 7 8; do echo "line $i of a text"; done >text.txt
generate=(generate_samples_gpt --load model --out-seq-length 12 --prompt "line 1" --prompt "of" --greedy)
evaluate=(tasks --task WIKITEXT103 --load model --valid-data text.txt --seq-length 16)

# run CALL COMMAND…: two ranks, of which CALL fails on the second; leaves run.log, $status, and how long it took
run() {
    local call=$1
    shift
    set -- "$MEGALITH" "$@" --device cuda --num-threads 1
    status=0 SECONDS=0
    ranks 1 timeout -s KILL 60 "$@" : -n 1 env MEGA_SOFTWARE_CUDA_COUNTS=1 MEGA_SOFTWARE_CUDA_FAIL="$call" \
        timeout -s KILL 60 "$@" >run.log 2>&1 </dev/null || status=$?
}
calls() { # FUNCTION: how often the second rank has called it
    awk -v name="$1:" 'NF > 1 && $(NF - 1) == name { print $NF; found = 1 } END { if (!found) print 0 }' run.log
}
# ends COMMAND…: some calls of each function that the second rank makes fail, one in a run
ends() {
    local function=$1 count call of=CUDA most
    shift
    [[ $function != nccl* ]] || of=NCCL
    run none "$@"
    [ $status -eq 0 ] || note "$*: $(tail -3 run.log)"
    most=$((SECONDS + 10))
    count=$(calls "$function")
    [ "$count" -gt 0 ] || note "$*: no calls of $function"
    for call in $((count / 2 + 1)) ${MEGA_DEVICE_SEEDS:+$((count / 4 + 1)) $((count * 3 / 4 + 1)) $count}; do
        run "$function:$call" "$@"
        [ $status -ne 0 ] || note "$function:$call of $count, $*: nobody says so"
        grep -qE "error: .*cuda:[01]: .*of $of" run.log || note "$function:$call, $*: $(grep -E 'error|rank' run.log)"
        [ $SECONDS -le $most ] || note "$function:$call, $*: the ranks ended after $SECONDS s"
    done
}
tp=(--tensor-model-parallel-size 2) pp=(--pipeline-model-parallel-size 2)
staged=()
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || staged=("")
for nccl in "${staged[@]}" "$MEGA_CUDA_LIBRARY"; do
    export MEGA_NCCL_LIBRARY=$nccl
    ends cuLaunchKernel "${generate[@]}" "${tp[@]}"
    ends cuMemcpyDtoHAsync_v2 "${generate[@]}" "${pp[@]}"
    ends cuLaunchKernel "${evaluate[@]}" "${pp[@]}"
    [ -n "${MEGA_DEVICE_SEEDS:-}" ] || continue
    ends cuMemcpyDtoHAsync_v2 "${generate[@]}"
    ends cuLaunchKernel "${generate[@]}" "${pp[@]}"
    ends cuStreamQuery "${generate[@]}" "${tp[@]}"
    ends cuLaunchKernel "${evaluate[@]}" "${tp[@]}"
    ends cuLaunchKernel "${evaluate[@]}"
done
ends ncclAllReduce "${generate[@]}" "${tp[@]}"
finish
