"""Several ranks: against one, against DeepSpeed, and a table over layouts. Groups of bench/run.py, which hands itself over as `bench`."""
import json
import os
import re
import shutil
import statistics
import subprocess

RANKS = 2
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
# Options of bench_step for a layout of two ranks; a micro-batch is that of one data-parallel rank.
DATA = ["B=2"]
TENSOR = ["B=4", "tp=2"]
SCALE = {"scale_dp": (DATA, 0.97), "scale_zero1": (DATA + ["zero=1"], 0.97), "scale_zero2": (DATA + ["zero=2"], 0.97),
         "scale_zero3": (DATA + ["zero=3"], 0.93), "scale_tp": (TENSOR, 0.92), "scale_tp_sp": (TENSOR + ["sp=1"], 0.92)}
PIPE = ["pp=2", "B=1", "accumulate=8"]  # 8 micro-batches of 512 tokens; the last stage has the head and so fewer layers
PIPES = {"scale_pp_8_4": PIPE + ["first=8"], "scale_pp_9_3": PIPE + ["first=9"]}


class Launcher:
    def __init__(self, bench):
        self.bench = bench
        if shutil.which("mpirun") is None:
            raise bench.NotMeasured("no mpirun: apt-get install openmpi-bin")
        self.is_open = "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout

    def command(self, ranks, *words):
        switches = ["--oversubscribe", "--bind-to", "none"] if self.is_open else []
        return ["mpirun", *switches, "-n", str(ranks), *words]

    def once(self, ranks, words, steps=3):
        """Seconds of a step (the median without the first), most and mean bytes of a rank."""
        program = os.path.join(self.bench.PROGRAMS, "bench_step")
        command = [program, "once", f"steps={steps}", *words]
        done = subprocess.run(command if ranks == 1 else self.command(ranks, *command), capture_output=True, text=True,
                              env={**os.environ, **MPI})
        found = re.search(r"^seconds (.*) losses (.*)$", done.stdout, re.M)
        memory = re.search(r"^memory (\S+) (\S+)$", done.stdout, re.M)
        if done.returncode != 0 or found is None or memory is None:
            raise self.bench.NotMeasured(f"bench_step {' '.join(words)}: {(done.stderr + done.stdout).strip()[-300:]}")
        seconds = [float(w) for w in found.group(1).split()]
        return statistics.median(seconds[1:]), float(memory.group(1)), float(memory.group(2)), float(
            found.group(2).split()[0])


def dtype_of(bench):
    """bf16, or fp32 where the processor does not multiply bf16."""
    return "bf16" if bench.has_dot_product() else "f32"


def against_one(bench, launcher, name, words, one, shape, repeats, text):
    """Tokens/s of two ranks of one thread over those of one rank of two; each side is a process of its own, in turns."""
    losses, dtype = {}, dtype_of(bench)

    def run(ranks, more, threads):
        seconds, _, _, losses[ranks] = launcher.once(ranks, ["124m", dtype, *shape, *more, f"threads={threads}"])
        return seconds

    rounds, disturbed = bench.interleave([lambda: run(1, one, 2), lambda: run(RANKS, words, 1)], repeats=repeats)
    ratios = [r[0] / r[1] for r in rounds]
    agree = "losses agree" if abs(losses[1] - losses[RANKS]) < 5e-3 * losses[1] else "LOSSES DIFFER"
    bench.record(name, statistics.median(ratios), "",
        f"124M {dtype}, {text}; {losses[1]:.5f} and {losses[RANKS]:.5f} first: {agree}" +
                 bench.disturbed_text(disturbed), ratios)


def scale_rows():
    """Name of each row: what two ranks are told, what one is, the shape, and the words of the result."""
    for name, words in PIPES.items():
        yield name, words, ["B=1", "accumulate=8"], ["T=512"], "8 micro-batches of 512, target 0.80"
    for seq in (1024, 256):
        for name, (words, target) in SCALE.items():
            yield name + ("" if seq == 1024
                else f"_t{seq}"), words, ["B=4"], [f"T={seq}"], f"4 x {seq}, target {target}"


SCALES = [row[0] for row in scale_rows()]


# ---- DeepSpeed ----

def deepspeed_run(bench, stage, tuned):
    script = os.path.join(bench.ROOT, "bench", "peers", "deepspeed_step.py")
    torchrun = os.path.join(os.path.dirname(bench.PEERS), "torchrun")
    if not os.access(torchrun, os.X_OK):
        raise bench.NotMeasured("no peers: MEGA_PEERS names no Python that has them (bench/peers/install makes one)")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu",
        **({"GLIBC_TUNABLES": bench.TUNED} if tuned else {})}
    try:
        done = subprocess.run([torchrun, "--nproc_per_node", str(RANKS), script, f"stage={stage}", dtype_of(bench),
            *(["tuned"] if tuned else [])],
                              capture_output=True, text=True, env=environment, timeout=900)
    except subprocess.TimeoutExpired:
        raise bench.NotMeasured(f"DeepSpeed stage {stage} took more than 15 minutes") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise bench.NotMeasured(f"DeepSpeed stage {stage}: {done.stderr.strip()[-300:]}")
    return json.loads(lines[-1])


DEEPSPEED = {f"zero{stage}_of_deepspeed" + ("_tuned" if tuned else ""): (stage, tuned) for tuned in (True, False)
    for stage in (1, 2, 3)}


def deepspeed_stage(bench, launcher, name):
    stage, tuned = DEEPSPEED[name]
    memory = {}

    def peer():
        found = deepspeed_run(bench, stage, tuned)
        memory["theirs"] = found["peak_bytes"]
        return found["step_s"]

    def ours():
        seconds, most, _, _ = launcher.once(RANKS,
            ["124m", dtype_of(bench), "B=2", "T=256", f"zero={stage}", "threads=1"], 5)
        memory["ours"] = most
        return seconds

    rounds, disturbed = bench.interleave([ours, peer], repeats=min(bench.REPEATS, 3))
    ratios = [r[1] / r[0] for r in rounds]
    bench.record(name, statistics.median(ratios), "",
        f"{dtype_of(bench)}, 2 ranks, B=2 T=256 a rank: {1024 / statistics.median([r[0] for r in rounds]):.0f} and "
                 f"{1024 / statistics.median([r[1] for r in rounds]):.0f} tokens/s; peak of a rank {memory['ours'] / 1e9:.2f} and "
                 f"{memory['theirs'] / 1e9:.2f} GB" + bench.disturbed_text(disturbed), ratios)


# ---- the table over layouts ----

LAYOUTS = [(1, []), (4, []), (4, ["zero=1"]), (4, ["zero=2"]), (4, ["zero=3"]), (4, ["tp=2"]), (4, ["tp=2", "sp=1"]),
    (4, ["tp=4"]),
           (4, ["pp=2"]), (4, ["pp=4"]), (4, ["tp=2", "pp=2"]), (4, ["tp=2", "zero=1"])]
OPTION = {"tp": ["--tensor-model-parallel-size"], "pp": ["--pipeline-model-parallel-size"], "zero": ["--zero-stage"]}
LIMIT = "4G"


def plan_options(words):
    options = []
    for word in words:
        key, value = word.split("=")
        options += ["--sequence-parallel"] if key == "sp" else [*OPTION[key], value]
    return options


def fits(bench, ranks, words, hidden):
    done = subprocess.run([bench.MEGALITH, "plan", "--num-layers", "12", "--hidden-size", str(hidden),
        "--num-attention-heads", "16",
                           "--seq-length", "1024", "--micro-batch-size", "1", "--global-batch-size", "16", "--bf16",
                               "--world-size", str(ranks),
                           "--memory-limit", LIMIT, *plan_options(words)], capture_output=True, text=True)
    found = re.search(r"^parameters\s+(\S+)", done.stdout, re.M)
    return done.returncode == 0, found.group(1) if found else "?"


def largest(bench, ranks, words):
    """Parameters of the widest 12-layer model of which every rank shown fits."""
    low, high, name = 0, 256, "-"  # in steps of 64 channels
    while high - low > 1:
        middle = (low + high) // 2
        good, parameters = fits(bench, ranks, words, 64 * middle)
        if good:
            low, name = middle, parameters
        else:
            high = middle
    return name


def layouts(bench):
    launcher = Launcher(bench)
    print(f"    ranks layout                 samples/s   most GB a rank   mean GB   largest model of 12 layers in {LIMIT} a rank")
    for ranks, words in LAYOUTS:
        data = ranks
        for word in words:
            if word[:2] in ("tp", "pp"):
                data //= int(word[3:])
        accumulate = 16 // data
        try:
            seconds, most, mean, _ = launcher.once(ranks,
                ["124m", "bf16", "T=64", "B=1", f"accumulate={accumulate}", "threads=1", *words])
        except bench.NotMeasured as e:
            print(f"    {ranks:>5} {' '.join(words) or 'data':<22} {e}")
            continue
        print(f"    {ranks:>5} {' '.join(words) or 'data':<22} {16 / seconds:>9.2f} {most / 1e9:>16.2f} {mean / 1e9:>9.2f}   "
              f"{largest(bench, ranks, words)}", flush=True)
        bench.record("layout_" + "_".join([str(ranks)] + [w.replace("=", "") for w in words]), 16 / seconds,
            "samples/s",
                     f"124M bf16 T=64, 16 sequences a step; most {most / 1e9:.2f} GB a rank")


# ---- collectives through shared memory, against MPI ----

SIZES = {"1k": 1 << 10, "64k": 64 << 10, "1m": 1 << 20, "16m": 16 << 20, "128m": 128 << 20}


def comm(bench):
    """Time over MPI over time through shared memory, by kind, type, ranks and bytes; in turns in one process (bench_comm.c)."""
    launcher = Launcher(bench)
    for ranks in (2, 4):
        for kind in ("all_reduce", "reduce_scatter", "all_gather"):
            for dtype in ("f32", "bf16"):
                words = [f"{kind}:{dtype}:{size}" for size in SIZES.values()]
                done = subprocess.run(launcher.command(ranks, os.path.join(bench.PROGRAMS, "bench_comm"), "repeats=15",
                    *words),
                                      capture_output=True, text=True, env={**os.environ, **MPI})
                rows = re.findall(r"^\S+ \S+ \d+: (\S+) (\S+) us, (.*)$", done.stdout, re.M)
                if done.returncode != 0 or len(rows) != len(SIZES):
                    raise bench.NotMeasured(f"bench_comm: {(done.stderr + done.stdout).strip()[-300:]}")
                for size, (over_mpi, shared, ratios) in zip(SIZES, rows):
                    ratios = [float(r) for r in ratios.split()]
                    bench.record(f"comm_{kind}_{dtype}_{size}_{ranks}_of_transport", statistics.median(ratios), "",
                                 f"{ranks} ranks: {over_mpi} us over MPI, {shared} us through shared memory", ratios)


def groups(bench):
    found = {name: (lambda r=(name, *row): against_one(bench, Launcher(bench), *r[:4], min(bench.REPEATS, 3), r[4]),
        [name])
             for name, *row in scale_rows()}
    peers = {name: (lambda n=name: deepspeed_stage(bench, Launcher(bench), n), [name]) for name in DEEPSPEED}
    return {**found, **peers, "comm": (lambda: comm(bench), []), "layouts": (lambda: layouts(bench), [])}
