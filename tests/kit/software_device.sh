# shellcheck shell=bash
# For tests of the program on the software device: . "$MEGA_SOURCE/tests/kit/software_device.sh" after kit.sh. Skips the
# test where there is none, or where the program has no kernels for GPUs. Commands are run with ${options[@]}, which the
# test sets; a check that fails is noted, and the test continues.
: "${MEGA_BUILD:?run by ctest}"
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda.so
[ -e "$MEGA_CUDA_LIBRARY" ] || skip "the software device was not built"
"$MEGALITH" doctor | grep -q '^  GPU  *software' || skip "the build has no kernels for GPUs"

# keep_losses NAME: leaves the losses and norms of the iterations and of evaluations of NAME.log in NAME.losses, the
# loss scales in NAME.scales
keep_losses() {
    grep -oE '([a-z]+ loss|[a-z]+ loss value|grad norm): [0-9.E+-]+' "$1.log" | awk '{ print $NF }' >"$1.losses"
    grep -oE 'loss scale: [0-9.E+-]+' "$1.log" >"$1.scales"
}
# train NAME OPTIONS…: by the command ${command:-pretrain_gpt}
train() {
    # shellcheck disable=SC2154  # of the script that reads this file
    timeout 600 "$MEGALITH" "${command:-pretrain_gpt}" "${options[@]}" "${@:2}" >"$1.log" 2>&1 ||
        { note "$1: $(tail -2 "$1.log")"; return 1; }
    keep_losses "$1"
}
# alike NAME OTHER [TOLERANCE]: as many numbers, five or more, none of which differ by more, and the same loss scales
alike() {
    paste "$1.losses" "$2.losses" | awk -v most="${3:-1e-5}" '
        NF != 2 || $1 == "" { wrong = wrong " line " NR " is missing;" ; next }
        { d = $1 - $2; d = d < 0 ? -d : d; n++; if (d > most * $1) wrong = wrong " " $1 " and " $2 ";" }
        END { if (n < 5) wrong = wrong " only " n + 0 " numbers"; if (wrong != "") print wrong }' >difference
    [ ! -s difference ] || note "$1 and $2:$(cat difference)"
    cmp -s "$1.scales" "$2.scales" || note "$1 and $2: loss scales $(uniq -c "$1.scales"), and $(uniq -c "$2.scales")"
}
# both NAME TOLERANCE OPTIONS…: trains NAME_cpu and NAME_gpu, which must be alike
both() {
    train "$1_cpu" "${@:3}" --device cpu && train "$1_gpu" "${@:3}" --device cuda && alike "$1_cpu" "$1_gpu" "$2"
}
# calls NAME FUNCTION: how often it was called in the run of NAME.log, which had MEGA_SOFTWARE_CUDA_COUNTS=1
calls() {
    awk -v name="$2:" '$(NF - 1) == name { print $NF; found = 1 } END { if (!found) print 0 }' "$1.log"
}
