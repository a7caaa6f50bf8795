#!/usr/bin/env python3
"""What became worse from one result of `make bench` to another, beyond the noise of both.

usage: bench/compare.py BEFORE.json AFTER.json      exit status 1: something became worse, 2: no comparison
A figure differs when the two ranges of its repeats do not touch, and its medians differ by more than 2 %; a figure
without repeats
must differ by more than 5 %. One that is in percent already must differ by half a point. Less is better for what is
named _s,
_percent, _p95_of_median, _slows, _slows_of_one_rank, peak_memory_ and allocations_. Figures of the machine itself are
shown and not judged.
"""
import json
import math
import re
import sys


def refuse(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            return {r["name"]: r for r in json.load(f)}
    except (OSError, ValueError, KeyError, TypeError) as why:
        refuse(f"{path}: no result of `make bench`: {why}")


def less_is_better(name):
    lower = r"(_s|_percent|_p95_of_median|_slows|_slows_of_one_rank)$|^peak_memory_|^allocations_"
    return not name.endswith("_mb_s") and re.search(lower, name) is not None


def judge(name, a, b):
    """(word, change in percent, positive: better)"""
    x, y = a["value"], b["value"]
    if x == y:
        change = 0.0
    elif name.endswith("_percent"):
        change = y - x
    else:
        change = (y - x) / abs(x) * 100 if x != 0 else math.copysign(math.inf, y)
    least = (0.5, 0.5) if name.endswith("_percent") else (2, 5)
    gain = 0.0 - change if less_is_better(name) else change
    if name.startswith("machine_"):
        return "machine", gain
    if all("low" in r["detail"] and "high" in r["detail"] for r in (a, b)):
        apart = b["detail"]["low"] > a["detail"]["high"] or b["detail"]["high"] < a["detail"]["low"]
        differs = apart and abs(change) > least[0]
    else:
        differs = abs(change) > least[1]
    return ("same" if not differs else "better" if gain > 0 else "WORSE"), gain


def main():
    if len(sys.argv) != 3:
        refuse(__doc__.strip())
    before, after = load(sys.argv[1]), load(sys.argv[2])
    worse = 0
    for name in [*before, *(n for n in after if n not in before)]:
        x, y = (r[name]["value"] if name in r else None for r in (before, after))
        shown = " ".join(f"{v:>12.5g}" if v is not None else f"{'':>12}" for v in (x, y))
        if x is None or y is None:
            if x is not None or y is not None:
                print(f"{name:<40} {shown} {'only before' if y is None else 'only after'}")
            continue
        word, gain = judge(name, before[name], after[name])
        worse += word == "WORSE"
        print(f"{name:<40} {shown} {gain:+7.1f} % {word}")
    print(f"{worse} worse")
    sys.exit(1 if worse else 0)


main()
