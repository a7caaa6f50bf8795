#!/usr/bin/env python3
"""Takes processor time from whatever else runs, in a known way: what bench/noise.py measures beside.

usage: bench/load.py core|bursts|random [SEED]
core    wants the last core of the affinity mask all the time
bursts  wants that core for 5 ms out of every 10
random  wants 25 % of all cores: bursts of 1 to 50 ms on random cores, the same ones for the same SEED
Prints "ready" and the processes it consists of, which are a process group; runs until killed, or until its parent ends.
"""
import os
import random
import sys
import time

PERIOD, BURST = 0.010, 0.005  # seconds
SHARE = 0.25  # of all cores, for random


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def core(cores):
    os.sched_setaffinity(0, {cores[-1]})
    while True:
        yield 1.0, 0.0


def bursts(cores):
    os.sched_setaffinity(0, {cores[-1]})
    while True:
        yield BURST, PERIOD - BURST


def random_bursts(cores, number, processes, seed):
    """One of several processes that share the work, so that each can have idle time between its bursts."""
    draw = random.Random(seed * 1000 + number)
    duty = SHARE * len(cores) / processes
    while True:
        os.sched_setaffinity(0, {draw.choice(cores)})
        burst = draw.uniform(0.001, 0.050)
        yield burst, burst / duty * (1 - duty) * draw.uniform(0.5, 1.5)


def follow(steps):
    """Is busy and idle by turns. A load that was stopped continues where it was: every burst is timed from its own start."""
    parent = os.getppid()
    for working, idle in steps:
        start = time.perf_counter()
        busy(working)
        if os.getppid() != parent:
            return
        time.sleep(max(0.0, start + working + idle - time.perf_counter()))


def main():
    kinds = {"core": core, "bursts": bursts}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in (*kinds, "random"):
        sys.exit(__doc__.strip())
    kind, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 1
    cores = sorted(os.sched_getaffinity(0))
    os.setpgid(0, 0)
    processes = (len(cores) + 1) // 2 if kind == "random" else 1
    number, children = 0, []
    for i in range(1, processes):
        child = os.fork()
        if child == 0:
            number, children = i, []
            break
        children.append(child)
    if number == 0:
        print("ready", os.getpid(), *children, flush=True)
    follow(random_bursts(cores, number, processes, seed) if kind == "random" else kinds[kind](cores))


if __name__ == "__main__":
    main()
