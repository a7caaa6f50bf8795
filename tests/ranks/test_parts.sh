#!/usr/bin/env bash
# Parameters with parts, on two ranks in every layout, compared with one rank and with a model in which each part is a
# parameter.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passes_on 2 ranks_parts "$work"
