#!/usr/bin/env bash
# The golden arrays of BERT's and T5's data sets (unit_test_sentence_data compares ours with them) are those that NumPy
# computes.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
. "$MEGA_SOURCE/tests/kit/python.sh"
if [ -z "$python" ]; then
    echo "SKIPPED: no Python that has NumPy"
    exit 77
fi
"$python" "$MEGA_SOURCE/tools/make_sentence_golden.py" >arrays.txt || fail "make_sentence_golden.py"
cmp arrays.txt "$MEGA_SOURCE/tests/golden/sentence_arrays.txt" ||
    fail "tests/golden/sentence_arrays.txt is not what tools/make_sentence_golden.py writes"
[ "$(grep -c ^case arrays.txt)" -ge 20 ] || fail "found fewer than 20 cases"
finish
