#!/usr/bin/env bash
# fill_mask with a folder of each family of encoders: the tokens, texts and probabilities of the fill-mask pipeline of
# transformers, on one rank and over tp, pp and dp. MEGA_FAMILY=NAME compares one.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
[ -x "${MEGA_PEERS:-}" ] || skip "MEGA_PEERS names no Python that has transformers"
export OMP_NUM_THREADS=1
script=$MEGA_SOURCE/tests/golden/fill_mask_transformers.py
names=${MEGA_FAMILY:-}
[ "${MEGA_MATRIX:-full}" = full ] || names=${names:-bert-masked roberta modernbert}
# shellcheck disable=SC2086 # several names, or none
"$MEGA_PEERS" "$script" make $names >made 2>log || fail "making the folders: $(tail -3 log)"
fills() { # name, kind, ranks, options
    local name=$1 kind=$2 n=$3
    shift 3
    local run=("$MEGALITH" fill_mask --load "$name" --input "$name.txt" --top_k 7 "$@")
    if [ "$n" -gt 1 ]; then run=(ranks "$n" "${run[@]}"); fi
    "${run[@]}" >got 2>log </dev/null || { note "$name on $n ranks, $*: $(tail -3 log)"; return; }
    "$MEGA_PEERS" -S "$script" compare "$name" "$kind" got 2>log || note "$name on $n ranks, $*: $(tail -1 log)"
}
layouts=("2 --tensor-model-parallel-size 2 --micro-batch-size 3" \
    "2 --pipeline-model-parallel-size 2 --micro-batch-size 2" "2 --micro-batch-size 2")
number=0
while read -r name; do
    fills "$name" all 1
    fills "$name" targets 1 --targets fox the owls " dog" sleep
    # shellcheck disable=SC2086 # options and values
    fills "$name" all ${layouts[number++ % 3]}
    echo "$name"
done <made
[ "$number" -ge 3 ] || [ -n "${MEGA_FAMILY:-}" ] || note "only $number families"
last=$(tail -1 made)
fills "$last" all 1 --micro-batch-size 2 --num-threads 2
fills "$last" all 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 2
finish
