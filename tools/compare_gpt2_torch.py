#!/usr/bin/env python3
"""The loss curve of a GPT-2 in megalith against PyTorch, from the same random weights over the same tokens.

usage: python tools/compare_gpt2_torch.py build/megalith [--iters 20] [--layers 12 --hidden 768 --heads 12 --vocab 50257]
                                          [--batch 2 --seq 128] [--bf16] [--tolerance 1e-4] [--folder FOLDER]

transformers writes a randomly initialised folder, which both load. fp32, no dropout, AdamW at a constant 1e-4 with decay
0.01 on matrices, clip 1.0. Prints both losses of every iteration; exit status 1 when a relative difference is above the
tolerance. Needs torch, transformers and numpy; megalith itself needs no Python.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LR, DECAY, CLIP, SEED = 1e-4, 0.01, 1.0, 1234


def options():
    p = argparse.ArgumentParser()
    p.add_argument("megalith")
    for name, value in (("iters", 20), ("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257), ("batch", 2), ("seq", 128)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--micro", type=int, default=0, help="micro-batch size, the batch when not given")
    p.add_argument("--positions", type=int, default=1024)
    p.add_argument("--bf16", action="store_true", help="megalith computes in bf16; PyTorch stays in fp32")
    p.add_argument("--tolerance", type=float, default=1e-4)
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


def torch_losses(folder, o, rows):
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").float()
    model.train()
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}], lr=LR, betas=(0.9, 0.999), eps=1e-8
    )
    micro = o.micro or o.batch
    losses = []
    for i in range(o.iters):
        batch = torch.tensor(np.stack(rows[i * o.batch : (i + 1) * o.batch]).astype(np.int64))
        total = 0.0
        for part in batch.split(micro):
            logits = model(part[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) * micro / o.batch
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def megalith_losses(folder, o, prefix):
    metrics = os.path.join(folder, "metrics.jsonl")
    command = [o.megalith, "pretrain_gpt", "--load", folder, "--finetune"]
    command += ["--num-layers", o.layers, "--hidden-size", o.hidden, "--num-attention-heads", o.heads]
    command += ["--seq-length", o.seq, "--max-position-embeddings", o.positions]
    command += ["--micro-batch-size", o.micro or o.batch, "--global-batch-size", o.batch, "--train-iters", o.iters]
    command += ["--lr", LR, "--lr-decay-style", "constant", "--weight-decay", DECAY, "--clip-grad", CLIP]
    command += ["--hidden-dropout", 0, "--attention-dropout", 0, "--seed", SEED, "--eval-iters", 0]
    command += ["--data-path", prefix, "--split", "100,0,0", "--tokenizer-type", "NullTokenizer", "--vocab-size", o.vocab - 1]
    command += ["--metrics-file", metrics, "--log-interval", 1] + (["--bf16"] if o.bf16 else [])
    subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr)
    with open(metrics) as f:
        return [json.loads(line)["lm_loss"] for line in f]


def main():
    o = options()
    folder = o.folder or tempfile.mkdtemp(prefix="megalith-gpt2-")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(SEED)
    shape = GPT2Config(n_layer=o.layers, n_embd=o.hidden, n_head=o.heads, vocab_size=o.vocab, n_positions=o.positions,
                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=o.vocab - 1, eos_token_id=o.vocab - 1)
    GPT2LMHeadModel(shape).save_pretrained(folder)
    count = o.iters * o.batch * o.seq + 1
    tokens = (np.random.RandomState(7).zipf(1.2, count) - 1) % (o.vocab - 1)  # words of a text follow Zipf's law too
    prefix = os.path.join(folder, "tokens_text_document")
    write_data(prefix, tokens)
    ours = megalith_losses(folder, o, prefix)
    theirs = torch_losses(folder, o, samples(tokens, o.seq))
    worst = 0.0
    print("iteration     megalith      PyTorch   relative difference")
    for i, (a, b) in enumerate(zip(ours, theirs)):
        worst = max(worst, abs(a - b) / abs(b))
        print(f"{i + 1:9d} {a:12.7f} {b:12.7f}   {abs(a - b) / abs(b):.2e}")
    good = len(ours) == len(theirs) == o.iters and worst <= o.tolerance
    print(f"worst {worst:.3e} of at most {o.tolerance:.0e}: {'ok' if good else 'FAILED'}")
    sys.exit(0 if good else 1)


main()
