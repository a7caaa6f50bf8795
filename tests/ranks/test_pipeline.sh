#!/usr/bin/env bash
# pretrain_gpt on pipeline stages: the losses of one rank (training and evaluation), output printed once, Megatron's
# lines, and mistakes reported with the numbers that would work.
set -u
. "$MEGA_SOURCE/tests/kit/ranks_train.sh"
base=(pretrain_gpt --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 5 \
        --eval-iters 2 --num-threads 1
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 80,10,10 --hidden-dropout 0.1 \
        --attention-dropout 0.1)
"$MEGALITH" "${base[@]}" --train-iters 6 --metrics-file one.jsonl >one.log 2>&1 || fail "one rank"

trains() { # name, ranks, lines of parameters, options
    local name=$1 n=$2 lines=$3
    shift 3
    ranks "$n" "$MEGALITH" "${base[@]}" --train-iters 6 "$@" --metrics-file "$name.jsonl" >"$name.log" 2>&1 </dev/null \
        ||
        fail "$name: $(tail -n 5 "$name.log")"
    near "$name.jsonl" one.jsonl 2e-5 || fail \
        "$name: other losses than one rank: $(paste <(losses "$name.jsonl") <(losses one.jsonl))"
    [ "$(grep -c '^ iteration' "$name.log")" -eq 6 ] || fail "$name: lines of more than one rank"
    [ "$(grep -c 'model parallel rank' "$name.log")" -eq "$lines" ] ||
        fail "$name: a line of parameters for each (tensor, pipeline) rank"
}
trains pp2 2 2 --pipeline-model-parallel-size 2
trains uneven 2 2 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3
trains parts 2 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --save parts
trains ends 4 2 --pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 2 \
    --num-virtual-stages-per-pipeline-rank 2 --zero-stage 3 \
    --overlap-grad-reduce --save ends
trains tp2pp2 4 4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --profile-trace trace.json \
    --profile-step-start 2 --profile-step-end 4
grep -q 'tensor-model-parallel size: 2, pipeline-model-parallel size: 2' tp2pp2.log || fail "the layout is not shown"
trains pp2dp2 4 2 --pipeline-model-parallel-size 2 --recompute-activations

# One rank resumes what interleaved stages saved (without and with ZeRO 3), and they resume what one rank saved.
"$MEGALITH" "${base[@]}" --train-iters 6 --save one >save.log 2>&1 || fail "one rank saves: $(tail -n 3 save.log)"
"$MEGALITH" "${base[@]}" --train-iters 12 --load one --metrics-file on.jsonl >on.log 2>&1 || fail "one rank goes on"
"$MEGALITH" "${base[@]}" --train-iters 12 --load parts --metrics-file from.jsonl >from.log 2>&1 ||
    fail "one rank goes on from stages: $(tail -n 3 from.log)"
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 12 --load one --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1 \
    --metrics-file into.jsonl >into.log 2>&1 </dev/null || fail "stages go on from one rank: $(tail -n 3 into.log)"
"$MEGALITH" "${base[@]}" --train-iters 12 --load ends --metrics-file shards.jsonl >shards.log 2>&1 ||
    fail "one rank goes on from slices: $(tail -n 3 shards.log)"
near shards.jsonl on.jsonl 5e-5 || fail "other losses than the one rank that goes on: from slices"
near from.jsonl on.jsonl 5e-5 && near into.jsonl on.jsonl 5e-5 || fail "other losses than the one rank that goes on"

# A loss that is not finite ends all ranks, with one message.
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 6 --pipeline-model-parallel-size 2 --lr 1e30 --clip-grad 0 >nan.log \
    2>&1 </dev/null &&
    fail "a loss that is not finite was taken"
[ "$(grep -c 'error:' nan.log)" -eq 1 ] && grep -q 'not finite\|the loss is' nan.log ||
    fail "not told once: $(cat nan.log)"

# Mistakes are reported with values that would work; this needs no ranks.
told() { # text, then options
    local text=$1
    shift
    "$MEGALITH" plan "${base[@]}" --world-size 4 "$@" >mistake.log 2>&1 && fail "taken: $*"
    grep -q -- "$text" mistake.log || fail "not told: $text: $(cat mistake.log)"
}
told 'does not divide 4 (4 ranks .*); sizes that do: 1, 2, 4' --pipeline-model-parallel-size 3
told 'cannot be cut into 4 equal pipeline stages; stages that divide it: 1, 2, 3, 6' --pipeline-model-parallel-size 4 \
    --num-layers 6
told '3 layers are left for 2 stages; expected a multiple' --pipeline-model-parallel-size 4 --num-layers 6 \
    --decoder-first-pipeline-num-layers 2 \
    --decoder-last-pipeline-num-layers 1
told 'does not divide the 3 layers of a pipeline stage; numbers that do: 1, 3' --pipeline-model-parallel-size 2 \
    --num-layers 6 \
    --num-layers-per-virtual-pipeline-stage 2
told 'are not a multiple of 4 stages; expected --global-batch-size a multiple of 4' --pipeline-model-parallel-size 4 \
    --global-batch-size 6 \
    --num-layers 8 --num-layers-per-virtual-pipeline-stage 1
told \
    'decoder-last-pipeline-num-layers 3 .*: 3 layers cannot be cut into the 2 parts of a pipeline stage; expected a multiple of 2, or' \
    --pipeline-model-parallel-size 2 --num-layers 7 --decoder-last-pipeline-num-layers 3 \
    --num-layers-per-virtual-pipeline-stage 2
told 'give --num-virtual-stages-per-pipeline-rank V instead' --pipeline-model-parallel-size 2 --num-layers 6 \
    --decoder-first-pipeline-num-layers 4 \
    --decoder-last-pipeline-num-layers 2 --num-layers-per-virtual-pipeline-stage 1
told 'say the same in two ways' --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 \
    --num-virtual-stages-per-pipeline-rank 2
told 'there is one pipeline stage' --decoder-last-pipeline-num-layers 1

# One trace file: for each rank both steps, its instructions, collectives included, and the waiting time of its stage;
# no event before the start.
awk '/"ph":"X"/ { match($0, /"pid":[0-9]+/); pid = substr($0, RSTART + 6, RLENGTH - 6); seen[pid]
        match($0, /"ts":-?[0-9.]+/); if (substr($0, RSTART + 5, RLENGTH - 5) + 0 < 0) early++ }
    /"cat":"step"/ { steps[pid]++ } /"name":"all_reduce"/ { reduced[pid]++ } /"name":"pipeline wait"/ { waits[pid]++ }
    /"name":"process_name"/ { names++ }
    END { for (r = 0; r < 4; r++) if (!(r in seen) || steps[r] != 2 || reduced[r] < 16 || waits[r] < 16) bad = 1
          for (r in seen) n++
          if (bad || n != 4 || names != 4 || early) { print n, names, early; for (r in seen) print r, steps[r], reduced[r], waits[r]; exit 1 } }' trace.json ||
    fail "the trace of four ranks"
# A sum over tp starts when its input is ready and is waited for later: a weight gradient is computed in between.
awk '/"pid":0,"tid":1/ { match($0, /"name":"[^"]*"/); name = substr($0, RSTART + 8, RLENGTH - 9)
        if (name == "all_reduce" && /"phase":"backward"/) { starts++; between = 0; open = 1 }
        else if (name == "all_reduce wait") { waits++; apart += open && between; open = 0 }
        else if (name == "linear_grad_w" && open) between = 1 }
    END { if (starts < 8 || waits < starts || apart < 8) { print starts, waits, apart; exit 1 } }' trace.json || fail "no sum runs beside a weight gradient"
if command -v python3 >/dev/null; then python3 -m json.tool trace.json >/dev/null || fail "the trace is no JSON"; fi

# The schedule as text and as a picture.
"$MEGALITH" plan "${base[@]}" --world-size 2 --pipeline-model-parallel-size 2 --print-schedule --schedule-svg s.svg \
    >plan.log 2>&1 ||
    fail "plan: $(cat plan.log)"
grep -q '2 stages, 8 micro-batches: a stage waits 12.5 %' plan.log && grep -q '^stage 1    . F0 B0--- F1 ' plan.log ||
    fail "no schedule: $(cat plan.log)"
grep -q '<title>backward 7, chunk 0' s.svg || fail "no picture of the schedule"
echo "ok"
exit 0
