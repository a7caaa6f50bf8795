#!/usr/bin/env python3
"""Writes tests/golden/index_arrays.txt: the GPT index arrays of small data sets, the blend orders and the sampler
permutations, computed with NumPy and torch from the rules alone.

    python3 tools/make_index_golden.py > tests/golden/index_arrays.txt

Each line is a name and numbers. Long arrays are given as their FNV-1a 64 hash over little-endian bytes.
"""
import math

import numpy as np
import torch


def fnv1a(data):
    h = 14695981039346656037
    for byte in data:
        h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return h


def epochs_of(tokens, length, wanted):
    epochs = 1
    while (epochs * tokens - 1) // length < wanted:
        epochs += 1
    return epochs


def sample_starts(sizes, doc, length, total):
    """Place of every sample's first token in the stream, found by searching the running sums instead of walking."""
    ends = np.cumsum(sizes[doc])
    sample = np.zeros((total + 1, 2), dtype=np.int32)
    for row in range(1, total + 1):
        place = int(np.searchsorted(ends, row * length, side="right"))
        sample[row] = (place, row * length - (int(ends[place - 1]) if place else 0))
    return sample


def index_arrays(sizes, begin, end, length, seed, wanted):
    documents = np.arange(begin, end, dtype=np.int32)
    tokens = int(np.sum(sizes[begin:end]))
    epochs = epochs_of(tokens, length, wanted)
    before = ((epochs - 1) * tokens - 1) // length
    separate = epochs > 1 and wanted - before < int(0.80 * ((tokens - 1) // length))
    random = np.random.RandomState(seed)
    if separate:
        first = np.tile(documents, epochs - 1)
        random.shuffle(first)
        last = documents.copy()
        random.shuffle(last)
        doc = np.concatenate([first, last])
    else:
        doc = np.tile(documents, epochs)
        random.shuffle(doc)
    total = (epochs * tokens - 1) // length
    sample = sample_starts(sizes, doc, length, total)
    if separate:
        head = np.arange(before, dtype=np.uint32)
        random.shuffle(head)
        tail = np.arange(before, total, dtype=np.uint32)
        random.shuffle(tail)
        shuffle = np.concatenate([head, tail])
    else:
        shuffle = np.arange(total, dtype=np.uint32)
        random.shuffle(shuffle)
    return epochs, separate, doc, sample, shuffle


def token_stream(sizes, doc):
    """Token i of the data set is (7919 i + 13) mod 60000."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    tokens = ((np.arange(int(starts[-1]), dtype=np.int64) * 7919 + 13) % 60000).astype(np.int32)
    return np.concatenate([tokens[starts[d]:starts[d + 1]] for d in doc])


def put(name, numbers):
    print(name, *[str(int(n)) for n in numbers])


def index_case(sizes, begin, end, length, seed, wanted, brief):
    sizes = np.asarray(sizes, dtype=np.int32)
    epochs, separate, doc, sample, shuffle = index_arrays(sizes, begin, end, length, seed, wanted)
    put("case", [brief, begin, end, length, seed, wanted])
    if brief:  # size i is 1 + (17 i + i / 3) mod 251
        put("count", [len(sizes)])
    else:
        put("sizes", sizes)
    put("plan", [epochs, separate, len(shuffle)])
    for name, array in (("doc", doc), ("sample", sample.reshape(-1)), ("shuffle", shuffle)):
        put(name, [fnv1a(array.tobytes())] if brief else array)
    given = sorted({0, len(shuffle) // 2, len(shuffle) - 1}) if len(shuffle) else []
    flat = token_stream(sizes, doc)
    rows = [flat[int(shuffle[g]) * length:(int(shuffle[g]) + 1) * length + 1] for g in given]
    put("given", given)
    put("tokens", [fnv1a(np.concatenate(rows).astype(np.int32).tobytes())])


def blend_case(weights, size):
    total = 0.0
    for w in weights:
        total += float(w)
    normal = np.array([float(w) / total for w in weights], dtype=np.float64)
    wanted = [int(math.ceil(size * float(w) * 1.005)) for w in normal]
    normal = normal / np.sum(normal)
    used = np.zeros(len(weights), dtype=np.int64)
    member, sample = [], []
    for i in range(size):
        k = int(np.argmax(normal * max(float(i), 1.0) - used))
        member.append(k)
        sample.append(int(used[k]))
        used[k] += 1
    print("blend", size, len(weights), *[repr(float(w)) for w in weights])
    put("wanted", wanted)
    put("member", [fnv1a(np.asarray(member, dtype=np.int16).tobytes())])
    put("of", [fnv1a(np.asarray(sample, dtype=np.int64).tobytes())])


def main():
    small = [5, 3, 7, 2, 9, 4]
    for wanted in (1, 5, 7, 10, 13, 14, 40):  # below one epoch, one, more; with and without the separate last one
        index_case(small, 0, 6, 4, 1234, wanted, 0)
    index_case([5, 0, 0, 3, 7, 0, 2, 9, 4, 0], 0, 10, 4, 1234, 10, 0)  # empty documents
    index_case(small, 1, 5, 1, 7, 30, 0)  # a part of the data, samples of one token
    index_case(small, 0, 6, 100, 99, 3, 0)  # samples longer than an epoch
    # An epoch of these has ten samples. The last epoch is shuffled separately if less than 80 % of it is needed, so
    # with eight it is not.
    for wanted in (17, 18, 19):
        index_case([9, 11, 13, 8], 0, 4, 4, 1234, wanted, 0)
    rule = [1 + (i * 17 + i // 3) % 251 for i in range(5000)]
    for seed, wanted in ((1234, 4000), (0, 20000), (4294967295, 19000)):
        index_case(rule, 0, 5000, 64, seed, wanted, 1)
    index_case(rule, 4845, 4995, 64, 1234, 700, 1)
    blend_case([0.3, 0.7], 1000)
    blend_case([1, 1, 1], 1000)
    blend_case([1 + (i * i) % 7 for i in range(40)], 3000)
    blend_case([0.1 + (i * 37 % 101) / 7 for i in range(300)], 3000)
    for seed, n in ((0, 10), (1, 1000), (7, 4096)):
        generator = torch.Generator()
        generator.manual_seed(seed)
        order = torch.randperm(n, generator=generator).numpy().astype(np.int64)
        put("randperm", [seed, n, fnv1a(order.tobytes())])


main()
