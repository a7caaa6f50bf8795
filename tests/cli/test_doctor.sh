#!/usr/bin/env bash
# megalith doctor names what it found and follows the environment.
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
has '^  oneDNN  +[0-9]+\.[0-9]+'
has '^  jansson  +[0-9]'
has '^  zlib  +[0-9]'
has '^  zstd  +[0-9]'
has '^  MPI  +(no mpirun found|/.* found, not used yet)'
has '^  GPU  +.*(none found|not built yet|does not load|no device)'
has '^  kernels  +(portable|avx2|avx512|avx512_bf16)'

text=$(MEGA_ISA=portable OMP_NUM_THREADS=3 "$MEGALITH" doctor)
has '^  kernels  +portable, lowered by MEGA_ISA$'
has '^  threads  +3'

# One core by affinity is one thread.
if command -v taskset >/dev/null; then
    first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
    text=$(taskset -c "$first" "$MEGALITH" doctor)
    has '1 by affinity'
    has '^  threads  +1 '
fi
# A limit of the shell is seen. (The sanitizers reserve terabytes of addresses, so not under them.)
if ! grep -q '^MEGA_SANITIZE:[A-Z]*=.' "$MEGA_BUILD/CMakeCache.txt"; then
    text=$(ulimit -v 3000000 && "$MEGALITH" doctor)
    has '^  ulimit  +2\.[0-9]+ GiB left$'
    has '^  memory  +up to [0-2]\.[0-9]+ GiB'
fi

status=0
"$MEGALITH" doctor --nonsense >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "an unknown argument ends with status $status, expected 2"
