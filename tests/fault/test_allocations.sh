#!/usr/bin/env bash
# Nothing is allocated inside a step: runs of 10 and of 30 iterations make the same number of allocations in megalith's
# own code (and the JSON library's), with a log line, a metrics row and TensorBoard events at every iteration or at
# none. Calls are counted by caller in tests/fault/shim/fault_shim.c; allocations inside the C library are not counted.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
need_shim
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "data"
allocations() { # ITERATIONS OPTIONS…: how many the whole run makes
    local iterations=$1
    shift
    rm -rf events m.jsonl m.jsonl.run.json count
    env FAULT_OP=allocation FAULT_AT=1000000000 FAULT_COUNT="$work/count" LD_PRELOAD="$shim" \
        "$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 \
        --micro-batch-size 2 \
        --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path \
        t_text_document \
        --split 100,0,0 --eval-iters 0 --num-threads 2 --train-iters 100 --exit-interval "$iterations" "$@" >log 2>&1 ||
        tail -n 3 log >&2
    cat count
}
allocations 10 >/dev/null # the index cache is there from now on
all=(--log-interval 1 --metrics-file m.jsonl --tensorboard-dir events --log-params-norm --log-timers-to-tensorboard
    --log-memory-to-tensorboard --log-throughput)
for dtype in "" --bf16; do
    for kind in quiet all; do
        options=(${dtype:+$dtype})
        if [ "$kind" = quiet ]; then options+=(--log-interval 1000); else options+=("${all[@]}"); fi
        few=$(allocations 10 "${options[@]}")
        many=$(allocations 30 "${options[@]}")
        echo \
            "allocations_per_step ${dtype:-fp32} $kind: $((${many:-1} - ${few:-0})) in 20 iterations (the run makes $few)"
        [ "${few:-0}" -gt 0 ] && [ "$few" = "$many" ] || note "${dtype:-fp32} $kind: $few in 10 iterations, $many in 30"
    done
done
finish
