#!/usr/bin/env bash
# train_tokenizer and tokenize as a user types them: results in both directions, and mistakes.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fail() { note "$@"; }
equal() { # NAME FOUND EXPECTED
    [ "$2" = "$3" ] || fail "$1: found \"$2\", expected \"$3\""
}

bytes=(--tokenizer-type ByteTokenizer)
equal "bytes" "$("$MEGALITH" tokenize "${bytes[@]}" --ids-only --text 'aé')" "97 195 169"
equal "words of the command line" "$("$MEGALITH" tokenize "${bytes[@]}" --ids-only a b)" "97 32 98"
equal "a pipe" "$(printf 'a\0b\n' | "$MEGALITH" tokenize "${bytes[@]}" --ids-only)" "97 0 98 10"
equal "ids" "$("$MEGALITH" tokenize "${bytes[@]}" --ids '[97, 195,169]' 10 --text-only)" "aé"
equal "special" "$("$MEGALITH" tokenize "${bytes[@]}" --ids-only --special --text 'a<|endoftext|>')" "97 256"
equal "count" "$("$MEGALITH" tokenize "${bytes[@]}" --count --text 'aé')" \
    "3 tokens, 2 characters, 3 bytes, 1.00 bytes a token"
equal "pieces" "$("$MEGALITH" tokenize "${bytes[@]}" --text $'a\n"\xff' | sed -n '2,5s/^ *//p' | tr '\n' '|')" \
    '97  "a"|10  "\n"|34  "\""|255  "\xFF"|'
equal "numbers" "$("$MEGALITH" tokenize --tokenizer-type NullTokenizer --vocab-size 9 --ids-only --text '3 9')" "3 9"

for i in 1 2 3 4 5 6 7 8 9; do printf '{"text": "The cat sat on the mat %s.", "title": "cats"}\n' $i; done >cats.jsonl
"$MEGALITH" train_tokenizer --input cats.jsonl --vocab-size 265 --output new/bpe --workers 3 >out 2>&1 ||
    fail "training: $(cat out)"
grep -q "^9 documents" out || fail "training: no count: $(cat out)"
grep -q \
    "^written: new/bpe, 265 ids, end of document 264 (--tokenizer-type GPT2BPETokenizer --vocab-file new/bpe/vocab.json --merge-file new/bpe/merges.txt)" out ||
    fail "training: no result: $(cat out)"
"$MEGALITH" train_tokenizer --input - --vocab-size 265 --output again --workers 1 <cats.jsonl >out 2>&1 ||
    fail "training from a pipe: $(cat out)"
diff -r new/bpe again || fail "one worker and three write other files"
equal "files" "$(ls again | tr '\n' ' ')" "merges.txt tokenizer.json tokenizer_config.json vocab.json "
bpe=(--vocab-file again/vocab.json --merge-file again/merges.txt)
text="The cats' mat, 日本 <|endoftext|>"
ids=$("$MEGALITH" tokenize "${bpe[@]}" --ids-only --text "$text")
equal "both kinds of files" "$("$MEGALITH" tokenize --vocab-file again/tokenizer.json --ids-only --text "$text")" "$ids"
equal "round trip" "$("$MEGALITH" tokenize "${bpe[@]}" --ids "$ids" --text-only)" "$text"
"$MEGALITH" train_tokenizer --input cats.jsonl --json-keys title text --vocab-size 9999 --output keys >out 2>&1 ||
    fail "two keys: $(cat out)"
grep -q "ids and not 9999: no further pair is seen 2 times" out || fail "a short vocabulary is not told: $(cat out)"

"$MEGALITH" train_tokenizer --input cats.jsonl --tokenizer-type CharTokenizer --output char >out 2>&1 ||
    fail "characters: $(cat out)"
char=(--tokenizer-type CharTokenizer --vocab-file char/vocab.json)
equal "characters" \
    "$("$MEGALITH" tokenize "${char[@]}" --ids "$("$MEGALITH" tokenize "${char[@]}" --ids-only --text 'The mat 7.')" --text-only)" "The mat 7."
refuses "unknown character" "U+0078 'x' at byte 1 of the text (character 2 of it) is not in the vocabulary" tokenize \
    "${char[@]}" --text ax

# WordPiece and Unigram: the single file and the folder give the same ids, but for the tokens around a text
"$MEGALITH" train_tokenizer --input cats.jsonl --tokenizer-type BertWordPieceLowerCase --vocab-size 99 --output bert \
    --workers 2 >out 2>&1 ||
    fail "WordPiece: $(cat out)"
grep -q "ids and not 99: no further pair is seen 2 times" out ||
    fail "WordPiece: a short vocabulary is not told: $(cat out)"
grep -qF \
    "written: bert (--tokenizer-type BertWordPieceLowerCase --vocab-file bert/vocab.txt; tokenizer.json for BERT)" out \
    || fail "WordPiece: no result: $(cat out)"
equal "files of WordPiece" "$(ls bert | tr '\n' ' ')" "tokenizer.json tokenizer_config.json vocab.txt "
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file bert/vocab.txt)
ids=$("$MEGALITH" tokenize "${bert[@]}" --ids-only --text 'The CAT sat 7.')
equal "WordPiece in a folder" \
    "$("$MEGALITH" tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model bert --ids-only --text 'The CAT sat 7.')" "2 $ids 3"
equal "WordPiece and back" "$("$MEGALITH" tokenize "${bert[@]}" --ids "$ids" --text-only)" "the cat sat 7."
"$MEGALITH" train_tokenizer --input cats.jsonl --tokenizer-type BertWordPieceLowerCase --vocab-size 60 --output bert \
    >out 2>&1 || fail "WordPiece again: $(cat out)"
"$MEGALITH" train_tokenizer --input cats.jsonl --tokenizer-type SentencePieceTokenizer --vocab-size 40 --output t5 \
    >out 2>&1 || fail "Unigram: $(cat out)"
grep -qF \
    "written: t5 (--tokenizer-type SentencePieceTokenizer --tokenizer-model t5/tokenizer.model; tokenizer.json for T5)" out || fail "Unigram: no result: $(cat out)"
equal "files of Unigram" "$(ls t5 | tr '\n' ' ')" "tokenizer.json tokenizer.model tokenizer_config.json "
t5=(--tokenizer-type GPTSentencePieceTokenizer --tokenizer-model t5/tokenizer.model)
ids=$("$MEGALITH" tokenize "${t5[@]}" --ids-only --text 'The cat sat 7.')
equal "Unigram in a folder" \
    "$("$MEGALITH" tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model t5 --ids-only --text 'The cat sat 7.')" "$ids 1"
equal "Unigram and back" "$("$MEGALITH" tokenize "${t5[@]}" --ids "$ids" --text-only)" "The cat sat 7."
refuses "pairs of Unigram" "Unigram merges no pairs" train_tokenizer --input cats.jsonl --tokenizer-type \
    SentencePieceTokenizer --vocab-size 40 --min-frequency 3 --output x
refuses "few pieces" "give" train_tokenizer --input cats.jsonl --tokenizer-type SentencePieceTokenizer --vocab-size 9 \
    --output x

# a tokenizer.json of another family: characters, blanks as U+2581, BOS in front of every text
mkdir family
cat >family/tokenizer.json <<'JSON'
{"version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
 "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
 "pre_tokenizer": null, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"},
 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [0]}}},
 "model": {"type": "BPE", "unk_token": "</s>", "vocab": {"<s>": 0, "</s>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "ab": 6}, "merges": ["▁ a", "a b"]}}
JSON
echo '{"eos_token": {"content": "</s>"}}' >family/tokenizer_config.json
family=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model family)
equal "another family" "$("$MEGALITH" tokenize "${family[@]}" --ids-only --text 'ab ab</s>b')" "0 5 4 5 4 1 2 4"
equal "its text" "$("$MEGALITH" tokenize "${family[@]}" --text-only --ids 5 4 2 3)" "ab a"
printf '{"text": "ab"}\n{"text": "b"}\n' >family.jsonl
"$MEGALITH" preprocess_data --input family.jsonl --output-prefix family "${family[@]}" --append-eod >out 2>&1 ||
    fail "preprocess_data: $(cat out)"
grep -q "2 documents, 8 tokens" out || fail "preprocess_data: $(cat out)"
refuses "no folder" "missing: --tokenizer-model PATH, the folder or file of a HuggingFaceTokenizer" tokenize \
    --tokenizer-type HuggingFaceTokenizer --text a
sed -i 's/"Fuse"/"CTC"/' family/tokenizer.json
refuses "a decoder" "decoder CTC is not supported" tokenize "${family[@]}" --text a

# what the files beside a tokenizer.json say: ids of AutoTokenizer (transformers 5.23); n is the first id after the
# vocabulary
n=$(grep -o '"<|endoftext|>": [0-9]*' again/vocab.json | grep -o '[0-9]*$')
mkdir beside
folder() { # CONFIG [FILE TEXT]
    rm -f beside/*
    cp again/tokenizer.json beside/
    echo "$1" >beside/tokenizer_config.json
    [ $# -lt 3 ] || echo "$3" >"beside/$2"
}
beside() { # NAME EXPECTED TEXT
    equal "$1" \
        "$("$MEGALITH" tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model beside --ids-only --text "$3" 2>&1)" "$2"
}
ends() { # NAME EXPECTED
    equal "$1" \
        "$("$MEGALITH" tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model beside --text a | grep -o 'end of document [-0-9]*')" "end of document $2"
}
fast='"tokenizer_class": "PreTrainedTokenizerFast"'
folder "{$fast, \"eos_token\": \"a\"}" && ends "eos_token" 64
folder "{$fast, \"eos_token\": \"b\"}" special_tokens_map.json '{"eos_token": {"content": "a"}}' &&
    ends "eos_token of the map" 64
folder "{$fast, \"eos_token\": \"b\", \"added_tokens_decoder\": {}}" special_tokens_map.json '{"eos_token": "a"}' &&
    ends "eos_token beside a decoder" 65
folder "{$fast, \"eos_token\": null}" && ends "no eos_token" -1
folder "{$fast, \"eos_token\": \"<new>\"}" && ends "eos_token that is new" $((n + 1))
beside "eos_token in a text" "64 $((n + 1)) 65" "a<new>b"
folder "{$fast, \"added_tokens_decoder\": {\"9\": {\"content\": \"<new>\", \"lstrip\": true, \"special\": true}}}"
beside "added_tokens_decoder" "64 $((n + 1)) 65" "a <new>b"
folder "{$fast, \"additional_special_tokens\": [\"<new>\"], \"image_token\": \"<i>\"}"
beside "additional_special_tokens" "$((n + 2)) $((n + 1))" "<new><i>"
folder "{$fast}" added_tokens.json '{"<new>": 900}'
beside "added_tokens.json" "64 $((n + 1))" "a<new>"
folder "{$fast, \"eos_token\": \"a\", \"split_special_tokens\": true}"
beside "split_special_tokens" "27 91" "<|"
folder '{"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}'
beside "add_prefix_space" "220 65" "b"
folder '{"tokenizer_class": "RobertaTokenizer"}'
beside "the class" "$((n + 1)) 65 $((n + 2))" "b"
folder '{"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true}'
beside "add_bos_token beside a tokenizer.json" "65" "b"
cp again/vocab.json again/merges.txt beside/ && rm beside/tokenizer.json
beside "add_bos_token beside a vocab.json" "$n 65" "b"
# A checkpoint's config.json is about its network: what the tokenizer was read with counts.
folder "{$fast, \"eos_token\": \"a\"}" config.json '{"model_type": "qwen2"}'
echo '{"tokenizer_class": "PreTrainedTokenizerFast", "model_type": ""}' >beside/megalith_tokenizer.json &&
    ends "the class that a checkpoint keeps" 64
folder '{"tokenizer_class": "CohereTokenizer"}'
refuses "a class that is not built" "tokenizer_config.json: tokenizer_class: CohereTokenizer" tokenize \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model beside --text a
folder '{"tokenizer_class": "BertTokenizer"}'
refuses "a class of another model" \
    "tokenizer_config.json: tokenizer_class: BertTokenizer is for one of type WordPiece" tokenize --tokenizer-type \
    HuggingFaceTokenizer --tokenizer-model beside --text a

refuses "two texts" "give one" tokenize "${bytes[@]}" --text a --ids 1
refuses "no id" "'x' is not an id" tokenize "${bytes[@]}" --ids 1 x
refuses "id too high" "id 300 at index 1 is not in the vocabulary" tokenize "${bytes[@]}" --ids 1 300
refuses "no merges" "missing: --merge-file" tokenize --vocab-file again/vocab.json a
refuses "other vocabulary" "the vocabulary has no token" tokenize --vocab-file again/vocab.json --merge-file \
    keys/merges.txt a
refuses "wrong type" "holds a CharTokenizer, but --tokenizer-type is GPT2BPETokenizer" tokenize --vocab-file \
    char/tokenizer.json a
refuses "no file" "found no file" train_tokenizer --input nothing.txt --vocab-size 300 --output x
refuses "small vocabulary" "--vocab-size 100" train_tokenizer --input cats.jsonl --vocab-size 100 --output x
printf '{"text": "a"}\n{"text": 5}\n' >bad.jsonl
refuses "bad line" "bad.jsonl: line 2, column 10" train_tokenizer --input bad.jsonl --vocab-size 300 --output x
[ ! -e x ] || fail "a training that failed left a folder"
: >empty.txt
refuses "no text" "found no document in empty.txt" train_tokenizer --input empty.txt --vocab-size 300 --output x
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 500 locked
    refuses "a folder without rights" "locked" train_tokenizer --input cats.jsonl --vocab-size 300 --output locked/new
fi

finish
