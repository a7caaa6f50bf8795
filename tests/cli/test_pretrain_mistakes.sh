#!/usr/bin/env bash
# Mistakes that pretrain_gpt itself detects, in addition to the rules between options: each message names the subject,
# what was found, what was expected and what to do; the exit status is not 0 and nothing aborts.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mistake() { refuses "$1" "$2" pretrain_gpt "${@:3}"; }

for i in $(seq 1 200); do echo "line $i of a text that is long enough"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || { cat log; exit 1; }
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --lr 1e-3 \
    --train-iters 4
    --tokenizer-type ByteTokenizer --eval-iters 0 --num-threads 1)
data=(--data-path text_text_document --split 100,0,0)
"$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --save good >log 2>&1 || { cat log; exit 1; }

mistake "wrong tokenizer" 'holds token id|vocabulary of NullTokenizer has 51 ids|preprocess_data' \
    "${small[@]}" "${data[@]}" --tokenizer-type NullTokenizer --vocab-size 50
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type CharTokenizer --vocab-file \
    chars.json --output-prefix chars >log 2>&1 || note "characters"
sed -i 's/, "<|endoftext|>"//' chars.json
mistake "ends of documents that nothing marks" \
    '--eod-mask-loss, --reset-position-ids, --reset-attention-mask: the tokenizer (CharTokenizer)|no id that ends a document|leave them out' \
    "${small[@]}" --data-path chars_text_document --tokenizer-type CharTokenizer --vocab-file chars.json \
    --eod-mask-loss --reset-position-ids --reset-attention-mask
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --output-prefix \
    endless >log 2>&1 || note "without ends"
mistake "data without ends of documents" \
    '--eod-mask-loss, --reset-position-ids: none of |tokens of endless_text_document is the end of a document (id 256)|preprocess_data --append-eod' \
    "${small[@]}" --data-path endless_text_document --split 100,0,0 --eod-mask-loss --reset-position-ids
# numbers that are infinite in the 32 bits of an update would make every weight so
for option in lr weight-decay adam-eps; do
    mistake "--$option 1e39" "--$option: 1e39 is more than a 32-bit float holds" "${small[@]}" "${data[@]}" --$option \
        1e39
done
mistake "a rate without end" '--lr-range-test-step-rate 1e+38|the rate grows to 3e+39 at the last step' "${small[@]}" \
    "${data[@]}" \
    --deepspeed-schedule LRRangeTest --lr-range-test-step-rate 1e38 --lr-range-test-min-lr 10 \
    --lr-range-test-step-size 1
echo \
    '{"optimizer": {"type": "Adam", "params": {"lr": 1e-3}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e39}}}' >wide.json
mistake "a JSON's rate" '"scheduler.params.warmup_max_lr"|1e+39 is more than a 32-bit float holds' "${small[@]}" \
    "${data[@]}" --deepspeed_config wide.json --deepspeed
mistake "too little memory" \
    'this run needs|may use|--memory-limit|it would fit with|--micro-batch-size|% time|gradients|optimizer' \
    "${small[@]}" "${data[@]}" --micro-batch-size 64 --memory-limit 16M
mistake "far too little memory" 'no micro-batch, recomputation or precision makes it fit|--hidden-size' "${small[@]}" \
    "${data[@]}" --memory-limit 64K
limited() { # NAME PART ulimit-OPTION KB: a run under that limit of the shell is refused, and the limit is named
    local text
    text=$(ulimit "$3" "$4" && "$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --hidden-size 512 \
        --micro-batch-size 512 --seq-length 256 --bf16 2>&1 >out </dev/null)
    case "$text" in
    *"this run needs"*"may use"*"$2"*) ;;
    *)
        echo "FAILED $1: \"$2\" is not in: $text"
        failures=$((failures + 1))
        ;;
    esac
}
if ! is_sanitized; then # its shadow alone is terabytes of address space
    limited "ulimit -v" RLIMIT_AS -v 600000
    limited "ulimit -d" RLIMIT_DATA -d 300000
fi
head -c 40 text_text_document.idx >cut_text_document.idx
cp text_text_document.bin cut_text_document.bin
mistake "cut index" 'cut_text_document.idx|40' "${small[@]}" --data-path cut_text_document
grep -q 'building GPT model' <<<"$refused" && note "the cut index was found after the model was built"
head -c 100 text_text_document.bin >short_text_document.bin
cp text_text_document.idx short_text_document.idx
mistake "cut data" 'short_text_document.bin: found 100 bytes, expected' "${small[@]}" --data-path short_text_document
grep -q 'building GPT model' <<<"$refused" && note "the cut data were found after the model was built"
# A named pipe instead of a file is an error at once; open() would wait for a writer for ever.
piped() { # FILE ARGS…: timeout's 124 is not among the statuses of a mistake
    mv "$1" kept && mkfifo "$1"
    local text status
    text=$(timeout 300 "$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" "${@:2}" 2>&1 </dev/null)
    status=$?
    [ $status -eq 1 ] && [[ $text = *"$1: this is a named pipe, not a file"* ]] ||
        note "a pipe for $1: exit status $status: $text"
    rm "$1" && mv kept "$1"
}
piped text_text_document.idx
piped text_text_document.bin
piped chars.json --tokenizer-type CharTokenizer --vocab-file chars.json
for file in latest_checkpointed_iteration.txt iter_0000004/config.json iter_0000004/model.safetensors \
    iter_0000004/state/run.json; do
    piped good/$file --load good
done
mistake "no training share" '--split 0,100,0|no documents for training' "${small[@]}" --data-path text_text_document \
    --split 0,100,0
mistake "another network" \
    'good/iter_0000004|--num-layers is 3 here, 2 in the checkpoint|--hidden-size is 64 here, 32|--use-checkpoint-args' \
    "${small[@]}" "${data[@]}" --load good --num-layers 3 --hidden-size 64
mistake "another schedule" \
    '--override-opt_param-scheduler|--use-checkpoint-opt_param-scheduler|learning rate (--lr): 0.002 here, 0.001 in the checkpoint' \
    "${small[@]}" "${data[@]}" --load good --lr 2e-3
mistake "a longer training" \
    'samples of decay|--train-iters|add --override-opt_param-scheduler to go on with the schedule of this command' \
    "${small[@]}" "${data[@]}" --load good --train-iters 40
"$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --load good --finetune --use-checkpoint-opt_param-scheduler --lr \
    2e-3 \
    --metrics-file taken.jsonl >log 2>&1 || note "the checkpoint's schedule"
grep -q "^ > using the checkpoint's schedule: learning rate 0.001 to 0, linear over 8 samples with 0 of warm-up" log ||
    note "the schedule is not told"
head -n 1 taken.jsonl | grep -q '"learning_rate": 0.001,' ||
    note "the first rate of the checkpoint's schedule: $(head -n 1 taken.jsonl)"
mkdir bare && cp good/iter_0000004/{config.json,model.safetensors} bare
mistake "a schedule of weights alone" \
    '--use-checkpoint-opt_param-scheduler: --load bare holds weights alone|no schedule|--lr' \
    "${small[@]}" "${data[@]}" --load bare --use-checkpoint-opt_param-scheduler
mistake "another optimizer" 'optimizer state is of adam|--optimizer is sgd|--no-load-optim' "${small[@]}" "${data[@]}" \
    --load good --optimizer sgd
mistake "nothing to load" 'empty|--exit-on-missing-checkpoint|iter_' "${small[@]}" "${data[@]}" --load empty \
    --exit-on-missing-checkpoint
mkdir void
mistake "a name nearly typed" '--load goof: there is no such folder (did you mean good?)' "${small[@]}" "${data[@]}" \
    --load goof
mistake "a model of the hub" \
    '--load openai-community/gpt2: there is no such folder (nothing is downloaded from the Hugging Face hub' \
    "${small[@]}" "${data[@]}" --load openai-community/gpt2
for option in --finetune --skip-train --use-checkpoint-args; do # none of them makes sense with random weights
    mistake "$option of a name mistyped" \
        "--load gud: there is no such folder|, and $option|--save folder of pretrain_gpt|name one, or leave --" \
        "${small[@]}" "${data[@]}" --load gud $option
    "$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --load gud $option >log 2>&1
    grep -q 'building GPT model' log && note "$option: the name was looked at after the model was built"
    mistake "$option of an empty folder" "--load void: found an empty folder, and $option" "${small[@]}" "${data[@]}" \
        --load void $option
done
mistake "an iteration that is not there" \
    '--load good/iter_0000009: there is no such folder (good holds iteration|expected a --save folder|name one that is there' \
    "${small[@]}" "${data[@]}" --load good/iter_0000009
cp -r good damaged
printf 'x' | dd of=damaged/iter_0000004/model.safetensors bs=1 seek=900 conv=notrunc status=none
mistake "damaged checkpoint" 'damaged/iter_0000004|damaged contains no other complete checkpoint' "${small[@]}" \
    "${data[@]}" --load damaged
cp -r good cut
truncate -s 1000 cut/iter_0000004/state/optimizer.safetensors
mistake "cut checkpoint" 'cut/iter_0000004|optimizer.safetensors' "${small[@]}" "${data[@]}" --load cut
cp -r good/iter_0000004 cut/iter_0000002 # any whole one; its name says which
mistake "cut checkpoint with one before it" 'cut/iter_0000004|--load-previous resumes from iter_0000002' "${small[@]}" \
    "${data[@]}" --load cut
mkdir -p other/tensorboard && echo x >other/train.log
mistake "a folder of other things" 'found tensorboard, train.log and no checkpoint|latest_checkpointed_iteration.txt' \
    "${small[@]}" "${data[@]}" --load other
mistake "weights out of a folder of other things" 'found tensorboard, train.log and no checkpoint, and --finetune' \
    "${small[@]}" "${data[@]}" --load other --save other --finetune
"$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --load other --save other >log 2>&1 ||
    note "logs in the folder of --save and --load"
mkdir closed && chmod a-w closed
if [ "$(id -u)" != 0 ]; then
    mistake "folder without rights" 'closed|ermission' "${small[@]}" "${data[@]}" --save closed/save --save-interval 1
fi
echo text >file
mistake "a file where a folder goes" 'file/save|--save' "${small[@]}" "${data[@]}" --save file/save
grep -q 'building GPT model' <<<"$refused" && note "--save was looked at after the model was built"
mistake "a metrics file where none can be" 'file/metrics' "${small[@]}" "${data[@]}" --metrics-file file/metrics
seq 20 >notes.txt && cp notes.txt as_they_were
mistake "a metrics file of somebody's notes" \
    '--metrics-file notes.txt: its first line is not a row of metrics: found "1"|Give another name' \
    "${small[@]}" "${data[@]}" --metrics-file notes.txt
cmp -s notes.txt as_they_were || note "--metrics-file changed a file that is none"
"$MEGALITH" pretrain_gpt "${small[@]}" "${data[@]}" --metrics-file notes.txt >log 2>&1
grep -q 'building GPT model' log && note "--metrics-file was looked at after the model was built"
echo '{}' >notes.json
mistake "no folder of a model" 'notes' "${small[@]}" "${data[@]}" --load notes.json
mistake "three mistakes at once" '--num-attention-heads 5|--micro-batch-size 3|nowhere.bin' \
    "${small[@]}" --num-attention-heads 5 --micro-batch-size 3 --global-batch-size 4 --data-path nowhere
finish
