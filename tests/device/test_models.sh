#!/usr/bin/env bash
# What test_train.sh does not train or generate on the software device: fp16 with a loss scale that falls and rises,
# BERT, T5, and a beam search. `make check-device` runs more iterations.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/software_device.sh"
. "$MEGA_SOURCE/tests/kit/pretrain.sh"
options=("${base[@]}" --lr-decay-iters 20 --log-interval 1 --eval-interval 100)

# The scale starts far too high: each overflow halves it, three good steps double it.
both half 1e-2 --fp16 --initial-loss-scale 1e8 --loss-scale-window 3 --hysteresis 1 --train-iters 20 --save-interval 100
[ "$(grep -c 'number of skipped iterations: *1 |' half_gpu.log)" -ge 4 ] || note "few iterations were skipped"
awk '$3 > before && NR > 1 { rises++ } { before = $3 } END { exit rises < 2 }' half_gpu.scales ||
    note "the loss scale did not rise twice: $(uniq -c half_gpu.scales)"

train beams --train-iters 2 --eval-iters 0 --device cpu --save beams
printf 'a prompt\nthe quick\n' >prompt.txt
for device in cpu cuda; do
    "$MEGALITH" generate_samples_gpt --load beams --device $device --num-beams 3 --out-seq-length 10 --sample-input-file prompt.txt \
        --sample-output-file $device.jsonl >generate.log 2>&1 || note "beams on $device: $(tail -2 generate.log)"
done
cmp -s cpu.jsonl cuda.jsonl || note "other beams on the GPU: $(cat cpu.jsonl cuda.jsonl)"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl runs sleeps >vocab.txt
for i in $(seq 1 30); do echo "The fox runs. A dog sleeps. The owl runs. A cat sleeps."; echo; done >sentences.txt
"$MEGALITH" preprocess_data --input sentences.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt --output-prefix t >log 2>&1 || fail "preprocessing"
options=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 24 --micro-batch-size 2 --global-batch-size 4
    --train-iters "$([ -n "${MEGA_DEVICE_SEEDS:-}" ] && echo 20 || echo 4)" --lr 1e-3 --eval-iters 1 --log-interval 1
    --data-path t_text_sentence --split 80,10,10 --vocab-file vocab.txt)
command=pretrain_bert both bert 1e-5
command=pretrain_bert both bert_half 1e-2 --bf16
command=pretrain_t5 both t5 1e-5 --decoder-seq-length 16 --vocab-extra-ids 10
finish
