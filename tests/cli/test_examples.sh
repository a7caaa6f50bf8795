#!/usr/bin/env bash
# The scripts of examples/, made small by options appended to them.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
set -eo pipefail
megalith_on_path
export OMP_NUM_THREADS=2
examples=$MEGA_SOURCE/examples

wants() { grep -q -- "$2" "$1" || { cat "$1"; fail "$1 does not say: $2"; }; }

# The corpus: the project's pages, one JSON object per paragraph.
cat "$MEGA_SOURCE"/*.md "$MEGA_SOURCE"/docs/*.md | tr -d '"\\\t' |
    awk -v RS= '{ gsub(/\n/, " "); printf "{\"text\": \"%s\", \"content\": \"%s\"}\n", $0, $0 }' >my-corpus.json
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

megalith preprocess_data --input my-corpus.json --json-keys content --output-prefix codeparrot --tokenizer-type \
    GPT2BPETokenizer \
    --vocab-file $VOCAB_FILE --merge-file $MERGE_FILE --append-eod >log.preprocess2
# shellcheck disable=SC2086
bash "$examples/pretrain_codeparrot_110m.sh" $small --lr-warmup-iters 2 >log.codeparrot 2>&1 ||
    { cat log.codeparrot; fail pretrain_codeparrot_110m.sh; }
ls experiments/tensorboard/*tfevents* >/dev/null || fail "no TensorBoard file"

# The same on several ranks.
if command -v mpirun >/dev/null && ! megalith doctor | grep -qE '^  MPI  *none'; then
    export RANKS_PER_NODE=2 ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
    # shellcheck disable=SC2086
    bash "$examples/pretrain_gpt_distributed.sh" $small >log.distributed 2>&1 ||
        { cat log.distributed; fail pretrain_gpt_distributed.sh; }
    wants log.distributed 'using world size: 2, data-parallel-size: 2, tensor-model-parallel size: 1'
    wants log.distributed 'iteration *6/ *6 |'
    # shellcheck disable=SC2086
    if RANKS_PER_NODE=4 bash "$examples/pretrain_gpt_distributed_with_mp.sh" $small >log.mp 2>&1; then
        wants log.mp \
            'using world size: 4, data-parallel-size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 2'
        wants log.mp 'iteration *6/ *6 |'
    else
        grep -q 'not implemented yet' log.mp || { cat log.mp; fail pretrain_gpt_distributed_with_mp.sh; }
        echo "left out: pretrain_gpt_distributed_with_mp.sh: $(grep -m 1 'not implemented yet' log.mp)"
    fi
    # shellcheck disable=SC2086
    bash "$examples/pretrain_codeparrot_110m_distributed.sh" $small --lr-warmup-iters 2 >log.codeparrot2 2>&1 ||
        { cat log.codeparrot2; fail pretrain_codeparrot_110m_distributed.sh; }
    [ -s experiments/codeparrot-small-distributed/iter_0000006/model.safetensors ] || fail "no checkpoint of two ranks"
fi

head -c 30000 my-corpus.json >text.txt
# shellcheck disable=SC2086
bash "$examples/run_clm.sh" text.txt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --block_size 32 \
    --max-position-embeddings 32 \
    --per_device_train_batch_size 4 --max_train_steps 4 >log.clm 2>&1 || { cat log.clm; fail run_clm.sh; }
wants log.clm 'run_clm -   Total optimization steps = 4'
grep -q '"perplexity"' awesome_model/all_results.json || fail "no results of run_clm.sh"

bash "$examples/generate_text.sh" --num-layers 2 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 32 \
    --seq-length 32 \
    --out-seq-length 8 >log.generate 2>&1 || { cat log.generate; fail generate_text.sh; }
[ "$(wc -l <unconditional_samples.json)" = 2 ] || fail "unconditional_samples.json: expected 2 lines"
echo "ok: the examples run"
