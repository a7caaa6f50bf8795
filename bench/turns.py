#!/usr/bin/env python3
"""The step of two builds in turns: GPT-2 124M on one rank and on two. The older build may be of any commit whose bench_step has `once`.

    python3 bench/turns.py OLD/build/bench/bench_step NEW/build/bench/bench_step [rounds=5] [steps=3] [only=PATTERN]

Every round runs both builds, the other one first in every second round. Prints for each shape the speed of the new build divided by that of
the old one: the median over the rounds, the least and the most of it, then the ratio of the shortest steps of both builds, which says more
on a machine that is not quiet; and whether all losses are the same. PATTERN is a regular expression on the names of the shapes. Ends with
status 1 if both the median and the ratio of the shortest steps are below 0.99, or a loss differs.
"""
import os
import re
import statistics
import subprocess
import sys

import ranks

LAYOUTS = {"one rank": (1, ["B=4"]), "two ranks, data": (2, ["B=2"]), "two ranks, tp": (2, ["B=4", "tp=2"]),
           "two ranks, pp": (2, ["B=1", "pp=2", "accumulate=4"]), "two ranks, ZeRO 1": (2, ["B=2", "zero=1"]),
           "two ranks, ZeRO 2": (2, ["B=2", "zero=2"]), "two ranks, ZeRO 3": (2, ["B=2", "zero=3"])}
LEAST = 0.99


def shapes(pattern):
    for positions in 64, 1024:
        for dtype in "f32", "bf16":
            for layout, (count, words) in LAYOUTS.items():
                name = f"T={positions} {dtype}, {layout}"
                if re.search(pattern, name):
                    yield name, count, ["124m", f"T={positions}", dtype, *words, f"threads={2 // count}"]


class NotMeasured(Exception):
    """Why a shape was not measured."""


def run_once(program, count, words, steps):
    """The seconds of the steps, without the first; the losses, as they were printed."""
    launcher = ranks.Launcher(sys.modules[__name__])
    command = [program, "once", f"steps={steps}", *words]
    done = subprocess.run(command if count == 1 else launcher.command(count, *command), capture_output=True, text=True,
                          env={**os.environ, **ranks.MPI})
    found = re.search(r"^seconds (.*) losses (.*)$", done.stdout, re.M)
    if done.returncode != 0 or found is None:
        raise NotMeasured(f"{program}: {(done.stderr + done.stdout).strip()[-200:]}")
    return [float(w) for w in found.group(1).split()[1:]], found.group(2)


def compare(programs, count, words, rounds, steps):
    """The ratios of all rounds, that of the shortest steps, and whether the losses were the same in all runs."""
    ratios, shortest, seen = [], dict.fromkeys(programs, float("inf")), set()
    for turn in range(rounds):
        seconds = {}
        for program in programs if turn % 2 == 0 else reversed(programs):
            found, losses = run_once(program, count, words, steps)
            seconds[program] = statistics.median(found)
            shortest[program] = min(shortest[program], *found)
            seen.add(losses)
        ratios.append(seconds[programs[0]] / seconds[programs[1]])
    return ratios, shortest[programs[0]] / shortest[programs[1]], len(seen) == 1


def main():
    options = dict(word.split("=", 1) for word in sys.argv[3:] if "=" in word)
    if len(sys.argv) < 3 or len(options) != len(sys.argv) - 3 or options.keys() - {"rounds", "steps", "only"}:
        sys.exit(__doc__)
    worse = 0
    for name, count, words in shapes(options.get("only", "")):
        try:
            ratios, shortest, same = compare(sys.argv[1:3], count, words, int(options.get("rounds", 5)),
                int(options.get("steps", 3)))
        except NotMeasured as e:
            print(f"{name:<32} not measured: {e}", flush=True)
            worse += 1
            continue
        median = statistics.median(ratios)
        worse += max(median, shortest) < LEAST or not same
        print(f"{name:<32} {median:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})  shortest {shortest:.3f}  {'same losses' if same else 'LOSSES DIFFER'}", flush=True)
    sys.exit(1 if worse else 0)


main()
