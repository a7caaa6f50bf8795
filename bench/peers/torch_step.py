#!/usr/bin/env python3
"""A training step in PyTorch that obeys the lines bench/bench_step.c does, on the weights and tokens it exported.

usage: torch_step.py FOLDER f32|bf16 eager|compile [B=4 T=1024 heads=12]
FOLDER holds config.json and model.safetensors (somewhere below), tokens.bin and labels.bin. GPT-2 is written out here; another
model is the one of transformers, with sdpa. Lines read: run N, memory, quit.
"""
import glob
import json
import os
import resource
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file


class Block(nn.Module):
    def __init__(self, weights, prefix, heads):
        super().__init__()
        self.heads = heads
        width = weights[prefix + "ln_1.weight"].shape[0]
        for name in ("ln_1", "ln_2"):
            norm = nn.LayerNorm(width)
            norm.weight.data.copy_(weights[f"{prefix}{name}.weight"])
            norm.bias.data.copy_(weights[f"{prefix}{name}.bias"])
            setattr(self, name, norm)
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            weight = weights[f"{prefix}{name}.weight"].t().contiguous()  # the file holds [in, out]
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight.data.copy_(weight)
            linear.bias.data.copy_(weights[f"{prefix}{name}.bias"])
            setattr(self, name.replace(".", "_"), linear)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.attn_c_attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp_c_proj(F.gelu(self.mlp_c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, weights, heads):
        super().__init__()
        root = "" if "wte.weight" in weights else "transformer."
        layers = sum(1 for name in weights if name.endswith("ln_1.weight"))
        self.wte = nn.Parameter(weights[root + "wte.weight"].clone())
        self.wpe = nn.Parameter(weights[root + "wpe.weight"].clone())
        self.blocks = nn.ModuleList(Block(weights, f"{root}h.{i}.", heads) for i in range(layers))
        self.norm = nn.LayerNorm(self.wte.shape[1])
        self.norm.weight.data.copy_(weights[root + "ln_f.weight"])
        self.norm.bias.data.copy_(weights[root + "ln_f.bias"])

    def forward(self, ids, labels):
        x = F.embedding(ids, self.wte) + self.wpe[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.wte)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


class OfTransformers(nn.Module):
    def __init__(self, folder):
        super().__init__()
        from transformers import AutoModelForCausalLM
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").train()

    def forward(self, ids, labels):
        logits = self.model(input_ids=ids, use_cache=False).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def load(path, heads):
    with open(os.path.join(os.path.dirname(path), "config.json"), encoding="utf-8") as f:
        kind = json.load(f)["model_type"]
    return GPT(load_file(path), heads) if kind == "gpt2" else OfTransformers(os.path.dirname(path))


def main():
    folder, dtype, how = sys.argv[1:4]
    options = dict(word.split("=") for word in sys.argv[4:])
    seq, heads = int(options["T"]), int(options["heads"])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))))
    path = glob.glob(os.path.join(folder, "**", "model*.safetensors"), recursive=True)[0]
    model = load(path, heads)
    ids, labels = (torch.from_numpy(np.fromfile(os.path.join(folder, n), dtype=np.int32).astype(np.int64)).view(-1, seq)
                   for n in ("tokens.bin", "labels.bin"))
    matrices = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    call = torch.compile(model) if how == "compile" else model

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = call(ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    print("ready torch", torch.__version__, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        if words[0] == "memory":
            print("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
        if words[0] == "run":
            seconds, losses = [], []
            for _ in range(int(words[1])):
                start = time.perf_counter()
                losses.append(step())
                seconds.append(time.perf_counter() - start)
            print("seconds", *(f"{s:.9g}" for s in seconds), "losses", *(f"{x:.7g}" for x in losses), flush=True)


if __name__ == "__main__":
    main()
