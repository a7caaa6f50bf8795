#!/usr/bin/env bash
# Files of another kind than a command reads, given to every command that reads files: each is refused, and the message
# says what the file is. None is read as text.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export OMP_NUM_THREADS=1

. "$MEGA_SOURCE/tests/kit/file_kinds.sh"

# ---- texts ----
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl runs sleeps >vocab.txt
for _ in $(seq 1 30); do printf 'The fox runs. A dog sleeps. The owl runs.\n\n'; done >text.txt
sizes=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 \
    --micro-batch-size 2 --train-iters 2 --lr 1e-3
    --eval-iters 0 --split 100,0,0)
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix t >log 2>&1 || fail "preprocessing"
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix s >log 2>&1 || fail "preprocessing sentences"
"$MEGALITH" train_tokenizer --input text.txt --vocab-size 270 --output tokenizer >log 2>&1 || fail "train_tokenizer"
"$MEGALITH" pretrain_gpt "${sizes[@]}" --tokenizer-type ByteTokenizer --data-path t_text_document --save gpt >log 2>&1 \
    || fail "pretrain_gpt"
"$MEGALITH" pretrain_bert "${sizes[@]}" --data-path s_text_sentence --vocab-file vocab.txt --save bert >log 2>&1 ||
    fail "pretrain_bert"
bytes=(--tokenizer-type ByteTokenizer --append-eod --output-prefix new)
gives preprocess_data 'gzip zstd' preprocess_data --input FILE "${bytes[@]}"
gives train_tokenizer 'gzip zstd' train_tokenizer --input FILE --vocab-size 270 --output new
gives run_clm 'gzip zstd rows.csv' run_clm --config_name gpt2 --tokenizer_name tokenizer --num-layers 1 --hidden-size \
    16 --num-attention-heads 2 \
    --block_size 16 --max-position-embeddings 16 --per_device_train_batch_size 1 --max_train_steps 1 --train_file FILE \
    --validation_file text.txt
gives tokenize '' tokenize --tokenizer-type ByteTokenizer --input FILE
gives generate_samples_gpt '' generate_samples_gpt --load gpt --sample-input-file FILE --sample-output-file new.txt \
    --out-seq-length 12
gives embed '' embed --load bert --input FILE --output new.npy
gives fill_mask '' fill_mask --load bert --input FILE
gives 'tasks WIKITEXT103' 'gzip zstd' tasks --task WIKITEXT103 --load gpt --valid-data FILE
gives 'tasks SST-2' 'rows.csv rows.tsv rows.tab' tasks --task SST-2 "${sizes[@]:0:10}" --vocab-file vocab.txt --epochs \
    1 --micro-batch-size 2 --lr 1e-3 --train-data FILE --valid-data FILE
for i in latin1 parquet lfs; do
    gzip -c kinds/$i >kinds/inside.gz
    refuses "$i in gzip" 'kinds/inside.gz' preprocess_data --input kinds/inside.gz "${bytes[@]}"
done
refuses 'Parquet in gzip' \
    'kinds/inside.gz: found the pointer of a file in Git LFS, expected JSON lines or plain text in UTF-8; ' \
    preprocess_data --input kinds/inside.gz "${bytes[@]}"
printf 'label,text\n1,The caf\xe9 sleeps.\n' >bad.csv
refuses 'Latin-1 in CSV' 'bad.csv:2:8: bytes that are not UTF-8' run_clm --config_name gpt2 --tokenizer_name tokenizer \
    --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --block_size 16 --max-position-embeddings 16 --per_device_train_batch_size 1 --max_train_steps 1 --train_file \
    bad.csv --validation_file text.txt
# What the user calls text is text.
for i in rows.csv page s3; do
    "$MEGALITH" preprocess_data --input kinds/$i --input-format text "${bytes[@]}" >out 2>&1 || note "$i as text"
    rm -f new_text_document.*
done

# Text that begins with a mark, and is text: prompts, notes, a comment before prose; letters as a pickle has them.
texts=('<question>Why?</question>\n<answer>' '<s>[INST] Hello [/INST]' '<p>One paragraph</p>\nand prose.' \
    '<!-- A licence -->\n# A title\n' '<b>Fox</b> and owl'
    '<!-- A comment without an end' '<pad> <unk>' '<user>\n<b>Hello</b>' '<3 you' '(lp0 is no list' 'copy\nthat\n' \
        'I1\nI2\n' 'V\nthen\n' '(see below)\n'
    '../.git/annex\n' 'cat\ndog\n(an owl)' '<title>My story</title>\nThe fox')
for i in "${!texts[@]}"; do
    # shellcheck disable=SC2059
    printf "${texts[i]}" >"kinds/text$i"
    "$MEGALITH" preprocess_data --input kinds/text$i "${bytes[@]}" >out 2>&1 ||
        note "a text that begins with ${texts[i]}: $(tail -n 1 out)"
    rm -f new_text_document.*
done
# A link of git-annex whose file was not fetched.
ln -s ../.git/annex/objects/Gx/3f/SHA256E-s1--4d/SHA256E-s1--4d kinds/link
refuses 'a link of git-annex' \
    'kinds/link: cannot ask for its size: it is a link of git-annex, and the file itself is not here' preprocess_data \
    --input kinds/link "${bytes[@]}"
refuses 'a vocabulary in git-annex' 'kinds/link: it is a link of git-annex, and the file itself is not here' tokenize \
    --vocab-file kinds/link --text fox

# ---- tokenizers, configurations, hosts ----
some=4
names='rows.csv rows.tsv rows.tab latin1 zero'
gives 'a vocabulary' "$names" preprocess_data --input text.txt --tokenizer-type BertWordPieceLowerCase --vocab-file \
    FILE --output-prefix new
gives "GPT-2's vocabulary" "$names" tokenize --vocab-file FILE --merge-file tokenizer/merges.txt --text fox
gives 'merges' "$names" tokenize --vocab-file tokenizer/vocab.json --merge-file FILE --text fox
gives 'a model of SentencePiece' "$names utf16be utf16ru tokens" tokenize --tokenizer-type SentencePieceTokenizer \
    --tokenizer-model FILE --text fox
gives 'a vocabulary of tiktoken' "$names" tokenize --tokenizer-type TikTokenizer --tokenizer-model FILE --text fox
gives 'a DeepSpeed JSON' "error $names" plan --preset tiny --micro-batch-size 2 --deepspeed --deepspeed_config FILE
gives 'a YAML of accelerate' "hub github $names" launch --config_file FILE pretrain_gpt
gives 'a hostfile' 'latin1 zero' launch --hostfile FILE pretrain_gpt
gives 'metrics' "error $names" plot FILE

# ---- folders: each of their files as a pointer of Git LFS, or another kind ----
"$MEGALITH" run_clm --config_name gpt2 --tokenizer_name tokenizer --num-layers 1 --hidden-size 16 \
    --num-attention-heads 2 --block_size 16 --max-position-embeddings 16 \
    --per_device_train_batch_size 1 --max_train_steps 1 --train_file text.txt --validation_file text.txt --output_dir \
    out_of_clm >log 2>&1 || fail "run_clm"
cp -rL out_of_clm/final model
cp kinds/lfs model/model.safetensors
refuses 'a checkpoint in Git LFS' 'model.safetensors: 1|it is the pointer of a file in Git LFS' generate_samples_gpt \
    --load model --prompt fox
cp out_of_clm/final/model.safetensors model
rm -r model/state model/vocab.json model/merges.txt
generate=(generate_samples_gpt --load other --prompt fox --out-seq-length 8)
in_folder model.safetensors "tensors utf16be utf16ru tokens $names" "${generate[@]}"
in_folder config.json "error $names" "${generate[@]}"
in_folder tokenizer.json "error $names" "${generate[@]}"
# ---- data sets ----
for i in 0 4 14 15 19 23 24 28 30 33 "$((${#kinds[@]} - 2))"; do
    case " tokens utf16be utf16ru $names " in *" ${kinds[i]} "*) continue ;; esac
    cp t_text_document.bin o_text_document.bin && cp "kinds/${kinds[i]}" o_text_document.idx
    refuses "an index that is ${kinds[i]}" "${says[i]}" pretrain_gpt "${sizes[@]}" --tokenizer-type ByteTokenizer \
        --data-path o_text_document
done
cp t_text_document.idx o_text_document.idx && cp kinds/lfs o_text_document.bin
refuses 'tokens in Git LFS' 'o_text_document.bin: found the pointer of a file in Git LFS' pretrain_gpt "${sizes[@]}" \
    --tokenizer-type ByteTokenizer --data-path o_text_document
echo "${#kinds[@]} kinds, $runs runs"
finish
