#!/usr/bin/env bash
# Kills and failing calls as in two other tests, with a checkpoint of 10 MB of weights and 20 MB of moments. Its blocks
# of 8 MiB are written without the page cache if the file system supports that (src/base/writer.c).
#
#   MEGA_KILLS (default 30) and MEGA_FAULTS (default 3) as in these tests; a tenth of the kills
set -eu
: "${MEGA_SOURCE:?run by ctest}"
export MEGA_HIDDEN=448 MEGA_KILLS=$((${MEGA_KILLS:-30} / 10)) \
    MEGA_FAULT_ONLY='^pretrain (open|write|short_write|fsync|mmap)$'
bash "$MEGA_SOURCE/tests/fault/test_pretrain_killed.sh"
exec bash "$MEGA_SOURCE/tests/fault/test_faults.sh"
