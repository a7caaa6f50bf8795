#!/usr/bin/env bash
# Files of another kind than a command reads, given to every command that reads files: each is refused, and the message
# says what the file is. None is read as text.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export OMP_NUM_THREADS=1

# ---- the kinds ----
mkdir kinds
# kind FILE 'what the message must say' 'its beginning, as printf takes it'; zero bytes or a text follow
kinds=() says=()
kind() {
    # shellcheck disable=SC2059
    printf "$3" >"kinds/$1"
    kinds+=("$1") says+=("$2")
}
zeros='\0\0\0\0\0\0\0\0\1\0\0\0 some more bytes \0\0\0\0'
prose='\nThe fox runs. A dog sleeps. The owl runs.\n'
kind parquet 'a Parquet file' "PAR1\x15\x04$zeros"
kind arrow 'an Arrow file' "ARROW1\0\0$zeros"
kind feather 'an Arrow (Feather) file' "FEA1$zeros"
kind stream 'an Arrow stream' "\xff\xff\xff\xff$zeros"
kind orc 'an ORC file' "ORC\n\x0b$zeros"
kind avro 'an Avro file' "Obj\x01\x04$zeros"
kind xz 'an xz file' "\xfd7zXZ\0$zeros"
kind bzip2 'a bzip2 file' "BZh91AY&SY$zeros"
kind lz4 'an lz4 file' "\x04\x22\x4d\x18$zeros"
kind zip 'a zip archive' "PK\x03\x04\x14\0${zeros}text.txt"
kind docx 'an Office document' "PK\x03\x04\x14\0${zeros}[Content_Types].xml"
kind npz 'a NumPy archive (.npz)' "PK\x03\x04\x14\0${zeros}arr_0.npy"
kind torch 'a PyTorch file' "PK\x03\x04\0\0${zeros}archive/data.pkl"
kind 7z 'a 7z archive' "7z\xbc\xaf\x27\x1c$zeros"
kind pickle 'a pickle of Python' "\x80\x04\x95$zeros"
kind npy 'a NumPy array (.npy)' "\x93NUMPY\x01\0v\0{'descr': '<f4'$zeros"
kind tensors 'a safetensors file' "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"$zeros"
kind gguf 'a GGUF file' "GGUF\x03$zeros"
kind hdf5 'an HDF5 file' "\x89HDF\r\n\x1a\n$zeros"
kind sqlite 'an SQLite database' "SQLite format 3\0$zeros"
kind pdf 'a PDF document' "%%PDF-1.7\n%%\xe2\xe3$prose"
kind png 'a PNG image' "\x89PNG\r\n\x1a\n$zeros"
kind jpeg 'a JPEG image' "\xff\xd8\xff\xe0$zeros"
kind program 'a program (ELF)' "\x7fELF\x02\x01$zeros"
kind utf16 'UTF-16LE (its byte order mark)' '\xff\xfeT\0h\0e\0 \0f\0o\0x\0 \0r\0u\0n\0s\0.\0\n\0'
kind utf16be 'UTF-16BE (zeros are first bytes)' '\0T\0h\0e\0 \0f\0o\0x\0 \0r\0u\0n\0s\0.\0\n'
kind utf32 'UTF-32LE (its byte order mark)' '\xff\xfe\0\0T\0\0\0h\0\0\0'
kind tokens 'binary data (zero bytes near its beginning)' 'T\0\0\0h\0\0\0e\0\0\0 \0\0\0f\0\0\0'
kind lfs 'the pointer of a file in Git LFS' \
    'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n'
kind annex 'the pointer of a file in git-annex' '/annex/objects/SHA256E-s12345--4d7a214614ab2935c943.txt\n'
kind lfs_mark 'the pointer of a file in Git LFS' \
    '\xef\xbb\xbfversion https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n'
kind annex_link 'the pointer of a file in git-annex' \
    '../../.git/annex/objects/Gx/3f/SHA256E-s12345--4d7a214614/SHA256E-s12345--4d7a214614.txt'
kind page 'an HTML page' "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>$prose"
kind page2 'an HTML page' "  \n<HTML lang=en><body>Sign in$prose"
kind page3 'an HTML page' "<!-- saved from a server -->\n<!-- today -->\n<div>The page</div>$prose"
kind page4 'an HTML page' "<br />\n<b>Warning</b>: no such file$prose"
kind page5 'an HTML page' "<title>404</title>\n<h1 class=\"big\">Not Found</h1>$prose"
kind list0 'a pickle of Python' "(lp0\nVThe fox runs.\np1\naVA dog sleeps.\np2\na.\n$prose"
kind dict0 'a pickle of Python' "(dp1\nS'text'\np2\nS'The fox runs.'\np3\ns."
kind array0 'a pickle of Python' "cnumpy._core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n(I0\ntp2\n"
kind call0 'a pickle of Python' "cos\nsystem\n(S'ls'\ntR."
kind tuple0 'a pickle of Python' "(I1\nI2\nI3\ntp0\n."
kind s3 'an XML document' "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code></Error>$prose"
kind utf16ru 'UTF-16LE (zeros are second bytes)' \
    '\x1b\x04\x38\x04\x41\x04\x30\x04\x20\0\x38\x04\x34\x04\x51\x04\x42\x04.\0\n\0'
kind lzma 'an lzma file' "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0*\x1a\x08"
kind zlib 'zlib data' '\x78\x9c\xab\x56\x4a\xaf\x4f\x2d'
kind zlib1 'zlib data' '\x78\x5e\xab\x56\x4a\x01\x4f\x2d'
kind msgpack 'MessagePack' '\x82\xa4text\xadThe fox runs.\xa2id\x07'
kind cbor 'CBOR' '\xa2dtextmThe fox runs.bid\x07'
kind hub 'the answer of a server in place of a file' 'Entry not found'
kind github 'the answer of a server in place of a file' '404: Not Found\n'
kind error 'the error message of a server' '{"error":"Repository not found"}'
kind rows.csv 'a CSV file' 'label,text\n1,The fox runs.\n0,A dog sleeps.\n'
kind rows.tsv 'a TSV file' 'label\ttext\n1\tThe fox runs.\n0\tA dog sleeps.\n'
kind rows.tab 'a TSV file' 'label\ttext\n1\tThe fox runs.\n0\tA dog sleeps.\n'
# Formats cut off or damaged, without a zero byte
kind cut_parquet 'a Parquet file' 'PAR1abcdefghijklPAR1'
kind cut_arrow 'an Arrow file' "ARROW1$prose"
kind cut_orc 'an ORC file' 'ORC\n\x0b\x03\x04'
kind cut_bzip2 'a bzip2 file' 'BZh9'
kind cut_gguf 'a GGUF file' 'GGUF'
kind cut_sqlite 'an SQLite database' 'SQLite format 3'
kind cut_numpy 'a NumPy array (.npy)' '\x93NUMPY'
kind cut_gif 'a GIF image' "GIF89a$prose"
# No text, or not UTF-8: where it is, is said too
kind zero 'a zero byte' 'The fox runs. The owl\0 sleeps.\nA dog runs.\n'
kind latin1 'not UTF-8' 'The fox runs. The caf\xe9 sleeps.\nA dog runs.\n'
tar -cf kinds/tar kinds/page && kinds+=(tar) says+=('a tar archive')
gzip -c kinds/page >kinds/gzip && kinds+=(gzip) says+=('a gzip file')
printf '\x28\xb5\x2f\xfd\0' >kinds/zstd && kinds+=(zstd) says+=('a zstd file')
[ ${#kinds[@]} -ge 25 ] || note "kinds: ${#kinds[@]}"

# gives NAME 'kinds that it does read, or says nothing of' COMMAND…: the command with FILE replaced by each kind
# The readers of texts get all kinds; the others, which share one function, each some of them in turn.
runs=0 turn=0 some=1
gives() {
    local name=$1 left=" $2 " i words
    shift 2
    turn=$((turn + 1))
    for i in "${!kinds[@]}"; do
        case "$left" in *" ${kinds[i]} "*) continue ;; esac
        [ $((i % some)) -eq $((turn % some)) ] || continue
        words=("${@//FILE/kinds/${kinds[i]}}")
        "$MEGALITH" "${words[@]}" >out 2>&1 </dev/null
        status=$?
        runs=$((runs + 1))
        [ $status -ne 0 ] && [ $status -lt 126 ] || note "$name takes ${kinds[i]}: exit status $status"
        grep -qF -- "${says[i]}" out || note "$name does not say that ${kinds[i]} is ${says[i]}"
        grep -qF -- "kinds/${kinds[i]}" out || note "$name does not name the file ${kinds[i]}"
    done
}

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
# folder NAME FOLDER 'kinds that are left out' COMMAND…: puts every kind in place of each file of the folder's that is
# named
in_folder() {
    local file=$1 left=" $2 " i
    shift 2
    turn=$((turn + 1))
    for i in "${!kinds[@]}"; do
        case "$left" in *" ${kinds[i]} "*) continue ;; esac
        [ "${kinds[i]}" = lfs ] || [ $((i % some)) -eq $((turn % some)) ] || continue
        rm -rf other && cp -r model other && cp "kinds/${kinds[i]}" "other/$file"
        "$MEGALITH" "$@" >out 2>&1 </dev/null
        status=$?
        runs=$((runs + 1))
        [ $status -ne 0 ] && [ $status -lt 126 ] || note "$file as ${kinds[i]}: exit status $status"
        grep -qF -- "${says[i]}" out && grep -qF "other/$file" out ||
            note "$file as ${kinds[i]} is not refused by its name"
    done
}
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
