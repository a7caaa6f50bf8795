#!/usr/bin/env python3
"""Writes tests/golden/t5.json: two blocks of an encoder and one of a decoder with their last norms, as T5Model of
transformers computes them in float64, with all gradients, for tests/golden/test_t5_blocks.c.

usage: python tools/make_t5_golden.py tests/golden/t5.json

Inputs and weights are numbers that both programs compute: element i of tensor number n is sin(1.7 i + n) / 2.
transformers
computes norms and probabilities in float32 whatever the type; here they are float64.
"""
import json
import math
import sys

import torch
from transformers import T5Config, T5Model
from transformers.models.t5 import modeling_t5

torch.set_default_dtype(torch.float64)
torch.Tensor.float = lambda self: self


def norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


modeling_t5.T5LayerNorm.forward = norm

BATCH, SOURCE, TARGET, CHANNELS = 2, 7, 5, 6
LENGTHS = [7, 4]  # positions of each source that are not padding
CASES = [
    {"name": "version_1", "heads": 2, "head_dim": 3, "ffn": 8, "gated": False, "buckets": 8, "distance": 6},
    {"name": "version_1.1", "heads": 2, "head_dim": 4, "ffn": 5, "gated": True, "buckets": 4, "distance": 5},
]


def numbers(n, *shape):
    values = [math.sin(1.7 * i + n) / 2 for i in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape).requires_grad_()


def flat(t):
    return [float(f"{x:.15g}") for x in t.detach().flatten().tolist()]


def run(case):
    config = T5Config(vocab_size=10, d_model=CHANNELS, d_kv=case["head_dim"], d_ff=case["ffn"], num_heads=case["heads"],
                      num_layers=2, num_decoder_layers=1, relative_attention_num_buckets=case["buckets"],
                      relative_attention_max_distance=case["distance"], dropout_rate=0.0, layer_norm_epsilon=1e-6,
                      feed_forward_proj="gated-gelu" if case["gated"] else "relu", attn_implementation="eager")
    model = T5Model(config).double().eval()
    weights = {}
    for name, weight in model.named_parameters():
        if "shared" in name or "embed_tokens" in name:
            continue
        weights[name] = 10 + len(weights)
        weight.data = numbers(weights[name], *weight.shape).detach()
    x, z = numbers(1, BATCH, SOURCE, CHANNELS), numbers(2, BATCH, TARGET, CHANNELS)
    mask = (torch.arange(SOURCE)[None, :] < torch.tensor(LENGTHS)[:, None]).long()
    y = model(inputs_embeds=x, attention_mask=mask, decoder_inputs_embeds=z, use_cache=False).last_hidden_state
    (y * numbers(3, *y.shape).detach()).sum().backward()
    gradients = {name: flat(weight.grad) for name, weight in model.named_parameters() if name in weights}
    return {**case, "weights": weights, "y": flat(y), "dx": flat(x.grad), "dz": flat(z.grad), "gradients": gradients}


def main():
    golden = {"batch": BATCH, "source": SOURCE, "target": TARGET, "channels": CHANNELS, "lengths": LENGTHS,
              "cases": [run(case) for case in CASES]}
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, separators=(",", ":"))
        out.write("\n")


main()
