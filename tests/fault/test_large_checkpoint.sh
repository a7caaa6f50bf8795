#!/usr/bin/env bash
# Kills and failing calls once more with a checkpoint of 10 MB of weights and 20 MB of moments, whose blocks of 8 MiB go past
# the page cache where the file system can do that (src/base/writer.c).
#
#   MEGA_KILLS (default 30) and MEGA_FAULTS (default 3) as in the two tests that this one runs; a tenth of the kills
set -eu
: "${MEGA_SOURCE:?run by ctest}"
export MEGA_HIDDEN=448 MEGA_KILLS=$((${MEGA_KILLS:-30} / 10)) MEGA_FAULT_ONLY='^pretrain (open|write|short_write|fsync|mmap)$'
bash "$MEGA_SOURCE/tests/fault/test_pretrain_killed.sh"
exec bash "$MEGA_SOURCE/tests/fault/test_faults.sh"
