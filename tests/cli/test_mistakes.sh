#!/usr/bin/env bash
# Mistakes in a command line: each message names the subject, what was found, what was expected and what to do. The exit
# status is not 0, nothing aborts, and several mistakes are reported together.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"

printf 'x' >have_text_document.bin
printf 'x' >have_text_document.idx
base=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 --lr 1e-3 \
    --train-iters 10
    --tokenizer-type ByteTokenizer)
data=(--data-path have_text_document)

refuses "1 unknown option" '--hiden-size|did you mean --hidden-size?' pretrain_gpt "${base[@]}" "${data[@]}" \
    --hiden-size 64
refuses "2 shortened option" '--num-lay is not an option|names are not abbreviated|--num-layers' pretrain_gpt \
    "${base[@]}" "${data[@]}" --num-lay 2
refuses "3 option of another command" '--append-eod is an option of preprocess_data, not of pretrain_gpt' \
    pretrain_gpt "${base[@]}" "${data[@]}" --append-eod
refuses "4 indivisible heads" '--num-attention-heads 5|does not divide|--hidden-size 64|heads that do: 1, 2, 4, 8' \
    pretrain_gpt "${base[@]}" "${data[@]}" --num-attention-heads 5
refuses "5 indivisible batch" '--global-batch-size 10|--micro-batch-size 4|micro-batches that divide it: 1, 2, 5, 10' \
    pretrain_gpt "${base[@]}" "${data[@]}" --global-batch-size 10
refuses "6 no number" '--train-iters: "1.5" is not a whole number' pretrain_gpt "${base[@]}" "${data[@]}" \
    --train-iters 1.5
refuses "7 out of range" '--hidden-dropout: 1.5 must be at least 0 and below 1' \
    pretrain_gpt "${base[@]}" "${data[@]}" --hidden-dropout 1.5
refuses "8 wrong choice" '"cosin" is not one of constant, linear, cosine|did you mean cosine?' \
    pretrain_gpt "${base[@]}" "${data[@]}" --lr-decay-style cosin
refuses "9 no value" '--save needs a value' pretrain_gpt "${base[@]}" "${data[@]}" --save
refuses "10 sequence beyond positions" \
    '--max-position-embeddings 16|is shorter than --seq-length 32|make it 32 or more' \
    pretrain_gpt "${base[@]}" "${data[@]}" --max-position-embeddings 16
refuses "11 two lengths" '--train-iters 10|--train-samples 5|give one' pretrain_gpt "${base[@]}" "${data[@]}" \
    --train-samples 5
refuses "12 warm-up beyond the end" '--lr-warmup-iters 10|must be below --lr-decay-iters 10' \
    pretrain_gpt "${base[@]}" "${data[@]}" --lr-warmup-iters 10
refuses "13 floor above peak" '--min-lr 0.01|is above --lr 0.001' pretrain_gpt "${base[@]}" "${data[@]}" --min-lr 1e-2
refuses "14 data path with extension" 'have_text_document.idx|a prefix is wanted|use have_text_document' \
    pretrain_gpt "${base[@]}" --data-path have_text_document.idx
refuses "15 data path without its end" 'there is no have.bin|use have_text_document' pretrain_gpt "${base[@]}" \
    --data-path have
refuses "16 data that is not there" 'nowhere.bin|nowhere.idx|megalith preprocess_data makes this pair' \
    pretrain_gpt "${base[@]}" --data-path nowhere
refuses "17 vocabulary that is not there" '--vocab-file none.json|there is no such file|expected vocab.json' \
    pretrain_gpt "${base[@]}" "${data[@]}" --tokenizer-type GPT2BPETokenizer --vocab-file none.json --merge-file \
    none.txt
refuses "18 half precision" '--bf16|--fp16|a run has one precision' pretrain_gpt "${base[@]}" "${data[@]}" --fp16 --bf16
refuses "19 several ranks" \
    '--tensor-model-parallel-size 4|does not divide the world of 1 rank|sizes that do: 1 (megalith launch --nproc_per_node N' \
    pretrain_gpt "${base[@]}" "${data[@]}" --tensor-model-parallel-size 4
refuses "20 split" '--split ninety,ten|expected up to three parts|969,30,1' pretrain_gpt "${base[@]}" "${data[@]}" \
    --split ninety,ten
refuses "21 nothing said" \
    'missing: --num-layers, --hidden-size, --num-attention-heads, --seq-length|--preset gpt2|missing: --lr|missing: --data-path' \
    pretrain_gpt --seed 1
refuses "22 stray word" '"wort" (argument 1) belongs to no option' pretrain_gpt wort "${base[@]}"
refuses "23 a command that is not implemented" 'checkpoint|not implemented yet|without conversion' checkpoint \
    --num-layers 2
for command in checkpoint; do
    "$MEGALITH" $command --help >out 2>&1 && grep -q "^megalith $command is not implemented yet: " out ||
        note "help of $command: $(cat out)"
done
refuses "24 unknown command" '"pretrian_gpt" is not a command|did you mean pretrain_gpt?' pretrian_gpt --num-layers 2
refuses "24 a script of transformers" '"run_clm_flax.py" is not a command' run_clm_flax.py --num-layers 2
refuses "24 a script of another program" '"complete.py" is not a command; megalith generate_samples_gpt does its work' \
    complete.py
refuses "25 a launcher's ranks" '--local_rank 1 is not implemented yet|the MPI launcher that starts the ranks' \
    pretrain_gpt "${base[@]}" "${data[@]}" --local_rank 1
refuses "three at once" \
    '3 mistakes:|1. --train-iters: "x" is not a whole number|2. --num-attention-heads 5|3. --data-path nowhere' \
    pretrain_gpt "${base[@]}" --train-iters x --num-attention-heads 5 --data-path nowhere
finish
