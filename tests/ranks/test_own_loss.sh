#!/usr/bin/env bash
# A loss of the caller's own on two ranks in every layout without a pipeline, against one rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
passes_on 2 ranks_own_loss
