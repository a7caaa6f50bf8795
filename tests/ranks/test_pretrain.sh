#!/usr/bin/env bash
# pretrain_gpt on several ranks: the losses of one rank, output printed once, checkpoints that one rank can resume and
# the other way round, mistakes reported once; a rank that fails alone or is killed ends all.
set -u
. "$MEGA_SOURCE/tests/kit/ranks_train.sh"
base=(pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-decay-iters 20 --log-interval 1 --eval-interval 5 \
        --eval-iters 2 --num-threads 1
    --tokenizer-type ByteTokenizer --data-path d_text_document --split 80,10,10 --hidden-dropout 0.1 \
        --attention-dropout 0.1)
"$MEGALITH" "${base[@]}" --train-iters 10 --save one --metrics-file one.jsonl >one.log 2>&1 || fail "one rank"

for layout in "2 1" "4 1" "2 2" "4 2"; do
    n=${layout% *} tp=${layout#* }
    ranks "$n" "$MEGALITH" "${base[@]}" --train-iters 10 --tensor-model-parallel-size "$tp" --save "saved$n$tp" \
        --metrics-file "m$n$tp.jsonl" \
        >"r$n$tp.log" 2>&1 </dev/null || fail "$n ranks, tp $tp"
    near "m$n$tp.jsonl" one.jsonl 2e-5 || fail \
        "$n ranks, tp $tp: other losses than one rank: $(paste <(losses "m$n$tp.jsonl") <(losses one.jsonl) | head -40)"
    [ "$(grep -c '^ iteration' "r$n$tp.log")" -eq 10 ] || fail "$n ranks, tp $tp: lines of more than one rank"
    grep -q "using world size: $n, data-parallel-size: $((n / tp)), tensor-model-parallel size: $tp" "r$n$tp.log" ||
        fail "the layout is not shown"
    [ "$(grep -c 'model parallel rank' "r$n$tp.log")" -eq "$tp" ] ||
        fail "a line of parameters for each tensor-parallel rank"
done

# A dry run on ranks plans the same memory as plan does for ranks that are not started: all rows but what is measured,
# and the order of samples, of which ranks on one host share one copy. The total has these in it.
planned() { awk '/^  masters/, /^  total/' "$1" | grep -vE '^  (libraries|order|process|reading|total) '; }
for options in "--zero-stage 3" "--tensor-model-parallel-size 2"; do
    # shellcheck disable=SC2086 # an option and its value
    ranks 2 "$MEGALITH" "${base[@]}" --train-iters 10 $options --dry-run >dry.log 2>&1 </dev/null ||
        fail "--dry-run of two ranks, $options: $(tail -n 3 dry.log)"
    # shellcheck disable=SC2086
    "$MEGALITH" plan "${base[@]:1}" --train-iters 10 $options --world-size 2 >plan.log 2>&1 ||
        fail "plan of two ranks, $options: $(tail -n 3 plan.log)"
    [ "$(planned plan.log | wc -l)" -ge 8 ] || fail "$options: few rows of memory: $(cat plan.log)"
    differ=$(diff <(planned dry.log) <(planned plan.log)) ||
        fail "$options: a dry run of two ranks plans other memory than plan: $differ"
    [ "$(grep -c '^  may use .*it fits' dry.log)" -eq 1 ] || fail "$options: the dry run does not say once that it fits"
done

# Norms, dropout and residuals on halves of the tokens; training and evaluation.
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 10 --tensor-model-parallel-size 2 --sequence-parallel --metrics-file \
    sp.jsonl >sp.log 2>&1 </dev/null ||
    fail "sequence parallelism"
near sp.jsonl one.jsonl 2e-5 || fail "sequence parallelism: other losses than one rank"
# Dividing memory among ranks changes no loss.
zero() { # name, options
    local name=$1
    shift
    ranks 2 "$MEGALITH" "${base[@]}" --train-iters 10 --metrics-file "$name.jsonl" "$@" >"$name.log" 2>&1 </dev/null ||
        fail "$*: $(cat "$name.log")"
    near "$name.jsonl" one.jsonl 2e-5 || fail "$*: other losses than one rank"
}
zero z1 --use-distributed-optimizer --overlap-grad-reduce --ddp-bucket-size 10000
zero z2 --zero-stage 2
zero z3 --zero-stage 3 --DDP-impl torch
# A DeepSpeed JSON says the same as an option; the arguments name its keys.
printf '{"train_micro_batch_size_per_gpu": 2,\n"zero_optimization": {"stage": 2}}\n' >ds.json
zero zj --deepspeed --deepspeed_config ds.json --print-options
diff <(losses zj.jsonl) <(losses z2.jsonl) >/dev/null || fail "--deepspeed_config: other losses than --zero-stage 2"
grep -qE '^  zero_stage \.+ "zero_optimization.stage" 2 \(line 2\)$' zj.log ||
    fail "the arguments do not name the key of the JSON"

# One rank resumes what data-parallel ranks saved, and the other way round.
"$MEGALITH" "${base[@]}" --train-iters 15 --load one --metrics-file on1.jsonl >on1.log 2>&1 || fail "one rank goes on"
"$MEGALITH" "${base[@]}" --train-iters 15 --load saved21 --metrics-file from2.jsonl >from2.log 2>&1 ||
    fail "one rank goes on from two"
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 15 --load one --metrics-file on2.jsonl >on2.log 2>&1 </dev/null ||
    fail "two ranks go on from one"
# Tensor-parallel ranks read their slices, with any padding of the vocabulary.
ranks 4 "$MEGALITH" "${base[@]}" --train-iters 15 --tensor-model-parallel-size 2 --load one --metrics-file on4.jsonl \
    >on4.log 2>&1 </dev/null ||
    fail "four ranks, two of them tensor parallel, go on from one: $(tail -3 on4.log)"
for stage in 1 3; do # with what ZeRO shares out as well
    ranks 2 "$MEGALITH" "${base[@]}" --train-iters 15 --load one --zero-stage $stage --metrics-file on_z$stage.jsonl \
        >on.log 2>&1 </dev/null ||
        fail "ZeRO $stage goes on from one rank: $(cat on.log)"
done
for f in from2 on2 on4 on_z1 on_z3; do
    paste -d' ' <(losses on1.jsonl) <(losses $f.jsonl) |
        awk '{d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 5e-5 * $2) bad = 1; n++} END {exit bad || n < 10}' ||
        fail "$f: other losses than one rank that goes on"
done
# The same layout twice: the same bits.
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 10 --save again2 >again.log 2>&1 </dev/null || fail "the same again"
cmp -s saved21/iter_0000010/model.safetensors again2/iter_0000010/model.safetensors ||
    fail "two runs of one layout differ"

# Mistakes are reported once, with the option and values that would work.
told() { # text, then N and options
    local text=$1 n=$2
    shift 2
    ranks "$n" "$MEGALITH" "${base[@]}" --train-iters 2 "$@" >mistake.log 2>&1 </dev/null && fail "taken: $*"
    grep -q -- "$text" mistake.log && [ "$(grep -c 'error:' mistake.log)" -eq 1 ] ||
        fail "not told once: $text: $(cat mistake.log)"
}
told 'does not divide the world of 4 ranks; sizes that do: 1, 2, 4' 4 --tensor-model-parallel-size 3
told 'is not a multiple of --micro-batch-size 2 .* x 3 data-parallel ranks; expected a multiple of 6' 3
told '--distribute-saved-activations shares the inputs of recomputed layers; add --recompute-granularity full' 2 \
    --tensor-model-parallel-size 2 --partition-activations
told 'nowhere_text_document' 2 --data-path nowhere_text_document
# a lock file of a process that is alive: this shell
mkdir busy
printf \
    'megalith lock 1\nhost    %s\npid     %d\nstart   %s\nkernel  %s/%s\nsince   1763810554\ntoken   0123456789abcdef\n' "$(hostname)" $$ \
    "$(awk '{sub(/.*\) /, ""); print $20}' /proc/$$/stat)" "$(cat /proc/sys/kernel/random/boot_id)" \
    "$(readlink /proc/self/ns/pid)" >busy/run.lock
told "--save busy: process $$ on host $(hostname) has been writing there since 20" 2 --save busy
[ "$(ls busy)" = run.lock ] || fail "a refused run writes to --save: $(ls busy)"
told '--load typo: there is no such folder, and --finetune' 2 --load typo --finetune
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
ranks 2 "$MEGALITH" preprocess_data --input t.txt --tokenizer-type ByteTokenizer --output-prefix twice >other.log 2>&1 \
    </dev/null &&
    fail "two ranks write one data set"
grep -q 'several ranks run under an MPI launcher' other.log || fail "no word of the command of one rank"
ls twice* >/dev/null 2>&1 && fail "files of a refused command"

# A rank that is killed ends the others at once.
ranks 2 "$MEGALITH" "${base[@]}" --train-iters 1000000 >killed.log 2>&1 </dev/null &
launcher=$!
for _ in $(seq 1 200); do
    grep -q '^ iteration' killed.log && break
    sleep 0.1
done
kill -9 "$(pgrep -f "^$MEGALITH .*--train-iters 1000000" | tail -n 1)" || fail "no rank to kill"
began=$(date +%s)
wait "$launcher" && fail "status 0 with a killed rank"
[ $(($(date +%s) - began)) -le "$(at_most 30)" ] || fail "a killed rank was waited for"
echo "ok"
exit 0
