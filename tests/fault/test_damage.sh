#!/usr/bin/env bash
# Files that were truncated or have flipped bits: every file of a checkpoint, a data set, an index cache, a tokenizer. A
# file with a checksum gives the same result or an error that names it; a cache is built again. Files without a checksum
# (.bin and .idx as Megatron defines them, vocabularies) never cause a crash, and an error names the file.
#
#   MEGA_DAMAGES=N (default 3): N cuts and N flips of each file, at random offsets (MEGA_SEED, default 1) and at both
#   ends. `make crash` sets more of both.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
many=${MEGA_DAMAGES:-3}
seed=${MEGA_SEED:-1}
RANDOM=$seed
fail() {
    note "MEGA_SEED=$seed: $1"
    [ "$failures" -lt 20 ] || exit 1
}
tried=0
refusals=0
# outcome FILE HOW WHAT-WAS-DONE: runs the command RUN, which writes to the file `out`; HOW is one of
# same: it succeeds with the very result     checked: so, or an error that names the file     clean: any result, or such
# an error
outcome() {
    local rc
    rm -f out
    timeout 60 "${run[@]}" >err 2>&1
    rc=$?
    tried=$((tried + 1))
    if [ "$rc" -eq 0 ]; then
        [ "$2" = clean ] || cmp -s out want || fail "$3: status 0 and another result"
    elif [ "$2" = same ] || [ "$rc" -ge 124 ] || grep -q 'Sanitizer' err; then
        fail "$3: status $rc"
    else
        refusals=$((refusals + 1))
        grep -qF "${1##*/}" err || fail "$3: status $rc, and the file is not named"
    fi
}
# Changes one byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059  # an octal escape
    printf "\\$(printf '%03o' $((byte ^ (1 << (RANDOM % 8)))))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
pick() { echo $((($1 > 0) ? (RANDOM * 32768 + RANDOM) % $1 : 0)); }
# damage FOLDER FILE HOW: the folder is restored after each
damage() {
    local folder=$1 file=$2 how=$3 size at
    rm -rf whole
    cp -r "$folder" whole
    size=$(stat -c %s "$file")
    restore() {
        rm -rf "$folder"
        cp -r whole "$folder"
    }
    for at in 0 1 $((size / 2)) $((size - 1)) $(for _ in $(seq 1 "$many"); do pick "$size"; done); do
        [ "$at" -lt "$size" ] || continue
        truncate -s "$at" "$file"
        outcome "$file" "$how" "$file cut to $at of $size bytes"
        restore
    done
    for at in 0 $((size - 1)) $(for _ in $(seq 1 "$many"); do pick "$size"; done); do
        [ "$size" -gt 0 ] || continue
        flip "$file" "$at"
        outcome "$file" "$how" "$file with byte $at of $size flipped"
        restore
    done
    head -c 5 /dev/zero >>"$file"
    outcome "$file" "$how" "$file with 5 bytes more"
    restore
}
begin() { # the result without damage
    rm -f out
    "${run[@]}" >err 2>&1 || fail "$1, with nothing damaged"
    cp out want
}

fox_lines 60 >t.txt
"$MEGALITH" train_tokenizer --input t.txt --vocab-size 300 --output vocab >err 2>&1 || fail "a tokenizer"
bpe=(--tokenizer-type GPT2BPETokenizer --vocab-file vocab/vocab.json --merge-file vocab/merges.txt)
mkdir data cache
"$MEGALITH" preprocess_data --input t.txt --split-on-blank-lines "${bpe[@]}" --append-eod --output-prefix data/t >err \
    2>&1 || fail "data"
cat >train <<'END'
#!/usr/bin/env bash
"$MEGALITH" pretrain_gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 1 \
    --lr 1e-3 --lr-decay-style constant --tokenizer-type GPT2BPETokenizer --vocab-file vocab/vocab.json --merge-file vocab/merges.txt --data-path data/t_text_document \
    --split 100,0,0 --eval-iters 0 --num-threads 1 --log-interval 1 --data-cache-path cache --train-iters 40 "$@"
END
train() { bash train "$@"; }
train --save save --save-interval 3 --exit-interval 3 >err 2>&1 || fail "a checkpoint"
cp -r data data-whole

# --- a checkpoint, read by a run that resumes for two more iterations
cat >resume <<'END'
rm -rf next m.jsonl
bash train --load save --metrics-file m.jsonl --exit-interval 5 && grep -o '"iteration": [0-9]*\|"lm_loss": [^,]*' m.jsonl >out
END
run=(bash resume)
begin "going on"
for f in $(find save -type f | grep -v '/README.md$' | sort); do damage save "$f" checked; done
damage save save/iter_0000003/README.md same

# --- and by generation, which reads less of it
cat >generate <<'END'
"$MEGALITH" generate_samples_gpt --load save --prompt line --greedy --out-seq-length 6 --num-threads 1 >out
END
run=(bash generate)
begin "generating"
for f in config.json model.safetensors tokenizer.json state/checksums.json; do damage save "save/iter_0000003/$f" \
    checked; done

# --- the index cache: with any damage it is built again
cat >fresh <<'END'
rm -f m.jsonl
bash train --metrics-file m.jsonl --exit-interval 2 && grep -o '"iteration": [0-9]*\|"lm_loss": [^,]*' m.jsonl >out
END
run=(bash fresh)
begin "a fresh run"
for f in cache/*; do damage cache "$f" same; done

# --- a data set: .bin and .idx have no checksum, so flipped tokens are trained on; sizes and offsets that contradict
# each other are refused
for f in data/*; do damage data "$f" clean; done
run=("$MEGALITH" data verify data/t_text_document)
cut=0
for f in data/t_text_document.bin data/t_text_document.idx; do
    for at in 0 1 9 34 $(($(stat -c %s "$f") - 1)); do
        cp "$f" keep
        truncate -s "$at" "$f"
        "${run[@]}" >err 2>&1 && fail "data verify passes $f cut to $at bytes"
        grep -qF "${f##*/}" err || fail "data verify does not name $f"
        cp keep "$f"
        cut=$((cut + 1))
    done
done

# --- a tokenizer's files
cat >tokenize <<'END'
"$MEGALITH" tokenize "$@" --text "a quick fox of line 12" >out
END
run=(bash tokenize "${bpe[@]}")
begin "tokenizing"
for f in vocab/vocab.json vocab/merges.txt; do damage vocab "$f" clean; done
echo \
    "$tried damages, $refusals of them refused with the name of the file; $cut cuts found by data verify; $failures failures"
finish
