#!/usr/bin/env bash
# Own models on several ranks: a list of layers on pipeline stages, dp ranks and ZeRO, and mistakes, which give the
# same error on every rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 2 3 6; do passes_on "$n" ranks_models; done
