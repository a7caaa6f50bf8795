#!/usr/bin/env bash
# Each barrier, wait and commit of each kernel of backend/cuda/ is left out, one at a time, while device_test_kernels
# compares that kernel on the watched software device: the watch or the values must notice. One whose loss changes
# nothing is listed in harmless.txt with the reason, which a person has found; a row that is noticed is stale.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda_watched.so
kernels=$MEGA_BUILD/tests/device_test_kernels
harmless=$MEGA_SOURCE/tests/device/harmless.txt
[ -x "$kernels" ] && [ -e "$MEGA_CUDA_LIBRARY" ] || skip "the software device was not built"

! "$kernels" nosuch >"$work/out" || note "device_test_kernels nosuch has no test, and does not fail"
is_whole=${MEGA_DEVICE_SEEDS:-}
unset MEGA_DEVICE_SEEDS # a few shapes of each kernel will do
MEGA_SOFTWARE_CUDA_SITES=$work/sites "$kernels" >"$work/out" 2>&1 || { cat "$work/out"; note "the kernels are wrong"; }
# One type of a kernel stands for the other where both have the same sites.
sort -u "$work/sites" | awk '
    { other = $1; sub(/_f(32|16)$/, "_bf16", other); has[$1 " " $2 " " $3] }
    { row[NR] = $0; twin[NR] = other " " $2 " " $3 }
    END { for (i = 1; i <= NR; i++) if (twin[i] == row[i] || !(twin[i] in has)) print row[i] }' |
    sort -k1,2 -k3n | awk '{ key = $1 " " $2; count[key]++; print $0 " " count[key] }' >"$work/chosen"
[ "$(wc -l <"$work/chosen")" -ge 30 ] || note "only $(wc -l <"$work/chosen") sites were found"

# Prints the case of device_test_kernels to which a kernel belongs: the longest name with which its own begins.
case_of() {
    sed -n 's/^\(CALL\|ONE\|CHUNKS_CALL\)(\([a-z0-9_]*\),.*/\2/p' "$MEGA_SOURCE"/src/backend/cuda/*.c |
        awk -v kernel="$1" 'index(kernel, $1) == 1 && length($1) > length(best) { best = $1 } END { print best }'
}

if [ -z "$is_whole" ]; then # make check-device takes all
    awk 'NR % 25 == 1' "$work/chosen" >"$work/few" && mv "$work/few" "$work/chosen"
fi
noticed=0 known=0
while read -r kernel op line number; do
    [ -n "$(case_of "$kernel")" ] || note "$kernel: it begins with the name of no case"
    if MEGA_SOFTWARE_CUDA_STOP=1 MEGA_SOFTWARE_CUDA_OMIT="$kernel $op $line" "$kernels" "$(case_of "$kernel")" >"$work/out" 2>&1; then
        if grep -q "^$kernel $op $number: ." "$harmless"; then known=$((known + 1)); else
            note "$kernel without $op $number (line $line): nothing notices"
        fi
    else
        noticed=$((noticed + 1))
        ! grep -q "^$kernel $op $number:" "$harmless" || note "harmless.txt: $kernel $op $number is noticed"
    fi
done <"$work/chosen"
echo "$noticed barriers, waits and commits left out are noticed, $known are harmless"
finish
