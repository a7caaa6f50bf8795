#!/usr/bin/env bash
# Models of one's own over ranks: a list of layers over pipeline stages, ranks of dp and ZeRO, and mistakes that are the
# same error on every rank.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 2 3 6; do passes_on "$n" ranks_models; done
