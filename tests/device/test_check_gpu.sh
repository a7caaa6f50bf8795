#!/usr/bin/env bash
# check_gpu.sh from beginning to end on the software device, with small sizes: every part passes and leaves its record;
# a call of the driver that fails fails its part alone.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device.sh"
check=$MEGA_SOURCE/tests/device/check_gpu.sh

"$check" "$MEGA_BUILD" all quick >log 2>&1 || note "status $?: $(cat log; cat all/*.log | tail -20)"
for part in doctor images kernels losses bits checkpoints failure measure steps profile memory ranks torch; do
    grep -qE "\"name\": \"part_$part\", \"value\": 1, " all/record.json || note "no record of $part: $(tail -3 "all/$part.log")"
done
for name in gpu start_first losses_fp32 losses_bf16 copy_on_device step_small_bf16 step_small memory_planned; do
    grep -q "\"name\": \"$name\"" all/record.json || note "no figure $name"
done
# The record is JSON, of the form of make bench's results.
if command -v python3 >/dev/null; then
    python3 "$MEGA_SOURCE/bench/table.py" all/record.json >table.md 2>why || note "bench/table.py: $(tail -1 why)"
    grep -q '^| `losses_fp32` | ' table.md || note "no row of losses_fp32"
fi

MEGA_SOFTWARE_CUDA_FAIL=cuLaunchKernel:400 "$check" "$MEGA_BUILD" broken quick kernels bits measure >log 2>&1 &&
    note "a failed launch passes"
grep -q '"name": "part_bits", "value": 0' broken/record.json || note "bits do not fail: $(cat log)"
grep -qE '"name": "kernel_layer_norm(_grad)?", "value": 0' broken/record.json || note "no record of a kernel that fails: $(cat log)"
grep -q '"name": "part_measure"' broken/record.json || note "after a failed part no other runs: $(cat log)"
MEGA_SOFTWARE_CUDA_DEVICES=0 "$check" "$MEGA_BUILD" none quick >log 2>&1
status=$?
[ $status -eq 77 ] || note "no GPU: status $status, expected 77"
finish
