#!/usr/bin/env python3
"""Writes tests/golden/gpt2.bin: a small random GPT-2 of PyTorch + transformers, its losses and every gradient, in fp32.

usage: make_gpt2_golden.py [OUT]        (made with torch 2.15, transformers 5.23, seed 20)

Layout, little-endian: the 8 bytes MEGAGLD1, u32 tensors; for each: u32 length of the name, name, u32 type (0 f32, 1
i32),
u32 dimensions, u64 for each of them, values. Weights and gradients ("grad.NAME") have the names and the orientation of
GPT2LMHeadModel; labels are already shifted; the loss is the mean of token_loss over loss_mask, without dropout.
"""
import struct
import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

BATCH, SEQ = 3, 14


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/gpt2.bin"
    torch.manual_seed(20)
    torch.set_num_threads(1)
    config = GPT2Config(vocab_size=61, n_positions=20, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, attn_implementation="eager")
    model = GPT2LMHeadModel(config).float().train()
    with torch.no_grad():
        for name, p in model.named_parameters():  # no zero bias and no unit gain, so that each is seen
            p.copy_(torch.randn_like(p) * (0.15 if p.dim() == 2 else 0.2)
                + (1.0 if "ln_" in name and "weight" in name else 0.0))
    tokens = torch.randint(0, 61, (BATCH, SEQ))
    labels = torch.randint(0, 61, (BATCH, SEQ))
    mask = (torch.rand(BATCH, SEQ) > 0.2).float()
    logits = model(tokens).logits
    token_loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 61), labels.reshape(-1), reduction="none")
    loss = (token_loss * mask.reshape(-1)).sum() / mask.sum()
    loss.backward()

    tensors = [("tokens", tokens.reshape(-1).int()), ("labels", labels.reshape(-1).int()),
               ("loss_mask", mask.reshape(-1)), ("token_loss", token_loss.detach()), ("loss", loss.detach().reshape(1))]
    for name, p in model.named_parameters():  # lm_head is tied and not listed
        tensors += [(name, p.detach()), ("grad." + name, p.grad)]
    with open(out, "wb") as f:
        f.write(b"MEGAGLD1" + struct.pack("<I", len(tensors)))
        for name, t in tensors:
            a = t.contiguous().numpy()
            kind = {np.dtype(np.float32): 0, np.dtype(np.int32): 1}[a.dtype]
            f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<II", kind, a.ndim))
            f.write(struct.pack("<%dQ" % a.ndim, *a.shape) + a.astype(a.dtype.newbyteorder("<")).tobytes())
        print(f"{out}: {len(tensors)} tensors, {f.tell()} bytes, loss {loss.item():.9g}")


if __name__ == "__main__":
    main()
