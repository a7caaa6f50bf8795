#!/usr/bin/env bash
# Labels of no class whose rows the model weighs, on two ranks in several layouts, compared with one rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
passes_on 2 ranks_labels
