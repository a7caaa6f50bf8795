#!/usr/bin/env bash
# generate_samples_gpt in each of its modes. The model is a byte model with hardly any training, so it also generates
# invalid UTF-8.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export OMP_NUM_THREADS=1
generate() { "$MEGALITH" generate_samples_gpt --load model --out-seq-length 12 "$@" 2>err; }

for i in $(seq 1 40); do echo "line $i of a text"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --micro-batch-size 2 \
    --lr 1e-3 \
    --train-iters 2 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save model >log 2>&1 || fail "$(tail -n 3 log)"

# In every mode the output file has one whole JSON object per line, whatever the bytes.
generate --num-samples 30 --genfile free.json >out || fail "no prompt: $(cat err)"
[ "$(grep -cE '^\{"text":".*","length":[0-9]+,"finished":(true|false)\}$' free.json)" = 30 ] ||
    fail "no prompt: $(cat free.json)"
iconv -f UTF-8 -t UTF-8 free.json >valid || fail "the JSON lines are not UTF-8"
generate --prompt ab --prompt cd --genfile prompts.json >out || fail "prompts: $(cat err)"
[ "$(grep -cE '^\{"text":"(ab|cd)' prompts.json)" = 2 ] || fail "prompts: $(cat prompts.json)"
printf 'ab\ncd\n' >prompts.txt
generate --sample-input-file prompts.txt --genfile file.json >out || fail "prompt file: $(cat err)"
cmp -s prompts.json file.json || fail "a file of prompts answers otherwise than the prompts themselves"
[ "$(grep -ac '^Context:' prompts.txt.out)" = 2 ] || fail "prompts.txt.out: $(cat prompts.txt.out)"
printf 'ab\ncd\nstop\nef\n' | generate --interactive --genfile asked.json >out || fail "interactive: $(cat err)"
cmp -s prompts.json asked.json || fail "a conversation answers otherwise than the prompts themselves"

# Without a prompt nothing can be written: an error that says how to begin a text, except for who was asked and left.
: >empty.txt
refuses "standard input without a prompt" 'standard input holds no prompt|--prompt TEXT|--num-samples N for texts' \
    generate_samples_gpt --load model --out-seq-length 3
refuses "a file without a prompt" 'empty.txt holds no prompt' generate_samples_gpt --load model --out-seq-length 3 \
    --sample-input-file empty.txt
[ -e empty.txt.out ] && fail "a file without a prompt leaves an output: $(ls -l empty.txt.out)"
printf '\n\n' >lines.txt
cp prompts.txt.out lines.txt.out
refuses "a file of empty lines" 'lines.txt holds no prompt' generate_samples_gpt --load model --out-seq-length 3 \
    --sample-input-file lines.txt
cmp -s prompts.txt.out lines.txt.out || fail "a file of empty lines empties the output of an earlier run"
printf '\n' | "$MEGALITH" generate_samples_gpt --load model --out-seq-length 3 --genfile none.json >out 2>&1 &&
    fail "an empty line is a prompt"
[ -e none.json ] && fail "standard input without a prompt leaves a file"
echo stop | generate --interactive >out || fail "a conversation that ends at once: $(cat err)"

grep -q 'earlier run' err && fail "a new file is said to replace one: $(cat err)"
generate --prompt ab --genfile asked.json >out &&
    grep -q '^asked.json: the output of an earlier run there is replaced' err ||
    fail "replaced without a word: $(cat err)"

# Batch size and cache do not change the text.
generate --prompt ab --prompt cd --batch 2 --genfile batch.json >out || fail "batch: $(cat err)"
cmp -s prompts.json batch.json || fail "a batch of two answers otherwise"
generate --prompt ab --prompt cd --recompute --genfile again.json >out || fail "recompute: $(cat err)"
cmp -s prompts.json again.json || fail "without the cache the answers differ"
# The score of the best beam is the sum of the logarithms of its new tokens' probabilities over their number.
generate --prompt ab --num-beams 3 --logprobs --genfile beams.json >out || fail "beams: $(cat err)"
sed 's/.*"logprobs":\[\([^]]*\)\],"score":\([^,]*\),.*/\2,\1/' beams.json |
    awk -F, \
        'NF != 14 { exit 1 } { for (i = 3; i <= NF; i++) sum += $i; d = sum / 12 - $1; exit !(d < 1e-5 && d > -1e-5) }' || fail "probabilities of a beam: $(cat beams.json)"
# A text ends with any of the ids of generation_config.json, else of config.json, and does not show it; --stop_token is
# the only one.
generate --prompt ab --greedy --logprobs --genfile whole.json >out || fail "a whole text: $(cat err)"
end=$(sed 's/.*"tokens":\[\([^]]*\)\].*/\1/' whole.json | cut -d, -f6)
cp -r model/iter_0000002 ends && rm -r ends/state
for file in generation_config.json config.json; do
    sed -i "s/\(\"eos_token_id\":\).*[0-9]/\1 [256, $end]/" ends/$file
    "$MEGALITH" generate_samples_gpt --load ends --out-seq-length 12 --prompt ab --greedy --genfile ended.json >out \
        2>err || fail "$file: $(cat err)"
    grep -q '"length":[3-6],"finished":true' ended.json || fail "$file with two ends: $(cat ended.json)"
    rm -f ends/generation_config.json
done
"$MEGALITH" generate_samples_gpt --load ends --out-seq-length 12 --prompt ab --greedy --stop_token 256 --genfile \
    ended.json >out 2>err || fail "$(cat err)"
grep -q '"length":14,"finished":false' ended.json || fail "--stop_token beside other ends: $(cat ended.json)"
# All options that contradict the loaded folder are reported together.
refuses "options against the folder" \
    '--layernorm-epsilon 0.5 (argument|the model has 1e-05; leave the option out|--tokenizer-type CharTokenizer (argument|is a ByteTokenizer' \
    generate_samples_gpt --load model --prompt a --out-seq-length 2 --layernorm-epsilon 0.5 --tokenizer-type \
    CharTokenizer
generate --prompt ab --layernorm-epsilon 1e-5 --tokenizer-type ByteTokenizer >out ||
    fail "options that agree with the folder: $(cat err)"
# Files of another tokenizer, and options that belong to such files, are refused by each command that loads a folder.
"$MEGALITH" train_tokenizer --input text.txt --vocab-size 280 --output bpe >log 2>&1 || fail "$(tail -3 log)"
files="--vocab-file bpe/vocab.json --merge-file bpe/merges.txt"
for command in "generate_samples_gpt --prompt a --out-seq-length 2" "run_text_generation_server --port 0 --dry-run" \
    "tasks --task LM_LOSS --valid-data text.txt --seq-length 8 --micro-batch-size 1" \
    "merge_mp_partitions --model-type GPT --save merged"; do
    # shellcheck disable=SC2086
    refuses "other files, ${command%% *}" \
        '--vocab-file bpe/vocab.json (argument|another tokenizer than the one in the folder' \
        $command --load model $files
    # shellcheck disable=SC2086
    refuses "merges alone, ${command%% *}" '--merge-file bpe/merges.txt (argument|it belongs to --vocab-file' \
        $command --load model --merge-file bpe/merges.txt
done
again=(pretrain_gpt --load model --finetune --use-checkpoint-args --seq-length 32 --micro-batch-size 2 --lr 1e-3 \
    --train-iters 1
    --data-path text_text_document --split 100,0,0 --eval-iters 0 --dry-run)
for option in "--merge-file bpe/merges.txt" "--tiktoken-pattern v1" "--tiktoken-num-special-tokens 21"; do
    # shellcheck disable=SC2086
    refuses "$option, generation" "$option (argument|the tokenizer is the model's (ByteTokenizer)" \
        generate_samples_gpt --load model --prompt a --out-seq-length 2 $option
    # shellcheck disable=SC2086
    refuses "$option, training" "$option (argument|the tokenizer is the model's (ByteTokenizer)" "${again[@]}" $option
done
for type in GPT2BPETokenizer Llama2Tokenizer; do
    refuses "$type, generation" "--tokenizer-type $type (argument|is a ByteTokenizer; leave the option out" \
        generate_samples_gpt --load model --prompt a --out-seq-length 2 --tokenizer-type $type
    refuses "$type, training" "--tokenizer-type $type (argument|is a ByteTokenizer; leave the option out" \
        "${again[@]}" --tokenizer-type $type
done
# shellcheck disable=SC2086
refuses "files of a type that has none" "--vocab-file bpe/vocab.json (argument|a ByteTokenizer is read from no file" \
    generate_samples_gpt --load model --prompt a --out-seq-length 2 --tokenizer-type ByteTokenizer $files
# Using one file as input and output, or as two outputs, is refused before it is changed, also if the names differ.
ln -s prompts.txt link.txt && ln prompts.txt hard.txt && cp prompts.txt kept.txt
for same in "--sample-output-file prompts.txt" "--sample-output-file ./link.txt" "--genfile prompts.txt" \
    "--genfile hard.txt"; do
    # shellcheck disable=SC2086
    refuses "one file, $same" "--sample-input-file prompts.txt|${same% *}|same file|give another name" \
        generate_samples_gpt --load model \
        --sample-input-file prompts.txt $same
    cmp -s prompts.txt kept.txt || fail "$same: the prompts are gone"
done
for same in "--genfile prompts.txt.out" "--genfile new --sample-output-file ./new"; do
    # shellcheck disable=SC2086
    refuses "two outputs, $same" "--sample-output-file|--genfile|both would overwrite" generate_samples_gpt --load \
        model \
        --sample-input-file prompts.txt $same
done
"$MEGALITH" generate_samples_gpt --load model --genfile prompts.txt --overwrite <prompts.txt >out 2>err &&
    fail "standard input was overwritten"
grep -q 'standard input' err && cmp -s prompts.txt kept.txt || fail "standard input and --genfile: $(cat err)"
generate --sample-input-file prompts.txt --sample-output-file /dev/null --genfile /dev/null >out ||
    fail "to nowhere, twice: $(cat err)"

# All prompts that are too long are reported before the first answer; the output of an earlier run stays until there is
# new output.
long=$(printf 'x%.0s' $(seq 40))
generate --prompt ab --prompt "$long" --prompt "${long}y" --genfile part.json >out &&
    fail "a prompt that is too long was taken"
grep -q '2 mistakes' err && [ ! -e part.json ] || fail "two prompts that are too long: $(cat err)"
cp prompts.json part.json
generate --prompt "$long" --genfile part.json >out
cmp -s prompts.json part.json || fail "an error before the first answer costs those of an earlier run"
generate --prompt "$long" --genfile none.json >out
[ ! -e none.json ] || fail "a file for no answer"
generate --prompt ab --genfile part.json >out && [ "$(wc -l <part.json)" = 1 ] ||
    fail "answers of an earlier run are mixed with new ones"
# A line that is too long is reported and skipped; the other answers stay in the order of the lines and are unchanged.
printf 'ab\n%s\n\ncd\n' "$long" >uneven.txt
generate --prompt ab --prompt x --prompt cd --genfile even.json >out || fail "three prompts: $(cat err)"
for batch in 1 2 3; do
    generate --sample-input-file uneven.txt --genfile uneven.json --batch $batch >out ||
        fail "a long line, batch of $batch: $(cat err)"
    grep -q 'uneven.txt, line 2: prompt of 40 tokens: the model has 32 positions' err ||
        fail "a long line is not told: $(cat err)"
    [ "$(sed -n 2p uneven.json)" = "{\"text\":\"$long\",\"length\":40,\"finished\":false}" ] ||
        fail "answer to a long line: $(cat uneven.json)"
    cmp -s <(sed 2d even.json) <(sed 2d uneven.json) ||
        fail "a long line changes others, batch of $batch: $(cat uneven.json)"
    [ "$(grep -ac '^Context:' uneven.txt.out)" = 3 ] && grep -axA2 "Context:$long" uneven.txt.out |
        grep -aqx 'Megatron-LM:' ||
        fail "uneven.txt.out: $(cat uneven.txt.out)"
done
printf '%s\nab\n' "$long" | generate >out || fail "a long line of a conversation: $(cat err)"
grep -q 'standard input, line 1:' err && grep -aq '^ab' out || fail "a long line of a conversation: $(cat err out)"

ln -s /dev/full full
cp prompts.txt.out earlier.out
generate --sample-input-file prompts.txt --genfile full >out && fail "a full disk is not told"
[ -L full ] && cmp -s prompts.txt.out earlier.out ||
    fail "an error before the first answer costs an output of an earlier run"
mkfifo asked
rm -f out err
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 12 --sample-input-file asked --sample-output-file \
    cut.out --genfile cut.json >out 2>err &
asked=$!
exec 9>asked
printf 'ab\ncd\n' >&9
for _ in $(seq 100); do
    [ "$(grep -ac '^Context:' cut.out 2>/dev/null)" = 2 ] && break
    sleep 0.1
done
# While it runs, no other process can write to its output under any name, and no existing text is lost.
ln -s cut.json other-name
for dry in '' --dry-run; do
    for same in "--genfile cut.json" "--genfile other-name" \
        "--sample-input-file prompts.txt --sample-output-file cut.out"; do
        # shellcheck disable=SC2086
        refuses "two runs with one output, $same $dry" \
            ": process $asked on host $(uname -n) has been writing there since 20|choose another --" \
            generate_samples_gpt --load model --out-seq-length 12 $same $([ "${same#--g}" = "$same" ] ||
            echo --prompt ab) $dry
    done
done
kill $asked && wait $asked
exec 9>&-
[ -z "$(find . -name '*.lock')" ] || fail "a lock is left: $(find . -name '*.lock')"
cmp -s prompts.json cut.json || fail "after a signal: $(cat cut.json)"
cmp -s prompts.txt.out cut.out || fail "after a signal: $(cat cut.out)"

# If the vocabulary is padded, ids that the tokenizer does not have are never generated.
for i in $(seq 200); do printf '%s ' $((i * 7919 % 300)); done >ints.txt
null="--tokenizer-type NullTokenizer --vocab-size 300"
# shellcheck disable=SC2086
"$MEGALITH" preprocess_data --input ints.txt $null --append-eod --output-prefix ints >log 2>&1 || fail "$(cat log)"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --micro-batch-size 2 \
    --lr 1e-3 \
    --train-iters 1 $null --data-path ints_text_document --split 100,0,0 --eval-iters 0 --save wide >log 2>&1 ||
    fail "$(tail -n 3 log)"
mkdir padded && cp wide/iter_0000001/{config.json,model.safetensors} padded
"$MEGALITH" generate_samples_gpt --load padded --tokenizer-type ByteTokenizer --num-samples 6 --temperature 3 \
    --out-seq-length 30 >out 2>err ||
    fail "a padded vocabulary: $(cat err)"

# LAMBADA takes the most likely id that has a text: after a, id 299 is most frequent, then b.
awk 'BEGIN { for (i = 0; i < 600; i++) printf "97 %d ", i % 3 ? 299 : 98 }' >pairs.txt
# shellcheck disable=SC2086
"$MEGALITH" preprocess_data --input pairs.txt $null --output-prefix pairs >log 2>&1 || fail "$(cat log)"
# shellcheck disable=SC2086
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 5 --micro-batch-size 16 \
    --lr 1e-2 \
    --attention-dropout 0 --hidden-dropout 0 --lr-decay-style constant --train-iters 150 $null --data-path \
    pairs_text_document --split 100,0,0 --eval-iters 0 --save pairs >log 2>&1 ||
    fail "$(tail -n 3 log)"
mkdir likeliest && cp pairs/iter_0000150/{config.json,model.safetensors} likeliest
for i in 1 2; do echo '{"text": "ab"}'; done >passages.jsonl
"$MEGALITH" tasks --task LAMBADA --load likeliest --tokenizer-type ByteTokenizer --valid-data passages.jsonl >out \
    2>err || fail "LAMBADA: $(cat err)"
grep -q 'number correct: 2.0000E+00 | total examples: 2.0000E+00' out ||
    fail "LAMBADA over ids without a text: $(cat out)"

# A task reads the texts of JSON lines. One text has the loss of the plain file; between two there is an end of
# document.
printf 'line 1 of a text\nand so on' >one.txt
printf '{"text": "line 1 of a text\\nand so on"}\n' >one.jsonl
printf '{"body": "line 1", "text": 1}\n{"body": ""}\n{"body": "line two"}\n' >two.jsonl
tokens() { "$MEGALITH" tasks --load model "$@" 2>err | sed 's/file: [^|]*//'; }
for task in LM_LOSS WIKITEXT103; do
    tokens --task $task --valid-data one.txt >a && tokens --task $task --valid-data one.jsonl >b && cmp -s a b ||
        fail "$task of JSON lines: $(cat a b err)"
done
tokens --task LM_LOSS --valid-data two.jsonl --json-key body | grep -q 'tokens: 14 |' ||
    fail "two documents: $(cat err)"
tokens --task LM_LOSS --valid-data one.jsonl --input-format text | grep -q 'tokens: 39 |' || fail "as text: $(cat err)"
refuses "no such key" 'two.jsonl:1:|expected JSON lines with the key text (--json-key)' tasks --task LM_LOSS --load \
    model --valid-data two.jsonl
refuses "no file" '--valid-data|nowhere' tasks --task LM_LOSS --load model --valid-data nowhere
echo '{"text": "a b", "text": "c d"}' >twice.jsonl
refuses "a key twice" 'twice.jsonl:1: the object has the key twice' tasks --task LAMBADA --load model --valid-data \
    twice.jsonl
echo '{"text": "a \u0000 b"}' >zero.jsonl
refuses "a zero character" 'zero.jsonl:1: a zero character (\u0000) in the text' tasks --task LAMBADA --load model \
    --valid-data zero.jsonl
refuses "LAMBADA as text" '--input-format text: LAMBADA reads JSON lines alone' tasks --task LAMBADA --load model \
    --valid-data one.txt --input-format text

# For byte tokens, the loss in nats is bits per byte times the logarithm of 2.
"$MEGALITH" tasks --task LM_LOSS --load model --valid-data text.txt >out 2>err || fail "LM_LOSS: $(cat err)"
sed -n 's/.*avg loss: \([^ ]*\) .*bits per byte: \([^ ]*\) .*/\1 \2/p' out |
    awk '{ d = $1 / log(2) - $2; n++ } END { exit !(n == 1 && d < 1e-5 && d > -1e-5) }' ||
        fail "bits per byte: $(cat out)"

# A command that would not fit into the limit is refused before it allocates; one that fits runs.
refuses "a model in 1 MB" 'reading the model needs|weights|may use 1.0 MB (--memory-limit)|more ranks' \
    generate_samples_gpt --load model --prompt ab --memory-limit 1M
refuses "texts in 12 MB" 'generation needs|programs|may use 12.6 MB (--memory-limit)|--batch' generate_samples_gpt \
    --load model --prompt ab --batch 256 --memory-limit 12M
refuses "windows in 12 MB" 'the evaluation needs|may use 12.6 MB (--memory-limit)|--micro-batch-size' tasks --task \
    LM_LOSS --load model --valid-data one.txt --micro-batch-size 256 --memory-limit 12M
refuses "LAMBADA in 8 MB" 'needs|may use 8.4 MB (--memory-limit)' tasks --task LAMBADA --load model --valid-data \
    two.jsonl --memory-limit 8M
generate --prompt ab --greedy --memory-limit 32M >a || fail "32 MB: $(cat err)"
tokens --task LM_LOSS --valid-data one.txt --memory-limit 32M >b || fail "32 MB: $(cat err)"

# One weight that is NaN: nothing is drawn and nothing measured, and the error names the folder.
mkdir bad && cp model/iter_0000002/*.json model/iter_0000002/model.safetensors bad && chmod u+w bad/*
printf '\377\377\377\377' | dd of=bad/model.safetensors bs=1 seek=$(($(stat -c %s bad/model.safetensors) - 4)) \
    conv=notrunc status=none
for how in --greedy "--temperature 1" "--num-beams 2"; do
    # shellcheck disable=SC2086
    refuses "NaN $how" 'the logits of token|are not finite; the weights of bad have NaN or Inf' generate_samples_gpt \
        --load bad --prompt ab $how
done
refuses "the loss of NaN" 'the loss of the text is|the weights of bad have NaN or Inf' tasks --task LM_LOSS --load bad \
    --valid-data one.txt
refuses "LAMBADA of NaN" 'are not finite; the weights of bad' tasks --task LAMBADA --load bad --valid-data one.jsonl

generate --prompt ab --greedy >a && generate --prompt ab --top_k 1 --seed 9 >b && cmp -s a b ||
    fail "greedy is not top_k 1"
finish
