#!/usr/bin/env bash
# How a run of pretrain_gpt ends and is continued: signals, intervals, samples, what differs from the checkpoint, bad
# losses.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"

# --- signals: the run saves and ends
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 100000 --log-interval 1 --save signalled --eval-interval 1000000 \
    >signal.log 2>&1 &
pid=$!
for i in $(seq 1 200); do grep -q '^ iteration        3/' signal.log 2>/dev/null && break; sleep 0.05; done
kill -TERM $pid
wait $pid
[ $? = 0 ] || { fail "exit status after SIGTERM"; cat signal.log; }
has signal.log '^exiting program after receiving SIGTERM\.$'
has signal.log '^\[exiting program at iteration [0-9]+\] datetime: '
n=$(cat signalled/latest_checkpointed_iteration.txt) && [ "$n" -ge 3 ] &&
    [ -s "$(printf signalled/iter_%07d/model.safetensors "$n")" ] || fail "nothing saved on SIGTERM"

# --- --exit-interval: the run saves and ends; a second start continues; a missing --load is reported
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --exit-interval 4 --save twice --load twice >first.log 2>&1 ||
    { cat first.log; fail "first"; }
has first.log 'could not find the metadata file twice/latest_checkpointed_iteration.txt'
has first.log 'will start from random'
has first.log '^\[exiting program at iteration 4\]'
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --save twice --load twice >second.log 2>&1 ||
    { cat second.log; fail "second"; }
has second.log '^ loading checkpoint from twice/iter_0000004 at iteration 4$'
has second.log '^  successfully loaded checkpoint from twice/iter_0000004 at iteration 4$'
has second.log '^ iteration        5/       9 \|'
[ "$(cat twice/latest_checkpointed_iteration.txt)" = 9 ] || fail "the second run did not end at 9"
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --load twice/iter_0000004 --save twice \
    --override-opt_param-scheduler >third.log 2>&1 || { cat third.log; fail "third"; }
has third.log \
    'twice already holds a checkpoint of iteration 9 and this run begins at 4: .* --load twice continues from iteration 9$'
# after going back to iteration 5, --load no longer takes the newest checkpoint
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 6 --load twice --save twice --override-opt_param-scheduler \
    >fourth.log 2>&1 || { cat fourth.log; fail "fourth"; }
has fourth.log 'loading checkpoint from twice/iter_0000005'
has fourth.log \
    'already holds a checkpoint of iteration 9 and this run begins at 5: .* --load twice/iter_0000009 continues from iteration 9$'

# --- data that differ from the checkpoint's are reported; the same data in another folder, or given by other options,
# are not
mkdir elsewhere
cp text_text_document.bin text_text_document.idx elsewhere
onward() { # NAME OPTIONS: a step further than the second run
    "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 10 --load twice/iter_0000004 --override-opt_param-scheduler \
        "${@:2}" >"$1.log" 2>&1 || { cat "$1.log"; fail "onward: $1"; }
}
onward same --data-path elsewhere/text_text_document --micro-batch-size 4 --split 85,10,5
grep -q 'are not those of' same.log && fail "the same data are called others"
head -n 40 text.txt >few.txt
"$MEGALITH" preprocess_data --input few.txt --tokenizer-type ByteTokenizer --append-eod --output-prefix short \
    >>prepare.log 2>&1
grep -q 'learning rate is 0' same.log && fail "a schedule that goes on is called ended"
onward ended --min-lr 0 --lr-decay-iters 4 --eval-iters 0
has ended.log \
    'warning: the learning rate is 0 in the 6 iterations that are left, .* its schedule ended at sample 16, and 16 were consumed; give a larger --lr-decay-iters'
onward other --data-path short_text_document --split 100,0,0 --eval-iters 0
has other.log \
    'warning: short_text_document: the training data are not those of the checkpoint \(--load twice.*\).* 16 samples .*--finetune'
onward tuned --data-path short_text_document --split 100,0,0 --eval-iters 0 --finetune
grep -q 'not those of the checkpoint' tuned.log && fail "--finetune speaks of the data before"

has same.log 'warning: --split 85,10,5 .* was made with 80,10,10: from sample 16 on other documents are trained on'
onward options --max-position-embeddings 32 --seq-length 16 --seed 77 --dataloader-type cyclic --data-path 1 \
    text_text_document 3 elsewhere/text_text_document
has options.log 'warning: --seq-length 16 .* was made with 32: from sample 16 on '
has options.log 'warning: --seed 77 .* was made with 1234: from sample 16 on '
has options.log 'warning: --dataloader-type cyclic .* was made with single: from sample 16 on '
has options.log \
    'warning: --data-path 1 text_text_document .* was made with \["text_text_document"\]: from sample 16 on '
[ "$(grep -c 'from sample 16 on' options.log)" = 4 ] ||
    fail "options that changed nothing are told: $(grep 'from sample' options.log)"
# options that change the numbers are listed with both values; others are not
onward numbers --adam-beta2 0.95 --clip-grad 0.5 --weight-decay 0.1 --no-decoupled-weight-decay --bf16 --eod-mask-loss \
    --save-dtype bf16 --global-batch-size 8
sed -n '/options differ from those of the run that wrote the checkpoint (--load twice\/iter_0000004):$/,/^ [^ ]/p' \
    numbers.log | grep '^  --' | sort >numbers.txt
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
"$MEGALITH" pretrain_gpt "${base[@]/#--data-path/--train-data-path}" --train-iters 10 --load twice/iter_0000004 \
    --override-opt_param-scheduler --eval-iters 0 \
    >whole.log 2>&1 || { cat whole.log; fail "the same data by another option"; }
has whole.log 'warning: text_text_document: the training samples are not those of the run .*: from sample 16 on '
# cyclic epochs are cut to whole micro-batches of all ranks: another batch size may give another order
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 9 --dataloader-type cyclic --eval-iters 0 --exit-interval 4 --save \
    cyclic >cyclic.log 2>&1 || fail "cyclic"
samples=$(sed -nE 's/^ > train: .* ([0-9]+) samples$/\1/p' cyclic.log)
odd=$((samples % 3 > 0 ? 3 : samples % 5 > 0 ? 5 : 7))
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 5 --dataloader-type cyclic --eval-iters 0 --load cyclic \
    --micro-batch-size $odd --global-batch-size $odd \
    --override-opt_param-scheduler >drawn.log 2>&1 || { cat drawn.log; fail "cyclic with another batch"; }
has drawn.log \
    "warning: --dataloader-type cyclic draws epochs of $((samples - samples % odd)) from .*: from sample 16 on the samples come in another order"

# --- tokens that changed while their lengths stayed the same are reported
printf 'x' | dd of=elsewhere/text_text_document.bin bs=1 seek=3000 conv=notrunc 2>/dev/null
onward changed --data-path elsewhere/text_text_document
has changed.log \
    'warning: elsewhere/text_text_document.bin: its tokens were changed since the checkpoint .*: from sample 16 on '
grep -q 'tokens were changed' same.log options.log && fail "the same data are called changed"

# --- another tokenizer is refused, unless an option allows it
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 10 --load twice --tokenizer-type NullTokenizer --vocab-size 256 \
    >tokenizer.log 2>&1
[ $? = 2 ] || fail "another tokenizer: exit status"
has tokenizer.log \
    '--load twice: it was trained with another tokenizer \(ByteTokenizer, .*\) than this run.s \(NullTokenizer, .*--override-tokenizer'
grep -q 'holds token id' tokenizer.log && fail "a refused tokenizer was held against the data"
onward meant --tokenizer-type NullTokenizer --vocab-size 256 --override-tokenizer
has meant.log 'warning: --override-tokenizer: the tokenizer is not the one of --load twice'

# --- a script that resumes from its own --save with the checkpoint's arguments starts with the same command
for iteration in 2 4; do
    "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 4 --eval-iters 0 --exit-interval 2 --save again --load again \
        --use-checkpoint-args >again.log 2>&1 ||
        { cat again.log; fail "the run to iteration $iteration of a script with --use-checkpoint-args"; }
    [ "$(cat again/latest_checkpointed_iteration.txt)" = $iteration ] || fail "again: not at $iteration"
done

# --- a folder with a padded vocabulary is trained and saved with its own vocabulary size, and can be resumed
null="--tokenizer-type NullTokenizer --vocab-size 319"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt "${base[@]}" $null --train-iters 4 --save wide >log 2>&1 || fail "a wide vocabulary"
mkdir padded && cp wide/iter_0000004/{config.json,model.safetensors} padded
for iterations in 2 4; do
    from=(--load padded --finetune --tokenizer-type ByteTokenizer)
    [ $iterations = 2 ] || from=(--load wider --override-opt_param-scheduler)
    "$MEGALITH" pretrain_gpt "${from[@]}" --use-checkpoint-args --micro-batch-size 2 --train-iters $iterations --lr \
        1e-3 --lr-decay-style constant \
        --data-path text_text_document --split 80,10,10 --eval-iters 0 --save wider >padded.log 2>&1 ||
        { cat padded.log; fail "padded, $iterations"; }
    has padded.log "^ > the checkpoint's vocabulary has 320 ids, the tokenizer's 257: trained and saved with 320$"
    grep -q '"vocab_size": 320$' wider/iter_000000$iterations/config.json ||
        fail "padded, $iterations: $(grep vocab_size wider/iter_000000$iterations/config.json)"
done
has padded.log '^ iteration        4/       4 '
"$MEGALITH" generate_samples_gpt --load wider --num-samples 1 --out-seq-length 20 >log 2>&1 ||
    fail "text of a padded vocabulary"
refuses "ids beyond the tokenizer, within the padding" 'holds token id|vocabulary of NullTokenizer has 51 ids' \
    pretrain_gpt --load padded --finetune \
    --use-checkpoint-args --tokenizer-type NullTokenizer --vocab-size 50 --micro-batch-size 2 --train-iters 2 --lr \
    1e-3 --data-path text_text_document
refuses "more ids than the folder's vocabulary" 'the vocabulary of the tokenizer is 401 here, 320 in the checkpoint' \
    pretrain_gpt --load padded --finetune \
    --use-checkpoint-args --tokenizer-type NullTokenizer --vocab-size 400 --micro-batch-size 2 --train-iters 2 --lr \
    1e-3 --data-path text_text_document

# --- characters: shape and tokenizer come from the checkpoint alone, after their files were deleted
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type CharTokenizer --vocab-file \
    characters.json \
    --output-prefix characters >>prepare.log 2>&1
"$MEGALITH" pretrain_gpt "${base[@]}" --tokenizer-type CharTokenizer --vocab-file characters.json --data-path \
    characters_text_document \
    --train-iters 3 --save characters >characters.log 2>&1 || { cat characters.log; fail "characters"; }
rm characters.json
"$MEGALITH" pretrain_gpt --load characters --micro-batch-size 2 --train-iters 5 --lr 1e-3 \
    --override-opt_param-scheduler \
    --data-path characters_text_document --eval-iters 0 >onward.log 2>&1 ||
    { cat onward.log; fail "characters, onward"; }
has onward.log '^> building CharTokenizer tokenizer'
has onward.log '^ iteration        4/       5 '

# --- length in samples, with a batch ramp
"$MEGALITH" pretrain_gpt "${base[@]//--lr-warmup-iters/--lr-warmup-samples}" --train-samples 40 --rampup-batch-size 2 \
    2 8 --log-interval 1 >ramp.log 2>&1 ||
    { cat ramp.log; fail "ramp"; }
has ramp.log 'starting from global batch size 2 to global batch size 4 with batch size increments 2 over 8 samples'
has ramp.log '^ iteration        1/ .*global batch size:     2 '
has ramp.log '^ iteration       1[0-9]/ .*global batch size:     4 '

# --- a run with a length in samples ends after them, even if it is resumed with another batch size; one with a length
# in iterations has enough samples
samples=("${base[@]//--lr-warmup-iters/--lr-warmup-samples}" --train-samples 40 --save samples --load samples \
    --log-interval 1)
"$MEGALITH" pretrain_gpt "${samples[@]}" --global-batch-size 8 --exit-interval 2 >samples.log 2>&1 ||
    { cat samples.log; fail "by samples"; }
"$MEGALITH" pretrain_gpt "${samples[@]}" --exit-interval 3 >samples.log 2>&1 ||
    { cat samples.log; fail "by samples, with smaller batches"; }
has samples.log '^ iteration        3/       8 \| consumed samples:           20 '
"$MEGALITH" pretrain_gpt "${samples[@]}" --global-batch-size 8 >samples.log 2>&1 ||
    { cat samples.log; fail "by samples, with larger batches"; }
has samples.log '^ iteration        5/       5 \| consumed samples:           36 '
"$MEGALITH" pretrain_gpt "${samples[@]}" >samples.log 2>&1 || { cat samples.log; fail "the last samples"; }
has samples.log '^ iteration        6/       6 \| consumed samples:           40 '
"$MEGALITH" pretrain_gpt "${samples[@]}" >samples.log 2>&1 || { cat samples.log; fail "no sample left"; }
has samples.log 'the checkpoint is at sample 40 and --train-samples is 40: there is nothing left to train'
"$MEGALITH" pretrain_gpt "${base[@]}" --global-batch-size 2000 --train-iters 1 --lr-decay-iters 10 --eval-iters 0 \
    --save large >large.log 2>&1 || { cat large.log; fail "a large batch"; }
"$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 3 --eval-iters 0 --load large --override-opt_param-scheduler \
    >large.log 2>&1 ||
    { cat large.log; fail "a run that began with a large batch"; }

# --- a loss that is not finite
if "$MEGALITH" pretrain_gpt "${base[@]}" --train-iters 50 --lr 1e30 --min-lr 0 --clip-grad 0 --save never >nan.log \
    2>&1; then fail "a loss that is not finite"; fi
has nan.log 'error: iteration [0-9]+, samples [0-9]+ to [0-9]+ .*(the loss is|the gradient of).*No update was made'
# A finite loss whose update makes the weights infinite does not replace a checkpoint; an evaluation that is not finite
# ends a run too.
long=(pretrain_gpt "${base[@]}" --save good --load good --override-opt_param-scheduler --keep-checkpoints 1 \
    --save-interval 1 --lr-warmup-iters 0)
"$MEGALITH" "${long[@]}" --train-iters 2 >good.log 2>&1 || fail "a run before the bad update"
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 3e38 --clip-grad 0 --min-lr 0 >bad.log 2>&1; then fail \
    "weights that are not finite"; fi
has bad.log \
    'error: iteration 3 is not saved: transformer\.[a-z0-9._]+ has values that are infinite.*good keeps the checkpoint of iteration 2'
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 1e30 --min-lr 0 >bad.log 2>&1; then fail \
    "weights that are too large"; fi
has bad.log \
    'error: iteration 3 is not saved: transformer\.[a-z0-9._]+ has a norm of .*good keeps the checkpoint of iteration 2'
if "$MEGALITH" "${long[@]}" --train-iters 6 --lr 1e30 --min-lr 0 --eval-interval 1 >bad.log 2>&1; then fail \
    "an evaluation that is not finite"; fi
has bad.log 'error: evaluation after iteration 3, samples 0 to 1 .*the loss is nan; .*op [a-z_]+ in '
[ "$(echo good/iter_*)" = good/iter_0000002 ] || fail "the last good checkpoint is gone: $(ls good)"

finish
