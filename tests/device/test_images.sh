#!/usr/bin/env bash
# The kernels of src/backend/cuda/ as they are compiled for GPUs: none keeps registers in memory (a spill makes it slow,
# and nothing else would say so), for sm_80 and sm_90; the PTX asks for no newer driver than it needs. With
# MEGA_DEVICE_SEEDS (make check-device) also what nvcc makes of them. What each kernel takes is left in cubin/record.txt
# of the build.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
ls "$MEGA_BUILD"/ptx/*.ptx >/dev/null 2>&1 || skip "there is no PTX: clang 14 or newer with NVPTX is not there"
cd "$MEGA_BUILD" || exit 1
sources=$(find "$MEGA_SOURCE/src/backend/cuda" -name '*.cu' ! -name '*_body.cu' | wc -l)
[ "$(ls ptx/*.ptx | wc -l)" -ge "$sources" ] || note "of $sources kernel files only these have PTX: $(ls ptx)"
for image in ptx/*.ptx; do
    version=$(sed -n 's/^\.version //p' "$image")
    [ "$version" = 7.0 ] || note "$image is of PTX version $version, expected 7.0"
done
grep -q '^MEGA_PTXAS:FILEPATH=/' CMakeCache.txt || skip "there is no ptxas: the spills of kernels were not looked at"
targets=(spills)
[ -z "${MEGA_DEVICE_SEEDS:-}" ] || targets+=(spills-nvcc)
cmake --build . --target "${targets[@]}" >"$work/out" 2>&1 || { cat "$work/out"; fail "the kernels do not compile"; }

# ptxas writes three lines a kernel: its name and chip, its stack and spills, its registers and shared memory.
awk '
    /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; chip = part[4] }
    /spill stores/ { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/ {
        match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
        shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
        compiler = FILENAME ~ /nvcc/ ? "nvcc" : "clang"
        print kernel, chip, compiler, registers, shared, stack, spills
    }' cubin/*.sm_*.txt | sort >"$work/found"
{ echo "kernel chip compiler registers shared_bytes stack_bytes spilled_bytes"; cat "$work/found"; } | column -t >cubin/record.txt
[ "$(wc -l <"$work/found")" -ge $((sources * 2)) ] || note "only $(wc -l <"$work/found") kernels are in the record"
while read -r kernel chip compiler registers shared stack spills; do
    [ "$spills" = 0 ] || note "$kernel spills $spills bytes on $chip, compiled by $compiler"
    [ "$stack" = 0 ] || note "$kernel has $stack bytes of local memory on $chip, compiled by $compiler: an array with a" \
        "computed index?"
    [ "$registers" -le 255 ] && [ "$shared" -le 49152 ] || note "$kernel: $registers registers, $shared bytes shared"
done <"$work/found"
echo "$(wc -l <"$work/found") kernels, at most $(awk '{ print $4 }' "$work/found" | sort -n | tail -1) registers"
finish
