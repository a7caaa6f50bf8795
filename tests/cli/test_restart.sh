#!/usr/bin/env bash
# A --save that holds checkpoints: a run that does not go on from them is refused before its first step, in every
# command that trains; --load goes on, --restart begins anew and removes the older checkpoints once it has saved one of
# its own.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 60 >t.txt
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "preparing the data"
base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 \
    --global-batch-size 1 --lr 1e-3
    --lr-decay-style constant --tokenizer-type ByteTokenizer --data-path t_text_document --split 100,0,0 --eval-iters \
        0 --num-threads 1
    --save-interval 2 --override-opt_param-scheduler)
run() { "$MEGALITH" "${base[@]}" "$@" >log 2>&1 </dev/null || fail "$*: $(tail -n 3 log)"; }
holds() { # NAME NAMES: the folders in A
    [ "$(cd A && echo */)" = "$2" ] || note "$1: A holds $(cd A && echo */), expected $2"
}
whole() { (cd "$1" && find . -type f ! -name run.lock -exec cksum {} + | sort); }

run --train-iters 4 --save A
whole A >before
refuses "the same command twice" \
    "--save A: it holds checkpoints (iter_0000004)|give --load A to go on|another folder|--restart to begin anew, which removes 2 checkpoints (iter_0000002, iter_0000004) after" \
    "${base[@]}" --train-iters 4 --save A
refuses "a dry run" "--save A: it holds checkpoints (iter_0000004)" "${base[@]}" --train-iters 4 --save A --dry-run
refuses "among other mistakes" "--save A: it holds checkpoints (iter_0000004)|--data-path gone|2 mistakes" \
    "${base[@]}" --train-iters 4 --save A --data-path gone
refuses "the folder by another name" "it holds checkpoints (iter_0000004)" "${base[@]}" --train-iters 4 --save ./A/../A/
run --train-iters 4 --save B
refuses "weights of another folder" "--save A: it holds checkpoints|--load A without --finetune to go on" "${base[@]}" \
    --train-iters 4 --finetune --load B --save A
refuses "its own weights, anew" "--save A: it holds checkpoints|--load A without --finetune to go on" "${base[@]}" \
    --train-iters 4 --finetune --load A --save A
refuses "going on with another folder's run" "--save A: it holds checkpoints" "${base[@]}" --train-iters 6 --load B \
    --save A
refuses "--restart and going on" "--restart begins anew in --save A, and --load A goes on" "${base[@]}" --train-iters \
    6 --load A --save A --restart
refuses "--restart and a rollback" "--restart begins anew in --save A, and --load A/iter_0000002 goes on" "${base[@]}" \
    --train-iters 6 --load A/iter_0000002 --save A --restart
refuses "--restart without a folder" "--restart begins anew in the folder of --save, and none is given" "${base[@]}" \
    --train-iters 6 --restart
refuses "--overwrite" "--save A: it holds checkpoints" "${base[@]}" --train-iters 4 --save A --overwrite
whole A | diff before - || note "a refused run changed A"
run --train-iters 4 --save A --load B --skip-train
whole A | diff before - || note "--skip-train changed A"
grep -q 'random weights are evaluated' log && note "--skip-train with --load: $(grep random log)"
run --train-iters 4 --save A --skip-train
grep -q \
    'warning: --skip-train .*without --load: random weights are evaluated, which nothing has trained, not those in --save A; --load' log ||
    note "--skip-train without --load: $(cat log)"
run --train-iters 4 --load A/ --ckpt-step 2 --save "unused 2"
grep -q 'A/iter_0000002' log && [ -d "unused 2/iter_0000004" ] || note "--ckpt-step with a slash: $(cat log)"
run --train-iters 4 --load A/iter_0000002/ --ckpt-step 2 --finetune --save "unused 3"

# --- what goes on: a relaunch, a rollback (with a warning), a name by a link
run --train-iters 6 --load A --save A
holds "a relaunch" "iter_0000002/ iter_0000004/ iter_0000006/"
run --train-iters 4 --load A/iter_0000002 --save A
grep -q 'warning: --save A already holds a checkpoint of iteration 6 and this run begins at 2' log ||
    note "a rollback without its warning: $(cat log)"
ln -s A/iter_0000004 newest
run --train-iters 8 --load newest --save A
holds "a rollback" "iter_0000002/ iter_0000004/ iter_0000006/ iter_0000008/"

# --- --restart: other checkpoints go after the first save of this run; what this program did not write stays
mkdir A/notes A/iter_9999999 A/iter_0000050.bak
echo mine | tee A/notes/n A/iter_9999999/weights A/iter_0000050.bak/b >A/journal
cp -r A/iter_0000008 A/best
"$MEGALITH" "${base[@]}" --train-iters 1000000 --save-interval 1000000 --log-interval 1 --save A --restart >log 2>&1 \
    </dev/null &
pid=$!
until grep -q '^ iteration *3/' log || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -KILL $pid || fail "the run to kill has ended"
wait $pid 2>/dev/null
holds "killed before its first save" \
    "best/ iter_0000002/ iter_0000004/ iter_0000006/ iter_0000008/ iter_0000050.bak/ iter_9999999/ notes/"
run --train-iters 9 --load A --save A
grep -q 'loading checkpoint from A/iter_0000008 at iteration 8' log || note "the older run does not go on: $(cat log)"
cp -r A/iter_0000006 kept
run --train-iters 4 --seed 7 --save A --restart
holds "--restart" "iter_0000002/ iter_0000004/ iter_0000050.bak/ iter_9999999/ notes/"
for name in iter_0000006 iter_0000008 iter_0000009 best; do
    grep -q "removed A/$name, of the run before" log || note "no word of A/$name"
done
[ "$(cat A/latest_checkpointed_iteration.txt)" = 4 ] || note "--restart: the tracker"
grep -q '"run_id": "'"$(cat A/run_id.txt)"'"' A/iter_0000002/state/run.json || note "iter_0000002 is not of the new run"
# ended between its first save and the removal: going on removes nothing, as it was not given --restart
rm -r A/iter_0000004
echo 2 >A/latest_checkpointed_iteration.txt
mv kept A/iter_0000006
run --train-iters 4 --seed 7 --load A --save A
holds "going on after a kill" "iter_0000002/ iter_0000004/ iter_0000006/ iter_0000050.bak/ iter_9999999/ notes/"
rm -r A/iter_0000006
# stopped by a signal: it may have been a mistake, so what is saved then removes nothing
cp -r A stopped
"$MEGALITH" "${base[@]}" --train-iters 1000000 --save-interval 1000000 --log-interval 1 --save stopped --restart >log \
    2>&1 </dev/null &
pid=$!
until grep -q '^ iteration *9/' log || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -INT $pid || fail "the run to stop has ended"
wait $pid 2>/dev/null
[ -e stopped/iter_0000002 ] && [ -e stopped/iter_0000004 ] ||
    note "Ctrl-C of a --restart removes the older run: $(ls stopped)"
grep -q 'the checkpoints of the run before stay' log || note "Ctrl-C of a --restart: $(tail -n 5 log)"
# what no save wrote stays, also within a checkpoint that is removed or replaced
mkdir held && cp -r A/iter_0000002 A/iter_0000004 held
echo mine >held/iter_0000004/state/mine
run --train-iters 2 --save held --restart
[ -e held/iter_0000004/state/mine ] || note "--restart removes what it did not write"
grep -q 'held/iter_0000004 is not removed: it holds state/mine' log || note "--restart, what stays: $(cat log)"
mkdir held/iter_0000002/mine && echo mine >held/iter_0000002/mine/m
run --train-iters 2 --save held --restart --seed 9
[ -e held/iter_0000002.replaced-1/mine/m ] || note "a replaced checkpoint loses what no save wrote: $(ls held)"
refuses "a checkpoint as --save" "--save A/iter_0000002: it is a checkpoint itself" "${base[@]}" --train-iters 4 \
    --save A/iter_0000002
# a tagged checkpoint alone, and a folder that is empty
mkdir tagged && mv A/iter_0000002 tagged/best
refuses "a tag" "--save tagged: it holds checkpoints (best)" "${base[@]}" --train-iters 4 --save tagged
run --train-iters 2 --save tagged --restart
[ -e tagged/best ] && note "a tagged checkpoint of another run stays"
run --train-iters 2 --save unused --restart
run --train-iters 2 --save B --overwrite_output_dir True
grep -q 'removed B/iter_0000004' log || note "--overwrite_output_dir: $(cat log)"
run --train-iters 2 --finetune --load tagged --save tagged --restart

# --- run_clm: the words of transformers
"$MEGALITH" train_tokenizer --input t.txt --vocab-size 300 --output tokenizer >log 2>&1 || fail "train_tokenizer"
clm=(run_clm --config_name gpt2 --tokenizer_name tokenizer --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --block_size 16 --max-position-embeddings 16
    --train_file t.txt --num-threads 1 --max_train_steps 2)
"$MEGALITH" "${clm[@]}" --checkpointing_steps 1 --output_dir C >log 2>&1 || fail "run_clm: $(tail -n 3 log)"
refuses "run_clm twice" \
    "--output_dir C: it holds checkpoints|give --resume_from_checkpoint C to go on|another folder|--overwrite_output_dir to begin anew" \
    "${clm[@]}" --output_dir C
refuses "other weights" "--output_dir C: it holds checkpoints" "${clm[@]}" --model_name_or_path C --output_dir C
"$MEGALITH" "${clm[@]}" --max_train_steps 3 --lr-decay-style constant --override-opt_param-scheduler \
    --resume_from_checkpoint C --output_dir C >log 2>&1 || fail "going on: $(tail -n 3 log)"
"$MEGALITH" "${clm[@]}" --output_dir C --overwrite_output_dir >log 2>&1 ||
    fail "--overwrite_output_dir: $(tail -n 3 log)"
[ "$(cd C && echo */)" = final/ ] || note "--overwrite_output_dir leaves $(cd C && echo */)"
cmp -s C/model.safetensors C/final/model.safetensors || note "the model in the folder is not the new one"

# --ckpt-step: a checkpoint of run_clm by its iteration, of steps and of epochs
for options in "--checkpointing_steps 1" "--checkpointing_steps epoch --num_train_epochs 2 --max_train_steps 400"; do
    # shellcheck disable=SC2086
    "$MEGALITH" "${clm[@]}" $options --output_dir D --overwrite_output_dir >log 2>&1 ||
        fail "run_clm $options: $(tail -n 3 log)"
    [ -d D/step_1 ] || [ -d D/epoch_0 ] || note "$options: $(ls D)"
    for folder in D/step_1 D/epoch_0; do
        [ -d $folder ] || continue
        step=$(grep -o '"iteration": *[0-9]*' $folder/state/run.json | grep -o '[0-9]*$')
        # shellcheck disable=SC2086
        "$MEGALITH" "${clm[@]}" $options --resume_from_checkpoint D/ --ckpt-step "$step" --output_dir E \
            --overwrite_output_dir >log 2>&1 ||
            note "--ckpt-step $step: $(tail -n 3 log)"
        grep -q "$folder" log || note "--ckpt-step $step is not $folder: $(grep -i load log)"
        cmp -s D/model.safetensors E/model.safetensors || note "going on from $folder ends with other weights"
    done
done
refuses "no such step" "D/step_77: there is no such folder" "${clm[@]}" --resume_from_checkpoint D --ckpt-step 77 \
    --output_dir F
# what is offered works: a run that kept its model alone cannot be gone on with
"$MEGALITH" "${clm[@]}" --output_dir G >log 2>&1 || fail "run_clm: $(tail -n 3 log)"
refuses "run_clm twice, without states" \
    "--output_dir G: it holds the model of a run that has ended (final), without the state|give another folder, to which --model_name_or_path G trains|--overwrite_output_dir to begin anew" \
    "${clm[@]}" --output_dir G
grep -q -- --resume_from_checkpoint <<<"$refused" && note "--resume_from_checkpoint is offered: $refused"
"$MEGALITH" "${clm[@]}" --model_name_or_path G --output_dir H >log 2>&1 || note "what was offered: $(tail -n 3 log)"

# --- BERT, T5 and tasks are trainings like the others
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c >vocab.txt
for command in pretrain_bert pretrain_t5; do
    refuses "$command" "--save C: it holds checkpoints (final)" $command --save C --vocab-file vocab.txt
done
printf 'a b\t1\n' >s.tsv
refuses "tasks" "--save C: it holds checkpoints (final)" tasks --task SST-2 --epochs 1 --train-data s.tsv --valid-data \
    s.tsv --save C --vocab-file vocab.txt
finish
