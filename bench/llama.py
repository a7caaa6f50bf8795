"""A Llama of 160M beside PyTorch, its decoding beside the memory, and the server under load. Groups of bench/run.py, which hands itself over as `bench`."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

# B and T are those of the issue; heads is only for a model that torch_step.py writes out.
SHAPE = ["B=4", "T=512", "heads=12"]
ITERATIONS = 20
PARTS = ["llama_step", "llama_bf16", "llama_decode"]


def step(bench, dtype):
    """Tokens/s of ours over PyTorch's, in turns; both train on, and the losses of all their steps are compared."""
    name = "fp32" if dtype == "f32" else "bf16"
    ours = theirs = None
    folder = tempfile.mkdtemp(dir=os.path.join(bench.ROOT, "build"))
    try:
        ours = bench.server_of("step", "llama", *SHAPE[:2], dtype)
        tokens = float(ours.hello[4])
        ours.ask("export " + folder)
        theirs, tried = bench.best_torch(folder, dtype, SHAPE)
        ours.run(2)  # as the peer has
        rounds, disturbed = bench.interleave([lambda: statistics.median(ours.run(4)[0]),
            lambda: statistics.median(theirs.run(4)[0])],
                                             lambda: ours.number("peak"))
        while len(ours.losses) < ITERATIONS:
            ours.run(1), theirs.run(1)
        memory = f"{ours.number('memory') / 1e9:.2f} GB, {theirs.name} {theirs.number('memory') / 1e9:.2f} GB"
    finally:
        for server in (ours, theirs):
            if server:
                server.close()
        shutil.rmtree(folder)
    ratios = [r[1] / r[0] for r in rounds]
    rates = [tokens / statistics.median([r[i] for r in rounds]) for i in (0, 1)]
    bench.record(f"llama_160m_{name}_of_torch", statistics.median(ratios), "",
        f"{rates[0]:.1f} tokens/s, {theirs.name} {rates[1]:.1f}; B=4, "
                 f"T=512, target 1.20; {memory}" + bench.disturbed_text(disturbed), ratios, torch_tried=tried)
    pairs = list(zip(ours.losses, theirs.losses))[:ITERATIONS]
    apart = max(abs(a - b) for a, b in pairs)
    target = "target 1e-4" if dtype == "f32" else "bf16 is rounded in other places there"
    bench.record(f"llama_160m_{name}_losses_apart", apart, "",
        f"the largest difference of {len(pairs)} losses, {pairs[0][0]:.5f} first and "
                 f"{pairs[-1][0]:.5f} last; {target}")


def step_bf16(bench):
    if not bench.has_dot_product():
        raise bench.NotMeasured("no bf16 dot product here: fp32 is measured")
    step(bench, "bf16")


def decode(bench, shape):
    for line in bench.lines_of("generate", shape):
        print("   ", line)


def server(bench):
    command = [sys.executable, os.path.join(bench.ROOT, "bench", "server_load.py"), "--megalith", bench.MEGALITH,
               "--clients", "64", "--seconds", os.environ.get("MEGA_BENCH_SECONDS", "60")]
    done = subprocess.run(command, capture_output=True, text=True)
    for line in bench.results_in(done.stdout):
        print("   ", line)
    if done.returncode != 0:
        raise bench.NotMeasured(f"server_load.py failed: {(done.stderr or done.stdout).strip()[-300:]}")


def groups(bench):
    def both(name):
        return [f"llama_160m_{name}_of_torch", f"llama_160m_{name}_losses_apart"]

    return {"llama_step": (lambda: step(bench, "f32"), both("fp32")),
        "llama_bf16": (lambda: step_bf16(bench), both("bf16")),
            "generate": (lambda: decode(bench, "124m"), ["generate_124m_of_bandwidth"]),
            "llama_decode": (lambda: decode(bench, "llama"), ["generate_llama_of_bandwidth"]),
            "server": (lambda: server(bench), ["server_answers_s", "server_latency_median_s", "server_latency_99_s",
                "server_wrong"])}
