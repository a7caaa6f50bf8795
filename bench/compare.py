#!/usr/bin/env python3
"""What became worse from one result of `make bench` to another, beyond the noise of both.

usage: bench/compare.py BEFORE.json AFTER.json      exit status 1: something became worse
A figure differs when the two ranges of its repeats do not touch, and its medians differ by more than 2 %; a figure without repeats
must differ by more than 5 %. Less is better for what is named _s, _percent, _p95_of_median, peak_memory_ and allocations_.
"""
import json
import re
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        return {r["name"]: r for r in json.load(f)}


def less_is_better(name):
    return not name.endswith("_mb_s") and re.search(r"(_s|_percent|_p95_of_median)$|^peak_memory_|^allocations_", name) is not None


def judge(name, a, b):
    """(word, change in percent, positive: better)"""
    x, y = a["value"], b["value"]
    change = (y - x) / abs(x) * 100 if x != 0 else (0.0 if y == 0 else float("inf") if y > 0 else float("-inf"))
    gain = -change if less_is_better(name) else change
    spread = all("low" in r["detail"] and "high" in r["detail"] for r in (a, b))
    if spread:
        apart = b["detail"]["low"] > a["detail"]["high"] or b["detail"]["high"] < a["detail"]["low"]
        differs = apart and abs(change) > 2
    else:
        differs = abs(change) > 5
    return ("same" if not differs else "better" if gain > 0 else "WORSE"), gain


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    before, after = load(sys.argv[1]), load(sys.argv[2])
    worse = 0
    for name, a in before.items():
        b = after.get(name)
        if a["value"] is None:
            continue
        if b is None or b["value"] is None:
            print(f"{name:<40} {a['value']:>12.5g} {'':>12} not measured any more")
            continue
        word, gain = judge(name, a, b)
        worse += word == "WORSE"
        print(f"{name:<40} {a['value']:>12.5g} {b['value']:>12.5g} {gain:+7.1f} % {word}")
    print(f"{worse} worse")
    sys.exit(1 if worse else 0)


main()
