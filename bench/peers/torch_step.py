#!/usr/bin/env python3
"""A training step in PyTorch that obeys the lines bench/bench_step.c does, on the weights and tokens it exported.

usage: torch_step.py FOLDER f32|bf16 eager|compile [B=4 T=1024 heads=12]
FOLDER holds config.json and model.safetensors (somewhere below), tokens.bin and labels.bin. GPT-2 and BERT are written out here;
another model is the one of transformers, with sdpa. Lines read: run N, memory, quit.
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


class Encoder(nn.Module):
    """A block of BERT, with norms of the sums."""

    def __init__(self, weights, prefix, heads):
        super().__init__()
        self.heads = heads
        qkv = [weights[f"{prefix}attention.self.{name}.weight"] for name in ("query", "key", "value")]
        self.qkv = linear_of(torch.cat(qkv), torch.cat([weights[f"{prefix}attention.self.{name}.bias"] for name in ("query", "key", "value")]))
        self.out, self.up, self.down = (linear_of(weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"])
                                        for name in ("attention.output.dense", "intermediate.dense", "output.dense"))
        self.norm_1, self.norm_2 = (norm_of(weights, f"{prefix}{name}") for name in ("attention.output.LayerNorm", "output.LayerNorm"))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(c, dim=2))
        x = self.norm_1(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)))
        return self.norm_2(x + self.down(F.gelu(self.up(x))))


class BERT(nn.Module):
    def __init__(self, weights, heads):
        super().__init__()
        root = "bert.embeddings."
        for name in ("word", "position", "token_type"):
            setattr(self, name, nn.Parameter(weights[f"{root}{name}_embeddings.weight"].clone()))
        self.norm = norm_of(weights, root + "LayerNorm")
        layers = sum(1 for name in weights if name.endswith("intermediate.dense.weight"))
        self.blocks = nn.ModuleList(Encoder(weights, f"bert.encoder.layer.{i}.", heads) for i in range(layers))
        self.pooler, self.pairs, self.transform = (linear_of(weights[name + ".weight"], weights[name + ".bias"])
                                                   for name in ("bert.pooler.dense", "cls.seq_relationship", "cls.predictions.transform.dense"))
        self.transform_norm = norm_of(weights, "cls.predictions.transform.LayerNorm")
        self.bias = nn.Parameter(weights["cls.predictions.bias"].clone())

    def forward(self, ids, labels):
        b, t = ids.shape
        types = (torch.arange(t) >= t // 2).long()
        x = self.norm(F.embedding(ids, self.word) + self.position[:t] + F.embedding(types, self.token_type))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.transform_norm(F.gelu(self.transform(x))), self.word, self.bias)
        pairs = self.pairs(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1)) + F.cross_entropy(pairs.float(), torch.arange(b) % 2)


def linear_of(weight, bias):
    linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight.data.copy_(weight)
    linear.bias.data.copy_(bias)
    return linear


def norm_of(weights, name):
    norm = nn.LayerNorm(weights[name + ".weight"].shape[0])
    norm.weight.data.copy_(weights[name + ".weight"])
    norm.bias.data.copy_(weights[name + ".bias"])
    return norm


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
    if kind in ("gpt2", "bert"):
        return (GPT if kind == "gpt2" else BERT)(load_file(path), heads)
    return OfTransformers(os.path.dirname(path))


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
