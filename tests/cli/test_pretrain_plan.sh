#!/usr/bin/env bash
# What a plan says before a run: its sizes, changes that make it fit, and that the planned memory is the memory used.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"

# --- plans
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --dry-run >dry.log 2>&1 || { cat dry.log; fail "--dry-run"; }
"$MEGALITH" plan --preset gpt2 --micro-batch-size 4 --bf16 --train-iters 5 --print-program >plan.log 2>&1 ||
    { head -40 plan.log; fail "plan"; }
has plan.log '^parameters   124,439,808 \(124,475,904 with'
has plan.log '^  gradients +498 MB'
has plan.log '^  optimizer +99[0-9] MB'
has plan.log '^  scratch .* a chunk of the head.s logits takes [0-9.]+ MB'
has plan.log '^  weights +249 MB'
has plan.log 'by PaLM'
has plan.log 'the head computes its gradient along with the loss.*counts as forward'
has plan.log 'layer_norm'
has plan.log '^ +update: [0-9]+ instructions; 42[0-9][0-9] MB read and written, 0 MB sent$'
has plan.log '^ *[0-9]+  update +- .* transformer.wte.weight$'

# --- a plan that exceeds the memory lists changes that fit: each is planned again as printed
beyond() { # LIMIT LEAST ARGS…: at least LEAST changes are shown, at most three, by time
    local limit=$1 least=$2 shown=0 options
    shift 2
    if "$MEGALITH" plan "$@" --memory-limit "$limit" >small.log 2>&1; then fail "a plan beyond $limit"; fi
    has small.log "this run needs [0-9.]+ GB of memory and may use [0-9.]+ [GM]B \(--memory-limit\)"
    has small.log 'it would fit with'
    while read -r options; do
        shown=$((shown + 1))
        # shellcheck disable=SC2086 # the words of one change
        "$MEGALITH" plan "$@" --memory-limit "$limit" $options >again.log 2>&1 ||
            fail "$limit: \"$options\" does not fit"
        has again.log 'it fits'
    done < <(sed -n 's/^  \(--[^:]*\): [0-9.]* [GM]B, [-+][0-9]* % time$/\1/p' small.log)
    [ "$shown" -ge "$least" ] && [ "$shown" -le 3 ] || fail "$limit: $shown changes shown: $(cat small.log)"
    sed -n 's/^  --[^:]*: .* \([-+][0-9]*\) % time$/\1/p' small.log | sort -nc || fail "$limit: not by time"
}
beyond 12G 3 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 4G 3 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 2500M 1 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 4G 1 --preset gpt2 --micro-batch-size 64 --global-batch-size 64 --bf16 --recompute-granularity full \
    --recompute-method block --recompute-num-layers 2
beyond 8G 1 --preset gpt2 --micro-batch-size 24 --global-batch-size 48 --rampup-batch-size 24 24 1000 \
    --recompute-granularity selective
if "$MEGALITH" plan --preset gpt2 --micro-batch-size 64 --memory-limit 300MB >small.log 2>&1; then fail \
    "a plan beyond 300 MB"; fi
has small.log \
    'no micro-batch, recomputation or precision makes it fit \(weights, gradients and the optimizer alone take [0-9.]+ GB\)'

# --- the planned memory is the memory used, within 3 %
"$MEGALITH" pretrain_gpt "${base[@]}" --num-layers 4 --hidden-size 384 --seq-length 64 --micro-batch-size 4 \
    --train-iters 3 --bf16 >memory.log 2>&1 ||
    { cat memory.log; fail "memory"; }
awk '/memory \(MB\)/ { planned = $(NF - 7); taken = $NF }
    END { if (!(planned > 60 && taken - planned < 0.03 * planned && planned - taken < 0.03 * planned)) { print planned " MB planned, " taken " MB taken"; exit 1 } }' \
    memory.log || is_sanitized || fail "planned and taken memory"

finish
