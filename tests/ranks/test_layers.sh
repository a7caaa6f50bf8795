#!/usr/bin/env bash
# The layers of the room layers, each alone, over two and four ranks of tensor parallelism.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for n in 2 4; do passes_on "$n" ranks_layers; done
