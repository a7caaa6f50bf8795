#!/usr/bin/env python3
"""A training step in PyTorch that obeys the lines bench/bench_step.c does, on the weights and tokens it exported.

usage: torch_step.py FOLDER f32|bf16 eager|compile [B=4 T=1024 heads=12]
FOLDER holds config.json and model.safetensors (somewhere below), tokens.bin and labels.bin. GPT-2, BERT and T5 are
written out here;
another model is the one of transformers, with sdpa. Lines read: run N, memory, quit.
"""
import glob
import json
import math
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
        self.qkv = linear_of(torch.cat(qkv),
            torch.cat([weights[f"{prefix}attention.self.{name}.bias"] for name in ("query", "key", "value")]))
        self.out, self.up, self.down = (linear_of(weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"])
                                        for name in ("attention.output.dense", "intermediate.dense", "output.dense"))
        self.norm_1, self.norm_2 = (norm_of(weights, f"{prefix}{name}")
            for name in ("attention.output.LayerNorm", "output.LayerNorm"))

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
                                                   for name in ("bert.pooler.dense", "cls.seq_relationship",
                                                       "cls.predictions.transform.dense"))
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
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(),
            labels.view(-1)) + F.cross_entropy(pairs.float(), torch.arange(b) % 2)


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


class T5Layer(nn.Module):
    """A block of T5, version 1: RMS norms before the parts, scores without a scale."""

    def __init__(self, weights, prefix, heads):
        super().__init__()
        self.heads, self.is_decoder = heads, prefix.startswith("decoder")
        last = 2 if self.is_decoder else 1
        own, cross = prefix + "layer.0.SelfAttention.", prefix + "layer.1.EncDecAttention."
        self.norms = nn.ParameterList(weights[f"{prefix}layer.{i}.layer_norm.weight"].clone() for i in range(last + 1))
        self.qkv, self.out = plain_of(torch.cat([weights[f"{own}{name}.weight"]
            for name in "qkv"])), plain_of(weights[own + "o.weight"])
        if self.is_decoder:
            self.query, self.cross_out = plain_of(weights[cross + "q.weight"]), plain_of(weights[cross + "o.weight"])
            self.source = plain_of(torch.cat([weights[f"{cross}{name}.weight"] for name in "kv"]))
        self.up, self.down = (plain_of(weights[f"{prefix}layer.{last}.DenseReluDense.{name}.weight"])
            for name in ("wi", "wo"))

    def attend(self, q, k, v, mask):
        q, k, v = (z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2) for z in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0).transpose(1, 2).flatten(2)

    def forward(self, x, mask, source):
        x = x + self.out(self.attend(*self.qkv(rms(x, self.norms[0])).chunk(3, dim=2), mask))
        if self.is_decoder:
            x = x + self.cross_out(self.attend(self.query(rms(x, self.norms[1])), *self.source(source).chunk(2, dim=2),
                None))
        return x + self.down(F.relu(self.up(rms(x, self.norms[-1]))))


class T5(nn.Module):
    def __init__(self, weights, heads):
        super().__init__()
        self.shared = nn.Parameter(weights["shared.weight"].clone())
        for stack in ("encoder", "decoder"):
            layers = sum(1 for name in weights if name.startswith(stack) and name.endswith("SelfAttention.q.weight"))
            setattr(self, stack, nn.ModuleList(T5Layer(weights, f"{stack}.block.{i}.", heads) for i in range(layers)))
            setattr(self, stack + "_norm", nn.Parameter(weights[stack + ".final_layer_norm.weight"].clone()))
            setattr(self, stack + "_bias",
                    nn.Parameter(weights[stack
                        + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"].clone()))

    def stack(self, stack, ids, source):
        t, is_decoder = ids.shape[1], stack == "decoder"
        table = getattr(self, stack + "_bias")
        mask = table[relative_buckets(t, not is_decoder, table.shape[0])].permute(2, 0, 1)[None]
        if is_decoder:
            mask = mask.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        x = F.embedding(ids, self.shared)
        for block in getattr(self, stack):
            x = block(x, mask.to(x.dtype), source)
        return rms(x, getattr(self, stack + "_norm"))

    def forward(self, ids, labels):
        x = self.stack("decoder", ids, self.stack("encoder", ids, None))
        logits = F.linear(x * x.shape[-1] ** -0.5, self.shared)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def relative_buckets(t, is_two_sided, buckets, distance=128):
    apart = torch.arange(t)[None, :] - torch.arange(t)[:, None]
    bucket = torch.zeros_like(apart)
    if is_two_sided:
        buckets //= 2
        bucket, apart = (apart > 0) * buckets, apart.abs()
    else:
        apart = (-apart).clamp(min=0)
    exact = buckets // 2
    far = exact + (torch.log(apart.clamp(min=1).float() / exact) / math.log(distance / exact) * (
        buckets - exact)).long()
    return bucket + torch.where(apart < exact, apart, far.clamp(max=buckets - 1))


def rms(x, weight):
    return F.rms_norm(x, weight.shape, weight, 1e-6)


def plain_of(weight):
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight.data.copy_(weight)
    return linear


class OfTransformers(nn.Module):
    def __init__(self, folder):
        super().__init__()
        from transformers import AutoModelForCausalLM
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
            attn_implementation="sdpa").train()

    def forward(self, ids, labels):
        logits = self.model(input_ids=ids, use_cache=False).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def load(path, heads):
    with open(os.path.join(os.path.dirname(path), "config.json"), encoding="utf-8") as f:
        kind = json.load(f)["model_type"]
    own = {"gpt2": GPT, "bert": BERT, "t5": T5}
    if kind in own:
        return own[kind](load_file(path), heads)
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
