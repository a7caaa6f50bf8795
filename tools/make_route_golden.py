#!/usr/bin/env python3
"""Writes tests/golden/route.json: routers of families of mixtures of experts and their losses, from the formulas of
their papers and programs, for tests/golden/test_route.c. Needs no other library.

usage: python tools/make_route_golden.py tests/golden/route.json

Numbers are complex: the derivative by x is the imaginary part of f(x + ih) / h, exact to the last digits, which no
formula of a gradient takes part in. A choice compares real parts.
"""
import cmath
import json
import math
import random
import sys

H = 1e-30
TOKENS, EXPERTS = 5, 8


def softmax(z):
    most = max(v.real for v in z)
    e = [cmath.exp(v - most) for v in z]
    return [v / sum(e) for v in e]


def sigmoid(z):
    return [1 / (1 + cmath.exp(-v)) for v in z]


def top(keys, k):
    """The k largest; Python's sort is stable, so that of equal ones the first comes first."""
    return sorted(range(len(keys)), key=lambda i: -keys[i].real)[:k]


def mixtral(z, bias):
    """Also qwen2_moe and qwen3_moe with norm_topk_prob."""
    p = softmax(z)
    c = top(p, 2)
    return c, [p[i] / sum(p[j] for j in c) for i in c], p


def olmoe(z, bias):
    """norm_topk_prob is false."""
    p = softmax(z)
    c = top(p, 3)
    return c, [p[i] for i in c], p


def switch(z, bias):
    p = softmax(z)
    c = top(p, 1)
    return c, [p[c[0]]], p


def gpt_oss(z, bias):
    """Also granitemoe and Megatron-core without --moe-router-pre-softmax."""
    c = top(z, 4)
    return c, softmax([z[i] for i in c]), softmax(z)


def limited(keys, groups, chosen, best):
    """Keys of the experts of the best groups; the others can not be chosen."""
    size = len(keys) // groups
    parts = [keys[g * size:(g + 1) * size] for g in range(groups)]
    score = [sum(sorted((v.real for v in part), reverse=True)[:best]) for part in parts]
    kept = top([complex(v) for v in score], chosen)
    return [v if i // size in kept else complex(-math.inf) for i, v in enumerate(keys)]


def deepseek_v2(z, bias):
    """group_limited_greedy, routed_scaling_factor 16."""
    p = softmax(z)
    c = top(limited(p, 4, 2, 1), 3)
    return c, [16 * p[i] for i in c], p


def deepseek_v3(z, bias):
    """noaux_tc with norm_topk_prob, routed_scaling_factor 2.5."""
    s = sigmoid(z)
    c = top(limited([v + b for v, b in zip(s, bias)], 2, 1, 2), 3)
    whole = sum(s[i] for i in c) + 1e-20
    return c, [2.5 * s[i] / whole for i in c], [v / (sum(s) + 1e-20) for v in s]


def llama4(z, bias):
    """The sigmoid of the one chosen logit."""
    c = top(z, 1)
    return c, [sigmoid(z)[c[0]]], [v / (sum(sigmoid(z)) + 1e-20) for v in sigmoid(z)]


def phimoe(z, bias):
    """sparsemixer of transformers without draws, router_jitter_noise 0.6: each of the two choices has its share of a
    softmax over the logits near it."""
    c, w, closed = top(z, 2), [], set()
    for i in c:
        near = [e for e in range(len(z)) if e not in closed
            and (z[i].real - z[e].real) / max(abs(z[e].real), z[i].real) <= 2 * 0.6]
        w.append(softmax([z[e] for e in near])[near.index(i)])
        closed.add(i)
    return c, w, softmax(z)


ROUTERS = [mixtral, olmoe, switch, gpt_oss, deepseek_v2, deepseek_v3, llama4, phimoe]


def balance(choices, shares, counted):
    """E * sum of f P: Switch, Megatron-core and DeepSpeed; transformers does not divide f by the number of choices."""
    n = len(choices)
    f = [sum(c[:counted].count(e) for c in choices) / (n * counted) for e in range(EXPERTS)]
    return EXPERTS * sum(f[e] * sum(s[e] for s in shares) / n for e in range(EXPERTS)), f


def log_sum(z):
    return cmath.log(sum(cmath.exp(v) for v in z))


def gradient(loss, logits):
    """Of a function of all logits, by each of them."""
    d = []
    for t in range(TOKENS):
        for e in range(EXPERTS):
            moved = [list(row) for row in logits]
            moved[t][e] += 1j * H
            d.append(loss(moved).imag / H)
    return d


def case(router, rng):
    logits = [[complex(rng.gauss(0, 1.5)) for _ in range(EXPERTS)] for _ in range(TOKENS)]
    bias = [rng.gauss(0, 0.3) for _ in range(EXPERTS)]
    tokens = [router(z, bias) for z in logits]
    choices, weights, shares = [t[0] for t in tokens], [t[1] for t in tokens], [t[2] for t in tokens]
    k = len(choices[0])
    dweight = [rng.gauss(0, 1) for _ in range(TOKENS * k)]
    dshare = [rng.gauss(0, 1) for _ in range(TOKENS * EXPERTS)]

    def loss(z):
        rows = [router(row, bias) for row in z]
        w, s = [v for r in rows for v in r[1]], [v for r in rows for v in r[2]]
        return sum(a * b for a, b in zip(w, dweight)) + sum(a * b for a, b in zip(s, dshare))

    def balance_of(z):
        return balance(choices, [router(row, bias)[2] for row in z], k)[0]

    value, fraction = balance(choices, shares, k)
    return {"logits": [v.real for row in logits for v in row], "bias": bias, "choice": [c for row in choices for c in row],
            "weight": [v.real for row in weights for v in row], "share": [v.real for row in shares for v in row],
            "dweight": dweight, "dshare": dshare, "dlogits": gradient(loss, logits), "fraction": fraction,
            "balance": value.real, "dbalance": gradient(balance_of, logits),
            "z": sum(log_sum(z) ** 2 for z in logits).real,
            "dz": gradient(lambda all_z: sum(log_sum(z) ** 2 for z in all_z), logits)}


def sinkhorn(rng, tokens=24):
    """Megatron-core's function: exponentials whose rows and columns are scaled until their sums are equal."""
    logits = [[rng.gauss(0, 2) + (3 if e < 2 else 0) for e in range(EXPERTS)] for _ in range(tokens)]
    cost = [[math.exp(v) for v in row] for row in logits]
    d1, error = [1.0] * EXPERTS, 1e9
    while error > 1e-4:
        d0 = [1 / tokens / (sum(a * b for a, b in zip(d1, row)) + 1e-8) for row in cost]
        new = [1 / EXPERTS / (sum(d * row[e] for d, row in zip(d0, cost)) + 1e-8) for e in range(EXPERTS)]
        error = sum(abs(a - b) for a, b in zip(d1, new)) / EXPERTS
        d1 = new
    return {"logits": [v for row in logits for v in row],
            "keys": [a * b * d for d, row in zip(d0, cost) for a, b in zip(d1, row)]}


def main():
    rng = random.Random(20261130)
    result = {"made_by": "tools/make_route_golden.py, seed 20261130"}
    for router in ROUTERS:
        result[router.__name__] = case(router, rng)
    result["sinkhorn"] = sinkhorn(rng)
    with open(sys.argv[1], "w") as f:
        json.dump(result, f, indent=0)
        f.write("\n")


main()
