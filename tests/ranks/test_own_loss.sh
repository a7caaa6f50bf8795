#!/usr/bin/env bash
# A loss computed by the caller, on two ranks in every layout without a pipeline, compared with one rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
passes_on 2 ranks_own_loss
