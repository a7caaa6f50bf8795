#!/usr/bin/env bash
# 1-bit Adam on 1 to 4 ranks against a plain computation of all ranks, and resumed with the same bits; a checkpoint of 2 ranks is continued
# by 3 with a message. --print-program shows the two kinds of updates.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for n in 1 2 3 4; do passes_on "$n" ranks_one_bit test "$folder/$n"; done
# If copies of a weight differed between ranks of tp, or a tied one between stages, the resumed run would differ: a folder has one of them.
passes_on 4 ranks_one_bit test "$folder/tp" --tensor-model-parallel-size 2
passes_on 4 ranks_one_bit test "$folder/pp" --pipeline-model-parallel-size 2
passes_on 2 ranks_one_bit test "$folder/tokens" --calculate-per-token-loss
out=$(ranks 3 "$MEGA_BUILD/tests/ranks_one_bit" other "$folder/2" 2>&1 </dev/null) || { echo "FAILED: $out"; exit 1; }
case $out in
*'has lost so far is of another number of ranks; it starts at 0'*) ;;
*)
    echo "FAILED: no message about the errors: $out"
    exit 1
    ;;
esac
