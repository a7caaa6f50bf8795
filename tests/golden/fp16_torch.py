"""Trains a small GPT-2 in fp16 in PyTorch and in megalith, from the same weights over the same tokens, and compares them.

usage: python fp16_torch.py MEGALITH     (in an empty folder)

The model computes in fp16 from fp32 masters, without autocast: a product and its input gradient are fp16, weight
gradients are fp32 sums, and norms, softmax and loss are computed in fp32. The loss scale is Megatron-LM's dynamic one,
with a small window, so that it falls and rises. Scale and skipped iterations must be equal, losses within 2e-3.
"""
import json
import struct
import subprocess
import sys

import numpy as np
import torch
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, SEQ, VOCAB, BATCH, MICRO, ITERS = 2, 64, 4, 32, 256, 4, 2, 30
LR, CLIP, SEED, INITIAL, WINDOW, HYSTERESIS = 1e-3, 1.0, 1234, 2.0**26, 4, 2
half = torch.float16


class Linear(torch.autograd.Function):
    """x [rows, in] times weight [in, out]."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        y = x.float() @ weight.half().float()
        return (y + bias.half().float() if bias is not None else y).half()

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        return (dy.float() @ weight.half().float().T).half(), x.float().T @ dy.float(), dy.float().sum(0)


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ids, table):
        ctx.save_for_backward(ids)
        ctx.rows = table.shape[0]
        return table.half()[ids]

    @staticmethod
    def backward(ctx, dy):
        (ids,) = ctx.saved_tensors
        return None, torch.zeros(ctx.rows, dy.shape[-1]).index_add_(0, ids.flatten(), dy.float().flatten(0, -2))


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, bias):
        x = x.float()
        mean, rstd = x.mean(-1, keepdim=True), 1 / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        ctx.save_for_backward((x - mean) * rstd, rstd, gain)
        return ((x - mean) * rstd * gain.half().float() + bias.half().float()).half()

    @staticmethod
    def backward(ctx, dy):
        normal, rstd, gain = ctx.saved_tensors
        dy = dy.float()
        w = dy * gain.half().float()
        dx = rstd * (w - w.mean(-1, keepdim=True) - normal * (w * normal).mean(-1, keepdim=True))
        return dx.half(), (dy * normal).sum(0), dy.sum(0)


class Head(torch.autograd.Function):
    """Mean cross-entropy times `factor`; the gradient of the logits is fp16."""

    @staticmethod
    def forward(ctx, x, table, labels, factor):
        logits = x.float() @ table.half().float().T
        ctx.save_for_backward(x, table, logits, labels)
        ctx.factor = factor
        return F.cross_entropy(logits, labels)

    @staticmethod
    def backward(ctx, _):
        x, table, logits, labels = ctx.saved_tensors
        d = (logits.softmax(-1) - F.one_hot(labels, table.shape[0])) * (ctx.factor / len(labels))
        d = d.half().float()
        return (d @ table.half().float()).half(), d.T @ x.float(), None, None


def gelu(x):
    return F.gelu(x.float(), approximate="tanh").half()


def attention(qkv, rows):
    q, k, v = (t.view(rows, SEQ, HEADS, -1).transpose(1, 2).float() for t in qkv.split(HIDDEN, -1))
    scores = q @ k.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5
    weights = scores.masked_fill(torch.ones(SEQ, SEQ).triu(1).bool(), -torch.inf).softmax(-1)
    return (weights @ v).half().transpose(1, 2).reshape(rows * SEQ, HIDDEN)


def loss_of(p, ids, labels, factor):
    rows = ids.shape[0]
    x = Embedding.apply(ids.flatten(), p["wte.weight"]) + Embedding.apply(torch.arange(SEQ).repeat(rows),
        p["wpe.weight"])
    for i in range(LAYERS):
        def of(name):
            return p[f"h.{i}.{name}.weight"], p[f"h.{i}.{name}.bias"]
        x = x + Linear.apply(attention(Linear.apply(Norm.apply(x, *of("ln_1")), *of("attn.c_attn")), rows),
            *of("attn.c_proj"))
        x = x + Linear.apply(gelu(Linear.apply(Norm.apply(x, *of("ln_2")), *of("mlp.c_fc"))), *of("mlp.c_proj"))
    x = Norm.apply(x, p["ln_f.weight"], p["ln_f.bias"])
    return Head.apply(x, p["wte.weight"], labels.flatten(), factor)


def weights():
    torch.manual_seed(5)
    shapes = {"wte.weight": (VOCAB, HIDDEN), "wpe.weight": (SEQ, HIDDEN)}
    for i in range(LAYERS):
        for name, shape in (("attn.c_attn", (HIDDEN, 3 * HIDDEN)), ("attn.c_proj", (HIDDEN, HIDDEN)),
                            ("mlp.c_fc", (HIDDEN, 4 * HIDDEN)), ("mlp.c_proj", (4 * HIDDEN, HIDDEN))):
            shapes[f"h.{i}.{name}.weight"], shapes[f"h.{i}.{name}.bias"] = shape, shape[1:]
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{i}.{name}.weight"] = shapes[f"h.{i}.{name}.bias"] = (HIDDEN,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (HIDDEN,)
    p = {name: 0.1 * torch.randn(shape) for name, shape in shapes.items()}
    for name in p:
        if "ln_" in name and name.endswith("weight"):
            p[name] += 1
    return p


def write_folder(p):
    """config.json and model.safetensors, as transformers writes them."""
    header, at = {}, 0
    for name, t in p.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + 4 * t.numel()]}
        at += 4 * t.numel()
    text = json.dumps(header).encode()
    with open("start/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in p.values():
            f.write(t.numpy().tobytes())
    with open("start/config.json", "w") as f:
        json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": HIDDEN, "n_layer": LAYERS,
                   "n_head": HEADS, "n_positions": SEQ, "n_ctx": SEQ, "vocab_size": VOCAB, "n_inner": None,
                   "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0, "embd_pdrop": 0,
                   "attn_pdrop": 0, "initializer_range": 0.02, "tie_word_embeddings": True}, f)


def write_data(tokens):
    """One document as Megatron's indexed format stores it: dtype code 8 is uint16."""
    tokens.astype(np.uint16).tofile("d.bin")
    with open("d.idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 1, 2))
        f.write(struct.pack("<i", len(tokens)) + struct.pack("<q", 0) + struct.pack("<qq", 0, 1))


def samples(tokens):
    """Megatron's order over one epoch of one document: a seeded permutation of the windows."""
    order = np.arange((len(tokens) - 1) // SEQ, dtype=np.uint32)
    np.random.RandomState(SEED).shuffle(order)
    return [tokens[i * SEQ : i * SEQ + SEQ + 1] for i in order]


def torch_run(p, rows):
    for t in p.values():
        t.requires_grad_()
    optimizer = torch.optim.AdamW([{"params": [t for n, t in p.items() if t.ndim > 1], "weight_decay": 0.1},
                                   {"params": [t for n, t in p.items() if t.ndim == 1], "weight_decay": 0}], lr=LR)
    scale, growth, hysteresis, curve = INITIAL, 0, HYSTERESIS, []
    for i in range(ITERS):
        batch = torch.tensor(np.stack(rows[i * BATCH : (i + 1) * BATCH]).astype(np.int64))
        total, used = 0.0, scale
        optimizer.zero_grad()
        for part in batch.split(MICRO):
            loss = loss_of(p, part[:, :-1], part[:, 1:], scale * MICRO / BATCH)
            loss.backward()
            total += loss.item() * MICRO / BATCH
        skipped = any(not t.grad.isfinite().all() for t in p.values())
        if skipped:
            growth, hysteresis = 0, hysteresis - 1
            if hysteresis <= 0:
                scale = max(scale / 2, 1.0)
        else:
            for t in p.values():
                t.grad /= used
            torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
            optimizer.step()
            growth += 1
            if growth == WINDOW:
                growth, hysteresis, scale = 0, HYSTERESIS, scale * 2
        curve.append((total, used, skipped))
    return curve


def megalith_run(megalith):
    command = [megalith, "pretrain_gpt", "--load", "start", "--finetune", "--num-layers", LAYERS, "--hidden-size",
        HIDDEN,
               "--num-attention-heads", HEADS, "--seq-length", SEQ, "--max-position-embeddings", SEQ,
                   "--micro-batch-size", MICRO,
               "--global-batch-size", BATCH, "--train-iters", ITERS, "--lr", LR, "--lr-decay-style", "constant",
               "--weight-decay", 0.1, "--clip-grad", CLIP, "--hidden-dropout", 0, "--attention-dropout", 0, "--seed",
                   SEED,
               "--eval-iters", 0, "--data-path", "d", "--split", "100,0,0", "--tokenizer-type", "NullTokenizer",
               "--vocab-size", VOCAB - 1, "--metrics-file", "m.jsonl", "--log-interval", 1, "--fp16",
               "--initial-loss-scale", INITIAL, "--loss-scale-window", WINDOW, "--hysteresis", HYSTERESIS]
    subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr)
    with open("m.jsonl") as f:
        return [(r["lm_loss"], r["loss_scale"], r["skipped"]) for r in map(json.loads, f)]


def main():
    p = weights()
    tokens = np.random.RandomState(3).randint(0, 40, ITERS * BATCH * SEQ + SEQ + 1)
    write_folder(p)
    write_data(tokens)
    theirs, ours = torch_run(p, samples(tokens)), megalith_run(sys.argv[1])
    good = len(ours) == len(theirs) == ITERS and any(s for _, _, s in ours) and not all(s for _, _, s in ours)
    for i, (a, b) in enumerate(zip(ours, theirs)):
        here = a[1:] == b[1:] and abs(a[0] - b[0]) <= 2e-3
        good = good and here
        print(f"{i + 1:3d} loss {a[0]:.6f} {b[0]:.6f} scale {a[1]:.0f} {b[1]:.0f} skipped {a[2]} {b[2]}{'' if here else ' DIFFERS'}")
    return 0 if good else 1


sys.exit(main())
