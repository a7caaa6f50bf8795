#!/usr/bin/env bash
# What device_test_kernels copies from the software device has the same bits whatever the order of blocks and threads:
# with several seeds, on one and two threads of the process, with and without the watch (which has the kernels' own sums
# over warps, and the other library a step of its own), and built by another compiler. A sum for each kernel.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
plain=$MEGA_BUILD/libmega_software_cuda.so watched=$MEGA_BUILD/libmega_software_cuda_watched.so
other=$MEGA_BUILD/libmega_software_cuda_other.so kernels=$MEGA_BUILD/tests/device_test_kernels
[ -x "$kernels" ] && [ -e "$plain" ] && [ -e "$watched" ] || skip "the software device was not built"
is_whole=${MEGA_DEVICE_SEEDS:-}
unset MEGA_DEVICE_SEEDS # a few shapes of each kernel will do

# Compares the sums of a run with those of the first one of the same kernels.
compare() { # WHAT LIBRARY KERNELS NAME=VALUE…
    local -r what=$1 first=$work/first-${3//[^a-z_]/-}
    if ! env "${@:4}" MEGA_SOFTWARE_CUDA_SUMS="$work/sums" MEGA_CUDA_LIBRARY="$2" "$kernels" "$3" >"$work/out" 2>&1; then
        note "$what: device_test_kernels $3 fails: $(tail -3 "$work/out")"
        return
    fi
    [ -e "$first" ] || cp "$work/sums" "$first"
    cmp -s "$first" "$work/sums" || note "$what: other bits: $(diff "$first" "$work/sums" | sed -n 's/^> //p' | head -5 | tr '\n' ',')"
    runs=$((runs + 1))
}

# A seed that changes nothing would make all that follows worthless, and so would a sum that is always the same.
runs=0
compare "one seed" "$plain" layer_norm
[ "$(awk '{ print $2 }' "$work/first-layer_norm" | sort -u | wc -l)" -ge 3 ] || note "layer_norm has sums: $(cat "$work/first-layer_norm")"

has_other=$(grep -c '^MEGA_DEVICE_OTHER:FILEPATH=/' "$MEGA_BUILD/CMakeCache.txt")
# Of the short test the run by another compiler is the one with another seed and two threads, too.
seeds="1" few='*norm*' of_seed="1 2"
[ "$has_other" = 0 ] || of_seed=1
[ -z "$is_whole" ] || seeds="0 1 2 3 4 5 6 7" few='*' of_seed="1 2"
for seed in $seeds; do
    for threads in $of_seed; do
        compare "seed $seed, $threads threads" "$plain" '*' MEGA_SOFTWARE_CUDA_SEED="$seed" MEGA_SOFTWARE_CUDA_THREADS="$threads"
    done
done
compare "without the watch" "$plain" "$few"
compare "with the watch" "$watched" "$few" MEGA_SOFTWARE_CUDA_SEED=5
if [ "$has_other" -gt 0 ]; then
    cmake --build "$MEGA_BUILD" --target software-device-other >"$work/out" 2>&1 || { cat "$work/out"; note "the other compiler fails"; }
    for seed in $([ -z "$is_whole" ] && echo 9 || echo "$seeds"); do
        for threads in $([ -z "$is_whole" ] && echo 2 || echo 1 2); do
            compare "another compiler, seed $seed, $threads threads" "$other" '*' MEGA_SOFTWARE_CUDA_SEED="$seed" \
                MEGA_SOFTWARE_CUDA_THREADS="$threads"
        done
    done
else
    echo "there is no other compiler"
fi
echo "$(wc -l <"$work/first--") kernels, $runs runs"
finish
