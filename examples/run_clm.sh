#!/usr/bin/env bash
# Trains a GPT on a text in epochs, as Accelerate's guide to its Megatron-LM plugin does:
#
#     bash run_clm.sh my.txt                         one process
#     RANKS=4 bash run_clm.sh my.txt --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
#
# The text is divided into training and validation, 95 to 5. As it stands the model is GPT-2 with 774 million
# parameters; options after the text win. The model is written to awesome_model, a folder that transformers opens.
set -e
text=$1
shift
[ -d tokenizer ] || megalith train_tokenizer --input "$text" --vocab-size "${VOCABULARY:-4096}" --output tokenizer
megalith accelerate launch --num_processes "${RANKS:-1}" run_clm_no_trainer.py \
    --config_name gpt2-large \
    --tokenizer_name tokenizer \
    --train_file "$text" \
    --block_size 1024 \
    --learning_rate 5e-5 \
    --per_device_train_batch_size 24 \
    --per_device_eval_batch_size 24 \
    --num_train_epochs 5 \
    --with_tracking \
    --output_dir awesome_model \
    "$@"
