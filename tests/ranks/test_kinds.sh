#!/usr/bin/env bash
# Parity of several models: GPT, a ConvNet with batch norm, a model with two losses, one with a custom op, a decoder
# with key/value heads that tp does not divide, two of the families' block, three with experts, an encoder and three of
# an encoder with a decoder, in layouts, precisions and recomputation such that any two settings occur together, compared
# with one rank: to 1e-8 in double, 1e-5 in float, 2e-2 in bf16, 3e-3 in fp16; two runs have the same bits. BERT and T5
# have up to 8 ranks, and T5 is cut before, at and behind the begin of its decoder. All rows of as many ranks share one
# start of MPI, which takes longer than a row.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
# Each number of ranks that a row has is run, and as many rows as are listed.
rows=$("$MEGA_BUILD/tests/ranks_kinds" list) || exit 1
for n in $(cut -d ' ' -f 1 <<<"$rows" | sort -nu); do
    out=$(ranks "$n" "$MEGA_BUILD/tests/ranks_kinds" all 2>&1 </dev/null)
    status=$?
    echo "$out"
    passed=$(grep -cE '( apart|: refused)$' <<<"$out")
    wanted=$(grep -c "^$n " <<<"$rows")
    [ "$status" -eq 0 ] && [ "$passed" -eq "$wanted" ] || {
        echo "FAILED: $n ranks: $passed of $wanted rows; one row alone: mpirun -n $n ranks_kinds MODEL SETTING..."
        exit 1
    }
done
