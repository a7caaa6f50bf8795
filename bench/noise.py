"""A step beside other programs, under a quota, on more threads than cores. Groups of bench/run.py, which hands itself over as `bench`.

Every figure is a ratio of one run: quiet and loaded rounds alternate, and so do ours and PyTorch. NAME_slows is loaded / quiet of ours (less is
better), NAME_of_torch is PyTorch's seconds / ours under the same load (more is better).
"""
import collections
import contextlib
import glob
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import ranks
import texts

CORES = len(os.sched_getaffinity(0))
BEFORE = os.environ.get("MEGA_BENCH_BEFORE", "")
LARGE = ["B=4", "heads=12"]  # what torch_step.py cannot find out of the weights


# ---- what disturbs ----

class Load:
    """bench/load.py KIND. It is stopped, except inside `with`."""

    def __init__(self, kind):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load.py")
        self.process = subprocess.Popen([sys.executable, script, kind], stdout=subprocess.PIPE, text=True)
        self.processes = self.process.stdout.readline().split()[1:]
        self.__exit__()

    def __enter__(self):
        os.killpg(self.process.pid, signal.SIGCONT)
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def seconds(self):
        """Processor time of all its processes so far."""
        total = 0.0
        for pid in self.processes:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                words = f.read().rpartition(")")[2].split()
            total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Quota:
    """A control group that may use half a core less than there are. Processes are in it only inside `with`."""

    def __init__(self, bench):
        self.bench, self.servers = bench, []
        self.parent, self.version = self.find()
        self.folder = os.path.join(self.parent, f"megalith_bench_{os.getpid()}")
        try:
            if self.version == 2:
                self.write(os.path.join(self.parent, "cgroup.subtree_control"), "+cpu")
            os.mkdir(self.folder)
        except OSError as e:
            raise bench.NotMeasured(f"no control group with a quota can be made: {e}") from None
        try:
            self.limit(int((CORES - 0.5) * 100000))
        except OSError as e:
            self.close()
            raise bench.NotMeasured(f"no quota can be set: {e}") from None

    def find(self):
        """The folder of this process's control group of the cpu controller, and the version of control groups."""
        with open("/proc/self/cgroup", encoding="utf-8") as f:
            rows = [line.strip().split(":", 2) for line in f]
        for version, folders in ((1, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]), (2, ["/sys/fs/cgroup"])):
            for _, controllers, path in rows:
                if (version == 1 and "cpu" not in controllers.split(",")) or (version == 2 and controllers != ""):
                    continue
                for root in folders:
                    for folder in (root + path, root):  # a container may see the host's path and its own root
                        if os.path.exists(os.path.join(folder, "cgroup.procs")):
                            return folder, version
        raise self.bench.NotMeasured("no control group with the cpu controller is mounted")

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def limit(self, quota_us):
        if self.version == 2:
            self.write(os.path.join(self.folder, "cpu.max"), f"{quota_us} 100000")
            return
        self.write(os.path.join(self.folder, "cpu.cfs_period_us"), "100000")
        self.write(os.path.join(self.folder, "cpu.cfs_quota_us"), str(quota_us))

    def move(self, folder):
        for server in self.servers:
            if server.process.poll() is None:
                self.write(os.path.join(folder, "cgroup.procs"), str(server.process.pid))

    def __enter__(self):
        self.move(self.folder)
        return self

    def __exit__(self, *_):
        self.move(self.parent)

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError as e:
            print(f"    {self.folder} is left: {e}", flush=True)


# ---- one step against another ----

# servers: ours and, if installed, PyTorch's; theory: how many times slower a step must be with the capacity that is
# left.
Condition = collections.namedtuple("Condition", "name around servers steps theory target words")


def visit(condition, server):
    """Seconds of a step (the median of the condition's steps), and the cores that the load took meanwhile."""
    with condition.around as load:
        counts = isinstance(load, Load)
        before, start = load.seconds() if counts else 0, time.perf_counter()
        seconds = statistics.median(server.run(condition.steps)[0])
        taken = (load.seconds() - before) / (time.perf_counter() - start) if counts else 0
    return seconds, taken


def take_turns(conditions, rounds):
    """{name of the condition: [[(seconds, cores taken) of each server] per round]}"""
    found = {c.name: [] for c in conditions}
    for number in range(rounds):
        for c in conditions:
            order = list(enumerate(c.servers))
            now = dict((i, visit(c, s)) for i, s in (order if number % 2 == 0 else reversed(order)))
            found[c.name].append([now[i] for i in range(len(order))])
    return found


def limits(c):
    theory = "" if c.theory is None else f"what is left allows {c.theory:.2f}; "
    return theory + ("" if c.target is None else f"target {c.target:.2f}; ")


def record_condition(bench, tag, shape, c, quiet, loaded, why):
    """Both rows of a condition: how much slower than quiet, and against PyTorch under the same load."""
    mine = [now[0][0] for now in loaded]
    slower = [now[0][0] / base[0][0] for now, base in zip(loaded, quiet)]
    text = f"{shape}, {c.words}; {limits(c)}{1e3 * statistics.median(mine):.1f} ms"
    if isinstance(c.around, Load):
        text += f"; the load took {statistics.median([now[0][1] for now in loaded]):.2f} of {CORES} cores"
    name = f"noise_{c.name}_{tag}"
    if len(c.servers) > 1:
        theirs = [now[1][0] / base[1][0] for now, base in zip(loaded, quiet)]
        text += f"; {c.servers[1].name} slows {statistics.median(theirs):.2f} times"
    bench.record(name + "_slows", statistics.median(slower), "", text, slower)
    if len(c.servers) == 1:
        bench.record(name + "_of_torch", None, "", why)
        return
    ratios = [now[1][0] / now[0][0] for now in loaded]
    calm = statistics.median([base[1][0] / base[0][0] for base in quiet])
    bench.record(name + "_of_torch", statistics.median(ratios), "",
        f"{shape}, {c.words}; quiet {calm:.2f}; {c.steps * len(ratios)} steps", ratios)


def record_waits(bench, tag, shape, c, rounds):
    """What fewer barriers could win at most."""
    ours, steps = c.servers[0], rounds * c.steps
    with c.around:
        before = ours.number("waited")
        seconds = sum(ours.run(steps)[0])
        waited = ours.number("waited") - before
    bench.record(f"noise_{c.name}_{tag}_waits", waited / seconds, "",
        f"{shape}, {c.words or 'quiet'}: part of {steps} steps in which the first "
                 "thread had done its part of an op and waited for the others")


def measure(bench, tag, shape, conditions, rounds, why):
    """The first condition is quiet."""
    conditions[0].servers[0].run(1)
    found = take_turns(conditions, rounds)
    for c in conditions:
        if c.name in ("quiet", "core"):
            record_waits(bench, tag, shape, c, rounds)
    for c in conditions[1:]:
        record_condition(bench, tag, shape, c, found["quiet"], found[c.name], why)


def loaded_condition(stack, kind, servers, steps):
    load = Load(kind)
    stack.callback(load.close)
    half = CORES / (CORES - 0.5)
    theory, target, words = {"core": (half, 1.45 if CORES == 2 else 1.1 * half,
        "a process wants the last core all the time"),
                             "bursts": (half, 1.1 * half, "a process wants the last core 5 ms of every 10"),
                             "random": (1 / 0.75, None, "bursts of 1 to 50 ms on random cores, 25 % of all")}[kind]
    return Condition(kind, load, servers, steps, theory, target, words)


def quiet_condition(servers, steps):
    return Condition("quiet", contextlib.nullcontext(), servers, steps, None, None, "")


def closing(stack, server):
    stack.callback(server.close)
    return server


def new_folder(bench, stack):
    folder = tempfile.mkdtemp(dir=os.path.join(bench.ROOT, "build"))
    stack.callback(shutil.rmtree, folder)
    return folder


def servers_of(bench, stack, words, shape, how=None):
    """[ours, PyTorch's where there is one], why there is none, the folder of the weights. how: best.how of an earlier best_torch, which saves
    trying all variants again."""
    folder = new_folder(bench, stack)
    ours = closing(stack, bench.server_of("step", *words, "f32"))
    ours.ask("export " + folder)
    try:
        theirs = bench.best_torch(folder, "f32", shape)[0] if how is None else torch_like(bench, folder, how, shape)
    except bench.NotMeasured as e:
        return [ours], str(e), folder
    return [ours, closing(stack, theirs)], "", folder


def torch_like(bench, folder, how, shape, **environment):
    server = bench.peer("torch_step.py", folder, "f32", how[0], *shape, **{**how[1], **environment})
    server.name = f"torch {how[0]}" + (", tuned malloc" if how[1] else "")
    server.run(2)
    return server


def threads_condition(bench, stack, servers, shape, folder):
    """Twice as many threads as cores, of ours and of PyTorch."""
    doubled = [closing(stack, bench.server_of("step", "124m", "T=64", "f32", f"threads={2 * CORES}"))]
    doubled[0].run(1)
    if len(servers) > 1:
        doubled.append(closing(stack, torch_like(bench, folder, servers[1].how, shape, OMP_NUM_THREADS=str(2 * CORES))))
    return Condition("threads", contextlib.nullcontext(), doubled, 2, 1.0, 1.1,
        f"{2 * CORES} threads on {CORES} cores, quiet")


def quota_condition(bench, stack, servers):
    quota = Quota(bench)
    quota.servers = servers
    stack.callback(quota.close)
    theory = CORES / (CORES - 0.5)
    return Condition("quota", quota, servers, 2, theory, 1.1 * theory, f"a quota of {CORES - 0.5} cores")


def t64(bench, known):
    """known receives the best variant of PyTorch."""
    with contextlib.ExitStack() as stack:
        shape = ["T=64", *LARGE]
        servers, why, folder = servers_of(bench, stack, ["124m", "T=64"], shape)
        if len(servers) > 1:
            known["how"] = servers[1].how
        conditions = [quiet_condition(servers, 2)]
        if CORES > 1:
            conditions += [loaded_condition(stack, "core", servers, 2), loaded_condition(stack, "bursts", servers, 2)]
        conditions += [loaded_condition(stack, "random", servers, 4),
            threads_condition(bench, stack, servers, shape, folder)]
        with contextlib.ExitStack() as inner:  # ends before the servers do, which are outside the control group then
            try:
                conditions.append(quota_condition(bench, inner, servers))
            except bench.NotMeasured as e:
                for row in ("slows", "of_torch"):
                    bench.record(f"noise_quota_t64_{row}", None, "", str(e))
            measure(bench, "t64", "124M fp32, B=4, T=64", conditions, bench.REPEATS, why)
    if CORES == 1:
        raise bench.NotMeasured("one core: the load would take from the only one")


def t256(bench, known):
    if CORES == 1:
        raise bench.NotMeasured("one core: the load would take from the only one")
    with contextlib.ExitStack() as stack:
        servers, why, _ = servers_of(bench, stack, ["124m", "T=256"], ["T=256", *LARGE], known.get("how"))
        measure(bench, "t256", "124M fp32, B=4, T=256",
            [quiet_condition(servers, 1), loaded_condition(stack, "core", servers, 1)],
                min(bench.REPEATS, 3), why)


def small(bench):
    """Medians over 100 steps a round, because a step of the small model is as long as one burst."""
    with contextlib.ExitStack() as stack:
        servers, why, _ = servers_of(bench, stack, ["small"], ["B=12", "T=64", "heads=4"])
        measure(bench, "small", "small GPT fp32, B=12, T=64",
            [quiet_condition(servers, 100), loaded_condition(stack, "random", servers, 100)],
                bench.REPEATS, why)


# ---- ranks ----

LAYOUTS = {"zero1": ["B=2", "zero=1"], "tp": ["B=4", "tp=2"], "pp": ["B=1", "accumulate=4", "pp=2", "first=8"]}


def server_of_ranks(bench, stack, count, words):
    """bench_step serve under mpirun; every rank reads its lines from a pipe of its own."""
    prefix = os.path.join(new_folder(bench, stack), "lines")
    pipes = []
    for rank in range(count):
        os.mkfifo(f"{prefix}.{rank}")
        # for both ends, so that neither side waits for the other
        pipes.append(open(f"{prefix}.{rank}", "r+b", buffering=0))
        stack.callback(pipes[-1].close)
    command = ranks.Launcher(bench).command(count, os.path.join(bench.PROGRAMS, "bench_step"), "serve",
        f"lines={prefix}", *words)

    class Ranks(bench.Server):
        def ask(self, line):
            for pipe in pipes:
                pipe.write(line.encode() + b"\n")
            return self.answer()

        def close(self):
            for pipe in pipes:
                pipe.write(b"quit\n")
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.terminate()  # mpirun ends its ranks
                self.process.wait()

    return closing(stack, Ranks(command, **ranks.MPI))


def layout_against_one(bench, name, one, loads):
    """(loaded / quiet of two ranks) / (loaded / quiet of one rank of as many threads), in turns."""
    with contextlib.ExitStack() as stack:
        several = server_of_ranks(bench, stack, 2, ["124m", "bf16", "T=64", f"threads={CORES // 2}", *LAYOUTS[name]])
        servers = [several, one]
        several.run(1)
        conditions = [quiet_condition(servers, 3)] + [c._replace(servers=servers) for c in loads]
        found = take_turns(conditions, min(bench.REPEATS, 3))
    for c in conditions[1:]:
        two, single = ([now[i][0] / base[i][0] for now, base in zip(found[c.name], found["quiet"])] for i in (0, 1))
        ratios = [a / b for a, b in zip(two, single)]
        bench.record(f"noise_{c.name}_{name}_slows_of_one_rank", statistics.median(ratios), "",
            f"124M bf16, T=64, {c.words}: two ranks "
                     f"({' '.join(LAYOUTS[name])}) slow {statistics.median(two):.2f} times, one {statistics.median(single):.2f}", ratios)


def of_ranks(bench):
    if CORES == 1:
        raise bench.NotMeasured("one core: two ranks need two")
    with contextlib.ExitStack() as stack:
        one = closing(stack, bench.server_of("step", "124m", "bf16", "T=64", "B=4", f"threads={CORES // 2 * 2}"))
        one.run(1)
        loads = [loaded_condition(stack, kind, [], 3) for kind in ("core", "random")]
        for name in LAYOUTS:
            bench.attempt([f"noise_{c.name}_{name}_slows_of_one_rank" for c in loads],
                lambda n=name: layout_against_one(bench, n, one, loads))


# ---- a build before ----

# Words of each shape, and steps at a visit. 124M at T=1024 takes 4 x 6 s a step on two cores: one sequence.
SHAPES = {"small_t64": (["small"], 40), "small_t1024": (["small", "T=1024", "B=2"], 5),
    "124m_t64": (["124m", "T=64", "B=4"], 2),
          "124m_t1024": (["124m", "T=1024", "B=1"], 1)}
TYPES = {"fp32": "f32", "bf16": "bf16"}
NO_BEFORE = "no build before: MEGA_BENCH_BEFORE names no other build's bench_step"


def weights_of(server, folder):
    """The bytes of all weights, without the header of their file."""
    server.ask("export " + folder)
    path, = glob.glob(os.path.join(folder, "**", "model*.safetensors"), recursive=True)
    with open(path, "rb") as f:
        f.seek(8 + int.from_bytes(f.read(8), "little"))
        return f.read()


def quiet_against_before(bench, name, dtype):
    words, steps = SHAPES[name]
    with contextlib.ExitStack() as stack:
        now, before = (closing(stack, bench.Server([path, "serve", *words, TYPES[dtype]]))
                       for path in (os.path.join(bench.PROGRAMS, "bench_step"), BEFORE))
        losses = {now: [], before: []}

        def run(server):
            seconds, found = server.run(steps)
            losses[server] += found
            return statistics.median(seconds)

        run(now), run(before)
        rounds, disturbed = bench.interleave([lambda: run(now), lambda: run(before)], lambda: now.number("peak"))
        weights = [weights_of(s, new_folder(bench, stack)) for s in (now, before)]
    same = losses[now] == losses[before] and weights[0] == weights[1]
    bits = f"losses and weights of {len(losses[now])} steps are " + ("the same bits" if same else "NOT THE SAME BITS")
    least = min(r[1] for r in rounds) / min(r[0] for r in rounds)
    ratios = [r[1] / r[0] for r in rounds]
    bench.record(f"noise_{name}_{dtype}_of_before", statistics.median(ratios), "",
        f"quiet; of the least times {least:.3f}; target 0.99; {bits}" +
                 bench.disturbed_text(disturbed), ratios)


def decoding_against_before(bench):
    """Both are beside the memory bandwidth of the same moment, so their turns may be far apart."""
    def run(program):
        done = subprocess.run([program, "124m"], capture_output=True, text=True)
        found = re.search(r"^RESULT generate_124m_of_bandwidth (\S+)", done.stdout, re.M)
        if found is None:
            raise bench.NotMeasured(f"{program}: {done.stderr.strip()[-300:]}")
        return float(found.group(1))

    programs = [os.path.join(folder, "bench_generate") for folder in (bench.PROGRAMS, os.path.dirname(BEFORE))]
    if not os.access(programs[1], os.X_OK):
        raise bench.NotMeasured(f"no {programs[1]}")
    rounds = [[run(p) for p in programs] for _ in range(min(bench.REPEATS, 3))]
    ratios = [r[0] / r[1] for r in rounds]
    bench.record("noise_decoding_of_before", statistics.median(ratios), "",
        "batch 1, bf16, tokens/s beside the memory bandwidth; target 0.99",
                 ratios)


def tokenizer_against_before(bench):
    vocab, source = os.path.join(bench.DATA, "gpt2"), os.path.join(bench.DATA, "corpus", "openwebtext-1000.jsonl")
    programs = [os.path.join(folder, "bench_documents") for folder in (bench.PROGRAMS, os.path.dirname(BEFORE))]
    for path in (vocab, source, programs[1]):
        if not os.path.exists(path):
            raise bench.NotMeasured(f"no {path}")
    with contextlib.ExitStack() as stack:
        documents = os.path.join(new_folder(bench, stack), "documents")
        texts.write_documents(documents, texts.texts_of(source))
        now, before = (closing(stack, bench.Server([p, "serve", documents, vocab])) for p in programs)
        ids = {s: s.ask("encode")[3] for s in (now, before)}
        rounds, _ = bench.interleave([lambda: now.number("encode"), lambda: before.number("encode")])
    ratios = [r[1] / r[0] for r in rounds]
    bench.record("noise_tokenizer_of_before", statistics.median(ratios), "", "English, one core; target 0.99; " +
                 ("the same ids" if ids[now] == ids[before] else "IDS DIFFER"), ratios)


def before_rows(bench):
    rows = {f"noise_{name}_{dtype}_of_before": (lambda n=name, d=dtype: quiet_against_before(bench, n, d))
        for name in SHAPES for dtype in TYPES}
    return {**rows, "noise_decoding_of_before": lambda: decoding_against_before(bench),
            "noise_tokenizer_of_before": lambda: tokenizer_against_before(bench)}


def of_before(bench):
    if not os.access(BEFORE, os.X_OK):
        raise bench.NotMeasured(NO_BEFORE)
    for name, run in before_rows(bench).items():
        bench.attempt([name], run)


def groups(bench):
    conditions = ["core", "bursts", "random", "threads", "quota"]
    both = [f"noise_{c}_t64_{row}" for c in conditions for row in ("slows", "of_torch")]
    slower = [f"noise_{kind}_{name}_slows_of_one_rank" for kind in ("core", "random") for name in LAYOUTS]
    known = {}
    return {"noise_t64": (lambda: t64(bench, known), both),
            "noise_t256": (lambda: t256(bench, known), ["noise_core_t256_slows", "noise_core_t256_of_torch"]),
            "noise_small": (lambda: small(bench), ["noise_random_small_slows", "noise_random_small_of_torch"]),
            "noise_ranks": (lambda: of_ranks(bench), slower),
                "noise_before": (lambda: of_before(bench), list(before_rows(bench)))}


PARTS = ["noise_t64", "noise_t256", "noise_small", "noise_ranks", "noise_before"]
