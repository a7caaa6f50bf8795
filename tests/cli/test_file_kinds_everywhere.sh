#!/usr/bin/env bash
# Files of another kind than a command reads (test_file_kinds.sh), given to every option of every command that names a
# file, and in place of every file of a folder or a data set.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export OMP_NUM_THREADS=1

. "$MEGA_SOURCE/tests/kit/file_kinds.sh"
some=4

# ---- what the commands read besides the wrong file ----
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl runs sleeps >vocab.txt
for _ in $(seq 1 30); do printf 'The fox runs. A dog sleeps. The owl runs.\n\n'; done >text.txt
sizes=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --train-iters 2 --lr 1e-3 --eval-iters 0 --split 100,0,0)
bytes=(--tokenizer-type ByteTokenizer)
sentences=(--split-on-blank-lines --split-sentences --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt)
made() { "$MEGALITH" "$@" >log 2>&1 || fail "$1"; }
made preprocess_data --input text.txt --split-on-blank-lines "${bytes[@]}" --append-eod --output-prefix t
made preprocess_data --input text.txt "${sentences[@]}" --output-prefix s
made train_tokenizer --input text.txt --vocab-size 270 --output tokenizer
made pretrain_gpt "${sizes[@]}" "${bytes[@]}" --data-path t_text_document --save gpt --metrics-file metrics.jsonl
made pretrain_bert "${sizes[@]}" --data-path s_text_sentence --vocab-file vocab.txt --save bert
made pretrain_t5 "${sizes[@]}" --data-path s_text_sentence --vocab-file vocab.txt --vocab-extra-ids 10 --save t5
echo '{"train_micro_batch_size_per_gpu": 2}' >good.json
names='rows.csv rows.tsv rows.tab latin1 zero'
gpt=("${sizes[@]}" "${bytes[@]}" --data-path t_text_document)
bert=("${sizes[@]}" --data-path s_text_sentence)

# ---- tokenizers ----
for command in pretrain_gpt plan; do
    gives "$command --vocab-file" "$names" $command "${gpt[@]}" --tokenizer-type GPT2BPETokenizer --vocab-file FILE \
        --merge-file tokenizer/merges.txt
    gives "$command --merge-file" "$names" $command "${gpt[@]}" --tokenizer-type GPT2BPETokenizer --vocab-file \
        tokenizer/vocab.json --merge-file FILE
    gives "$command, tokenizer.json" "error $names" $command "${gpt[@]}" --tokenizer-type HuggingFaceTokenizer \
        --tokenizer-model FILE
    gives "$command, SentencePiece" "$names utf16be utf16ru tokens" $command "${gpt[@]}" --tokenizer-type \
        SentencePieceTokenizer --tokenizer-model FILE
    gives "$command, characters" "$names" $command "${gpt[@]}" --tokenizer-type CharTokenizer --vocab-file FILE
done
for command in pretrain_bert pretrain_t5; do
    gives "$command --vocab-file" "$names" $command "${bert[@]}" --vocab-file FILE
done
gives 'data show --vocab-file' "$names" data show s_text_sentence --tokenizer-type BertWordPieceLowerCase \
    --vocab-file FILE
gives 'tasks --vocab-file' "$names" tasks --task SST-2 "${sizes[@]:0:10}" --vocab-file FILE --epochs 1 \
    --micro-batch-size 2 --lr 1e-3 --train-data text.txt --valid-data text.txt
gives 'run_clm --tokenizer_name' "error $names" run_clm --config_name gpt2 --tokenizer_name FILE --train_file text.txt \
    --validation_file text.txt

# ---- texts ----
gives 'tasks LAMBADA' 'gzip zstd latin1' tasks --task LAMBADA --load gpt --valid-data FILE
for task in RACE MNLI QQP; do
    gives "tasks $task" 'rows.csv rows.tsv rows.tab' tasks --task $task "${sizes[@]:0:10}" --vocab-file vocab.txt \
        --epochs 1 --micro-batch-size 2 --lr 1e-3 --train-data FILE --valid-data FILE
done
gives 'run_clm --validation_file' 'gzip zstd rows.csv rows.tsv rows.tab' run_clm --config_name gpt2 --tokenizer_name \
    tokenizer "${sizes[@]:0:6}" --block_size 16 --max-position-embeddings 16 --max_train_steps 1 --train_file text.txt \
    --validation_file FILE
gives 'new --text' 'latin1 zero' new --text FILE project
for i in "${!kinds[@]}"; do
    # a pipe has no name, and may have any bytes
    case "${kinds[i]}" in rows.* | latin1 | zero | tokens | utf16be | utf16ru) continue ;; esac
    "$MEGALITH" tokenize "${bytes[@]}" <"kinds/${kinds[i]}" >out 2>&1 && note "tokenize takes ${kinds[i]} from a pipe"
    grep -qF -- "${says[i]}" out && grep -qF 'standard input' out ||
        note "tokenize does not say that a pipe has ${says[i]}"
done

# ---- settings ----
for command in pretrain_gpt plan; do
    gives "$command --deepspeed_config" "error $names" $command "${gpt[@]}" --deepspeed_config FILE
    gives "$command --config_file" "hub github $names" $command "${gpt[@]}" --config_file FILE
done
for command in pretrain_bert pretrain_t5; do
    gives "$command --deepspeed_config" "error $names" $command "${bert[@]}" --vocab-file vocab.txt --deepspeed_config \
        FILE
done
gives 'run_clm --config_name' "error $names" run_clm --config_name FILE --tokenizer_name tokenizer --train_file \
    text.txt --validation_file text.txt
gives 'run_clm --deepspeed' "error $names" run_clm --config_name gpt2 --tokenizer_name tokenizer --train_file \
    text.txt --validation_file text.txt --deepspeed FILE
gives 'plan --config_name' "error $names" plan --config_name FILE --micro-batch-size 1
gives 'launch --deepspeed_config' "error $names" launch pretrain_gpt "${gpt[@]}" --deepspeed_config FILE
gives 'compare_configurations' "error $names" compare_configurations FILE --preset tiny --lr 1e-3
gives 'report' "error $names" report FILE
gives '--metrics-file' "error $names" pretrain_gpt "${gpt[@]}" --metrics-file FILE --load gpt

# ---- files of folders ----
use() { rm -rf model && cp -rL "$1" model && rm -r model/state; }
left="error $names tensors utf16be utf16ru tokens"
use gpt/iter_0000002
for file in config.json tokenizer.json model.safetensors; do
    # what the options name is read in place of the folder's tokenizer
    [ $file = tokenizer.json ] || in_folder $file "$left" pretrain_gpt "${gpt[@]}" --load other --finetune
    in_folder $file "$left" tasks --task WIKITEXT103 --load other --valid-data text.txt
    in_folder $file "$left" run_text_generation_server --load other --port 0
    in_folder $file "$left" run_clm --model_name_or_path other --train_file text.txt --validation_file text.txt
done
use bert/iter_0000002
for file in config.json vocab.txt model.safetensors; do
    in_folder $file "$left" embed --load other --input text.txt --output new.npy
    in_folder $file "$left" fill_mask --load other --text 'the [MASK] runs'
    [ $file = vocab.txt ] || in_folder $file "$left" pretrain_bert "${bert[@]}" --vocab-file vocab.txt --load other \
        --finetune
done
echo "${#kinds[@]} kinds, $runs runs"
finish
