#!/usr/bin/env bash
# Parity of several models: GPT, a ConvNet with batch norm, a model with two losses, one with a custom op, a decoder with key/value
# heads that tp does not divide, two of the families' block, an encoder and two of an encoder with a decoder, in layouts, precisions and recomputation such that any two settings occur together, compared with one
# rank: to 1e-8 in double, 1e-5 in float, 2e-2 in bf16, 3e-3 in fp16; two runs have the same bits.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
for model in gpt conv losses custom decoder modern parallel bert t5 megatron_t5 choices; do
    rows=$("$MEGA_BUILD/tests/ranks_kinds" list "$model") || exit 1
    while read -r n arguments; do
        # shellcheck disable=SC2086  # a list of words
        passes_on "$n" ranks_kinds "$model" $arguments
    done <<<"$rows"
done
