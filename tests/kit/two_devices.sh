# shellcheck shell=bash
# For tests that train on the CPU and on the software device: . "$MEGA_SOURCE/tests/kit/two_devices.sh" after kit.sh.
# The command is ${command:-pretrain_gpt}, with ${options[@]}; a check that fails is noted, and the test continues.
export MEGA_CUDA_LIBRARY=$MEGA_BUILD/libmega_software_cuda.so
[ -e "$MEGA_CUDA_LIBRARY" ] || skip "the software device was not built"

# train NAME OPTIONS…: leaves the losses and norms of the iterations and of evaluations in NAME.losses, the loss scales
# in NAME.scales
train() {
    local name=$1
    shift
    # shellcheck disable=SC2154  # of the script that reads this file
    timeout 600 "$MEGALITH" "${command:-pretrain_gpt}" "${options[@]}" "$@" >"$name.log" 2>&1 || {
        note "$name: $(tail -2 "$name.log")"
        return 1
    }
    grep -oE '([a-z]+ loss|[a-z]+ loss value|grad norm): [0-9.E+-]+' "$name.log" | awk '{ print $NF }' >"$name.losses"
    grep -oE 'loss scale: [0-9.E+-]+' "$name.log" >"$name.scales"
}
# alike NAME OTHER TOLERANCE: as many numbers, none of which differ by more, and the same scales
alike() {
    paste "$1.losses" "$2.losses" | awk -v most="$3" '
        NF != 2 || $1 == "" { wrong = wrong " line " NR " is missing;" ; next }
        { d = $1 - $2; d = d < 0 ? -d : d; n++; if (d > most * $1) wrong = wrong " " $1 " and " $2 ";" }
        END { if (n < 8) wrong = wrong " only " n + 0 " numbers"; if (wrong != "") print wrong }' >difference
    [ ! -s difference ] || note "$1 and $2:$(cat difference)"
    cmp -s "$1.scales" "$2.scales" || note "$1 and $2: loss scales $(uniq -c "$1.scales"), and $(uniq -c "$2.scales")"
}
# both NAME TOLERANCE OPTIONS…: trains NAME_cpu and NAME_gpu, which must be alike
both() {
    local name=$1 most=$2
    shift 2
    train "${name}_cpu" "$@" --device cpu && train "${name}_gpu" "$@" --device cuda && alike "${name}_cpu" "${name}_gpu" "$most"
}
# Skips the test in a build without kernels for GPUs. Leaves probe.log.
probe_device() {
    train probe --train-iters 1 --eval-iters 0 --device cuda
    ! grep -q 'this build has no kernels for GPUs' probe.log || skip "the build has no kernels for GPUs"
}
