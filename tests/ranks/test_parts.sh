#!/usr/bin/env bash
# Parameters in parts, on two ranks in every layout, against one rank and against a model whose parts are parameters.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passes_on 2 ranks_parts "$work"
