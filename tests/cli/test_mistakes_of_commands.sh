#!/usr/bin/env bash
# Mistakes in files (mistakes_of_commands.txt), for every command except pretrain_gpt, for which there is
# ranks_test_mistakes. All are reported together before anything is done; --dry-run reports the same; nothing is
# written.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
fox_lines 100 >text.txt
echo '{"text": "a b c"}' >ok.jsonl
echo '{"text": " "}' >blank.jsonl
echo '{"txt": "a"}' >nokey.jsonl
printf '{"text": "a"}\n{broken\n' >bad.jsonl
: >empty.txt
echo "{\"iteration\": 1, \"lm_loss\": 2}" >ok.metrics
echo '{"a": ' >broken.json
echo x >file
mkdir void
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --append-eod --tokenizer-type ByteTokenizer \
    --output-prefix text >log 2>&1 || fail "data"
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2 \
    --global-batch-size 2 \
    --lr 1e-3 --train-iters 2 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 \
    --eval-iters 0 --num-threads 1 \
    --save good >log 2>&1 || fail "a model"
cp -r good damaged && printf 'x' | dd of=damaged/iter_0000002/model.safetensors bs=1 seek=900 conv=notrunc status=none
head -c 40 text_text_document.idx >cut.idx && cp text_text_document.bin cut.bin
head -c 100 text_text_document.bin >short.bin && cp text_text_document.idx short.idx
rm log
found=$(find . | sort)
said() { "$MEGALITH" "${words[@]}" "$@" 2>&1 >/dev/null </dev/null |
    grep -v '^using [0-9]* thread'; return "${PIPESTATUS[0]}"; }
while IFS= read -r row; do
    name=${row%% :: *} parts=${row##* :: } row=${row#* :: }
    read -ra words <<<"${row% :: *}"
    run=$(said) && note "$name: it was not refused"
    dry=$(said --dry-run) && note "$name: --dry-run did not refuse it"
    [ "$run" = "$dry" ] || note "$name: the run says: $run; --dry-run says: $dry"
    while IFS= read -r part; do [[ $run == *"$part"* ]] ||
        note "$name: \"$part\" is not in: $run"; done < <(tr '|' '\n' <<<"$parts")
done < <(grep -v '^#' "$MEGA_SOURCE/tests/cli/mistakes_of_commands.txt")
[ "$(find . | sort)" = "$found" ] || note "something was written"
finish
