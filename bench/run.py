#!/usr/bin/env python3
"""Measures megalith beside the machine and beside its peers; bench/README.md tells how.

usage: bench/run.py [GROUP...]     groups: machine step (step_small step_t64_fp32 step_t64_bf16 step_bert step_t5 step_fp32 step_bf16) accumulate fp16 dropout optimizer memory
                                   llama (llama_step llama_bf16 llama_decode) server
                                   tokenizer train_tokenizer preprocess start llmc scale
                                   (scale_dp, scale_tp, ...) comm deepspeed layouts
                                   noise (noise_t64 noise_t256 noise_small noise_ranks noise_before), and every build/bench/bench_NAME that prints RESULT lines (attention, checkpoint, generate, ...)
MEGA_PEERS names a Python with the peers, MEGA_LLMC a checkout of llm.c, MEGA_BENCH_REPEATS the repeats (5 when not given),
MEGA_BENCH_BEFORE the bench_step of another build (noise_before).
Writes bench/results/latest.json; figures that were not measured in this run stay as they are there.
"""
import collections
import glob
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import llama
import noise
import ranks
import texts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "build", "bench")
MEGALITH = os.path.join(ROOT, "build", "megalith")
LATEST = os.path.join(ROOT, "bench", "results", "latest.json")
DATA = os.environ.get("MEGA_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))
PEERS = os.environ.get("MEGA_PEERS", "")
REPEATS = int(os.environ.get("MEGA_BENCH_REPEATS", "5"))
TUNED = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"
QUIET = 0.02  # a pair whose peaks before and after differ by more is thrown away
PATIENCE = float(os.environ.get("MEGA_BENCH_MINUTES", "8")) * 60  # that long a ratio is waited for to be quiet

results = {}


Disturbed = collections.namedtuple("Disturbed", "thrown worst")  # rounds; change of the peak in the worst one kept


class NotMeasured(Exception):
    """Why a figure is missing; it is recorded in its place."""


def record(name, value, unit, text="", samples=(), **more):
    detail = {"text": text, **more}
    if len(samples) > 0:
        detail.update(repeats=len(samples), low=min(samples), high=max(samples),
            samples=[float(f"{s:.5g}") for s in samples])
    results[name] = {"name": name, "value": None if value is None else float(f"{value:.5g}"), "unit": unit,
        "detail": detail}
    shown = "not measured" if value is None else f"{value:.4g} {unit}"
    spread = f"  ({min(samples):.4g} to {max(samples):.4g}, {len(samples)} runs)" if len(samples) > 1 else ""
    print(f"{name:<40} {shown}{spread}  {text}", flush=True)


def attempt(names, measure):
    """Runs one measurement; what it could not measure is recorded as such, and the bench goes on."""
    try:
        measure()
    except NotMeasured as e:
        for name in names:
            if name not in results:
                record(name, None, "", str(e))


class Server:
    """A process that does one thing at a line and answers with a line; idle between, so that two can take turns."""

    def __init__(self, command, **environment):
        self.name = os.path.basename(command[0]) + " " + " ".join(str(c) for c in command[1:4])
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors,
                                        text=True, env={**os.environ, **environment})
        self.hello, self.losses = self.answer(), []

    def answer(self):
        line = self.process.stdout.readline()
        if line == "":
            self.process.wait()
            self.errors.seek(0)
            raise NotMeasured(f"{self.name} ended: {self.errors.read().strip()[-300:]}")
        return line.split()

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.answer()

    def number(self, line):
        return float(self.ask(line)[1])

    def run(self, steps):
        words = self.ask(f"run {steps}")
        at = words.index("losses")
        losses = [float(w) for w in words[at + 1:]]
        self.losses += losses
        return [float(w) for w in words[1:at]], losses

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.communicate("quit\n", timeout=30)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self.process.kill()
                self.process.wait()


def server_of(word, *arguments, **environment):
    path = os.path.join(PROGRAMS, "bench_" + word)
    return Server([path, "serve", *arguments], **environment)


def peer(script, *arguments, **environment):
    if not os.access(PEERS, os.X_OK):
        raise NotMeasured("no peers: MEGA_PEERS names no Python that has them (bench/peers/install makes one)")
    return Server([PEERS, os.path.join(ROOT, "bench", "peers", script), *arguments], **environment)


def interleave(sides, peak=None, repeats=REPEATS):
    """[[seconds of each side] per repeat]; every side is a function giving a number. A round in which the machine changed is
    thrown away and repeated; where quiet ones do not come, the least disturbed of all rounds are taken and the text says so."""
    rounds, began = [], time.perf_counter()
    while sum(change <= QUIET for change, _ in rounds) < repeats and len(rounds) < 3 * repeats:
        if len(rounds) >= repeats and time.perf_counter() - began > PATIENCE:
            break
        before = peak() if peak else 1
        now = [side() for side in sides]
        after = peak() if peak else 1
        rounds.append((abs(before - after) / max(before, after), now))
    best = sorted(rounds, key=lambda r: r[0])[:repeats]
    return [now for _, now in best], Disturbed(len(rounds) - repeats, best[-1][0])


def disturbed_text(disturbed):
    text = "" if disturbed.thrown == 0 else f"; {disturbed.thrown} disturbed rounds thrown away"
    return text if disturbed.worst <= QUIET else text + f"; the peak changed by up to {100 * disturbed.worst:.0f} % within a round kept"


# ---- machine ----

def results_in(text):
    """Records the RESULT lines (RESULT name value unit detail...) and returns the others."""
    rest, samples = [], {}
    for line in text.splitlines():
        if line.startswith("RESULT "):
            _, name, value, unit, *detail = line.split()
            samples.setdefault(name, []).append((float(value), unit, " ".join(detail)))
        else:
            rest.append(line)
    for name, found in samples.items():  # a name may come once a repeat
        values = [f[0] for f in found]
        record(name, statistics.median(values), found[0][1], found[0][2], values if len(values) > 1 else ())
    return rest


def lines_of(program, *arguments):
    """Runs a bench program, records its results and returns its other lines."""
    path = os.path.join(PROGRAMS, "bench_" + program)
    done = subprocess.run([path, *arguments], capture_output=True, text=True, cwd=ROOT)
    rest = results_in(done.stdout)
    if done.returncode != 0:
        raise NotMeasured(f"bench_{program} failed: {done.stderr.strip()[-300:]}")
    return rest


BOTH_TYPES = {"attention"}  # programs that take bf16 as an argument


def of_program(name):
    for arguments in ([], ["bf16"]) if name in BOTH_TYPES else ([],):
        for line in lines_of(name, *arguments):
            print("   ", line)


def best_products():
    for dtype, name in (("f32", "fp32"), ("bf16", "bf16")):
        best, shapes = 0.0, {}
        for line in lines_of("kernels", *([] if dtype == "f32" else ["bf16"])):
            print("   ", line)
            if line.startswith("gemm") and "GFLOP/s" in line:
                rate = float(line.split("GFLOP/s")[0].split()[-1])
                shapes[" ".join(line[:44].split())] = rate
                best = max(best, rate)
        record(f"machine_gemm_{name}", best, "GFLOP/s", "best product of the step's shapes, random data", shapes=shapes)


def disk_rates():
    folder = tempfile.mkdtemp(dir=os.path.join(ROOT, "build"))
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    try:
        size = 512 << 20
        with open(source, "wb") as f:
            for _ in range(size >> 20):
                f.write(os.urandom(1 << 20))
            f.flush()
            os.fsync(f.fileno())
        writes, reads = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            subprocess.run(["dd", "if=" + source, "of=" + target, "bs=16M", "conv=fsync", "status=none"], check=True)
            writes.append(size / (time.perf_counter() - start) / 1e9)
            with open(target, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            start = time.perf_counter()
            subprocess.run(["dd", "if=" + target, "of=/dev/null", "bs=16M", "status=none"], check=True)
            reads.append(size / (time.perf_counter() - start) / 1e9)
        record("machine_disk_write", statistics.median(writes), "GB/s", "dd bs=16M conv=fsync, 512 MiB, incompressible",
            writes)
        record("machine_disk_read", statistics.median(reads), "GB/s",
            "dd bs=16M after dropping the file from the page cache", reads)
    finally:
        shutil.rmtree(folder)


def machine():
    attempt(["machine_peak_fp32", "machine_peak_bf16"], lambda: lines_of("machine"))
    attempt(["machine_gemm_fp32", "machine_gemm_bf16"], best_products)
    attempt(["machine_disk_write", "machine_disk_read"], disk_rates)


# ---- the step ----

def arithmetic_peak(dtype, measured):
    """FLOP/s: the larger of the register loop and the best product known of this run."""
    product = (results.get(f"machine_gemm_{dtype}") or {"value": 0})["value"] or 0
    return max(measured, product * 1e9)


def best_torch(folder, dtype, shape):
    """The fastest of {eager, compile} x {default malloc, tuned malloc}, after a warm-up step and one measured."""
    best, best_time, tried = None, math.inf, {}
    for how in ("eager", "compile"):
        for malloc, environment in (("default malloc", {}), ("tuned malloc", {"GLIBC_TUNABLES": TUNED})):
            try:
                candidate = peer("torch_step.py", folder, dtype, how, *shape, **environment)
                first, losses = candidate.run(1)
                # Its first step is far slower than the best known variant: not worth a second one.
                seconds = first[0] if first[0] > 6 * best_time and how == "eager" else candidate.run(1)[0][0]
            except NotMeasured as e:
                if not os.access(PEERS, os.X_OK):
                    raise
                tried[f"{how}, {malloc}"] = str(e)
                continue
            tried[f"{how}, {malloc}"] = round(seconds, 4)
            if seconds < best_time:
                if best:
                    best.close()
                best, best_time = candidate, seconds
                best.name, best.first_loss, best.how = f"torch {how}, {malloc}", losses[0], (how, environment)
            else:
                candidate.close()
    if best is None:
        raise NotMeasured(f"no variant of PyTorch ran: {tried}")
    return best, tried


def step_shape(words, dtype, tag, shape, steps):
    """One shape: against the peak, against PyTorch; the losses of both are compared."""
    name = "fp32" if dtype == "f32" else "bf16"
    ours = theirs = None
    folder = tempfile.mkdtemp(dir=os.path.join(ROOT, "build"))
    try:
        ours = server_of("step", *words, dtype)
        flops_per_token, tokens = float(ours.hello[2]), float(ours.hello[4])
        ours.ask("export " + folder)
        first_loss = ours.run(2)[1][0]
        tried, why = {}, ""
        try:
            theirs, tried = best_torch(folder, dtype, shape)
        except NotMeasured as e:
            why = str(e)
        peaks = []

        def peak():
            peaks.append(ours.number("peak"))
            return peaks[-1]

        sides = [lambda: statistics.median(ours.run(steps)[0])] + ([lambda: statistics.median(theirs.run(steps)[0])]
            if theirs else [])
        rounds, disturbed = interleave(sides, peak)
        mine = [r[0] for r in rounds]
        bound = arithmetic_peak(name, max(peaks))
        rates = [flops_per_token * tokens / s for s in mine]
        note = f"{tokens / statistics.median(mine):.1f} tokens/s, loss {first_loss:.5f} first" + disturbed_text(
            disturbed)
        if tag not in ("small", "bert", "t5") and not tag.endswith("t64"):
            text = note + (", no bf16 dot product here: fp32's peak" if name == "bf16" and not has_dot_product()
                else "")
            record(f"step_{tag}_{name}_of_peak", statistics.median(rates) / bound, "", text, [r / bound for r in rates],
                   peak_gflops=round(bound / 1e9, 1))
        target = f"step_{tag}_of_torch" if tag == "small" else f"step_{tag}_{name}_of_torch"
        if theirs is None:
            record(target, None, "", why, ours_tokens_s=tokens / statistics.median(mine))
        else:
            ratios = [r[1] / r[0] for r in rounds]
            apart = abs(first_loss - theirs.first_loss) / theirs.first_loss
            agree = "losses agree" if apart < (1e-4 if name == "fp32" else 5e-3) else "LOSSES DIFFER"
            record(target, statistics.median(ratios), "",
                f"{note}; {theirs.name}: {tokens / statistics.median([r[1] for r in rounds]):.1f} "
                   f"tokens/s, loss {theirs.first_loss:.5f} first: {agree}", ratios, torch_tried=tried)
        if tag == "124m" and name == "bf16" and theirs:
            record("peak_memory_124m_of_torch", ours.number("memory") / theirs.number("memory"), "",
                   f"{ours.number('memory') / 1e9:.2f} GB, {theirs.name} {theirs.number('memory') / 1e9:.2f} GB")
        elif tag == "124m" and name == "bf16":
            record("peak_memory_124m_of_torch", None, "", why, ours_bytes=ours.number("memory"))
    finally:
        for server in (ours, theirs):
            if server:
                server.close()
        shutil.rmtree(folder)


def has_dot_product():
    with open("/proc/cpuinfo") as f:
        return "avx512_bf16" in f.read()


def step_small():
    step_shape(["small"], "f32", "small", ["B=12", "T=64", "heads=4"], 20)


def step_t64(dtype):
    step_shape(["124m", "T=64"], dtype, "124m_t64", ["B=4", "T=64", "heads=12"], 3)


def step_bert():
    step_shape(["bert"], "f32", "bert", ["B=8", "T=128", "heads=12"], 3)


def step_t5():
    step_shape(["t5"], "f32", "t5", ["B=8", "T=128", "heads=8"], 3)


def step_t1024(dtype):
    step_shape(["124m", "T=1024"], dtype, "124m", ["B=4", "T=1024", "heads=12"], 1)


def two_of_ours(first, second, steps):
    """Interleaved seconds of two ways to run a step."""
    a = b = None
    try:
        a, b = server_of("step", *first), server_of("step", *second)
        a.run(1), b.run(1)
        return interleave([lambda: statistics.median(a.run(steps)[0]), lambda: statistics.median(b.run(steps)[0])],
            lambda: a.number("peak"))
    finally:
        for server in (a, b):
            if server:
                server.close()


def accumulate():
    rounds, disturbed = two_of_ours(["124m", "T=1024", "bf16"], ["124m", "T=1024", "bf16", "accumulate=8"], 1)
    ratios = [8 * r[0] / r[1] for r in rounds]
    record("step_124m_accumulate8_of_single", statistics.median(ratios), "", "bf16, B=4, T=1024"
        + disturbed_text(disturbed), ratios)


def fp16():
    """On processors that convert fp16 in hardware (F16C) and compute in fp32."""
    for positions in 64, 1024:
        words = ["124m", f"T={positions}"]
        rounds, disturbed = two_of_ours([*words, "f16"], [*words, "f32"], 3 if positions == 64 else 1)
        ratios = [r[1] / r[0] for r in rounds]
        record(f"step_124m_t{positions}_fp16_of_fp32", statistics.median(ratios), "",
            f"speed of the fp16 step, B=4, T={positions}, target 0.90" +
               disturbed_text(disturbed), ratios)


def dropout():
    rounds, disturbed = two_of_ours(["124m", "T=1024", "bf16"], ["124m", "T=1024", "bf16", "dropout=0.1"], 1)
    costs = [100 * (r[1] / r[0] - 1) for r in rounds]
    record("step_124m_dropout_cost_percent", statistics.median(costs), "%",
        "bf16, B=4, T=1024, dropout 0.1 in all places" +
           disturbed_text(disturbed), costs)


def optimizer():
    """Updates alone (bench_optimizer.c), then whole steps with Muon over those with AdamW: on one rank, and on two of dp."""
    of_program("optimizer")
    words = ["124m", "B=4", "T=1024", "f32"]
    rounds, disturbed = two_of_ours(words, [*words, "muon"], 1)
    ratios = [r[1] / r[0] for r in rounds]
    record("step_124m_muon_of_adamw", statistics.median(ratios), "", "fp32, B=4, T=1024, target 1.40"
        + disturbed_text(disturbed), ratios)
    launcher = ranks.Launcher(sys.modules["__main__"])
    shape = ["124m", "B=2", "T=1024", "f32", "threads=1"]
    rounds, disturbed = interleave([lambda: launcher.once(2, shape)[0], lambda: launcher.once(2, [*shape, "muon"])[0]],
        repeats=min(REPEATS, 3))
    ratios = [r[1] / r[0] for r in rounds]
    record("step_124m_muon_of_adamw_dp2", statistics.median(ratios), "",
        "fp32, 2 ranks of one thread, B=2 each, T=1024, target 1.25" +
           disturbed_text(disturbed), ratios)


# ---- commands ----

def command_run(command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise NotMeasured(
            f"{' '.join(str(c) for c in command[:3])} failed: {(done.stderr + done.stdout).strip()[-300:]}")
    return done.stdout


def vocabulary():
    return ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", os.path.join(DATA, "gpt2/vocab.json"),
            "--merge-file", os.path.join(DATA, "gpt2/merges.txt")]


# ---- start ----

def prepared(folder, name, words):
    """The options of a run on Shakespeare with this vocabulary; the indexed data is made here."""
    prefix = os.path.join(folder, name)
    command_run([MEGALITH, "preprocess_data", "--input", os.path.join(DATA, "shakespeare/tinyshakespeare.txt"),
        "--split-on-blank-lines",
                 "--output-prefix", prefix, *words])
    return ["--data-path", prefix + "_text_document", "--split", "100,0,0", "--eval-iters", "0", "--lr", "1e-4",
        "--train-iters", "1",
            "--log-interval", "1", *words]


def first_iteration(options):
    """Seconds from the start of the process to its line of iteration 1."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(c) for c in [MEGALITH, "pretrain_gpt", *options]], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    took = None
    for line in process.stdout:
        if line.startswith(" iteration ") and took is None:
            took = time.perf_counter() - begin
    error = process.stderr.read()
    if process.wait() != 0 or took is None:
        raise NotMeasured(f"pretrain_gpt failed: {error.strip()[-300:]}")
    return took


def start():
    small = ["--num-layers", 4, "--hidden-size", 128, "--num-attention-heads", 4, "--seq-length", 64,
        "--max-position-embeddings", 64,
             "--micro-batch-size", 12, "--global-batch-size", 12]
    large = ["--num-layers", 12, "--hidden-size", 768, "--num-attention-heads", 12, "--seq-length", 64,
        "--max-position-embeddings", 1024,
             "--micro-batch-size", 4, "--global-batch-size", 4]
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        characters = prepared(folder, "characters",
            ["--tokenizer-type", "CharTokenizer", "--vocab-file", os.path.join(folder, "chars.json")])
        words = prepared(folder, "words", vocabulary())
        for name, shape, data in (("cold_start_s", [*small, *characters], "its 65 characters"),
                                  ("cold_start_gpt2_vocabulary_s", [*small, *words], "50,304 words"),
                                  ("cold_start_124m_s", [*large, *words], "50,304 words")):
            first_iteration(shape)  # the data's index arrays are cached by it
            seconds = [r[0] for r in interleave([lambda s=shape: first_iteration(s)])[0]]
            record(name, statistics.median(seconds), "s",
                f"process start to the line of iteration 1, {data}, data cached", seconds)


# ---- llm.c ----

def llmc():
    checkout = os.environ.get("MEGA_LLMC", "")
    if not os.path.exists(os.path.join(checkout, "train_gpt2.c")):
        raise NotMeasured("no llm.c: MEGA_LLMC names no checkout of it")
    theirs = ours = None
    try:
        theirs = peer("llmc_step.py", checkout)
        ours = server_of("step", "124m", "T=64", "f32")
        ours.run(2)
        rounds, disturbed = interleave([lambda: statistics.median(ours.run(3)[0]), lambda: theirs.number("run")],
            lambda: ours.number("peak"))
    finally:
        for s in (ours, theirs):
            if s:
                s.close()
    ratios = [r[1] / r[0] for r in rounds]
    record("step_124m_t64_fp32_of_llmc", statistics.median(ratios), "",
        f"llm.c {256 / statistics.median([r[1] for r in rounds]):.1f} tokens/s" +
           disturbed_text(disturbed), ratios)


STEPS = {"step_small": (step_small, ["step_small_of_torch"]),
         "step_t64_fp32": (lambda: step_t64("f32"), ["step_124m_t64_fp32_of_torch"]),
         "step_t64_bf16": (lambda: step_t64("bf16"), ["step_124m_t64_bf16_of_torch"]),
         "step_bert": (step_bert, ["step_bert_fp32_of_torch"]),
         "step_t5": (step_t5, ["step_t5_fp32_of_torch"]),
         "step_fp32": (lambda: step_t1024("f32"), ["step_124m_fp32_of_peak", "step_124m_fp32_of_torch"]),
         "step_bf16": (lambda: step_t1024("bf16"),
             ["step_124m_bf16_of_peak", "step_124m_bf16_of_torch", "peak_memory_124m_of_torch"])}
GROUPS = {"machine": (machine, []), **STEPS, "accumulate": (accumulate, ["step_124m_accumulate8_of_single"]),
          "dropout": (dropout, ["step_124m_dropout_cost_percent"]),
          "fp16": (fp16, ["step_124m_t64_fp16_of_fp32", "step_124m_t1024_fp16_of_fp32"]),
          "optimizer": (optimizer, ["step_124m_muon_of_adamw", "step_124m_muon_of_adamw_dp2"]),
              "start": (start, ["cold_start_s", "cold_start_gpt2_vocabulary_s", "cold_start_124m_s"]),
          "llmc": (llmc, ["step_124m_t64_fp32_of_llmc"])}
OF_OTHERS = {"machine", "kernels", "base", "step", "documents", "tokenizer"}  # used above, or for a person to read


def save():
    merged = {}
    if os.path.exists(LATEST):
        with open(LATEST) as f:
            merged = {r["name"]: r for r in json.load(f)}
    for name, r in results.items():
        merged[name] = r
    os.makedirs(os.path.dirname(LATEST), exist_ok=True)
    with open(LATEST + ".part", "w") as f:
        json.dump(list(merged.values()), f, indent=1)
        f.write("\n")
    os.replace(LATEST + ".part", LATEST)


def main():
    # so that loads, servers and folders are removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench/run.py: stopped"))
    for part in (llama, texts, ranks, noise):
        GROUPS.update(part.groups(sys.modules["__main__"]))
    for path in sorted(glob.glob(os.path.join(PROGRAMS, "bench_*"))):
        name = os.path.basename(path)[6:]
        if name not in OF_OTHERS and os.access(path, os.X_OK):
            GROUPS.setdefault(name, (lambda n=name: of_program(n), []))
    several = {"step": STEPS, "llama": llama.PARTS, "scale": ranks.SCALES, "deepspeed": list(ranks.DEEPSPEED),
        "noise": noise.PARTS}
    wanted = [part for name in sys.argv[1:] or GROUPS for part in several.get(name, [name])]
    for name in wanted:
        if name not in GROUPS:
            sys.exit(f"bench/run.py: no group {name}; there are {', '.join(GROUPS)}")
    for name in wanted:
        run, names = GROUPS[name]
        began = time.perf_counter()
        print(f"# {name}", flush=True)
        attempt(names, run)
        save()
        print(f"# {name} took {time.perf_counter() - began:.0f} s", flush=True)
    print(f"results in {os.path.relpath(LATEST, ROOT)}; bench/table.py prints them as a table")


main()
