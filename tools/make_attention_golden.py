#!/usr/bin/env python3
"""Writes tests/golden/attention.json: frequencies of rotary embeddings as transformers computes them, and attention
layers with their gradients as PyTorch computes them from these frequencies, for tests/golden/test_attention.c.

usage: python tools/make_attention_golden.py tests/golden/attention.json

Frequencies and angles are float32, everything else is float64. Cosines of angles are rounded once, from float64,
because
the float32 cosines of PyTorch depend on the processor. Inputs and weights are numbers that both programs compute:
element
i of tensor number n is sin(1.7 i + n) / 2.
"""
import json
import math
import sys

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

torch.set_default_dtype(torch.float64)

LONG = [1.0, 1.5, 4.0, 9.0]
SHORT = [1.0, 1.0, 1.25, 2.0]
# name, head_dim, length of the sequence, max_position_embeddings, rope parameters
ROPES = [
    ("plain", 32, 64, 64, {"rope_type": "default"}),
    ("large_theta", 128, 64, 64, {"rope_type": "default", "rope_theta": 1000000.0}),
    ("linear", 16, 64, 64, {"rope_type": "linear", "factor": 4.0}),
    ("dynamic_short", 16, 32, 64, {"rope_type": "dynamic", "factor": 2.0}),
    ("dynamic_long", 16, 200, 64, {"rope_type": "dynamic", "factor": 2.0}),
    ("llama3", 64, 64, 131072, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    ("yarn", 32, 64, 4096, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}),
    ("yarn_mscale", 64, 64, 4096, {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096,
                                   "beta_fast": 20.0, "beta_slow": 2.0, "mscale": 1.0, "mscale_all_dim": 0.707,
                                   "truncate": False}),
    ("yarn_factor", 32, 64, 4096, {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 2048,
                                   "attention_factor": 1.125}),
    ("longrope_short", 8, 32, 128, {"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT,
                                    "original_max_position_embeddings": 32}),
    ("longrope_long", 8, 33, 128, {"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT,
                                   "original_max_position_embeddings": 32}),
    ("partial", 16, 64, 64, {"rope_type": "default", "partial_rotary_factor": 0.25}),
]


def frequencies(head_dim, length, positions, parameters):
    parameters = {"rope_theta": 10000.0, **parameters}
    config = LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim,
                         max_position_embeddings=positions, rope_parameters=parameters)
    if parameters["rope_type"] == "default":
        rotated = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
        exponent = torch.arange(0, rotated, 2, dtype=torch.int64).to(dtype=torch.float) / rotated
        return 1.0 / (parameters["rope_theta"] ** exponent), 1.0
    config.rope_parameters = parameters
    return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=length)


def numbers(n, *shape):
    count = math.prod(shape)
    values = [math.sin(1.7 * i + n) / 2 for i in range(count)]
    return torch.tensor(values).reshape(shape).requires_grad_()


def rotate(x, rope, interleaved):
    """x [B, H, S, D]"""
    inverse, factor = rope
    positions = torch.arange(x.shape[2], dtype=torch.float32)
    angle = positions[:, None] * inverse[None, :].float()
    cos = (torch.cos(angle.double()).float() * torch.tensor(factor, dtype=torch.float32)).double()
    sin = (torch.sin(angle.double()).float() * torch.tensor(factor, dtype=torch.float32)).double()
    half = inverse.numel()
    part, rest = x[..., :2 * half], x[..., 2 * half:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = part[..., :half], part[..., half:]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((turned, rest), -1)


def head_norm(x, weight, kind, eps):
    """x [..., channels]"""
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def attention(case):
    B, S, C, H, G, D = case["shape"]
    x = numbers(1, B, S, C)
    weight = [numbers(2, H * D, C), numbers(3, G * D, C), numbers(4, G * D, C), numbers(5, C, H * D)]
    q, k, v = (torch.nn.functional.linear(x, w) for w in weight[:3])
    norm = []
    if case.get("norm"):
        kind, over = case["norm"]
        norm = [numbers(6, D if over == "head" else H * D), numbers(7, D if over == "head" else G * D)]
        if over == "all":
            q, k = head_norm(q, norm[0], kind, 1e-6), head_norm(k, norm[1], kind, 1e-6)
    q, k, v = (t.reshape(B, S, -1, D).transpose(1, 2) for t in (q, k, v))
    if norm and over == "head":
        q, k = head_norm(q, norm[0], kind, 1e-6), head_norm(k, norm[1], kind, 1e-6)
    if case.get("rope"):
        row = {r[0]: r for r in ROPES}[case["rope"]]
        rope = frequencies(D, S, row[3], row[4])
        q, k = rotate(q, rope, case.get("interleaved", False)), rotate(k, rope, case.get("interleaved", False))
    k, v = (t.repeat_interleave(H // G, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * case.get("scale", D ** -0.5)
    if case.get("softcap"):
        scores = torch.tanh(scores / case["softcap"]) * case["softcap"]
    if case.get("alibi"):
        bias = build_alibi_tensor(torch.ones(B, S), H, torch.float64)
        scores = scores + bias.reshape(B, H, 1, S)
    i, j = torch.arange(S)[:, None], torch.arange(S)[None, :]
    hidden = j > i
    if "window" in case:
        hidden = hidden | (j <= i - case["window"])
    out = torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v
    y = torch.nn.functional.linear(out.transpose(1, 2).reshape(B, S, H * D), weight[3])
    (y * numbers(8, B, S, C).detach()).sum().backward()
    flat = lambda t: t.detach().flatten().tolist()
    joined = torch.cat([w.grad for w in weight[:3]])
    result = {**case, "y": flat(y), "dx": flat(x.grad), "dqkv": flat(joined), "dout": flat(weight[3].grad)}
    if norm:
        result["dq_norm"], result["dk_norm"] = flat(norm[0].grad), flat(norm[1].grad)
    return result


CASES = [
    {"name": "grouped", "shape": [2, 7, 8, 4, 2, 4], "rope": "plain"},
    {"name": "multi_query_interleaved", "shape": [1, 6, 8, 4, 1, 4], "rope": "plain", "interleaved": True},
    {"name": "partial_scaled", "shape": [1, 9, 8, 2, 1, 16], "rope": "partial", "scale": 0.35},
    {"name": "long", "shape": [1, 40, 4, 2, 2, 8], "rope": "longrope_long"},
    {"name": "window_and_cap", "shape": [1, 11, 8, 4, 2, 4], "rope": "linear", "window": 4, "softcap": 0.5},
    {"name": "alibi", "shape": [1, 8, 12, 6, 3, 2], "alibi": True},
    {"name": "norm_of_heads", "shape": [2, 5, 8, 4, 2, 4], "rope": "plain", "norm": ["rms", "head"]},
    {"name": "layer_norm_of_heads", "shape": [2, 5, 8, 4, 2, 4], "norm": ["layer", "head"]},
    {"name": "norm_of_all_heads", "shape": [2, 5, 8, 4, 2, 4], "rope": "plain", "norm": ["rms", "all"]},
]


def main():
    ropes = []
    for name, head_dim, length, positions, parameters in ROPES:
        inverse, factor = frequencies(head_dim, length, positions, parameters)
        ropes.append({"name": name, "head_dim": head_dim, "length": length, "max_positions": positions,
                      "parameters": parameters, "frequencies": inverse.double().tolist(), "factor": float(factor)})
    golden = {"ropes": ropes, "layers": [attention(case) for case in CASES]}
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, indent=None, separators=(",", ":"))
        out.write("\n")


main()
