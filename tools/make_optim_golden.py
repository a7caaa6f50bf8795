#!/usr/bin/env python3
"""Writes tests/golden/optimizer.json: AdamW, SGD, Adagrad and clipping as PyTorch computes them, schedule-free AdamW as schedulefree does, for tests/golden/test_optimizer.c.

usage: python tools/make_optim_golden.py tests/golden/optimizer.json

Two parameters: a matrix "w" [3, 5] that decays and a vector "b" [5] that does not (Megatron's groups). Six steps; the
gradients of a step are seeded normal numbers, written to the file, clipped at 1.0 over both tensors; the learning rate and
the decay differ from step to step. All in float64, so that the file does not depend on the order of PyTorch's sums.
"""
import json
import sys

import schedulefree
import torch

SEED, STEPS, CLIP = 20240607, 6, 1.0
LR = [1e-2, 2e-2, 3e-2, 2.5e-2, 1e-2, 5e-3]
DECAY = [0.1, 0.1, 0.05, 0.05, 0.2, 0.0]


def run(make):
    torch.manual_seed(SEED)
    w = torch.nn.Parameter(torch.randn(3, 5, dtype=torch.float64))
    b = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    if hasattr(optimizer := make([{"params": [w]}, {"params": [b]}]), "train"):
        optimizer.train()
    start = {"w": w.detach().flatten().tolist(), "b": b.detach().tolist()}
    steps = []
    for i in range(STEPS):
        scale = 0.02 if i == 2 else 1.0  # one step below the clip
        w.grad, b.grad = torch.randn_like(w) * scale, torch.randn_like(b) * scale
        w.grad[0, 1] = 0.0
        row = {"lr": LR[i], "weight_decay": DECAY[i], "grad_w": w.grad.flatten().tolist(), "grad_b": b.grad.tolist()}
        # Megatron's clipping: the norm over all parameters, and the factor clip / (norm + 1e-6) if it is below 1.
        row["norm"] = torch.nn.utils.clip_grad_norm_([w, b], CLIP).item()
        for group, decays in zip(optimizer.param_groups, (True, False)):
            group["lr"], group["weight_decay"] = LR[i], DECAY[i] if decays else 0.0
        optimizer.step()
        row["w"], row["b"] = w.detach().flatten().tolist(), b.detach().tolist()
        if hasattr(optimizer, "train"):
            optimizer.eval()
            row["average"] = w.detach().flatten().tolist()
            optimizer.train()
        steps.append(row)
    return {"start": start, "steps": steps}


def main():
    golden = {
        "made_by": "tools/make_optim_golden.py, torch " + torch.__version__ + ", seed " + str(SEED),
        "clip": CLIP,
        "adam": run(lambda groups: torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)),
        "sgd": run(lambda groups: torch.optim.SGD(groups, lr=1e-3, momentum=0.9)),
        "nesterov": run(lambda groups: torch.optim.SGD(groups, lr=1e-3, momentum=0.9, nesterov=True)),
        "dampening": run(lambda groups: torch.optim.SGD(groups, lr=1e-3, momentum=0.9, dampening=0.3)),
        "adagrad": run(lambda groups: torch.optim.Adagrad(groups, lr=1e-3, lr_decay=0.1, eps=1e-8)),
        "amsgrad": run(lambda groups: torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, amsgrad=True)),
        "amsgrad_l2": run(lambda groups: torch.optim.Adam(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, amsgrad=True)),
        "maximize": run(lambda groups: torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, maximize=True)),
        "accumulator": run(lambda groups: torch.optim.Adagrad(groups, lr=1e-3, initial_accumulator_value=0.5, eps=1e-8)),
        "schedule_free_adamw": run(
            lambda groups: schedulefree.AdamWScheduleFree(
                groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, warmup_steps=4, r=0.5, weight_lr_power=2.0
            )
        ),
    }
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


main()
