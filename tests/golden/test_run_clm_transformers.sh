#!/usr/bin/env bash
# The blocks of run_clm are those of transformers' script, and its eval_loss is what transformers computes with the
# model that it wrote.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_PEERS:=}"
[ -n "$MEGA_PEERS" ] || skip "set MEGA_PEERS to a Python with transformers"
export OMP_NUM_THREADS=2
seq 1 2600 | awk '{ printf "%s and %s make %s\n", $1, $1 + 1, 2 * $1 + 1 }' >train.txt
seq 2600 3700 | awk '{ printf "%s and %s make %s\n", $1, $1 + 1, 2 * $1 + 1 }' >validation.txt
"$MEGALITH" train_tokenizer --input train.txt --vocab-size 300 --output tokenizer >log 2>&1 || fail "train_tokenizer"
"$MEGALITH" run_clm --config_name gpt2 --tokenizer_name tokenizer --train_file validation.txt --validation_file \
    train.txt --block_size 24 --learning_rate 3e-3 \
    --num_train_epochs 1 --num-layers 2 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 24 \
    --output_dir model >log 2>&1 ||
    fail "run_clm"
"$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/run_clm_transformers.py" model 24 validation.txt train.txt >theirs 2>err ||
    fail "transformers: $(tail -1 err)"
blocks=$(head -1 theirs)
[ "${blocks% *}" = "$(sed -n 's/.*Num examples = //p' log)" ] ||
    note "$(grep 'Num examples' log); transformers cuts ${blocks% *}"
loss=$(sed -n '2s/.* //p' theirs)
awk -v a="$loss" -v b="$(sed -n 's/.*"eval_loss": \([0-9.]*\).*/\1/p' model/all_results.json)" \
    'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }' ||
    note "transformers' loss is $loss; $(cat model/all_results.json)"
finish
