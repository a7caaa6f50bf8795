#!/usr/bin/env bash
# run_text_generation_server on ranks that share a model answers as on one rank, waits without a request, and ends by a
# signal.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if ! command -v python3 >/dev/null; then
    echo "SKIPPED: no python3, which plays the clients"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_NUM_THREADS=1
fail() {
    echo "FAILED: $1"
    exit 1
}
for i in $(seq 1 40); do echo "line $i: of a text"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 4 --hidden-size 32 --num-attention-heads 2 --seq-length 64 --micro-batch-size 4 \
    --lr 3e-3 \
    --train-iters 20 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save model >log 2>&1 || fail "$(tail -n 3 log)"
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 64 --micro-batch-size 4 \
    --lr 3e-3 --num-experts 4 --moe-ffn-hidden-size 32 --disable-bias-linear --swiglu --normalization RMSNorm \
    --position-embedding-type rope --untie-embeddings-and-output-weights \
    --train-iters 20 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save experts >log 2>&1 || fail "$(tail -n 3 log)"

answers() { # ranks, options
    local n=$1
    shift
    : >out
    "$MEGALITH" launch --nproc_per_node "$n" run_text_generation_server --load "$model" --port 0 --num-beams 2 "$@" >out \
        2>err </dev/null &
    server=$!
    port=
    for _ in $(seq 600); do
        port=$(sed -n 's,^\(\[0\] \)*listening on http://127.0.0.1:\([0-9]*\)/.*,\2,p' out)
        [ -z "$port" ] && kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    [ -n "$port" ] || fail "the server on $n ranks has not started: $(cat out err)"
    sleep 2 # without a request
    for request in 'top_k=1' 'top_k=4 random_seed=3' 'beam_width=2' 'top_k=1 logprobs=true'; do
        # shellcheck disable=SC2086
        python3 "$MEGA_SOURCE/tests/kit/server_client.py" "$port" ask 'prompts=["line 2"]' tokens_to_generate=9 \
            $request | grep '^"' ||
            fail "$n ranks $*, $request: $(cat out err)"
    done
    kill -TERM $server
    wait $server || fail "the server on $n ranks ended with status $?: $(tail -n 3 out err)"
}
unset RANK WORLD_SIZE
model=model
answers 1 >one
answers 2 --tensor-model-parallel-size 2 >tp
answers 2 --pipeline-model-parallel-size 2 >pp
cmp -s one tp && cmp -s one pp || fail "other answers: $(cat one tp pp)"
model=experts
answers 1 >one
answers 2 --expert-model-parallel-size 2 >ep
cmp -s one ep || fail "other answers with experts: $(cat one ep)"
"$MEGALITH" launch --nproc_per_node 2 run_text_generation_server --load model --port 0 >log 2>&1 </dev/null &&
    fail "two copies of the model"
grep -q 'one request is answered at a time' log || fail "two copies of the model: $(cat log)"
echo ok
exit 0
