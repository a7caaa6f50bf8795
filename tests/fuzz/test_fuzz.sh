#!/usr/bin/env bash
# A short run of every fuzzer over its corpus, the same each time. `make fuzz` runs them for long, and builds them, which
# takes minutes: here they run only where they are built from the sources as they are now.
set -u
: "${MEGA_SOURCE:?run by ctest}"
exec bash "$MEGA_SOURCE/tests/fuzz/run.sh" runs=300 built=1
