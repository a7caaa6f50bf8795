#!/usr/bin/env python3
"""The shapes of bench/bench_step.c in PyTorch and transformers, on the CPU: median of 5 steps after two."""
import os
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SHAPES = [("char 4x128", 4, 128, 4, 128, 12, 64), ("gpt2 124M", 12, 768, 12, 50304, 4, 64), ("gpt2 124M", 12, 768, 12, 50304, 2, 256)]


def flops_per_token(layers, hidden, vocab, seq):
    return 6 * (layers * 12 * hidden * hidden + vocab * hidden) + 6 * layers * hidden * seq


def run(name, layers, hidden, heads, vocab, batch, seq, how):
    torch.manual_seed(1234)
    config = GPT2Config(vocab_size=vocab, n_positions=seq, n_embd=hidden, n_layer=layers, n_head=heads, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False)
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    call = torch.compile(model) if how == "compile" else model
    ids = torch.randint(0, vocab, (batch, seq))
    labels = torch.randint(0, vocab, (batch, seq))

    def step():
        loss = torch.nn.functional.cross_entropy(call(ids).logits.view(-1, vocab), labels.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(2):
        step()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    rate = batch * seq / median
    print(f"{name:<12} B{batch:<3} T{seq:<5} f32   {median * 1e3:10.1f} ms/step {rate:10.0f} tokens/s "
          f"{rate * flops_per_token(layers, hidden, vocab, seq) / 1e9:8.1f} GFLOP/s   torch {torch.__version__} {how}", flush=True)


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
for shape in SHAPES:
    for how in ("eager", "compile"):
        run(*shape, how)
