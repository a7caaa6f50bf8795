#!/usr/bin/env python3
"""A training of GPT-2 in megalith against PyTorch, from the same random weights over the same tokens.

usage: python tools/compare_gpt2_torch.py build/megalith [--iters 20] [--layers 12 --hidden 768 --heads 12 --vocab
50257]
                                          [--batch 2 --seq 128] [--optimizer adamw adam sgd] [--bf16] [--tolerance 1e-4]
                                          [--folder FOLDER]

transformers writes a randomly initialised folder, which both load. No dropout; a learning rate of 1e-2 after a warm-up
of
two iterations, falling as a cosine; weight decay 0.3 on matrices and embeddings; clipping at a norm of 0.5. Prints
losses
and gradient norms of every iteration, and how far the final weights are apart, of the way that they went; exit status 1
where a relative difference is above the tolerance. Needs torch, transformers and numpy; megalith itself needs no
Python.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

LR, MIN_LR, WARMUP, DECAY, CLIP, EPS, MOMENTUM, SEED = 1e-2, 1e-3, 2, 0.3, 0.5, 1e-6, 0.9, 1234


def options():
    p = argparse.ArgumentParser()
    p.add_argument("megalith")
    for name, value in (("iters", 20), ("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257), ("batch", 2),
        ("seq", 128)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--micro", type=int, default=0, help="micro-batch size, the batch when not given")
    p.add_argument("--positions", type=int, default=1024)
    p.add_argument("--optimizer", nargs="+", choices=("adamw", "adam", "sgd"), default=["adamw"], help="a run for each")
    p.add_argument("--bf16", action="store_true", help="megalith computes in bf16; PyTorch stays in fp32")
    p.add_argument("--tolerance", type=float, default=1e-4, help="of losses and gradient norms")
    p.add_argument("--weights-tolerance", type=float, default=1e-4, help="of the final weights of each tensor")
    p.add_argument("--folder")
    return p.parse_args()


def write_data(prefix, tokens):
    """One document as Megatron's indexed format stores it: dtype code 8 is uint16, 4 is int32."""
    wide = tokens.max() > 65535
    data = tokens.astype(np.int32 if wide else np.uint16)
    data.tofile(prefix + ".bin")
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4 if wide else 8, 1, 2))
        f.write(struct.pack("<i", len(data)) + struct.pack("<q", 0) + struct.pack("<qq", 0, 1))


def samples(tokens, seq):
    """Megatron's order over one epoch of one document: a seeded permutation of the windows."""
    count = (len(tokens) - 1) // seq
    order = np.arange(count, dtype=np.uint32)
    np.random.RandomState(SEED).shuffle(order)
    return [tokens[i * seq : i * seq + seq + 1] for i in order]


def learning_rate(o, iteration):
    """Of the step after so many iterations."""
    if iteration <= WARMUP:
        return LR * iteration / WARMUP
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * (iteration - WARMUP) / (o.iters - WARMUP)))


def torch_optimizer(kind, model):
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=LR, momentum=MOMENTUM)
    adam = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return adam(groups, lr=LR, betas=(0.9, 0.999), eps=EPS)


def torch_run(folder, o, kind, rows):
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").float()
    model.train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch_optimizer(kind, model)
    micro = o.micro or o.batch
    curve = []
    for i in range(o.iters):
        batch = torch.tensor(np.stack(rows[i * o.batch : (i + 1) * o.batch]).astype(np.int64))
        total = 0.0
        for part in batch.split(micro):
            logits = model(part[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) * micro / o.batch
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(o, i)
        optimizer.step()
        optimizer.zero_grad()
        curve.append((total, norm, learning_rate(o, i)))
    return curve, before, dict(model.named_parameters())


def megalith_run(folder, o, kind, prefix):
    save = os.path.join(folder, kind)
    metrics = os.path.join(folder, kind + ".jsonl")
    command = [o.megalith, "pretrain_gpt", "--load", folder, "--finetune", "--save", save]
    command += ["--num-layers", o.layers, "--hidden-size", o.hidden, "--num-attention-heads", o.heads]
    command += ["--seq-length", o.seq, "--max-position-embeddings", o.positions]
    command += ["--micro-batch-size", o.micro or o.batch, "--global-batch-size", o.batch, "--train-iters", o.iters]
    command += ["--lr", LR, "--min-lr", MIN_LR, "--lr-decay-style", "cosine", "--lr-warmup-iters", WARMUP]
    command += ["--weight-decay", DECAY, "--clip-grad", CLIP, "--adam-eps", EPS]
    command += ["--optimizer", "sgd", "--sgd-momentum", MOMENTUM] if kind == "sgd" else []
    command += ["--no-decoupled-weight-decay"] if kind == "adam" else []
    command += ["--hidden-dropout", 0, "--attention-dropout", 0, "--seed", SEED, "--eval-iters", 0]
    command += ["--data-path", prefix, "--split", "100,0,0", "--tokenizer-type", "NullTokenizer", "--vocab-size",
        o.vocab - 1]
    command += ["--metrics-file", metrics, "--log-interval", 1] + (["--bf16"] if o.bf16 else [])
    subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr)
    with open(metrics) as f:
        rows = [json.loads(line) for line in f]
    weights = load_file(os.path.join(save, f"iter_{o.iters:07d}", "model.safetensors"))
    return [(r["lm_loss"], r["grad_norm"], r["learning_rate"]) for r in rows], weights


def compare_curves(ours, theirs, tolerance):
    worst = 0.0
    print("iteration         loss      PyTorch     off        norm      PyTorch     off")
    for i, (a, b) in enumerate(zip(ours, theirs)):
        off = [abs(x - y) / abs(y) if y else abs(x) for x, y in zip(a, b)]
        worst = max(worst, off[0], off[1], off[2] * 1e6)  # the rate is a formula
        print(f"{i + 1:9d} {a[0]:12.7f} {b[0]:12.7f} {off[0]:.1e} {a[1]:11.6f} {b[1]:12.6f} {off[1]:.1e}")
    good = len(ours) == len(theirs) and worst <= tolerance
    print(f"losses, norms, rates: worst {worst:.1e} of at most {tolerance:.0e}: {'ok' if good else 'FAILED'}")
    return good


def compare_weights(ours, before, after, iters, tolerance):
    """Each tensor's distance, of the way that PyTorch's went; beyond what rounding a weight in each iteration may add.
    The keys' bias has no gradient but rounding errors, which Adam makes as large as any: it is left out."""
    worst, where = 0.0, ""
    for name, there in after.items():
        here = next(ours[n] for n in (name, name.removeprefix("transformer."), "transformer." + name) if n in ours)
        here, there, start = here.double(), there.detach().double(), before[name].double()
        if name.endswith("attn.c_attn.bias"):
            query, _, value = range(3)
            here, there, start = (torch.cat([x.chunk(3)[i] for i in (query, value)]) for x in (here, there, start))
        rounding = iters * 2.0**-24 * there.norm()
        off = (((here - there).norm() - rounding).clamp(min=0) / (there - start).norm()).item()
        worst, where = max((worst, where), (off, name))
    good = worst <= tolerance
    print(f"final weights: worst {worst:.1e} ({where}) of at most {tolerance:.0e}: {'ok' if good else 'FAILED'}")
    return good


def main():
    o = options()
    folder = o.folder or tempfile.mkdtemp(prefix="megalith-gpt2-")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(SEED)
    shape = GPT2Config(n_layer=o.layers, n_embd=o.hidden, n_head=o.heads, vocab_size=o.vocab, n_positions=o.positions,
                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=o.vocab - 1,
                           eos_token_id=o.vocab - 1)
    GPT2LMHeadModel(shape).save_pretrained(folder)
    count = o.iters * o.batch * o.seq + 1
    tokens = (np.random.RandomState(7).zipf(1.2, count) - 1) % (o.vocab - 1)  # words of a text follow Zipf's law too
    prefix = os.path.join(folder, "tokens_text_document")
    write_data(prefix, tokens)
    good = True
    for kind in o.optimizer:
        ours, weights = megalith_run(folder, o, kind, prefix)
        theirs, before, after = torch_run(folder, o, kind, samples(tokens, o.seq))
        print(f"---- {kind}")
        good = compare_curves(ours, theirs, o.tolerance) and good
        good = compare_weights(weights, before, after, o.iters, o.weights_tolerance) and good
    sys.exit(0 if good else 1)


main()
