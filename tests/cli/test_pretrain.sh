#!/usr/bin/env bash
# What pretrain_gpt prints and which files it writes: Megatron's lines in Megatron's order, exits that save, evaluation, plans.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fail() { note "$@"; }
# has FILE REGEX: a line of FILE matches
has() { grep -Eq -- "$2" "$1" || { fail "$1 has no line like: $2"; tail -5 "$1"; }; }

for i in $(seq 1 400); do echo "line $i: the quick brown fox number $((i * 7919 % 1000)) jumps over the lazy dog"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod --output-prefix text >prepare.log 2>&1 ||
    { cat prepare.log; exit 1; }
base=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --global-batch-size 4
    --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 2 --tokenizer-type ByteTokenizer
    --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2)

# --- the lines of a whole run, in order
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --log-interval 5 --eval-interval 6 --save save --save-interval 6 \
    --metrics-file run/metrics.jsonl --log-params-norm --log-num-zeros-in-grad --log-throughput --log-progress --print-options >run.log 2>&1 ||
    { cat run.log; fail "a plain run"; }
cat >expected <<'LINES'
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
^ iteration        1/      12 \| consumed samples:            4 \| elapsed time per iteration \(ms\): [0-9.]+ \| throughput per GPU \(TFLOP/s/GPU\): [0-9.]+ \| learning rate: 0\.000E[+]00 \| global batch size:     4 \| lm loss: [0-9.]+E[+]00 \| loss scale: 1\.0 \| grad norm: [0-9.]+ \| num zeros: [0-9]+\.0 \| params norm: [0-9.]+ \| number of skipped iterations:   0 \| number of nan iterations:   0 \| tokens/s: [0-9.]+ \| TFLOP/s: [0-9.]+ \| TFLOP/s \(PaLM\): [0-9.]+ \| of measured peak: [0-9.]+%( \([a-z][a-z0-9 ,;%]*\))? \| time left: [0-9.]+ m?s \|$
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
awk -v expected=expected '
    BEGIN { while ((getline line < expected) > 0) want[++n] = line; at = 1 }
    at <= n && $0 ~ want[at] { at++ }
    END { if (at <= n) { print "not found, or not in this order: " want[at]; exit 1 } }' run.log || { fail "lines of a run"; cat run.log; }
awk '/memory \(MB\)/ { gsub(/\|/, ""); if ($9 + 0 <= 0 || $14 + 0 < $9 + 0 || $17 + 0 < $14 + 0) exit 1 }' run.log || fail "reserved below allocated: $(grep 'memory (MB)' run.log)"
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
"$MEGALITH" pretrain_gpt --load save --use-checkpoint-args --skip-train --micro-batch-size 2 --global-batch-size 4 --train-iters 12 \
    --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2 >skip.log 2>&1 || { cat skip.log; fail "--skip-train"; }
has skip.log '^skipping training'
has skip.log '^result: the losses above; nothing was trained'
value() { sed -n "s/.*$1 set | lm loss value: \([^ ]*\) .*/\1/p" "$2"; }
[ -n "$(value test run.log)" ] && [ "$(value test run.log)" = "$(value test skip.log)" ] || fail "the test loss of the saved model is another"

# --- evaluating an older checkpoint adds rows to the metrics of the training and removes none
cp run/metrics.jsonl added.jsonl
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --load save/iter_0000006 --skip-train --metrics-file added.jsonl >added.log 2>&1 ||
    { cat added.log; fail "--skip-train --metrics-file"; }
[ ! -e added.jsonl.run.json ] || fail "an evaluation alone described itself as a training"
head -n "$(wc -l <run/metrics.jsonl)" added.jsonl | cmp -s - run/metrics.jsonl || fail "an evaluation alone cut the metrics of the training"
[ "$(($(wc -l <added.jsonl) - $(wc -l <run/metrics.jsonl)))" = 2 ] || fail "a row of validation and one of test are added"

# --- the checkpoint consumed more validation samples than these options provide: reading starts again at the first one
often=(--save often --save-interval 4 --eval-interval 1)
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 "${often[@]}" >often.log 2>&1 || { cat often.log; fail "frequent evaluations"; }
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 12 --eval-interval 12 --load often --skip-train >round.log 2>&1 || { cat round.log; fail "--skip-train behind frequent evaluations"; }
has round.log 'validation loss at iteration 12 on 8-sample draw from validation set'
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 16 --eval-interval 15 --eval-iters 3 --load often --save often --save-interval 15 \
    --override-opt_param-scheduler >onward.log 2>&1 || { cat onward.log; fail "fewer evaluations than before the checkpoint"; }
has onward.log 'validation loss at iteration 15 '
has onward.log 'successfully saved checkpoint at iteration      15 '
grep -q '"consumed_valid_samples": 108,' often/iter_0000015/state/run.json || fail "12 evaluations of 8 samples and one of 12 are 108"

# --- the epsilon of layer norms is the folder's, even if options give the shape; a different one is reported
mkdir epsilon && cp save/iter_0000012/model.safetensors epsilon && sed 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 0.1/' save/iter_0000012/config.json >epsilon/config.json
for from in shape folder other; do
    case $from in
    shape) options=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32) ;;
    folder) options=() ;;
    other) options=(--layernorm-epsilon 1e-5) ;;
    esac
    "$MEGALITH" pretrain_gpt "${options[@]}" --tokenizer-type ByteTokenizer --load epsilon --skip-train --micro-batch-size 2 --global-batch-size 4 --train-iters 12 \
        --data-path text_text_document --split 80,10,10 --eval-iters 2 --num-threads 2 >epsilon.$from.log 2>&1 || { cat epsilon.$from.log; fail "epsilon: $from"; }
done
[ "$(value test epsilon.shape.log)" = "$(value test epsilon.folder.log)" ] && [ "$(value test epsilon.folder.log)" != "$(value test skip.log)" ] ||
    fail "epsilon of the folder: $(value test epsilon.shape.log), $(value test epsilon.folder.log)"
[ "$(value test epsilon.other.log)" = "$(value test skip.log)" ] || fail "epsilon of the option: $(value test epsilon.other.log)"
has epsilon.other.log 'layer norms have epsilon 0\.1, this run computes with --layernorm-epsilon 1e-05 \(argument'
grep -q 'layer norms have' epsilon.shape.log epsilon.folder.log skip.log && fail "a warning of one epsilon"

# --- fp16: a run whose every step was skipped has trained nothing, and says so
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --fp16 >fp16.log 2>&1 || fail "--fp16"
grep -q 'warning: the loss scale of fp16 was too large in all 3 steps' fp16.log || fail "a run of skipped steps alone does not warn: $(cat fp16.log)"
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --fp16 --initial-loss-scale 256 >fp16.log 2>&1 || fail "--initial-loss-scale"
grep -q 'was too large in all' fp16.log && fail "a run that trained warns of skipped steps"

# --- a folder with a padded vocabulary is trained and saved with its own vocabulary size, and can be resumed
null="--tokenizer-type NullTokenizer --vocab-size 319"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt "${base[@]}" $null --train-iters 4 --save wide >log 2>&1 || fail "a wide vocabulary"
mkdir padded && cp wide/iter_0000004/{config.json,model.safetensors} padded
for iterations in 2 4; do
    from=(--load padded --finetune --tokenizer-type ByteTokenizer)
    [ $iterations = 2 ] || from=(--load wider --override-opt_param-scheduler)
    "$MEGALITH" pretrain_gpt "${from[@]}" --use-checkpoint-args --micro-batch-size 2 --train-iters $iterations --lr 1e-3 --lr-decay-style constant \
        --data-path text_text_document --split 80,10,10 --eval-iters 0 --save wider >padded.log 2>&1 || { cat padded.log; fail "padded, $iterations"; }
    has padded.log "^ > the checkpoint's vocabulary has 320 ids, the tokenizer's 257: trained and saved with 320$"
    grep -q '"vocab_size": 320$' wider/iter_000000$iterations/config.json || fail "padded, $iterations: $(grep vocab_size wider/iter_000000$iterations/config.json)"
done
has padded.log '^ iteration        4/       4 '
"$MEGALITH" generate_samples_gpt --load wider --num-samples 1 --out-seq-length 20 >log 2>&1 || fail "text of a padded vocabulary"
refuses "ids beyond the tokenizer, within the padding" 'holds token id|vocabulary of NullTokenizer has 51 ids' pretrain_gpt --load padded --finetune \
    --use-checkpoint-args --tokenizer-type NullTokenizer --vocab-size 50 --micro-batch-size 2 --train-iters 2 --lr 1e-3 --data-path text_text_document
refuses "more ids than the folder's vocabulary" 'the vocabulary of the tokenizer is 401 here, 320 in the checkpoint' pretrain_gpt --load padded --finetune \
    --use-checkpoint-args --tokenizer-type NullTokenizer --vocab-size 400 --micro-batch-size 2 --train-iters 2 --lr 1e-3 --data-path text_text_document

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
    script -qec "stty cols 70; NO_COLOR=1 LC_ALL=C.UTF-8 '$MEGALITH' pretrain_gpt ${base[*]} --train-iters 12" /dev/null </dev/null | tr -d '\r' >terminal.log
    has terminal.log 'iteration [0-9]+ of 12, [0-9]+ %, loss [0-9.]+, [0-9]+ tokens/s, .* left'
    has terminal.log '^ +lm loss$'
    has terminal.log '^ +[0-9.]+ ┤.*⠉'
    has terminal.log ' iteration$'
    [ "$(grep -E '┤|│|└' terminal.log | LC_ALL=C.UTF-8 wc -L)" -le 70 ] || fail "a curve wider than the terminal"
    tail -1 terminal.log | grep -q '^result: ' || fail "the result does not come last"
else
    echo "the terminal was left out: no program script"
fi

# --- signals: the run saves and ends
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 100000 --log-interval 1 --save signalled --eval-interval 1000000 >signal.log 2>&1 &
pid=$!
for i in $(seq 1 200); do grep -q '^ iteration        3/' signal.log 2>/dev/null && break; sleep 0.05; done
kill -TERM $pid
wait $pid
[ $? = 0 ] || { fail "exit status after SIGTERM"; cat signal.log; }
has signal.log '^exiting program after receiving SIGTERM\.$'
has signal.log '^\[exiting program at iteration [0-9]+\] datetime: '
n=$(cat signalled/latest_checkpointed_iteration.txt) && [ "$n" -ge 3 ] && [ -s "$(printf signalled/iter_%07d/model.safetensors "$n")" ] || fail "nothing saved on SIGTERM"

# --- --exit-interval: the run saves and ends; a second start continues; a missing --load is reported
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --exit-interval 4 --save twice --load twice >first.log 2>&1 || { cat first.log; fail "first"; }
has first.log 'could not find the metadata file twice/latest_checkpointed_iteration.txt'
has first.log 'will start from random'
has first.log '^\[exiting program at iteration 4\]'
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --save twice --load twice >second.log 2>&1 || { cat second.log; fail "second"; }
has second.log '^ loading checkpoint from twice/iter_0000004 at iteration 4$'
has second.log '^  successfully loaded checkpoint from twice/iter_0000004 at iteration 4$'
has second.log '^ iteration        5/       9 \|'
[ "$(cat twice/latest_checkpointed_iteration.txt)" = 9 ] || fail "the second run did not end at 9"
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --load twice/iter_0000004 --save twice --override-opt_param-scheduler >third.log 2>&1 || { cat third.log; fail "third"; }
has third.log 'twice already holds a checkpoint of iteration 9 and this run begins at 4: .* --load twice continues from iteration 9$'
# after going back to iteration 5, --load no longer takes the newest checkpoint
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 6 --load twice --save twice --override-opt_param-scheduler >fourth.log 2>&1 || { cat fourth.log; fail "fourth"; }
has fourth.log 'loading checkpoint from twice/iter_0000005'
has fourth.log 'already holds a checkpoint of iteration 9 and this run begins at 5: .* --load twice/iter_0000009 continues from iteration 9$'

# --- data that differ from the checkpoint's are reported; the same data in another folder, or given by other options, are not
mkdir elsewhere
cp text_text_document.bin text_text_document.idx elsewhere
onward() { # NAME OPTIONS: a step further than the second run
    "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 10 --load twice/iter_0000004 --override-opt_param-scheduler "${@:2}" >"$1.log" 2>&1 || { cat "$1.log"; fail "onward: $1"; }
}
onward same --data-path elsewhere/text_text_document --micro-batch-size 4 --split 85,10,5
grep -q 'are not those of' same.log && fail "the same data are called others"
"$MEGALITH" preprocess_data --input expected --tokenizer-type ByteTokenizer --append-eod --output-prefix short >>prepare.log 2>&1
grep -q 'learning rate is 0' same.log && fail "a schedule that goes on is called ended"
onward ended --min-lr 0 --lr-decay-iters 4 --eval-iters 0
has ended.log 'warning: the learning rate is 0 in the 6 iterations that are left, .* its schedule ended at sample 16, and 16 were consumed; give a larger --lr-decay-iters'
onward other --data-path short_text_document --split 100,0,0 --eval-iters 0
has other.log 'warning: short_text_document: the training data are not those of the checkpoint \(--load twice.*\).* 16 samples .*--finetune'
onward tuned --data-path short_text_document --split 100,0,0 --eval-iters 0 --finetune
grep -q 'not those of the checkpoint' tuned.log && fail "--finetune speaks of the data before"

has same.log 'warning: --split 85,10,5 .* was made with 80,10,10: from sample 16 on other documents are trained on'
onward options --max-position-embeddings 32 --seq-length 16 --seed 77 --dataloader-type cyclic --data-path 1 text_text_document 3 elsewhere/text_text_document
has options.log 'warning: --seq-length 16 .* was made with 32: from sample 16 on '
has options.log 'warning: --seed 77 .* was made with 1234: from sample 16 on '
has options.log 'warning: --dataloader-type cyclic .* was made with single: from sample 16 on '
has options.log 'warning: --data-path 1 text_text_document .* was made with \["text_text_document"\]: from sample 16 on '
[ "$(grep -c 'from sample 16 on' options.log)" = 4 ] || fail "options that changed nothing are told: $(grep 'from sample' options.log)"
# options that change the numbers are listed with both values; others are not
onward numbers --adam-beta2 0.95 --clip-grad 0.5 --weight-decay 0.1 --no-decoupled-weight-decay --bf16 --eod-mask-loss --save-dtype bf16 --global-batch-size 8
sed -n '/options differ from those of the run that wrote the checkpoint (--load twice\/iter_0000004):$/,/^ [^ ]/p' numbers.log | grep '^  --' | sort >numbers.txt
diff - numbers.txt <<'LINES' || fail "options that differ from the checkpoint's"
  --adam-beta2 was 0.999, is 0.95 from iteration 5 on
  --bf16 was off, is on from iteration 5 on
  --clip-grad was 1.0, is 0.5 from iteration 5 on
  --eod-mask-loss was off, is on from iteration 5 on
  --global-batch-size was 4, is 8 from iteration 5 on
  --no-decoupled-weight-decay was off, is on from iteration 5 on
  --weight-decay was 0.01, is 0.1 from iteration 5 on
LINES
grep -q 'options differ' same.log fourth.log tuned.log && fail "options that change no number are listed"
# the same data with another option: all documents are now used for training
"$MEGALITH" pretrain_gpt "${base[@]/#--data-path/--train-data-path}" --train-iters 10 --load twice/iter_0000004 --override-opt_param-scheduler --eval-iters 0 \
    >whole.log 2>&1 || { cat whole.log; fail "the same data by another option"; }
has whole.log 'warning: text_text_document: the training samples are not those of the run .*: from sample 16 on '
# cyclic epochs are cut to whole micro-batches of all ranks: another batch size may give another order
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --dataloader-type cyclic --eval-iters 0 --exit-interval 4 --save cyclic >cyclic.log 2>&1 || fail "cyclic"
samples=$(sed -nE 's/^ > train: .* ([0-9]+) samples$/\1/p' cyclic.log)
odd=$((samples % 3 > 0 ? 3 : samples % 5 > 0 ? 5 : 7))
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --dataloader-type cyclic --eval-iters 0 --load cyclic --micro-batch-size $odd --global-batch-size $odd \
    --override-opt_param-scheduler >drawn.log 2>&1 || { cat drawn.log; fail "cyclic with another batch"; }
has drawn.log "warning: --dataloader-type cyclic draws epochs of $((samples - samples % odd)) from .*: from sample 16 on the samples come in another order"

# --- tokens that changed while their lengths stayed the same are reported
printf 'x' | dd of=elsewhere/text_text_document.bin bs=1 seek=3000 conv=notrunc 2>/dev/null
onward changed --data-path elsewhere/text_text_document
has changed.log 'warning: elsewhere/text_text_document.bin: its tokens were changed since the checkpoint .*: from sample 16 on '
grep -q 'tokens were changed' same.log options.log && fail "the same data are called changed"

# --- another tokenizer is refused, unless an option allows it
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 10 --load twice --tokenizer-type NullTokenizer --vocab-size 256 >tokenizer.log 2>&1
[ $? = 2 ] || fail "another tokenizer: exit status"
has tokenizer.log '--load twice: it was trained with another tokenizer \(ByteTokenizer, .*\) than this run.s \(NullTokenizer, .*--override-tokenizer'
grep -q 'holds token id' tokenizer.log && fail "a refused tokenizer was held against the data"
onward meant --tokenizer-type NullTokenizer --vocab-size 256 --override-tokenizer
has meant.log 'warning: --override-tokenizer: the tokenizer is not the one of --load twice'

# --- a script that resumes from its own --save with the checkpoint's arguments starts with the same command
for iteration in 2 4; do
    "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 4 --eval-iters 0 --exit-interval 2 --save again --load again --use-checkpoint-args >again.log 2>&1 ||
        { cat again.log; fail "the run to iteration $iteration of a script with --use-checkpoint-args"; }
    [ "$(cat again/latest_checkpointed_iteration.txt)" = $iteration ] || fail "again: not at $iteration"
done

# --- length in samples, with a batch ramp
"$MEGALITH" pretrain_gpt "${base[@]//--lr-warmup-iters/--lr-warmup-samples}" --train-samples 40 --rampup-batch-size 2 2 8 --log-interval 1 >ramp.log 2>&1 ||
    { cat ramp.log; fail "ramp"; }
has ramp.log 'starting from global batch size 2 to global batch size 4 with batch size increments 2 over 8 samples'
has ramp.log '^ iteration        1/ .*global batch size:     2 '
has ramp.log '^ iteration       1[0-9]/ .*global batch size:     4 '

# --- a run with a length in samples ends after them, even if it is resumed with another batch size; one with a length in iterations has enough samples
samples=("${base[@]//--lr-warmup-iters/--lr-warmup-samples}" --train-samples 40 --save samples --load samples --log-interval 1)
"$MEGALITH" pretrain_gpt "${samples[@]}" --global-batch-size 8 --exit-interval 2 >samples.log 2>&1 || { cat samples.log; fail "by samples"; }
"$MEGALITH" pretrain_gpt "${samples[@]}" --exit-interval 3 >samples.log 2>&1 || { cat samples.log; fail "by samples, with smaller batches"; }
has samples.log '^ iteration        3/       8 \| consumed samples:           20 '
"$MEGALITH" pretrain_gpt "${samples[@]}" --global-batch-size 8 >samples.log 2>&1 || { cat samples.log; fail "by samples, with larger batches"; }
has samples.log '^ iteration        5/       5 \| consumed samples:           36 '
"$MEGALITH" pretrain_gpt "${samples[@]}" >samples.log 2>&1 || { cat samples.log; fail "the last samples"; }
has samples.log '^ iteration        6/       6 \| consumed samples:           40 '
"$MEGALITH" pretrain_gpt "${samples[@]}" >samples.log 2>&1 || { cat samples.log; fail "no sample left"; }
has samples.log 'the checkpoint is at sample 40 and --train-samples is 40: there is nothing left to train'
"$MEGALITH" pretrain_gpt "${base[@]}" --global-batch-size 2000 --train-iters 1 --lr-decay-iters 10 --eval-iters 0 --save large >large.log 2>&1 || { cat large.log; fail "a large batch"; }
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --eval-iters 0 --load large --override-opt_param-scheduler >large.log 2>&1 ||
    { cat large.log; fail "a run that began with a large batch"; }

# --- plans
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --dry-run >dry.log 2>&1 || { cat dry.log; fail "--dry-run"; }
"$MEGALITH" plan --preset gpt2 --micro-batch-size 4 --bf16 --train-iters 5 --print-program >plan.log 2>&1 || { head -40 plan.log; fail "plan"; }
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
        "$MEGALITH" plan "$@" --memory-limit "$limit" $options >again.log 2>&1 || fail "$limit: \"$options\" does not fit"
        has again.log 'it fits'
    done < <(sed -n 's/^  \(--[^:]*\): [0-9.]* [GM]B, [-+][0-9]* % time$/\1/p' small.log)
    [ "$shown" -ge "$least" ] && [ "$shown" -le 3 ] || fail "$limit: $shown changes shown: $(cat small.log)"
    sed -n 's/^  --[^:]*: .* \([-+][0-9]*\) % time$/\1/p' small.log | sort -nc || fail "$limit: not by time"
}
beyond 12G 3 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 4G 3 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 2500M 1 --preset gpt2 --micro-batch-size 64 --global-batch-size 64
beyond 4G 1 --preset gpt2 --micro-batch-size 64 --global-batch-size 64 --bf16 --recompute-granularity full --recompute-method block --recompute-num-layers 2
beyond 8G 1 --preset gpt2 --micro-batch-size 24 --global-batch-size 48 --rampup-batch-size 24 24 1000 --recompute-granularity selective
if "$MEGALITH" plan --preset gpt2 --micro-batch-size 64 --memory-limit 300MB >small.log 2>&1; then fail "a plan beyond 300 MB"; fi
has small.log 'no micro-batch, recomputation or precision makes it fit \(weights, gradients and the optimizer alone take [0-9.]+ GB\)'

# --- the planned memory is the memory used, within 3 %
"$MEGALITH" pretrain_gpt "${base[@]}" --num-layers 4 --hidden-size 384 --seq-length 64 --micro-batch-size 4 --train-iters 3 --bf16 >memory.log 2>&1 ||
    { cat memory.log; fail "memory"; }
awk '/memory \(MB\)/ { planned = $(NF - 7); taken = $NF }
    END { if (!(planned > 60 && taken - planned < 0.03 * planned && planned - taken < 0.03 * planned)) { print planned " MB planned, " taken " MB taken"; exit 1 } }' \
    memory.log || is_sanitized || fail "planned and taken memory"

# --- characters: shape and tokenizer come from the checkpoint alone, after their files were deleted
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type CharTokenizer --vocab-file characters.json \
    --output-prefix characters >>prepare.log 2>&1
"$MEGALITH" pretrain_gpt "${base[@]}" --tokenizer-type CharTokenizer --vocab-file characters.json --data-path characters_text_document \
    --train-iters 3 --save characters >characters.log 2>&1 || { cat characters.log; fail "characters"; }
rm characters.json
"$MEGALITH" pretrain_gpt --load characters --micro-batch-size 2 --train-iters 5 --lr 1e-3 --override-opt_param-scheduler \
    --data-path characters_text_document --eval-iters 0 >onward.log 2>&1 || { cat onward.log; fail "characters, onward"; }
has onward.log '^> building CharTokenizer tokenizer'
has onward.log '^ iteration        4/       5 '

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
awk -F'"' '/"cat":"step"/ { steps++ } /"cat":"backward"/ { backward++ } /"cat":"update"/ { update++ } /"name":"update","cat":"update".*"scope":"bucket 0"/ { first++ }
    END { if (steps != 3 || backward < 30 || update < 9 || first < 3) { print steps, backward, update, first; exit 1 } }' trace.json || fail "events of the trace"
awk 'match($0, /"waited_us":[0-9.]+/) { sum += substr($0, RSTART + 12, RLENGTH - 12) } END { exit !(sum > 0) }' trace.json ||
    fail "no instruction of two threads waited for the other"
# every instruction is within a step, and together with the spans they cover most of it
awk '/"ph":"X"/ { match($0, /"ts":[0-9.]+/); ts = substr($0, RSTART + 5, RLENGTH - 5) + 0; match($0, /"dur":[0-9.]+/)
        dur = substr($0, RSTART + 6, RLENGTH - 6) + 0; n++; from[n] = ts; to[n] = ts + dur; kind[n] = /"cat":"step"/ }
    END { for (i = 1; i <= n; i++) { if (kind[i]) { whole += to[i] - from[i]; continue }
              inside = 0; for (k = 1; k <= n; k++) if (kind[k] && from[i] >= from[k] - 0.01 && to[i] <= to[k] + 0.01) inside = 1
              if (!inside) { print "event " i " is in no step"; exit 1 } covered += to[i] - from[i] }
          if (covered > whole || covered < 0.2 * whole) { print covered " of " whole; exit 1 } }' trace.json || fail "the trace does not cover the steps"
if command -v python3 >/dev/null; then python3 -m json.tool trace.json >/dev/null || fail "the trace is no JSON"; fi
if "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 6 --profile-table >none.log 2>&1; then fail "a profile of no iteration"; fi
has none.log 'profile-step-start 10.*: the run ends after 6 iterations'

# --- a loss that is not finite
if "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 50 --lr 1e30 --min-lr 0 --clip-grad 0 --save never >nan.log 2>&1; then fail "a loss that is not finite"; fi
has nan.log 'error: iteration [0-9]+, samples [0-9]+ to [0-9]+ .*(the loss is|the gradient of).*No update was made'
# A finite loss whose update makes the weights infinite does not replace a checkpoint; an evaluation that is not finite ends a run too.
long=(pretrain_gpt "${base[@]}" --save good --load good --override-opt_param-scheduler --keep-checkpoints 1 --save-interval 1 --lr-warmup-iters 0)
"$MEGALITH" "${long[@]}" --train-iters 2 >good.log 2>&1 || fail "a run before the bad update"
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 3e38 --clip-grad 0 --min-lr 0 >bad.log 2>&1; then fail "weights that are not finite"; fi
has bad.log 'error: iteration 3 is not saved: transformer\.[a-z0-9._]+ has values that are infinite.*good keeps the checkpoint of iteration 2'
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 1e30 --min-lr 0 >bad.log 2>&1; then fail "weights that are too large"; fi
has bad.log 'error: iteration 3 is not saved: transformer\.[a-z0-9._]+ has a norm of .*good keeps the checkpoint of iteration 2'
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 1e30 --min-lr 0 --eval-interval 1 >bad.log 2>&1; then fail "an evaluation that is not finite"; fi
has bad.log 'error: evaluation after iteration 3, samples 0 to 1 .*the loss is nan; .*op [a-z_]+ in '
[ "$(echo good/iter_*)" = good/iter_0000002 ] || fail "the last good checkpoint is gone: $(ls good)"

finish
