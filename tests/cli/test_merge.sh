#!/usr/bin/env bash
# merge_mp_partitions: with Megatron's options, a checkpoint is copied byte for byte; what it refuses.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 30 >t.txt
"$MEGALITH" preprocess_data --input t.txt --tokenizer-type ByteTokenizer --output-prefix t >log 2>&1 ||
    fail "preparing the data"
net=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
    --tokenizer-type ByteTokenizer)
train=(pretrain_gpt "${net[@]}" --micro-batch-size 2 --lr 1e-3 --lr-decay-style constant --data-path t_text_document \
    --split 100,0,0 --num-threads 1)
"$MEGALITH" "${train[@]}" --train-iters 2 --save save >log 2>&1 || fail "training"
merge=(merge_mp_partitions --model-type GPT)

# As the README of Megatron has it: the options of the layout that saved, and a --save in the folder of --load.
WORLD_SIZE=2 "$MEGALITH" tools/merge_mp_partitions.py --model-type GPT --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 1 \
    --target-pipeline-model-parallel-size 2 "${net[@]}" --load save --save save/merged >out 2>&1 || fail "merging"
grep -q '^nothing to merge: save/iter_0000002 holds whole tensors' out || note "it does not say that nothing is merged"
grep -q '^copied [0-9]* files of 0\.[0-9] MB to save/merged/iter_0000002$' out || note "it does not say what it copied"
diff -r save/iter_0000002 save/merged/iter_0000002 || note "the copy differs"
"$MEGALITH" "${train[@]}" --train-iters 3 --load save/merged >log 2>&1 || fail "training goes on from the copy"
grep -q 'iteration        3/       3' log || note "the copy does not resume at its iteration"
find save -name '*.tmp-*' -o -name run.lock | grep . && note "something was left behind"

# A copy whose tracker is missing was interrupted: the same command completes it.
rm save/merged/latest_checkpointed_iteration.txt
"$MEGALITH" "${merge[@]}" --load save --save save/merged >out 2>&1 || fail "once more"
grep -q '^save/merged/iter_0000002 is a copy of it already' out || note "once more"
[ "$(cat save/merged/latest_checkpointed_iteration.txt)" = 2 ] || note "the tracker was not completed"

# Nothing to copy, nothing written.
for to in '' '--save save' '--save save/.'; do
    # shellcheck disable=SC2086  # one option or none
    "$MEGALITH" "${merge[@]}" --load save $to >out 2>&1 || note "\"$to\""
    grep -q '^nothing to copy: ' out || note "\"$to\" copies"
done
"$MEGALITH" "${merge[@]}" --load save --save dry --dry-run >out 2>&1 && grep -q 'would be copied to dry' out ||
    note "a dry run"
[ ! -e dry ] || note "a dry run writes"

# Weights of others get the name that Megatron gives to converted ones, and count as iteration 0.
cp -r save/iter_0000002 hf && rm -r hf/state
"$MEGALITH" "${merge[@]}" --load hf --save plain >out 2>&1 || fail "a folder of others"
[ "$(cat plain/latest_checkpointed_iteration.txt)" = release ] && diff -r hf plain/release ||
    note "the copy of a folder of others"

mkdir -p parts/iter_0000100/mp_rank_00 && touch parts/iter_0000100/mp_rank_00/model_optim_rng.pt
echo 100 >parts/latest_checkpointed_iteration.txt
refuses "files of Megatron" 'parts/iter_0000100: found mp_rank_00, written by Megatron' "${merge[@]}" --load parts \
    --save merged
refuses "nothing said" 'missing: --model-type GPT|missing: --load FOLDER' merge_mp_partitions --num-threads 1
refuses "another type" '--model-type MNLI: found a decoder in save/iter_0000002, expected an encoder' \
    merge_mp_partitions --model-type MNLI --load save
refuses "a T5 that is none" \
    '--model-type T5: found a decoder in save/iter_0000002, expected an encoder with a decoder' merge_mp_partitions \
    --model-type T5 --load save
refuses "no type" '"LSTM" is not one of GPT, BERT, T5, RACE, MNLI, QQP' merge_mp_partitions --model-type LSTM --load \
    save
refuses "other options than the model's" \
    '2 mistakes|--target-pipeline-model-parallel-size 3: the model has 2 layers|--num-layers 4' \
    "${merge[@]}" --target-pipeline-model-parallel-size 3 --num-layers 4 --load save --save merged
refuses "no optimizer" '--no-save-optim|the copy is whole' "${merge[@]}" --no-save-optim --load save --save merged
refuses "nowhere" '--load nowhere: there is no such folder' "${merge[@]}" --load nowhere --save merged
refuses "a damaged one" 'model.safetensors' "${merge[@]}" --load \
    "$(cp -r save/iter_0000002 bad && echo x >>bad/model.safetensors && echo bad)" --save merged
"$MEGALITH" "${train[@]}" --train-iters 4 --save other >log 2>&1 || fail "training another"
refuses "a --save with another checkpoint" \
    '--save other: found the checkpoint iter_0000004, expected none but iter_0000002' "${merge[@]}" --load save --save \
    other
"$MEGALITH" "${train[@]}" --train-iters 2 --seed 5 --save third >log 2>&1 || fail "training a third"
refuses "a --save with another checkpoint of the name" '--save third: found iter_0000002, which is another checkpoint' \
    "${merge[@]}" --load save --save third
[ ! -e merged ] || note "a refused command made a folder"
finish
