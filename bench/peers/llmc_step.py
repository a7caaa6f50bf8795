#!/usr/bin/env python3
"""Builds llm.c's train_gpt2 out of a checkout, gives it random weights of GPT-2 124M and random tokens, and times steps.

usage: llmc_step.py CHECKOUT        "run" -> "seconds S", the median step of one run at its own B=4, T=64
Nothing is written into the checkout: a temporary folder holds the program and its inputs.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

STEPS = 4  # the first warms up
LAYERS, HEADS, WIDTH, VOCAB, PADDED, POSITIONS = 12, 12, 768, 50257, 50304, 1024


def write_model(path):
    header = np.zeros(256, dtype=np.int32)
    header[:8] = [20240326, 3, POSITIONS, VOCAB, LAYERS, HEADS, WIDTH, PADDED]
    C, L = WIDTH, LAYERS
    shapes = [(PADDED * C, 0), (POSITIONS * C, 0), (L * C, 1), (L * C, None), (L * 3 * C * C, 0), (L * 3 * C, None),
        (L * C * C, 0),
              (L * C, None), (L * C, 1), (L * C, None), (L * 4 * C * C, 0), (L * 4 * C, None), (L * 4 * C * C, 0),
                  (L * C, None), (C, 1),
              (C, None)]
    random = np.random.default_rng(1)
    with open(path, "wb") as f:
        f.write(header.tobytes())
        for count, kind in shapes:
            if kind == 0:
                f.write((random.standard_normal(count, dtype=np.float32) * np.float32(0.02)).tobytes())
            else:
                f.write(np.full(count, kind or 0, dtype=np.float32).tobytes())


def write_tokens(path, count):
    header = np.zeros(256, dtype=np.int32)
    header[:3] = [20240520, 1, count]
    with open(path, "wb") as f:
        f.write(header.tobytes())
        f.write(np.random.default_rng(2).integers(0, VOCAB, count).astype(np.uint16).tobytes())


def main():
    checkout = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp()
    try:
        with open(os.path.join(checkout, "train_gpt2.c"), encoding="utf-8") as f:
            source = f.read()
        # Only the number of steps is changed: evaluation and sampling stay where they are, outside of the timed part.
        source, changed = re.subn(r"step <= \d+", f"step <= {STEPS}", source)
        if changed != 1:
            raise SystemExit("llmc_step.py: the loop of train_gpt2.c looks different from what this script knows")
        with open(os.path.join(folder, "train_gpt2.c"), "w", encoding="utf-8") as f:
            f.write(source)
        shutil.copytree(os.path.join(checkout, "llmc"), os.path.join(folder, "llmc"))
        subprocess.run(["gcc", "-O3", "-march=native", "-ffast-math", "-fno-finite-math-only", "-fopenmp", "-DOMP",
            "train_gpt2.c", "-o",
                        "train", "-lm"], cwd=folder, check=True, stdout=sys.stderr)
        write_model(os.path.join(folder, "gpt2_124M.bin"))
        data = os.path.join(folder, "dev/data/tinyshakespeare")
        os.makedirs(data)
        for part in ("train", "val"):
            write_tokens(os.path.join(data, f"tiny_shakespeare_{part}.bin"), 30000)
        print("ready", flush=True)
        for line in sys.stdin:
            if line == "quit\n":
                break
            done = subprocess.run(["./train"], cwd=folder, capture_output=True, text=True)
            times = [float(t) for t in re.findall(r"took ([\d.]+) ms", done.stdout)]
            if len(times) < 2:
                raise SystemExit(f"llmc_step.py: train_gpt2 said {(done.stdout + done.stderr)[-200:]}")
            print(f"seconds {statistics.median(times[1:]) / 1e3:.9g}", flush=True)
    finally:
        shutil.rmtree(folder)


main()
