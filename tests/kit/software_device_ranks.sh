# shellcheck shell=bash
# For tests of several ranks on the software device: . "$MEGA_SOURCE/tests/kit/software_device_ranks.sh" after kit.sh.
. "$MEGA_SOURCE/tests/kit/software_device.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"
# shellcheck disable=SC2154  # base is of pretrain.sh
options=("${base[@]}" --lr-decay-iters 20 --log-interval 1 --eval-interval 100 --eval-iters 1 --num-threads 1)

# train_over RANKS NAME OPTIONS…: as train
train_over() {
    ranks "$1" timeout 300 "$MEGALITH" pretrain_gpt "${options[@]}" "${@:3}" >"$2.log" 2>&1 </dev/null ||
        { note "$2: $(grep -m 3 -E 'error|touch|software' "$2.log")"; return 1; }
    keep_losses "$2"
}
# row_alike NAME RANKS OPTIONS…: three iterations on GPUs, which leave gpu.log, have the losses of NAME
row_alike() {
    train_over "$2" gpu --train-iters 3 --device cuda "${@:3}" && alike "$1" gpu || note "... of $2 ranks: ${*:3}"
}
# two_ranks NAME 'VARIABLE=VALUE…' OPTIONS…: the second of two ranks has these variables. Leaves NAME.log, $status and the
# seconds that it took in $SECONDS.
two_ranks() {
    local name=$1 of_second=$2 run=(timeout -s KILL 120 "$MEGALITH" pretrain_gpt "${options[@]}" "${@:3}")
    status=0 SECONDS=0
    # shellcheck disable=SC2086  # a list of words
    ranks 1 "${run[@]}" : -n 1 env $of_second "${run[@]}" >"$name.log" 2>&1 </dev/null || status=$?
}
