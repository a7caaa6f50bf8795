#!/usr/bin/env bash
# Two losses and two metrics on different pipeline stages, over two ranks in every layout, against formulas.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
passes_on 2 ranks_losses
