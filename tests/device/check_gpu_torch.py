#!/usr/bin/env python3
"""Tokens per second of a training step of GPT-2 by PyTorch on a GPU, compiled, for check_gpu.sh.

   check_gpu_torch.py cuda|cpu LAYERS HIDDEN HEADS SEQ BATCH MICRO    prints: tokens/s N loss N
Weights are fp32, matrix products bf16 by autocast, AdamW is fused; the losses of its steps are those of random tokens."""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

device = sys.argv[1]
layers, hidden, heads, seq, batch, micro = map(int, sys.argv[2:8])
vocab = 50304


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, heads, -1).transpose(1, 2) for y in self.attn(self.ln_1(x)).split(hidden, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, hidden))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.h, self.ln_f = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(hidden)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(seq, device=tokens.device))
        logits = F.linear(self.ln_f(self.h(x)), self.wte.weight)
        return F.cross_entropy(logits.view(-1, vocab).float(), labels.view(-1))


def main():
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU for PyTorch")
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt().to(device)
    run = torch.compile(model) if device == "cuda" else model  # (compiling for a CPU takes minutes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens, labels = (torch.randint(0, 50257, (batch, seq), device=device) for _ in range(2))

    def step():
        for i in range(0, batch, micro):
            with torch.autocast(device, torch.bfloat16):
                loss = run(tokens[i : i + micro], labels[i : i + micro]) * micro / batch
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(3):
        loss = step()
    seconds = []
    for _ in range(8):
        began = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - began)
    print(f"tokens/s {batch * seq / sorted(seconds)[4]:.6g} loss {loss * batch / micro:.4f}")


main()
