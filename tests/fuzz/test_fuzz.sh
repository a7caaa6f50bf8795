#!/usr/bin/env bash
# A short run of every fuzzer over its corpus, the same each time, in a build of their own (they link no kernels, so that it
# takes half a minute). `make fuzz` runs them for long.
set -u
: "${MEGA_SOURCE:?run by ctest}"
exec bash "$MEGA_SOURCE/tests/fuzz/run.sh" runs=300
