#!/usr/bin/env bash
# megalith doctor prints what it found and depends on the environment.
set -eu
: "${MEGALITH:?run by ctest}"
fail() {
    echo "$1"
    exit 1
}
has() { printf '%s\n' "$text" | grep -qE "$1" || fail "doctor does not show: $1
$text"; }

unset OMP_NUM_THREADS
text=$("$MEGALITH" doctor)
has '^megalith [0-9]+\.[0-9]+\.[0-9]+$'
has '^  instruction sets  +[a-z]'
has '^  cores  +[0-9]+ online, [0-9]+ by affinity, '
has '^  machine  +[0-9.]+ GiB$'
has '^  jansson  +[0-9]'
has '^  zlib  +[0-9]'
has '^  zstd  +[0-9]'
has '^  MPI  +([A-Z]|none)'
has '^  MPI launcher  +(none found|/)'
has '^  GPU  +(none: .*(no NVIDIA driver|no kernels|no device|too old)|.*; --device cuda:0 takes it)'
has '^  kernels  +(portable|avx2|avx512|avx512_bf16|amx)'

text=$(MEGA_ISA=portable OMP_NUM_THREADS=3 "$MEGALITH" doctor)
has '^  kernels  +portable, lowered by MEGA_ISA$'
has '^  threads  +3'

# every command refuses unknown values of its environment variables; doctor shows them
environment() { # VARIABLE=VALUE EXPECTED
    local out
    out=$(env "$1" "$MEGALITH" tokenize --tokenizer-type ByteTokenizer --text abc 2>&1) &&
        { echo "$1 is taken"; exit 1; }
    grep -qF -- "$1 in the environment; expected $2" <<<"$out" || { echo "$1: $out"; exit 1; }
    text=$(env "$1" "$MEGALITH" doctor)
    has "^  refused  +$1 in the environment"
}
environment MEGA_ISA=avx3 'portable, avx2, avx512, avx512_bf16 or amx'
environment MEGA_GEMM=onednn 'nothing: oneDNN is no longer part of the program'
environment MEGA_CHECK=yes '0, 1 (check every'
environment MEGA_HOST_TIMEOUT=0 'seconds, at least 1'
environment MEGA_START_TIMEOUT=soon 'seconds, at least 1'
out=$(MEGA_ISA='' MEGA_CHECK=0 MEGA_MATRIX=sparse MEGA_CHEK=1 "$MEGALITH" tokenize --tokenizer-type ByteTokenizer \
    --text abc --count 2>&1) ||
    { echo "empty values: $out"; exit 1; }
[ "$(grep -c 'warning: .*environment' <<<"$out")" = 1 ] &&
    grep -q 'warning: MEGA_CHEK in the environment: nothing reads it; did you mean MEGA_CHECK?' <<<"$out" ||
    { echo "a name that nothing reads: $out"; exit 1; }

has '^  ranks  +1; '
text=$(OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 "$MEGALITH" doctor)
has '^  ranks  +4, of a launcher'

# With an affinity mask of one core there is one thread.
if command -v taskset >/dev/null; then
    first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
    text=$(taskset -c "$first" "$MEGALITH" doctor)
    has '1 by affinity'
    has '^  threads  +1 '
fi
# A process that always uses a core is reported, with that core.
has '^  taken now  +([a-z].* took [0-9]+ %|nothing|the system does not tell)'
if command -v taskset >/dev/null && ! grep -q 'taken now  *the system does not tell' <<<"$text"; then
    taskset -c "$first" sh -c 'while :; do :; done' &
    busy=$!
    text=$(taskset -c "$first" "$MEGALITH" doctor)
    kill "$busy"
    has \
        "^  taken now  +(others|the hypervisor) took [1-9][0-9]+ %.* of the cores \\(core $first: ([3-9][0-9]|100) %\\)$"
fi
# A limit of the shell is reported. (The sanitizers reserve terabytes of addresses, so this is skipped for them.)
if ! grep -q '^MEGA_SANITIZE:[A-Z]*=.' "$MEGA_BUILD/CMakeCache.txt"; then
    text=$(ulimit -v 3000000 && "$MEGALITH" doctor)
    has '^  ulimit  +2\.[0-9]+ GiB left$'
    has '^  memory  +up to [0-2]\.[0-9]+ GiB'
fi

status=0
"$MEGALITH" doctor --nonsense >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "an unknown argument ends with status $status, expected 2"

# A driver that is none, the driver of a software device; a fake mpirun.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir "$temp/bin"
printf '#!/bin/sh\n' >"$temp/bin/mpirun"
chmod +x "$temp/bin/mpirun"
text=$(MEGA_CUDA_LIBRARY=$temp/none.so PATH="/nonexistent:$temp/bin" "$MEGALITH" doctor)
has "^  MPI launcher  +$temp/bin/mpirun$"
if ! grep -q 'no kernels for GPUs' <<<"$text"; then
    has "^  GPU  +none: MEGA_CUDA_LIBRARY: $temp/none.so: .*No such file"
    device=$MEGA_BUILD/libmega_software_cuda.so
    if [ -e "$device" ]; then
        text=$(MEGA_CUDA_LIBRARY=$device "$MEGALITH" doctor)
        has '^  GPU  +software device, compute capability [0-9.]+, .*; --device cuda:0 takes it$'
    fi
fi
