#!/usr/bin/env bash
# megalith preprocess_data as typed: the original's files byte for byte, every kind of input, and what goes wrong.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
run() { "$MEGALITH" "$@" >out 2>err; }
bytes() { run preprocess_data --tokenizer-type ByteTokenizer "$@"; }
same() { cmp "$1_text_document.bin" "$2_text_document.bin" && cmp "$1_text_document.idx" "$2_text_document.idx"; }

# --- one text in every input format gives the same result
for i in $(seq 1 300); do printf '{"id": %d, "text": "document %d \\u00e9\\n", "title": "t%d"}\n' "$i" "$i" "$i"; done \
    >a.jsonl
gzip -c a.jsonl >a.gz
bytes --input a.jsonl --output-prefix plain --append-eod || fail "plain"
grep -q '^300 documents, ' out || fail "count of documents: $(cat out)"
grep -q '^written: plain_text_document.bin and .idx' out || fail "where the result lies"
grep -q '^Vocab size: 257$' err && grep -q '^Output prefix: plain$' err && grep -q '^Opening a.jsonl$' err ||
    fail "the original's lines"
bytes --input a.gz --output-prefix packed --append-eod && same plain packed || fail "gzip"
bytes --input - --output-prefix stdin --append-eod <a.jsonl && same plain stdin || fail "standard input"
bytes --input - --output-prefix stdin --append-eod <a.gz && same plain stdin || fail "packed standard input"
if command -v zstd >/dev/null; then
    zstd -q a.jsonl -o a.zst && bytes --input a.zst --output-prefix zst --append-eod && same plain zst || fail "zstd"
fi
mkdir folder && split -l 77 -a 2 a.jsonl folder/part. && bytes --input folder --output-prefix parts --append-eod &&
    same plain parts || fail "folder"
bytes --input 'folder/part.a?' --output-prefix parts --append-eod && same plain parts || fail "pattern"
for w in 2 3 7; do
    bytes --input a.jsonl --output-prefix "w$w" --append-eod --workers "$w" --chunk-size 5 && same plain "w$w" ||
        fail "$w workers"
done
"$MEGALITH" tools/preprocess_data.py --tokenizer_type=ByteTokenizer --input a.jsonl --output-prefix py --append-eod \
    --json-key text >out 2>err &&
    same plain py || fail "as an old script types it"

# --- several keys
bytes --input a.jsonl --output-prefix k --json-keys title text --append-eod || fail "two keys"
[ -f k_title_document.idx ] && same plain k || fail "files of two keys"

# --- plain text
printf 'one\n\ntwo\n\n\nthree\n' >p.txt
bytes --input p.txt --output-prefix p && grep -q '^1 document, 17 tokens' out || fail "one document a file"
bytes --input p.txt --output-prefix p --split-on-blank-lines && grep -q '^3 documents, 17 tokens' out ||
    fail "split on blank lines"
printf '\n  \n' >blank.txt
bytes --input blank.txt --output-prefix blank --split-sentences && grep -q 'the text has no tokens' err ||
    fail "a blank text: $(cat out)"
run preprocess_data --tokenizer-type CharTokenizer --vocab-file chars.json --input p.txt --output-prefix c \
    --split-on-blank-lines ||
    fail "characters"
[ -f chars.json ] && grep -q 'chars.json: made' err || fail "vocabulary of characters"
run preprocess_data --tokenizer-type CharTokenizer --vocab-file chars.json --input p.txt --output-prefix c2 \
    --split-on-blank-lines &&
    same c c2 || fail "vocabulary of characters again"
run preprocess_data --tokenizer-type CharTokenizer --vocab-file new.json --input - --output-prefix c3 <p.txt
[ $? = 2 ] && grep -q 'standard input does not allow' err || fail "characters from standard input"

# --- sentences: each is a sequence; the end of a document belongs to its last one
printf '{"text": "Dr. Who left. He came.\\n\\nWas it so?"}\n{"text": " "}\n{"text": "One"}\n' >s.jsonl
printf 'dr\n' >list
bytes --input s.jsonl --output-prefix s --split-sentences --abbreviations list --append-eod --save-sentence-parameters \
    made || fail "sentences"
grep -q '^4 sentences$' out && grep -q '^written: s_text_sentence.bin' out && grep -q 'Learning from the input' err ||
    fail "count of sentences: $(cat out)"
"$MEGALITH" data info s_text_sentence | grep -q 'sequences *4$' || fail "sequences are sentences"
grep -q '^dr$' made/abbrev_types.txt && [ -f made/ortho_context.tab ] || fail "parameters"
for w in 1 3; do
    bytes --input s.jsonl --output-prefix "s$w" --split-sentences --sentence-parameters made --append-eod --workers \
        "$w" || fail "parameters that are read"
    cmp s_text_sentence.bin "s${w}_text_sentence.bin" && cmp s_text_sentence.idx "s${w}_text_sentence.idx" ||
        fail "sentences, $w workers"
done
bytes --input s.jsonl --output-prefix k --split-sentences --keep-newlines --sentence-parameters made &&
    grep -q '^3 documents, 37 tokens' out || fail "white space stays: $(cat out)"
bytes --input - --output-prefix cn --split-sentences --lang chinese <s.jsonl && grep -q '^2 sentences' out ||
    fail "a language that needs no parameters: $(cat out)"
# a tokenizer that adds [CLS] and [SEP] to a text does not add them to sentences
"$MEGALITH" train_tokenizer --input s.jsonl --tokenizer-type BertWordPieceLowerCase --vocab-size 60 --output wp >out \
    2>&1 || fail "WordPiece: $(cat out)"
[ \
    "$("$MEGALITH" tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model wp --ids-only --text one | cut -d' ' -f1)" = 2 ] || fail "no [CLS] around a text"
run preprocess_data --input s.jsonl --output-prefix wp --split-sentences --sentence-parameters made --tokenizer-type \
    HuggingFaceTokenizer --tokenizer-model wp || fail "$(cat err)"
run preprocess_data --input s.jsonl --output-prefix wv --split-sentences --sentence-parameters made --tokenizer-type \
    BertWordPieceLowerCase --vocab-file wp/vocab.txt || fail "$(cat err)"
cmp wp_text_sentence.bin wv_text_sentence.bin && cmp wp_text_sentence.idx wv_text_sentence.idx ||
    fail "sentences have tokens of a template"
for lang in klingon chines; do
    bytes --input s.jsonl --output-prefix kl --split-sentences --lang "$lang" && fail "--lang $lang"
    grep -q -- "--lang $lang (argument .*expected english, german" err || fail "--lang $lang: $(cat err)"
done
bytes --input s.jsonl --output-prefix unsplit --lang klingon ||
    fail "a language where no sentences are split: $(cat err)"
refuses "standard input cannot be read twice" "--split-sentences|--sentence-parameters" preprocess_data --input - \
    --output-prefix x --split-sentences --tokenizer-type ByteTokenizer
refuses "options of sentences" "--keep-newlines|--abbreviations|--split-sentences" preprocess_data --input s.jsonl \
    --output-prefix x --keep-newlines \
    --abbreviations list --tokenizer-type ByteTokenizer
refuses "files of sentences" "there is no file nothing|abbrev_types.txt already" preprocess_data --input s.jsonl \
    --output-prefix x --split-sentences \
    --abbreviations nothing --save-sentence-parameters made --tokenizer-type ByteTokenizer
refuses "a folder without parameters" "--sentence-parameters|abbrev_types.txt" preprocess_data --input s.jsonl \
    --output-prefix x --split-sentences \
    --sentence-parameters folder --tokenizer-type ByteTokenizer

# --- mistakes: named, no file left, exit status not 0
mistake() { # expected text, then options
    local expected=$1
    shift
    bytes "$@" --output-prefix bad && fail "accepted: $*"
    grep -qF -- "$expected" err || fail "no \"$expected\" for: $*"
    ls bad_* >/dev/null 2>&1 && fail "files left: $*"
    return 0
}
printf '{"text": "a"}\n{"text": "b", }\n{"text": 1}\n' >bad.in
mistake 'bad.in: line 2, column 15: expected a key in double quotes' --input bad.in
mv bad.in broken.jsonl
bytes --input broken.jsonl --output-prefix skipped --on-bad-line skip || fail "skip"
grep -q '^2 bad lines left out' out && grep -q 'line 3, column 10: the value of "text" is a number' err ||
    fail "skip counts"
printf '[{"text": "a"}]' >array.json
mistake "jq -c '.[]' array.json" --input array.json
mistake 'nowhere.jsonl' --input a.jsonl nowhere.jsonl
head -c 300 a.gz >cut.gz
mistake 'cut short' --input cut.gz
printf '{"text": "a\377"}\n' >latin.jsonl
mistake 'column 12: bytes that are not UTF-8; convert it: iconv -f ENCODING -t UTF-8 latin.jsonl' \
    --input latin.jsonl
printf 'label,text\n1,The fox runs.\n0,A dog sleeps.\n' >table.txt
run preprocess_data --tokenizer-type ByteTokenizer --input table.txt --output-prefix table || fail "a table as text"
[ "$(grep -c 'warning: table.txt looks like a CSV file of 2 columns, and is read as plain text' err)" = 1 ] ||
    fail "a CSV file named .txt is read without a word: $(cat err)"
mistake '--input-format' --input p.txt --input-format csv
mistake 'no key "body", found "id", "text", "title"' --input a.jsonl --json-keys body
mistake 'one text per document' --input p.txt --json-keys text title
run preprocess_data --tokenizer-type ByteTokenizer --input a.jsonl --output-prefix p.txt/x && fail "a file as a folder"
grep -q 'p.txt' err || fail "which folder"
run preprocess_data --tokenizer-type ByteTokenizer && fail "no input"
grep -q -- '--input' err && grep -q -- '--output-prefix' err || fail "both missing options are named"
run preprocess_data
[ $? = 2 ] && grep -q 'example' out || fail "example"

# --- the original's pair
data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}
if [ ! -d "$data/megatron-indexed" ]; then
    echo "SKIPPED: $data/megatron-indexed is not there, the comparison with the original's files is left out"
    exit 77
fi
run preprocess_data --input "$data/corpus/openwebtext-1000.jsonl" --output-prefix o --append-eod --workers 3 \
    --vocab-file "$data/megatron-indexed/gpt2-tiny-vocab.json" --merge-file \
    "$data/megatron-indexed/gpt2-tiny-merges.txt" ||
    fail "openwebtext"
for e in bin idx; do
    cmp "o_text_document.$e" "$data/megatron-indexed/meg-gpt2-openwebtext_text_document.$e" ||
        fail "differs from the original"
done
