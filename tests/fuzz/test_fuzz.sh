#!/usr/bin/env bash
# A short run of every fuzzer over its corpus, the same each time, in a separate build (the fuzzers link no kernels, so
# this takes half a minute). `make fuzz` runs them for a long time.
set -u
: "${MEGA_SOURCE:?run by ctest}"
exec bash "$MEGA_SOURCE/tests/fuzz/run.sh" runs=300
