#!/usr/bin/env bash
# run_text_generation_server: answers are those of generate_samples_gpt; requests that are wrong, too large, or whose
# clients have gone; many clients at once; the end by a signal. Over ranks: tests/ranks/test_server.sh.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
if ! command -v python3 >/dev/null; then
    echo "SKIPPED: no python3, which plays the clients"
    exit 77
fi
export OMP_NUM_THREADS=1
client() { timeout 120 python3 "$MEGA_SOURCE/tests/kit/server_client.py" "$port" "$@"; }
for i in $(seq 1 40); do echo "line $i: of a text"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 64 --micro-batch-size 4 \
    --lr 3e-3 \
    --train-iters 20 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save model >log 2>&1 || fail "$(tail -n 3 log)"

start() { # options
    : >out
    "$MEGALITH" run_text_generation_server --load model --port 0 "$@" >out 2>err &
    server=$!
    for _ in $(seq 300); do
        port=$(sed -n 's,^listening on http://127.0.0.1:\([0-9]*\)/.*,\1,p' out)
        [ -z "$port" ] || return 0
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    fail "the server has not started: $(cat out err)"
}
stop() {
    kill -TERM $server
    wait $server || fail "the server ended with status $?: $(tail -n 3 out err)"
    cat out err | grep -q 'has answered' || fail "the last line: $(tail -n 3 out)"
}
texts() { "$MEGALITH" generate_samples_gpt --load model --out-seq-length 12 --genfile texts.json --overwrite "$@" >log \
    2>&1 || fail "$*: $(cat log)"; sed 's/^{"text":\(".*"\),"length".*/\1/' texts.json; }

refuses "a missing model" "--load|missing" run_text_generation_server --port 0
refuses "an address" "--host nowhere.x|IPv4" run_text_generation_server --load model --host nowhere.x
start --num-beams 3 --max-request-bytes 1000000
timeout 300 "$MEGALITH" run_text_generation_server --load model --port "$port" >log 2>&1 &&
    fail "two servers on one port"
grep -q -- "--port $port: cannot be listened on" log || fail "two servers on one port: $(cat log)"
client ask 'prompts=["line 1"]' tokens_to_generate=12 top_k=1 >a || fail "an answer: $(cat a)"
texts --prompt "line 1" --greedy | cmp -s - a || fail "greedy: $(cat a texts.json)"
client ask 'prompts=["line 1"]' tokens_to_generate=12 top_k=5 temperature=0.8 random_seed=9 >a
texts --prompt "line 1" --top_k 5 --temperature 0.8 --seed 9 | cmp -s - a || fail "drawn: $(cat a texts.json)"
client ask 'prompts=["li"]' tokens_to_generate=12 beam_width=3 length_penalty=1.5 >a
texts --prompt "li" --num-beams 3 --length-penalty 1.5 | cmp -s - <(head -n 1 a) ||
    fail "beams: $(cat a texts.json log)"
grep '^request' err | tail -n 1 | grep -q ' 36 new tokens' || fail "new tokens of beams: $(tail -n 1 err)"
[ "$(grep -c '^"' a)" -eq 3 ] && grep -q '^scores' a || fail "all beams are returned: $(cat a)"
# All texts of a request end at the same position.
client ask 'prompts=["line 1: of", "li"]' tokens_to_generate=4 top_k=1 logprobs=true >a
grep -qF '[14, 14]' a || fail "two prompts: $(cat a)"
before=$(grep -c '^request' err)
client ask 'prompts=["line 1"]' tokens_to_generate=2 no_log=true >a || fail "no_log: $(cat a)"
[ "$(grep -c '^request' err)" -eq "$before" ] || fail "no_log: $(tail -n 1 err)"
client ask 'prompts=["line 1"]' tokens_to_generate=0 logprobs=true >a
grep -q '^logprobs' a && grep -qF '[6]' a || fail "probabilities of a prompt: $(cat a)"
client ask 'prompts=[""]' tokens_to_generate=5 add_BOS=true top_p=0.9 top_p_decay=0.5 >a ||
    fail "an empty prompt: $(cat a)"
client mistakes >a 2>&1 || fail "mistakes: $(cat a)"

texts --prompt "line 1" --prompt "ab" --prompt "of a" --prompt "7" --greedy >a
python3 -c 'import json; print(json.dumps(dict(zip(["line 1", "ab", "of a", "7"], map(json.loads, open("a"))))))' \
    >expected.json
client clients expected.json >a 2>&1 && grep -q '^0 of' a || fail "many clients: $(cat a)"
# More clients than there are places keep their connections open: the server does not wait for 30 s until they are idle
# for too long.
client idle 600 "$(at_most 20)" >a 2>&1 || fail "600 clients that stay connected: $(cat a)"
stop
grep -q '^request 1: status 200' err || fail "a line a request: $(head -n 3 err)"

# Weights that are NaN: each request gets the reason, and the server goes on.
mkdir bad && cp model/iter_0000020/*.json model/iter_0000020/model.safetensors bad && chmod u+w bad/*
printf '\377\377\377\377' | dd of=bad/model.safetensors bs=1 seek=$(($(stat -c %s bad/model.safetensors) - 4)) \
    conv=notrunc status=none
start --load bad --num-beams 2
for field in top_k=1 beam_width=2; do
    client ask 'prompts=["line 1"]' tokens_to_generate=2 $field >a 2>&1 && fail "an answer of NaN: $(cat a)"
    grep -q 'status 500.*are not finite; the weights of bad have NaN' a || fail "$field of NaN: $(cat a)"
done
stop

# Clients that send a byte now and then: more than the server has places for, by the time and by the rate of a request.
start --max-receive-seconds 1 --min-receive-rate 0
client slow 600 1 >a 2>&1 || fail "600 clients: $(cat a)"
stop
start --max-receive-seconds 1000 --min-receive-rate 1000
client slow 600 5 >a 2>&1 || fail "600 clients, by the rate: $(cat a)"
stop

start --max-waiting-requests 1 --batch 2
client clients expected.json >a 2>&1 || fail "a short queue: $(cat a)"
(client ask 'prompts=["l"]' tokens_to_generate=60 >last 2>&1 || true) &
asker=$!
sleep 0.2
stop
wait $asker
finish
