#!/usr/bin/env bash
# The libraries of the software device as a program loads them: device_test_kernels runs with each, sees every chosen
# call fail without a crash, and ends with 88 after a report of the watch, which names kernel, block and address.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
plain=$MEGA_BUILD/libmega_software_cuda.so watched=$MEGA_BUILD/libmega_software_cuda_watched.so
kernels=$MEGA_BUILD/tests/device_test_kernels
[ -x "$kernels" ] && [ -e "$plain" ] && [ -e "$watched" ] || skip "the software device was not built"
unset MEGA_DEVICE_SEEDS

# Runs the comparison of one kernel; leaves its exit status in $status and what it says in $work/out.
run() { # LIBRARY KERNEL NAME=VALUE…
    status=0
    env "${@:3}" MEGA_CUDA_LIBRARY="$1" "$kernels" "$2" >"$work/out" 2>&1 || status=$?
}
expect() { # STATUS TEXT WHAT
    [ "$status" = "$1" ] || note "$3: status $status, expected $1: $(tail -3 "$work/out")"
    grep -q -- "$2" "$work/out" || note "$3: nothing says \"$2\": $(tail -3 "$work/out")"
}

for library in "$plain" "$watched"; do
    for seed in 1 2 3; do
        run "$library" layer_norm MEGA_SOFTWARE_CUDA_COUNTS=1 MEGA_SOFTWARE_CUDA_SEED=$seed
        expect 0 "software device: [0-9]* calls, .* 0 reports" "layer norm, seed $seed"
    done
done

# Without its first barrier of a sum, the plain library may compute the right values; the watch always reports.
run "$watched" layer_norm MEGA_SOFTWARE_CUDA_SITES="$work/sites"
[ "$status" = 0 ] || note "the sites of layer norm could not be written"
site=$(sort -k3n "$work/sites" | grep 'block_barrier' | sed -n 2p)
[ -n "$site" ] || note "layer norm has no second barrier: $(cat "$work/sites")"
run "$watched" layer_norm MEGA_SOFTWARE_CUDA_OMIT="$site"
expect 88 "software device: .*: layer_norm_[a-z0-9]*, block [0-9]*, thread [0-9]*, .* shared memory" "layer norm without $site"

# The first calls fail, one at a time, and then one of each function: an error, and no crash.
functions="cuInit cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent cuStreamCreate cuModuleLoadDataEx
    cuModuleGetFunction cuMemAlloc_v2 cuMemcpyHtoDAsync_v2 cuLaunchKernel cuMemcpyDtoHAsync_v2 cuStreamSynchronize"
for chosen in 1 2 3 4 5 6 7 8 9 10 $(printf '%s:2 ' cuMemAlloc_v2 cuLaunchKernel) $(printf '%s:1 ' $functions); do
    run "$plain" add MEGA_SOFTWARE_CUDA_FAIL="$chosen"
    grep -q "software device: .* fails, as asked" "$work/out" || note "no call fails with $chosen: $(tail -2 "$work/out")"
    case $status in # 255: cmocka outside of a test
    [1-9] | 255) ;;
    *) note "call $chosen fails: status $status: $(tail -2 "$work/out")" ;;
    esac
done
run "$plain" add MEGA_SOFTWARE_CUDA_DEVICES=0
expect 255 "no CUDA-capable device is detected" "no device"
run "$plain" add MEGA_SOFTWARE_CUDA_MEMORY=100
expect 1 "out of memory" "a device without memory"
finish
