#!/usr/bin/env bash
# Every kernel against the plain one, on all shapes and three sets of operands, without the watch, which takes several
# times as long and looks at one set (device_test_kernels). In make check-device alone: it has nothing else to add.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
[ -n "${MEGA_DEVICE_SEEDS:-}" ] || skip "it is a part of make check-device"
MEGA_SOFTWARE_CUDA_THREADS=2 MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda.so "$MEGA_BUILD/tests/device_test_kernels" \
    >"$work/out" 2>&1 || note "the kernels are wrong: $(grep -v '^\[' "$work/out" | head -5)"
tail -1 "$work/out"
finish
