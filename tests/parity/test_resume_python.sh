#!/usr/bin/env bash
# Python programs of a user's own that are started again by their own command (resume_programs.py).
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
: "${MEGA_BUILD:?run by ctest}"
is_sanitized && skip "the sanitizers have to be in the program that loads the library"
. "$MEGA_SOURCE/tests/kit/python.sh"
[ -n "$python" ] || skip "no python3 with NumPy (apt-get install python3-numpy)"
export PYTHONPATH=$MEGA_SOURCE/python LD_LIBRARY_PATH=$MEGA_BUILD OMP_NUM_THREADS=1
"$python" "$MEGA_SOURCE/tests/parity/resume_programs.py" >log 2>&1 </dev/null || fail "$(cat log)"
grep -q '^17 programs' log || fail "$(cat log)"
finish
