# shellcheck shell=bash
# Trainings by several ranks, for tests of them: . "$MEGA_SOURCE/tests/device/train_ranks.sh" after kit.sh, ranks.sh and
# pretrain.sh.
options=("${base[@]}" --lr-decay-iters 20 --log-interval 1 --eval-interval 100 --eval-iters 1 --num-threads 1)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --num-query-groups 2 --ffn-hidden-size 48)

# train NAME RANKS OPTIONS…: leaves the losses and norms of the iterations and of evaluations in NAME.losses
train() {
    local name=$1 ranks=$2
    shift 2
    ranks "$ranks" timeout 300 "$MEGALITH" pretrain_gpt "${options[@]}" "$@" >"$name.log" 2>&1 </dev/null ||
        { note "$name: $(grep -m 3 -E 'error|touch|software' "$name.log")"; return 1; }
    grep -oE '(lm loss|lm loss value|grad norm): [0-9.E+-]+' "$name.log" | awk '{ print $NF }' >"$name.losses"
}
# alike NAME OTHER: as many numbers, none of which differ by more than 1e-5
alike() {
    paste "$1.losses" "$2.losses" | awk '
        NF != 2 || $1 == "" { wrong = wrong " line " NR " is missing;" ; next }
        { d = $1 - $2; d = d < 0 ? -d : d; n++; if (d > 1e-5 * $1) wrong = wrong " " $1 " and " $2 ";" }
        END { if (n < 5) wrong = wrong " only " n + 0 " numbers"; if (wrong != "") print wrong }' >difference
    [ ! -s difference ] || note "$1 and $2:$(cat difference)"
}
