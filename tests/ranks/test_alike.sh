#!/usr/bin/env bash
# What must be equal on two ranks of a training: every option of the table (ranks_alike.c), the contents of data and
# tokenizer files, the instruction set.
set -u
. "$MEGA_SOURCE/tests/kit/ranks_train.sh"
ranks 2 "$MEGA_BUILD/tests/ranks_alike" >walk.log 2>&1 </dev/null ||
    fail "the walk over all options: $(head -c 3000 walk.log)"
grep 'options refused' walk.log

base=(pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --micro-batch-size 2 \
    --global-batch-size 4
    --train-iters 2 --lr 1e-3 --log-interval 1 --eval-iters 1 --num-threads 1 --split 80,10,10 --data-path \
        d_text_document)
# Runs each rank in its own folder, with the environment variable and the options that only rank 1 has; $other: the
# program of rank 1.
two() { # VARIABLE=VALUE, then options
    local environment=$1
    shift
    ranks 1 sh -c "cd a && exec $MEGALITH ${base[*]}" : -n 1 sh -c \
        "cd b && exec env $environment ${other:-$MEGALITH} ${base[*]} $*" >log 2>&1 </dev/null
}
refused() { # what is said, then as for two
    local text=$1
    shift
    two "$@" && fail "taken: $*"
    [ "$(grep -c 'error:' log)" -eq 1 ] || fail "not said once: $(cat log)"
    grep -qE -- "$text" log || fail "not said: $text: $(cat log)"
    grep -q '^ iteration' log && fail "said after a step: $*"
}
"$MEGALITH" train_tokenizer --input t.txt --vocab-size 270 --output tokenizer >tokenizer.log 2>&1 || fail "a tokenizer"
mkdir a b
for folder in a b; do
    cp tokenizer/vocab.json tokenizer/merges.txt d_text_document.* $folder
done
base+=(--vocab-file vocab.json --merge-file merges.txt)
two MEGA_ISA=portable || fail "two instruction sets: $(tail -n 3 log)"
if ! grep -qE 'processors differ: .*portable on 1 rank \(1\); all ranks compute with portable' log; then
    "$MEGALITH" doctor | grep -q 'kernels *portable' || fail "two instruction sets are not said: $(cat log)"
fi
grep '^ iteration' log | sed 's/.*lm loss/lm loss/; s/| *TFLOP.*//' >mixed
export MEGA_ISA=portable
two MEGA_ISA=portable || fail "one instruction set: $(tail -n 3 log)"
unset MEGA_ISA
grep 'processors differ' log && fail "one instruction set is called two"
[ "$(grep -o 'lm loss: [0-9.E+-]*' mixed)" = "$(grep '^ iteration' log | grep -o 'lm loss: [0-9.E+-]*')" ] ||
    fail "two instruction sets: other losses than with the lower one everywhere: $(cat mixed log)"

# An output of the first rank that another rank names alone; an environment variable whose value one rank does not know.
two A=1 --metrics-file only.jsonl || fail "a metrics file of rank 1: $(tail -n 3 log)"
[ "$(grep -c 'warning: --metrics-file is given to rank 1 and not to rank 0, which alone writes it' log)" = 1 ] ||
    fail "a file that nobody writes: $(cat log)"
refused 'rank 1: MEGA_HOST_TIMEOUT=soon in the environment; expected seconds, at least 1' MEGA_HOST_TIMEOUT=soon
# A rank that would only plan is refused at once too: the others would wait for it.
refused 'rank 1 of the group: --optimizer sgd' A=1 --optimizer sgd --dry-run
grep -q 'rank 1 of the group: --dry-run True' log || fail "one of two options is not named: $(cat log)"
# Another build: a copy of the program with another build id (the header of that note, then 20 bytes).
cp "$MEGALITH" other_build
at=$(LC_ALL=C grep -aobP '\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00' other_build | head -n 1 |
    cut -d: -f1)
printf '\0' | dd of=other_build bs=1 seek=$((at + 20)) conv=notrunc 2>/dev/null
cmp -s "$MEGALITH" other_build && fail "the copy has the same build id"
other=$work/other_build refused 'its ranks have different programs' A=1
grep -qE 'rank 0 of the group: build [0-9a-f]{40}$' log || fail "the build is not named: $(cat log)"
# One byte of the tokens, in a block that is sampled even in a small file.
printf '\1' | dd of=b/d_text_document.bin bs=1 seek=5000 conv=notrunc 2>/dev/null
refused 'its ranks have different data' A=1
[ "$(grep -cE 'rank [01] of the group: (training|validation|test) data of [0-9]+ samples.*: d_text_document' log)" -ge \
    2 ] ||
    fail "the data are not named: $(cat log)"
cp a/d_text_document.bin b
sed -i 's/"a":/"@":/; s/"b":/"a":/; s/"@":/"b":/' b/vocab.json # two ids change places
cmp -s a/vocab.json b/vocab.json && fail "the vocabulary is the same"
refused 'different tokenizers' A=1
echo "ok"
