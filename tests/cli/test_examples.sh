#!/usr/bin/env bash
# The scripts of examples/, each run small by options appended to it.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
set -eo pipefail
megalith_on_path
export OMP_NUM_THREADS=2
examples=$MEGA_SOURCE/examples

wants() { grep -q -- "$2" "$1" || { cat "$1"; fail "$1 does not say: $2"; }; }

# A corpus of our own: the project's pages, a JSON object a paragraph.
cat "$MEGA_SOURCE"/*.md "$MEGA_SOURCE"/docs/*.md | tr -d '"\\\t' | awk -v RS= '{ gsub(/\n/, " "); printf "{\"text\": \"%s\", \"content\": \"%s\"}\n", $0, $0 }' >my-corpus.json
megalith train_tokenizer --input my-corpus.json --vocab-size 512 --output tokenizer >log.tokenizer
export VOCAB_FILE=tokenizer/vocab.json MERGE_FILE=tokenizer/merges.txt

bash "$examples/preprocess_data.sh" >log.preprocess 2>&1 || { cat log.preprocess; fail preprocess_data.sh; }
[ -s my-gpt2_text_document.bin ] || fail "no my-gpt2_text_document.bin"

small="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 2
    --global-batch-size 4 --train-iters 6 --lr-decay-iters 6 --log-interval 2 --save-interval 6 --eval-interval 3 --eval-iters 1 --split 80,10,10"
# shellcheck disable=SC2086
bash "$examples/pretrain_gpt.sh" $small >log.pretrain 2>&1 || { cat log.pretrain; fail pretrain_gpt.sh; }
wants log.pretrain 'iteration *6/ *6 |'
[ -s checkpoints/gpt2_345m/iter_0000006/model.safetensors ] || fail "no checkpoint of pretrain_gpt.sh"

megalith preprocess_data --input my-corpus.json --json-keys content --output-prefix codeparrot --tokenizer-type GPT2BPETokenizer \
    --vocab-file $VOCAB_FILE --merge-file $MERGE_FILE --append-eod >log.preprocess2
# shellcheck disable=SC2086
bash "$examples/pretrain_codeparrot_110m.sh" $small --lr-warmup-iters 2 >log.codeparrot 2>&1 || { cat log.codeparrot; fail pretrain_codeparrot_110m.sh; }
ls experiments/tensorboard/*tfevents* >/dev/null || fail "no TensorBoard file"

bash "$examples/generate_text.sh" --num-layers 2 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 32 \
    --out-seq-length 8 >log.generate 2>&1 || { cat log.generate; fail generate_text.sh; }
[ "$(wc -l <unconditional_samples.json)" = 2 ] || fail "unconditional_samples.json: expected 2 lines"
echo "ok: the examples run"
