#!/usr/bin/env bash
# What pretrain_gpt prints and which files it writes: Megatron's lines in Megatron's order, evaluations, the curve, the
# profile.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"

# --- the lines of a whole run, in order
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --log-interval 5 --eval-interval 6 --save save --save-interval \
    6 \
    --metrics-file run/metrics.jsonl --log-params-norm --log-num-zeros-in-grad --log-throughput --log-progress \
    --print-options >run.log 2>&1 ||
    { cat run.log; fail "a plain run"; }
# the fields of the line of iteration 1, in Megatron's order; megalith's own come last
fields=(
    'iteration        1/      12'
    'consumed samples:            4'
    'elapsed time per iteration \(ms\): [0-9.]+'
    'throughput per GPU \(TFLOP/s/GPU\): [0-9.]+'
    'learning rate: 0\.000E[+]00'
    'global batch size:     4'
    'lm loss: [0-9.]+E[+]00'
    'loss scale: 1\.0'
    'grad norm: [0-9.]+'
    'num zeros: [0-9]+\.0'
    'params norm: [0-9.]+'
    'number of skipped iterations:   0'
    'number of nan iterations:   0'
    'tokens/s: [0-9.]+'
    'TFLOP/s: [0-9.]+'
    'TFLOP/s \(PaLM\): [0-9.]+'
    'of measured peak: [0-9.]+%( \([a-z][a-z0-9 ,;%]*\))?'
    'time left: [0-9.]+ m?s'
)
iteration_1=" $(printf '%s \\| ' "${fields[@]}")"
cat >lines <<'LINES'
^using world size: 1, data-parallel-size: 1, tensor-model-parallel size: 1, pipeline-model-parallel size: 1 $
^-+ arguments -+$
^  hidden_size \.+ 32$
^-+ end of arguments -+$
^setting number of micro-batches to constant 2$
^ > padded vocab \(size: 257\) with 127 dummy tokens \(new size: 384\)$
^> setting random seeds to 1234 \.\.\.$
^\[after megatron is initialized\] datetime: [0-9-]+ [0-9:]+ $
^ > number of parameters on \(tensor, pipeline\) model parallel rank \(0, 0\): 38[0-9]+$
^> learning rate decay style: cosine$
^\[after model, optimizer, and learning rate scheduler are built\] datetime: 
^ > datasets target sizes \(minimum size\):$
^    train:      48$
^    validation: 24$
^    test:       8$
^\[after dataloaders are built\] datetime: 
^\[before the start of training step\] datetime: 
LINES
echo "^${iteration_1% }\$" >>lines
cat >>lines <<'LINES'
^\[Rank 0\] \(after 1 iterations\) memory \(MB\) \| allocated: [0-9.]+ \| max allocated: [0-9.]+ \| reserved: [0-9.]+ \| max reserved: [0-9.]+$
^ iteration        5/      12 \| consumed samples:           20 \|
^-+$
^ validation loss at iteration 6 \| lm loss value: [0-9.]+E[+]00 \| lm loss PPL: [0-9.]+E[+]0[0-9] \| $
^-+$
^saving checkpoint at iteration       6 to save$
^  successfully saved checkpoint at iteration       6 to save$
^ iteration       10/      12 \| consumed samples:           40 \|
^ iteration       12/      12 \| consumed samples:           48 \|.* time left: 0 ms \|$
^ validation loss at iteration 12 \| lm loss value
^saving checkpoint at iteration      12 to save$
^\[after training is done\] datetime: 
^ validation loss at iteration 12 on 8-sample draw from validation set \| lm loss value
^ validation loss at iteration 12 on 8-sample draw from test set \| lm loss value
^result: checkpoint save/iter_0000012
^metrics: run/metrics.jsonl
LINES
lines_in_order run.log <lines
awk '/memory \(MB\)/ { gsub(/\|/, ""); if ($9 + 0 <= 0 || $14 + 0 < $9 + 0 || $17 + 0 < $14 + 0) exit 1 }' run.log ||
    fail "reserved below allocated: $(grep 'memory (MB)' run.log)"
[ "$(grep -c '"lm_loss"' run/metrics.jsonl)" = 12 ] || fail "12 rows of training"
[ "$(grep -c '"validation_loss"' run/metrics.jsonl)" = 3 ] || fail "3 rows of validation"
[ "$(grep -c '"test_loss"' run/metrics.jsonl)" = 1 ] || fail "1 row of test"
for key in iteration consumed_samples lm_loss grad_norm learning_rate; do
    head -1 run/metrics.jsonl | grep -q "\"$key\": " || fail "no $key in the metrics"
done
# The learning rate of a row and of a log line is the one that its step used: it depends on the samples before the step.
awk 'function lr(n) { return n <= 8 ? 1e-3 * n / 8 : 1e-4 + 9e-4 * 0.5 * (1 + cos(3.14159265358979 * (n - 8) / 40)) }
    FNR == NR { if (match($0, /"learning_rate": [^,]*/)) { rows++
                rate = substr($0, RSTART + 17, RLENGTH - 17); want = lr(4 * (rows - 1))
                if (rate - want > 1e-12 || want - rate > 1e-12) { print "row " rows ": " rate ", not " want; exit 1 } }
                next }
    match($0, /learning rate: [^ ]* /) { lines++
                if (substr($0, RSTART + 15, RLENGTH - 16) != sprintf("%.3E", lr(4 * ($2 - 1)))) { print; exit 1 } }
    END { exit !(rows == 12 && lines >= 4) }' run/metrics.jsonl run.log || fail "learning rates that were applied"
[ "$(cat save/latest_checkpointed_iteration.txt)" = 12 ] || fail "tracker"
for file in config.json model.safetensors tokenizer.json README.md state/run.json; do
    [ -s "save/iter_0000012/$file" ] || fail "no $file in the checkpoint"
done
has save/iter_0000012/README.md 'tokens seen \| 12, 48, 1,536'
[ "$(wc -l <save/progress.txt)" = 2 ] || fail "two lines of progress.txt"

# --- evaluation of a saved model only; shape and tokenizer come from the folder
"$MEGALITH" pretrain_gpt --load save --use-checkpoint-args --skip-train --micro-batch-size 2 --global-batch-size 4 \
    --train-iters 12 \
    --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2 >skip.log 2>&1 ||
    { cat skip.log; fail "--skip-train"; }
has skip.log '^skipping training'
has skip.log '^result: the losses above; nothing was trained'
value() { sed -n "s/.*$1 set | lm loss value: \([^ ]*\) .*/\1/p" "$2"; }
[ -n "$(value test run.log)" ] && [ "$(value test run.log)" = "$(value test skip.log)" ] ||
    fail "the test loss of the saved model is another"

# --- evaluating an older checkpoint adds rows to the metrics of the training and removes none
cp run/metrics.jsonl added.jsonl
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --load save/iter_0000006 --skip-train --metrics-file \
    added.jsonl >added.log 2>&1 ||
    { cat added.log; fail "--skip-train --metrics-file"; }
[ ! -e added.jsonl.run.json ] || fail "an evaluation alone described itself as a training"
head -n "$(wc -l <run/metrics.jsonl)" added.jsonl | cmp -s - run/metrics.jsonl ||
    fail "an evaluation alone cut the metrics of the training"
[ "$(($(wc -l <added.jsonl) - $(wc -l <run/metrics.jsonl)))" = 2 ] ||
    fail "a row of validation and one of test are added"

# --- the checkpoint consumed more validation samples than these options provide: reading starts again at the first one
often=(--save often --save-interval 4 --eval-interval 1)
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 "${often[@]}" >often.log 2>&1 ||
    { cat often.log; fail "frequent evaluations"; }
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --eval-interval 12 --load often --skip-train >round.log 2>&1 ||
    { cat round.log; fail "--skip-train behind frequent evaluations"; }
has round.log 'validation loss at iteration 12 on 8-sample draw from validation set'
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 16 --eval-interval 15 --eval-iters 3 --load often --save often \
    --save-interval 15 \
    --override-opt_param-scheduler >onward.log 2>&1 ||
    { cat onward.log; fail "fewer evaluations than before the checkpoint"; }
has onward.log 'validation loss at iteration 15 '
has onward.log 'successfully saved checkpoint at iteration      15 '
grep -q '"consumed_valid_samples": 108,' often/iter_0000015/state/run.json ||
    fail "12 evaluations of 8 samples and one of 12 are 108"

# --- the epsilon of layer norms is the folder's, even if options give the shape; a different one is reported
mkdir epsilon && cp save/iter_0000012/model.safetensors epsilon &&
    sed 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 0.1/' save/iter_0000012/config.json >epsilon/config.json
for from in shape folder other; do
    case $from in
    shape) options=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
        32) ;;
    folder) options=() ;;
    other) options=(--layernorm-epsilon 1e-5) ;;
    esac
    "$MEGALITH" pretrain_gpt "${options[@]}" --tokenizer-type ByteTokenizer --load epsilon --skip-train \
        --micro-batch-size 2 --global-batch-size 4 --train-iters 12 \
        --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2 >epsilon.$from.log 2>&1 ||
        { cat epsilon.$from.log; fail "epsilon: $from"; }
done
[ "$(value test epsilon.shape.log)" = "$(value test epsilon.folder.log)" ] &&
    [ "$(value test epsilon.folder.log)" != "$(value test skip.log)" ] ||
    fail "epsilon of the folder: $(value test epsilon.shape.log), $(value test epsilon.folder.log)"
[ "$(value test epsilon.other.log)" = "$(value test skip.log)" ] ||
    fail "epsilon of the option: $(value test epsilon.other.log)"
has epsilon.other.log 'layer norms have epsilon 0\.1, this run computes with --layernorm-epsilon 1e-05 \(argument'
grep -q 'layer norms have' epsilon.shape.log epsilon.folder.log skip.log && fail "a warning of one epsilon"

# --- fp16: a run whose every step was skipped has trained nothing, and says so
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --fp16 >fp16.log 2>&1 || fail "--fp16"
grep -q 'warning: the loss scale of fp16 was too large in all 3 steps' fp16.log ||
    fail "a run of skipped steps alone does not warn: $(cat fp16.log)"
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --fp16 --initial-loss-scale 256 >fp16.log 2>&1 ||
    fail "--initial-loss-scale"
grep -q 'was too large in all' fp16.log && fail "a run that trained warns of skipped steps"

# --- a long evaluation prints its progress, even if the output is not a terminal
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --skip-train --split 0,100,0 --eval-iters 100000 >long.log 2>&1 &
pid=$!
for i in $(seq 1 300); do grep -q 'evaluating' long.log && break; sleep 0.05; done
kill -KILL $pid
wait $pid 2>/dev/null
has long.log 'evaluating the validation set: [0-9]+ %, [0-9]+ of 400000 samples, [0-9]+ samples/s, .* left$'

# --- on a terminal: a progress line that is overwritten, and the loss curve at the end; neither if the output is a pipe
grep -q -x ' *lm loss' run.log && fail "a curve in a pipe"
if command -v script >/dev/null; then
    script -qec "stty cols 70; NO_COLOR=1 LC_ALL=C.UTF-8 '$MEGALITH' pretrain_gpt ${base[*]} --train-iters 12" \
        /dev/null </dev/null | tr -d '\r' >terminal.log
    has terminal.log 'iteration [0-9]+ of 12, [0-9]+ %, loss [0-9.]+, [0-9]+ tokens/s, .* left'
    has terminal.log '^ +lm loss$'
    has terminal.log '^ +[0-9.]+ ┤.*⠉'
    has terminal.log ' iteration$'
    [ "$(grep -E '┤|│|└' terminal.log | LC_ALL=C.UTF-8 wc -L)" -le 70 ] || fail "a curve wider than the terminal"
    tail -1 terminal.log | grep -q '^result: ' || fail "the result does not come last"
else
    echo "the terminal was left out: no program script"
fi

# --- the profile: its rows sum to the step, its trace covers the profiled steps
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 6 --eval-iters 0 --profile --profile-step-start 2 \
    --profile-step-end 5 >profile.log 2>&1 || { cat profile.log; fail "a profile"; }
has profile.log '^profile of 3 steps; bounds measured: [0-9.]+ GFLOP/s, [0-9.]+ GB/s$'
has profile.log '^ linear_grad_w +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ % (arithmetic|memory)$'
awk '/^profile of/ { on = 1; next } on && $1 == "step" { step = $2; waits = $4; on = 0 }
    on && $1 != "op" { sum += $2; waited += $4; rows++; if ($2 < 0 || $4 < 0 || $4 > $2 + 0.001) bad = 1 }
    END { apart = sum - step; if (apart < 0) apart = -apart
          wrong = waited - waits; if (wrong < 0) wrong = -wrong
          if (bad || rows < 12 || step <= 0 || apart > 0.001 * rows || wrong > 0.001 * rows) {
              print rows " rows, sum " sum ", step " step ", waits " waited " and " waits; exit 1 } }' profile.log ||
    fail "the rows of the profile are not the step"
awk -F'"' \
    '/"cat":"step"/ { steps++ } /"cat":"backward"/ { backward++ } /"cat":"update"/ { update++ } /"name":"update","cat":"update".*"scope":"bucket 0"/ { first++ }
    END { if (steps != 3 || backward < 30 || update < 9 || first < 3) { print steps, backward, update, first; exit 1 } }' trace.json || fail "events of the trace"
awk 'match($0, /"waited_us":[0-9.]+/) { sum += substr($0, RSTART + 12, RLENGTH - 12) } END { exit !(sum > 0) }' \
    trace.json ||
    fail "no instruction of two threads waited for the other"
# every instruction is within a step, and together with the spans they cover most of it
awk '/"ph":"X"/ { match($0, /"ts":[0-9.]+/); ts = substr($0, RSTART + 5, RLENGTH - 5) + 0; match($0, /"dur":[0-9.]+/)
        dur = substr($0, RSTART + 6, RLENGTH - 6) + 0; n++; from[n] = ts; to[n] = ts + dur; kind[n] = /"cat":"step"/ }
    END { for (i = 1; i <= n; i++) { if (kind[i]) { whole += to[i] - from[i]; continue }
              inside = 0; for (k = 1; k <= n; k++) if (kind[k] && from[i] >= from[k] - 0.01 && to[i] <= to[k] + 0.01) inside = 1
              if (!inside) { print "event " i " is in no step"; exit 1 } covered += to[i] - from[i] }
          if (covered > whole || covered < 0.2 * whole) { print covered " of " whole; exit 1 } }' trace.json || fail "the trace does not cover the steps"
if command -v python3 >/dev/null; then python3 -m json.tool trace.json >/dev/null || fail "the trace is no JSON"; fi
if "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 6 --profile-table >none.log 2>&1; then fail \
    "a profile of no iteration"; fi
has none.log 'profile-step-start 10.*: the run ends after 6 iterations'

finish
