#!/usr/bin/env python3
"""Writes tests/golden/optimizer.json: AdamW, SGD, Adagrad, Muon and clipping as PyTorch computes them, Lamb by its
formulas, schedule-free AdamW as schedulefree does, for tests/golden/test_optimizer.c.

usage: python tools/make_optim_golden.py tests/golden/optimizer.json

Two parameters: a matrix "w" [3, 5] that decays and a vector "b" [5] that does not (Megatron's groups). Six steps; the
gradients of a step are seeded normal numbers, written to the file, clipped at 1.0 over both tensors; the learning rate
and
the decay differ from step to step. All in float64, so that the file does not depend on the order of PyTorch's sums.
"""
import json
import math
import sys

import schedulefree
import torch
import torch.optim._muon

SEED, STEPS, CLIP = 20240607, 6, 1.0
LR = [1e-2, 2e-2, 3e-2, 2.5e-2, 1e-2, 5e-3]
DECAY = [0.1, 0.1, 0.05, 0.05, 0.2, 0.0]


class Float64:
    """torch for the file of torch.optim.Muon, whose iteration is computed in bfloat16: here in float64."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


torch.optim._muon.torch = Float64()


class Lamb(torch.optim.Optimizer):
    """The formulas of DeepSpeed's FusedLamb, whose code runs on GPUs only."""

    def __init__(self, groups, betas, eps, max_coeff, min_coeff, eps_inside_sqrt):
        super().__init__(groups, {"lr": 1e-3, "weight_decay": 0.0})
        self.of = betas, eps, max_coeff, min_coeff, eps_inside_sqrt

    @torch.no_grad()
    def step(self):
        (b1, b2), eps, most, least, inside = self.of
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                denominator = (state["v"] + eps).sqrt() if inside else state["v"].sqrt() + eps
                u = state["m"] / denominator + group["weight_decay"] * p
                norm, size = p.norm().item(), u.norm().item()
                ratio = min(max(norm / size, least), most) if norm != 0 and size != 0 else 1.0
                rate = group["lr"] * math.sqrt(1 - b2 ** state["step"]) / (1 - b1 ** state["step"])
                p.sub_(u, alpha=rate * ratio)


class MuonAndAdam:
    """torch.optim.Muon for the matrix, AdamW for the vector."""

    def __init__(self, groups, **muon):
        self.parts = [torch.optim.Muon(groups[:1], lr=1e-3, **muon),
                      torch.optim.AdamW(groups[1:], lr=1e-3, betas=(0.9, 0.95), eps=1e-8)]
        self.param_groups = [self.parts[0].param_groups[0], self.parts[1].param_groups[0]]

    def step(self):
        for part in self.parts:
            part.step()


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
        "accumulator": run(lambda groups: torch.optim.Adagrad(groups, lr=1e-3, initial_accumulator_value=0.5,
            eps=1e-8)),
        "schedule_free_adamw": run(
            lambda groups: schedulefree.AdamWScheduleFree(
                groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, warmup_steps=4, r=0.5, weight_lr_power=2.0
            )
        ),
        "lamb": run(lambda groups: Lamb(groups, (0.9, 0.95), 1e-8, 10.0, 0.01, False)),
        "lamb_clamped": run(lambda groups: Lamb(groups, (0.8, 0.9), 0.01, 0.9, 0.6, True)),
        "muon": run(lambda groups: MuonAndAdam(groups, momentum=0.9)),
        "muon_plain": run(lambda groups: MuonAndAdam(groups, momentum=0.8, nesterov=False, ns_steps=3,
                                                     adjust_lr_fn="spectral_unclamped")),
    }
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


main()
