#!/usr/bin/env python3
"""GPT-2 124M under DeepSpeed on the CPU, started by torchrun: stage=N bf16|f32 [tuned]. The first rank prints a JSON line.

The model, its random tokens and the optimizer's settings are those of torch_step.py; `tuned` compiles the model and takes
DeepSpeed's own CPU Adam where it can be built.
"""
import json
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_step import GPT

BATCH, SEQ, VOCABULARY, STEPS = 2, 256, 50304, 5


def weights(layers, width):
    """Of a GPT-2, by Hugging Face's names; matrices of blocks as the file holds them, [in, out]."""
    found = {"wte.weight": torch.randn(VOCABULARY, width), "wpe.weight": torch.randn(SEQ, width)}
    for i in range(layers):
        for name, out, inner in (("attn.c_attn", 3 * width, width), ("attn.c_proj", width, width),
            ("mlp.c_fc", 4 * width, width),
                                 ("mlp.c_proj", width, 4 * width)):
            found[f"h.{i}.{name}.weight"], found[f"h.{i}.{name}.bias"] = torch.randn(inner, out), torch.zeros(out)
        for name in ("ln_1", "ln_2"):
            found[f"h.{i}.{name}.weight"], found[f"h.{i}.{name}.bias"] = torch.ones(width), torch.zeros(width)
    found["ln_f.weight"], found["ln_f.bias"] = torch.ones(width), torch.zeros(width)
    return {name: t if t.ndim == 1 else 0.02 * t for name, t in found.items()}


def configuration(stage, dtype, tuned):
    optimizer = {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}
    if not tuned:
        optimizer["torch_adam"] = True
    return {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
            "bf16": {"enabled": dtype == "bf16"}, "zero_optimization": {"stage": stage},
                "optimizer": {"type": "AdamW", "params": optimizer}}


def main():
    stage, dtype, tuned = int(sys.argv[1].split("=")[1]), sys.argv[2], "tuned" in sys.argv
    torch.manual_seed(1234)
    model = GPT(weights(12, 768), 12)
    if dtype == "bf16":
        model = model.bfloat16()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
        config=configuration(stage, dtype, tuned))
    if tuned:
        engine.compile()
    ids = torch.randint(0, VOCABULARY, (BATCH, SEQ))
    labels = torch.randint(0, VOCABULARY, (BATCH, SEQ))
    seconds = []
    for _ in range(STEPS + 2):
        start = time.perf_counter()
        loss = engine(ids, labels)
        engine.backward(loss)
        engine.step()
        seconds.append(time.perf_counter() - start)
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps({"stage": stage, "step_s": statistics.median(seconds[2:]),
                          "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                              "loss": float(loss)}), flush=True)


main()
