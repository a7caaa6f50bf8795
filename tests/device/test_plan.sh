#!/usr/bin/env bash
# What a plan says of a GPU: its memory against what the software device was asked for (at most 1 % apart), the kinds of
# GPUs that are elsewhere, the limit and the advice.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"
base+=(--lr-decay-iters 20)

# apart NAME OPTIONS…: the bytes that a run plans, and those that it takes of the device
apart() {
    local name=$1 planned taken assumed
    shift
    MEGA_SOFTWARE_CUDA_COUNTS=1 timeout 300 "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 1 --eval-iters 1 \
        --device cuda --metrics-file "$name.jsonl" "$@" >"$name.log" 2>&1 || { note "$name: $(tail -2 "$name.log")"; return; }
    planned=$(grep -oE '"largest_rank_bytes": ?[0-9]+' "$name.jsonl.run.json" | grep -oE '[0-9]+$' | head -1)
    taken=$(grep -oE '[0-9]+ bytes at most' "$name.log" | grep -oE '^[0-9]+')
    # of CUDA's context and its graphs, which the software device does not have
    assumed=$(tr -d '\n' <"$name.jsonl.run.json" | grep -oE '"class": ?"(graphs|context)"[^}]*' |
        grep -oE '[0-9]+$' | paste -sd+)
    awk -v planned="${planned:-0}" -v taken="${taken:-0}" -v assumed="$((assumed))" 'BEGIN {
        planned -= assumed; d = planned - taken; d = d < 0 ? -d : d
        exit !(taken > 0 && d <= 0.01 * taken) }' ||
        note "$name: planned ${planned:-nothing} with ${assumed:-nothing} of context and graphs, taken ${taken:-nothing}"
}
apart fp32
apart bf16 --bf16
apart recomputed --recompute-granularity full --recompute-method uniform
apart llama --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
    --untie-embeddings-and-output-weights
apart muon --optimizer muon

# The graphs of training: as many as a plan of the same options says.
graphs() { # NAME OPTIONS…
    local name=$1 planned found
    shift
    "$MEGALITH" plan "${base[@]}" --train-iters 2 --eval-iters 0 --device cuda "$@" >plan.txt 2>&1
    timeout 300 "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 2 --eval-iters 0 --device cuda \
        "$@" >graphs.log 2>&1 </dev/null || note "$name: $(tail -2 graphs.log)"
    planned=$(sed -n 's/^ *graphs on the GPU: train \([0-9]*\), .*/\1/p' plan.txt)
    found=$(sed -n 's/.* graphs on the GPU: \([0-9]*\), .*/\1/p' graphs.log)
    [ "${planned:-0}" = "${found:-none}" ] || note "$name: planned ${planned:-no} graphs, recorded ${found:-none}"
}
graphs one
graphs micro --micro-batch-size 1
graphs held --micro-batch-size 1 --bf16 --grad-reduce-in-bf16

shape=(--preset gpt2 --micro-batch-size 4 --global-batch-size 4 --bf16)
plan() { "$MEGALITH" plan "$@" >plan.txt 2>&1; }
plan "${shape[@]}" --device h100 || note "h100: $(tail -2 plan.txt)"
lines_in_order plan.txt <<'EOF'
^device       NVIDIA H100 SXM; published: 80 GB, 989 TFLOP/s in 16 bits
^memory of the GPU$
^  weights  .*249 MB
^  graphs  .*recorded of the programs: 1 KiB an instruction is assumed, not measured$
^  context  .*500 MB  .*assumed, not measured$
^  may use  .*80.0 GB  \(published memory of the GPU\): it fits$
^memory of the host$
^  pinned  .*8.39 MB
^  an iteration takes at least  .*0.0033.* s, at the published peak of 989 TFLOP/s$
EOF
# A larger model than its memory: the plan fails, and says what would help.
plan --preset gpt2-xl --micro-batch-size 16 --device l4 --bf16 && note "1.5 B of parameters fit in 24 GB"
grep -q 'IT DOES NOT FIT' plan.txt && grep -q 'may use 24.0 GB (published memory of the GPU)' plan.txt ||
    note "no word of the 24 GB: $(tail -3 plan.txt)"
plan --preset gpt2 --micro-batch-size 64 --global-batch-size 64 --device l4 && note "64 sequences fit in 24 GB"
grep -qE 'micro-batch|recompute' plan.txt || note "no advice: $(cat plan.txt)"
# The device that is here, and none.
plan "${shape[@]}" --device cuda && note "4.3 GB fit in 2 GiB"
grep -q '^device       cuda:0: software device' plan.txt && grep -q 'may use .*2.15 GB  (memory of the GPU): IT DOES NOT FIT' plan.txt ||
    note "no limit of the GPU here: $(head -20 plan.txt)"
MEGA_CUDA_LIBRARY=/no-such.so plan "${shape[@]}" --device cuda || note "no GPU: $(tail -2 plan.txt)"
grep -q 'no-such.so' plan.txt && grep -q -- '--memory-limit N asks' plan.txt || note "no word of a missing GPU"
refuses "a GPU elsewhere" '--device h100|expected cpu, cuda, cuda:N or auto|megalith plan takes a10, a100' \
    pretrain_gpt "${base[@]}" --train-iters 1 --device h100
refuses "a run that does not fit" 'this run needs|may use 505 MB (--memory-limit)' pretrain_gpt "${base[@]}" \
    --train-iters 1 --device cuda --memory-limit 505MB --micro-batch-size 64 --global-batch-size 64
MEGA_SOFTWARE_CUDA_MEMORY=505000000 refuses "a GPU that is too small" 'this run needs|memory of the GPU' \
    pretrain_gpt "${base[@]}" --train-iters 1 --device cuda --micro-batch-size 64 --global-batch-size 64
finish
