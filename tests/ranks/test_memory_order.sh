#!/usr/bin/env bash
# The order of samples uses more memory than the network. A process uses what its plan says, a run that does not fit is
# refused before anything is built, and if no cache can be written two ranks share one copy.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
fox_lines 300 >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix d >log 2>&1 || fail "preprocess_data"
base=(pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings \
    32 --micro-batch-size 2
    --global-batch-size 8 --lr 1e-3 --train-iters 300000 --log-interval 1 --eval-iters 1 --num-threads 1 \
        --tokenizer-type ByteTokenizer
    --data-path d_text_document --split 80,10,10)
# ROW FILE: its bytes
row() { awk -v row="$1" '$1 == row { print $2 * ($3 == "MB" ? 1e6 : $3 == "kB" ? 1e3 : 1); exit }' "$2"; }
# CONDITION WHAT
holds() { awk "BEGIN { exit !($1) }" || note "$1: $2"; }

"$MEGALITH" "${base[@]}" --dry-run >one.log 2>&1 || fail "--dry-run: $(cat one.log)"
order=$(row order one.log) total=$(row total one.log)
holds "$order > 2e7 && $order > $total / 2" "$(cat one.log)"
"$MEGALITH" "${base[@]}" --memory-limit 24M --exit-interval 2 >log 2>&1 && note "24 MB were enough"
for part in 'this run needs [0-9.]* MB of memory and may use 25.2 MB (--memory-limit)' \
    'the order of samples alone takes' '^  order ' '^  process '; do
    grep -q -- "$part" log || note "\"$part\" is not said"
done
[ ! -e index-cache ] || note "index arrays were built for a run that is refused"
# Within 3 %, or 3 MB: the process is measured before the start, when pages of the program that only a training runs are
# not there yet.
fits() { is_sanitized || awk '/memory \(MB\)/ { exit !($NF < 1.03 * $(NF - 7) || $NF < $(NF - 7) + 3) }' log ||
    note "more was taken than planned: $(grep 'memory (MB)' log)"; }
"$MEGALITH" "${base[@]}" --exit-interval 2 >log 2>&1 || note "one rank"
fits
# With many layers, the records of the programs are a quarter of the memory.
"$MEGALITH" "${base[@]}" --train-iters 2 --num-layers 160 --hidden-size 16 --num-attention-heads 1 >log 2>&1 ||
    note "many layers"
fits

# --- the same with a length in samples instead of iterations; data that an evaluation does not read use no memory
"$MEGALITH" "${base[@]/--train-iters/--train-samples}" --eval-interval 1 --eval-iters 2 --dry-run >samples.log 2>&1 ||
    note "--train-samples"
"$MEGALITH" "${base[@]}" --train-iters 37500 --eval-interval 1 --eval-iters 2 --dry-run >iters.log 2>&1 ||
    note "--train-iters 37500"
[ "$(grep '^  order ' samples.log)" = "$(grep '^  order ' iters.log)" ] ||
    note "300,000 samples: $(cat samples.log), 37,500 iterations of 8: $(cat iters.log)"
"$MEGALITH" "${base[@]}" --train-iters 2 --save saved >log 2>&1 || note "a run to evaluate"
for options in "--train-iters 2" "--train-iters 3000000 --eval-interval 1"; do
    # shellcheck disable=SC2086
    "$MEGALITH" "${base[@]}" $options --load saved --skip-train >log 2>&1 || note "$options --skip-train"
    grep 'lm loss value' log >>evaluated
    "$MEGALITH" "${base[@]}" $options --load saved --skip-train --dry-run >log 2>&1 ||
        note "$options --skip-train --dry-run"
    holds "$(row order log) < 1e5" "an evaluation reads 8 samples: $(cat log)"
done
[ "$(wc -l <evaluated)" -eq 4 ] && [ "$(sort -u evaluated | wc -l)" -eq 2 ] ||
    note "one validation loss and one of the test: $(cat evaluated)"

# --- two ranks, and no folder for the cache
rm -r index-cache && touch index-cache
ranks 2 "$MEGALITH" "${base[@]}" --dry-run >two.log 2>&1 </dev/null || note "--dry-run of two ranks"
holds "$(row order two.log) > 0.49 * $order && $(row order two.log) < 0.51 * $order" \
    "two ranks do not share: $(cat two.log)"
mkfifo lines
ranks 2 "$MEGALITH" "${base[@]}" </dev/null >lines 2>&1 &
launcher=$!
exec 3<lines
while read -r line <&3; do
    echo "$line" >>seen
    case $line in *'iteration        3/'*) break ;; esac
done
held=0 processes=()
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>&1)" = "$PWD" ] && [ "$(cat "$process/comm")" = megalith ] || continue
    processes+=("${process#/proc/}")
    held=$((held + 1000 * $(awk '/^Pss_Anon|^Pss_Shmem/ { kb += $2 } END { print kb + 0 }' "$process/smaps_rollup")))
done
kill -TERM "${processes[@]}"
cat <&3 >>seen
wait
[ ${#processes[@]} -eq 2 ] || note "${#processes[@]} ranks were found"
# mpirun may show the warnings after lines of standard output, and two on one line.
[ "$(grep -o 'index built, but not cached' seen | wc -l)" -eq 3 ] ||
    note "more or fewer than three sets of arrays were built: $(cat seen)"
# 4 MB of a process are no code, but data of libraries.
others=$(awk "BEGIN { print 2 * ($(row total two.log) - $(row order two.log) - $(row process two.log) + 4e6) }")
is_sanitized || holds "$held > $order && $held < 1.03 * $order + $others" \
    "held by two ranks, planned for the order and for the rest"
finish
