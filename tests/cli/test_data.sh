#!/usr/bin/env bash
# megalith data info, show, verify, merge as typed.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
run() { "$MEGALITH" "$@" >out 2>err; }
has() { grep -qE -- "$1" out || fail "not shown: $1"; }

printf '{"text": "Ab\\n"}\n{"text": ""}\n{"text": "caf\\u00e9"}\n' >a.jsonl
run preprocess_data --tokenizer-type ByteTokenizer --input a.jsonl --output-prefix a --append-eod || fail "preprocess"

run data info a_text_document --seq-length 4 || fail "info"
has '^  documents  +3$'
has '^  sequences  +2$'
has '^  tokens  +10, 2 bytes each \(u16\)'
has '^  samples  +2 of 4 tokens'
run data info a_text_document --seq-length 5 && has '^  samples  +1 of 5 tokens' || fail "the last label of a sample"
run data info a_text_document --seq-length 4
has 'mean 3.3, shortest 0, median 4, longest 6'
has '^  empty documents  +1$'

"$MEGALITH" data info a >out 2>&1 && fail "a cut name"
has 'no file a.idx, but there is a_text_document.idx; use a_text_document$'

run data show a_text_document --tokenizer-type ByteTokenizer --num-documents 3 --num-samples 2 --seq-length 4 \
    --split 1 --reset-position-ids --reset-attention-mask --eod-mask-loss || fail "show"
has '^--- document 0 of 3, 4 tokens$'
has '^Ab$'
has '^--- document 1 of 3, 0 tokens$'
has '^café'
has '^--- sample 0 of 2, 4 tokens$'
has '^ +0 +0 +0 +1 +65 "A" +98 "b" +$'
has '256 "<\|endoftext\|>"'
has '"\\xc3"'
has '"\\n"'
# after an end of document: positions start at 0, attention does not reach further back, and the end id itself has no
# loss
awk \
    '$1 ~ /^[0-9]+$/ { if (eod && !($2 == 0 && $3 == $1)) bad = 1; eod = ($5 == 256); if (eod && $4 != 0) bad = 1 } /^---/ { eod = 0 }
    END { exit bad }' out || fail "masks and positions"
run data show a_text_document && has '^65 98 10 256$' && has '^ids alone' || fail "show without a tokenizer"
run data show a_text_document --num-samples 1 && fail "samples of no length"
grep -q -- '--seq-length' err || fail "which option is missing"
run data show a_text_document --num-samples 1 --seq-length 4 --reset-position-ids &&
    fail "ends of documents without a tokenizer"
grep -q -- '--reset-position-ids: no tokenizer is given' err || fail "what knows the ends of documents"
run data show a_text_document --tokenizer-type ByteTokenizer --first 9 --num-documents 1 && fail "document 9 of 3"

printf '{"text": "One is here. Two is there."}\n{"text": "Three came. Four went. Five slept."}\n' >s.jsonl
run preprocess_data --tokenizer-type ByteTokenizer --input s.jsonl --output-prefix s --split-sentences ||
    fail "preprocess sentences"
run data show s_text_sentence --tokenizer-type ByteTokenizer --seq-length 4 && has '^--- document 1 of 2' &&
    has '^Four went\.$' ||
    fail "show sentences"
grep -q '^--- sample' out && fail "samples of a GPT of sentences"
run data show s_text_sentence --tokenizer-type ByteTokenizer --num-samples 1 --seq-length 4 &&
    fail "samples of a tokenizer without [CLS]"
grep -qF -- 'lacks [CLS]' err || fail "what the tokenizer lacks"
run data show s_text_sentence --num-samples 1 --seq-length 4 && fail "samples of sentences without a tokenizer"
grep -q -- '--num-samples: s_text_sentence has sentences' err || fail "why there are no samples"

# samples of BERT and T5
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . one two three four five is here there came went slept \
    >vocab.txt
words=(--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --vocab-extra-ids 9)
for i in 1 2 3 4 5 6; do printf \
    '{"text": "One is here. Two is there. Three came. Four went. Five slept. One went here."}\n'; done >w.jsonl
run preprocess_data "${words[@]}" --input w.jsonl --output-prefix w --split-sentences || fail "preprocess words"
run data show w_text_sentence "${words[@]}" --num-samples 3 --seq-length 24 --mask-prob 0.3 --short-seq-prob 0 ||
    fail "samples of BERT"
has '^--- sample 2 of [0-9]+, [0-9]+ tokens of 24'
has '^(the texts are in order|the second text comes first)$'
has '^ +0 +0 +2 " ?\[CLS\]"'
has '^ +[0-9]+ +[01] +4 " ?\[MASK\]" +[0-9]+ " ?[a-z.]+"'
has '^ +[0-9]+ +1 +3 " ?\[SEP\]"'
run data show w_text_sentence "${words[@]}" --num-samples 3 --seq-length 24 --bert-no-binary-head --eod-mask-loss ||
    fail "samples of single texts"
grep -qE '^the texts|second text| +[0-9]+ +1 ' out && fail "pairs without a binary head"
grep -q -- '--eod-mask-loss .*has no effect' err || fail "an option of a GPT is passed over"
run data show w_text_sentence "${words[@]}" --num-samples 2 --seq-length 24 --decoder-seq-length 16 --mask-prob 0.3 \
    --bert-nsp || fail "samples of T5"
has '^ +[0-9]+ +[0-9]+ " ?<extra_id_0>" *$'
has '^ +[0-9]+ +[0-9]+ " ?<extra_id_0>" +[0-9]+ " ?[a-z.]+"'
has 'input of the decoder'
grep -q -- '--bert-nsp .*has no effect' err || fail "an option of BERT is passed over"
run data show a_text_document --tokenizer-type ByteTokenizer --num-samples 1 --seq-length 4 --mask-prob 0.3 ||
    fail "samples of a GPT"
grep -q -- '--mask-prob 0.3 .*has no effect' err || fail "an option of sentences is passed over"

run data verify a_text_document --tokenizer-type ByteTokenizer &&
    has 'whole, 3 documents, 10 tokens, all in the vocabulary' ||
    fail "verify"
run data verify a_text_document --tokenizer-type NullTokenizer --vocab-size 100 && fail "verify with a small vocabulary"
grep -q 'is 256, expected 0 to 100' err || fail "which token"

run data merge a_text_document a_text_document --output-prefix twice --dry-run && [ ! -e twice.bin ] ||
    fail "merge --dry-run wrote"
run data merge a_text_document a_text_document --output-prefix twice || fail "merge"
run data info twice && has '^  documents  +6$' && has '^  tokens  +20' || fail "merged"
mkdir folder && cp a_text_document.* folder && cp twice.bin folder/b.bin && cp twice.idx folder/b.idx
run merge_datasets --input folder --output-prefix all || fail "merge_datasets"
run data info all && has '^  tokens  +30' || fail "merged folder"
cmp -s all.tokenizer a_text_document.tokenizer && fail "a part without a word of its tokenizer has that of the others"
cp a_text_document.tokenizer folder/b.tokenizer
run merge_datasets --input folder --output-prefix all || fail "merge_datasets with tokenizers"
cmp -s all.tokenizer a_text_document.tokenizer || fail "a merge of one tokenizer forgets it"
sed -i 's/^257 ./257 x/' folder/b.tokenizer
run merge_datasets --input folder --output-prefix all || fail "merge_datasets with two tokenizers"
[ -e all.tokenizer ] && fail "a merge of two tokenizers keeps one"

# The data of one tokenizer, read by another with as many ids: a training says so, and not where the ids are the same.
fox_lines 40 >words.txt
tr 'a-z' 'n-za-m' <words.txt >other.txt
for name in words other; do
    run train_tokenizer --input $name.txt --vocab-size 300 --output $name || fail "train_tokenizer: $(cat err)"
done
made=(--vocab-file words/vocab.json --merge-file words/merges.txt)
run preprocess_data --input words.txt --append-eod "${made[@]}" --output-prefix w || fail "preprocess"
train() { # ARGS…
    run pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --train-iters 1 --lr 1e-3 \
        --max-position-embeddings 16 --micro-batch-size 1 --eval-iters 0 --split 100,0,0 --data-path w_text_document "$@"
}
train "${made[@]}" || fail "a training: $(cat err)"
grep -q 'another tokenizer' err && fail "its own tokenizer is another: $(cat err)"
train --tokenizer-type HFTokenizer --tokenizer-model words || fail "a training: $(cat err)"
grep -q 'another tokenizer' err && fail "the same tokenizer from its folder is another: $(cat err)"
train --vocab-file other/vocab.json --merge-file other/merges.txt --dry-run || fail "a training: $(cat err)"
[ "$(grep -c 'w_text_document.tokenizer: these data were tokenized by another tokenizer' err)" = 1 ] ||
    fail "another tokenizer goes unnoticed: $(cat err)"
for command in show verify; do
    run data $command w_text_document "${made[@]}" || fail "data $command: $(cat err)"
    grep -q 'another tokenizer' err && fail "data $command: its own tokenizer is another: $(cat err)"
    run data $command w_text_document --vocab-file other/vocab.json --merge-file other/merges.txt ||
        fail "data $command: $(cat err)"
    [ "$(grep -c 'w_text_document.tokenizer: these data were tokenized by another tokenizer' err)" = 1 ] ||
        fail "data $command: another tokenizer goes unnoticed: $(cat err)"
done
rm w_text_document.tokenizer
train --vocab-file other/vocab.json --merge-file other/merges.txt || fail "without the file: $(cat err)"
grep -q 'another tokenizer' err && fail "without the file: $(cat err)"
touch folder/stray.txt
run data merge --input folder --output-prefix no && fail "a stray file"
rm folder/stray.txt folder/b.idx
run data merge --input folder --output-prefix no && fail "half a pair"
grep -q 'b.bin has no .idx' err || fail "which half"
run data merge a_text_document --output-prefix a_text_document && fail "into itself"
printf '1 69999\n' >n.txt
run preprocess_data --tokenizer-type NullTokenizer --vocab-size 70000 --input n.txt --output-prefix n || fail "null"
run data merge a_text_document n_text_document --output-prefix no && fail "two number types"
ls no.* >/dev/null 2>&1 && fail "files left by a merge that failed"

truncate -s -1 a_text_document.bin
run data verify a_text_document twice && fail "a cut file"
grep -q 'a_text_document.bin: found 19 bytes, expected 20' err && has '^twice: whole' ||
    fail "the cut one is named, the other still checked"
run data shuffle x && fail "no such verb"
grep -q 'expected show, info, verify or merge' err || fail "verbs"
exit 0
