#!/usr/bin/env python3
"""Writes tests/golden/layers.json: ops of models that are no transformers, and their gradients, as PyTorch computes them,
for tests/golden/test_layers.c.

usage: python tools/make_layers_golden.py tests/golden/layers.json

All in float64. Images are written as megalith holds them, [samples, height, width, channels]; weights as in a file. The
loss of each case is the sum of the result times seeded numbers, "dy".
"""
import json
import sys

import torch
import torch.nn.functional as F

torch.manual_seed(20261123)
torch.set_default_dtype(torch.float64)


def flat(t):
    return t.detach().flatten().tolist()


def pixels(t):
    return flat(t.permute(0, 2, 3, 1))


def image(n, c, h, w):
    return torch.randn(n, c, h, w, requires_grad=True)


def backward(y):
    dy = torch.randn_like(y)
    (y * dy).sum().backward()
    return dy


def activation(f):
    x = torch.cat([torch.randn(20) * 3, torch.tensor([-40.0, 40.0, 0.125])]).requires_grad_()
    y = f(x)
    dy = backward(y)
    return {"x": flat(x), "y": flat(y), "dy": flat(dy), "dx": flat(x.grad)}


def conv2d(n, c, h, w, o, size, stride, padding):
    x, weight = image(n, c, h, w), torch.randn(o, c, size, size, requires_grad=True)
    bias = torch.randn(o, requires_grad=True)
    y = F.conv2d(x, weight, bias, stride, padding)
    dy = backward(y)
    return {"shape": [n, c, h, w, o, size, stride, padding], "x": pixels(x), "weight": flat(weight), "bias": flat(bias),
            "y": pixels(y), "dy": pixels(dy), "dx": pixels(x.grad), "dweight": flat(weight.grad),
                "dbias": flat(bias.grad)}


def pool2d(f, n, c, h, w, size, stride, padding):
    x = image(n, c, h, w)
    y = f(x, size, stride, padding)
    dy = backward(y)
    return {"shape": [n, c, h, w, size, stride, padding], "x": pixels(x), "y": pixels(y), "dy": pixels(dy),
            "dx": pixels(x.grad)}


def batch_norm(groups, n, c, h, w):
    """Each group is a batch of its own, one after the other, as micro-batches are on one rank."""
    norm = torch.nn.BatchNorm2d(c, eps=1e-5, momentum=0.1)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = image(groups * n, c, h, w)
    y = torch.cat([norm(part) for part in x.split(n)])
    dy = backward(y)
    result = {"shape": [groups, n * h * w, c], "gain": flat(norm.weight), "bias": flat(norm.bias), "x": pixels(x),
              "y": pixels(y), "dy": pixels(dy), "dx": pixels(x.grad), "dgain": flat(norm.weight.grad),
              "dbias": flat(norm.bias.grad), "running_mean": flat(norm.running_mean),
              "running_var": flat(norm.running_var)}
    norm.eval()
    result["evaluated"] = pixels(norm(x))
    return result


def main():
    golden = {
        "made_by": f"tools/make_layers_golden.py, torch {torch.__version__}, seed 20261123",
        "relu": activation(F.relu),
        "relu_squared": activation(lambda x: F.relu(x) ** 2),
        "silu": activation(F.silu),
        "tanh": activation(torch.tanh),
        "sigmoid": activation(torch.sigmoid),
        "conv2d": [conv2d(2, 3, 5, 4, 4, 3, 1, 1), conv2d(1, 2, 7, 6, 3, 3, 2, 1), conv2d(2, 1, 4, 4, 2, 2, 3, 0)],
        "max_pool2d": [pool2d(F.max_pool2d, 2, 3, 6, 5, 2, 2, 0), pool2d(F.max_pool2d, 1, 2, 7, 6, 3, 2, 1)],
        "mean_pool2d": [pool2d(F.avg_pool2d, 2, 3, 6, 5, 2, 2, 0), pool2d(F.avg_pool2d, 1, 2, 7, 6, 3, 2, 1)],
        "batch_norm": batch_norm(3, 2, 3, 3, 2),
    }
    with open(sys.argv[1], "w") as f:
        json.dump(golden, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
