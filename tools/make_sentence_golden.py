#!/usr/bin/env python3
"""Writes the golden arrays of BERT's and T5's data sets: maps of samples, and samples, computed here with NumPy from the
rules of Megatron-LM (lists and sets, as its documents describe them; the C code works with positions).

usage: make_sentence_golden.py > tests/golden/sentence_arrays.txt

Each case is a line of options, the map, and samples: numbers for the first ones, a sum over the arrays for all.
"""

import sys

import numpy

VOCABULARY, CLS, SEP, MASK, PAD, BOS, EOS, SENTINELS = 400, 2, 3, 4, 0, 5, 6, 100
FIRST_WORD = 10  # ids below are special
SHOWN = 2  # samples with their numbers, in each case
SUMMED = 160  # samples in the sum


def begins_word(token):  # every fifth id is a "##" piece
    return token % 5 != 0 or token < FIRST_WORD


# ---- the data: documents of sentences, from a generator of few lines ----


class Draws:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.state >> 8) % n


def make_documents(seed, count, sentences, length):
    draw = Draws(seed)
    documents = []
    for _ in range(count):
        document = []
        for _ in range(draw.below(sentences + 1)):
            n = 513 + draw.below(40) if draw.below(60) == 0 else 1 + draw.below(length)
            document.append([FIRST_WORD + draw.below(VOCABULARY - SENTINELS - FIRST_WORD) for _ in range(n)])
        documents.append(document)
    return documents


# ---- the map ----


class Words:
    """std::mt19937 and std::mt19937_64."""

    def __init__(self, seed):
        self.narrow = numpy.random.RandomState(seed)

    def u32(self):
        return int(self.narrow.randint(0, 2**32, dtype=numpy.uint32))


class Words64:
    def __init__(self, seed):
        self.x = [seed & (2**64 - 1)]
        for i in range(1, 312):
            before = self.x[-1]
            self.x.append((6364136223846793005 * (before ^ (before >> 62)) + i) & (2**64 - 1))
        self.at = 312

    def u64(self):
        if self.at == 312:
            x = self.x
            for i in range(312):
                y = (x[i] >> 31 << 31) | (x[(i + 1) % 312] & 0x7FFFFFFF)
                x[i] = x[(i + 156) % 312] ^ (y >> 1) ^ (0xB5026F5AA96619E9 if y & 1 else 0)
            self.at = 0
        y = self.x[self.at]
        self.at += 1
        y ^= (y >> 29) & 0x5555555555555555
        y ^= (y << 17) & 0x71D67FFFEDA60000
        y ^= (y << 37) & 0xFFF7EEE000000000
        return y ^ (y >> 43)


def make_map(documents, longest, least, short, seed, wanted):
    words = Words(seed)
    one_in = int(1 / short + 0.5) if short > 0 else 0

    def target():
        if one_in == 0:
            return longest
        u = words.u32()
        return 2 + u % (longest - 1) if u % one_in == 0 else longest

    rows = []
    while len(rows) < wanted:
        sentence = 0
        for document in documents:
            begin, end = sentence, sentence + len(document)
            sentence = end
            if len(document) < least or (len(document) > 1 and max(map(len, document)) > 512):
                continue
            goal, size, first = target(), 0, begin
            for i in range(begin, end):
                size += len(document[i - begin])
                left = end - 1 - i
                if left == 0 or (size >= goal and left > 1 and i + 1 - first >= least):
                    rows.append((first, i + 1, goal))
                    goal, size, first = target(), 0, i + 1
        assert rows, "no document gives a sample"
    rng = Words64(seed + 1)
    for i in range(len(rows) - 1, 0, -1):
        j = rng.u64() % (i + 1)
        rows[i], rows[j] = rows[j], rows[i]
    return rows


# ---- masking ----


def mask_tokens(rng, tokens, probability, most, longest_group, is_t5):
    candidates = []
    for i, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        if candidates and not begins_word(token):
            candidates[-1].append(i)
        else:
            candidates.append([i])
    number = min(most, max(1, int(round(len(tokens) * probability))))
    weights = 1.0 / numpy.arange(1, longest_group + 1)
    weights /= weights.sum()
    groups = [[candidates[i : i + n] for n in range(1, longest_group + 1)] for i in range(len(candidates))]
    rng.shuffle(groups)
    out, taken, spans = list(tokens), {}, []
    for sets in groups:
        if len(taken) >= number:
            break
        if is_t5:
            n = min(int(rng.geometric(0.2)), longest_group)
        else:
            n = int(rng.choice(numpy.arange(1, longest_group + 1), p=weights / weights.sum()))
        indices = sum(sets[n - 1], [])
        while len(taken) + len(indices) > number and n > 1:
            n -= 1
            indices = sum(sets[n - 1], [])
        if len(taken) + len(indices) > number or any(i in taken for i in indices):
            continue
        for i in indices:
            taken[i] = tokens[i]
            if is_t5 or rng.random_sample() < 0.8:
                out[i] = MASK
            elif rng.random_sample() >= 0.5:
                out[i] = int(rng.randint(0, VOCABULARY))
        spans.append(indices)
    return out, taken, sorted(spans)


# ---- samples ----


def cut(rng, a, b, most):
    was_long = len(a) + len(b) > most
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        if rng.random_sample() < 0.5:
            del longer[0]
        else:
            longer.pop()
    return was_long


def document_of(documents, sentence):
    for number, document in enumerate(documents):
        if sentence < len(document):
            return number
        sentence -= len(document)
    raise ValueError


def bert_sample(case, documents, sentences, rows, index):
    rng = numpy.random.RandomState((case["seed"] + index) % 2**32)
    first, end, target = rows[index]
    part = sentences[first:end]
    b, is_random = [], False
    if case["head"]:
        n = int(rng.randint(1, len(part))) if len(part) >= 3 else 1
        a, b = sum(part[:n], []), sum(part[n:], [])
        if rng.random_sample() < 0.5:
            if not case["nsp"]:
                is_random, a, b = True, b, a
            else:
                for _ in range(10):
                    other = rows[int(rng.randint(0, len(rows)))] if len(rows) > 1 else rows[0]
                    if document_of(documents, other[0]) != document_of(documents, first):
                        is_random, b = True, sum(sentences[other[0] : other[1]], [])
                        break
    else:
        a = sum(part, [])
    truncated = cut(rng, a, b, target)
    tokens = [CLS] + a + [SEP] + (b + [SEP] if b else [])
    types = [0] * (len(a) + 2) + ([1] * (len(b) + 1) if b else [])
    masked, taken, _ = mask_tokens(rng, tokens, case["prob"], case["prob"] * target, 3, False)
    length = case["seq"]
    pads = length - len(tokens)
    labels = [taken.get(i, -1) for i in range(length)]
    return {
        "facts": [int(is_random), int(truncated), len(tokens), len(tokens)],
        "arrays": [
            masked + [PAD] * pads,
            types + [PAD] * pads,
            [1] * len(tokens) + [0] * pads,
            labels,
            [int(i in taken) for i in range(length)],
        ],
    }


def t5_sample(case, documents, sentences, rows, index):
    rng = numpy.random.RandomState((case["seed"] + index) % 2**32)
    first, end, target = rows[index]
    tokens = sum(sentences[first:end], [])
    truncated = len(tokens) > target
    tokens = tokens[:target]
    _, _, spans = mask_tokens(rng, tokens, case["prob"], case["prob"] * target, 10, True)
    encoder, decoder, labels, at = [], [BOS], [], 0
    for number, span in enumerate(spans):
        sentinel = VOCABULARY - SENTINELS + number
        encoder += tokens[at : span[0]] + [sentinel]
        decoder += [sentinel] + [tokens[i] for i in span]
        labels += [sentinel] + [tokens[i] for i in span]
        at = span[-1] + 1
    encoder += tokens[at:]
    labels += [EOS]
    pads, pads_of_decoder = case["seq"] - len(encoder), case["decoder"] - len(decoder)
    return {
        "facts": [0, int(truncated), len(encoder), len(decoder)],
        "arrays": [
            encoder + [PAD] * pads,
            decoder + [PAD] * pads_of_decoder,
            [1] * len(encoder) + [0] * pads,
            labels + [-1] * pads_of_decoder,
            [1] * len(decoder) + [0] * pads_of_decoder,
        ],
    }


# ---- the file ----


def mix(total, numbers):
    """sum of (x + 2)(2i + 1), multiplied, after what was mixed in before; modulo 2^64"""
    x = numpy.asarray(numbers, dtype=numpy.int64).astype(numpy.uint64) + numpy.uint64(2)
    weight = 2 * numpy.arange(len(x), dtype=numpy.uint64) + 1
    return (int((x * weight).sum()) + total * 0x9E3779B97F4A7C15) % 2**64


def write_case(kind, seed, data, seq, wanted, short=0.1, prob=0.15, head=1, nsp=0, decoder=0):
    case = {"seed": seed, "seq": seq, "prob": prob, "head": head, "nsp": nsp, "decoder": decoder}
    documents = make_documents(*data)
    sentences = [s for d in documents for s in d]
    is_t5 = kind == "t5"
    least = 2 if head and not is_t5 else 1
    rows = make_map(documents, seq - (2 if is_t5 else 3), least, short, seed, wanted)
    print("case", int(is_t5), seed, *data, seq, wanted, int(short * 100), int(prob * 100), head, nsp, decoder)
    print("map", len(rows), mix(0, numpy.array(rows).reshape(-1)), *numpy.array(rows[:4]).reshape(-1))
    total, count = 0, min(len(rows), SUMMED)
    for index in range(count):
        sample = (t5_sample if is_t5 else bert_sample)(case, documents, sentences, rows, index)
        for numbers in [sample["facts"]] + sample["arrays"]:
            total = mix(total, numbers)
            if index < SHOWN:
                print("numbers", *numbers)
    print("samples", count, total)


def main():
    medium, short, lone = (7, 60, 14, 30), (11, 40, 4, 6), (5, 30, 1, 70)
    for seed in (1234, 1, 4294967, 2147483647):
        write_case("bert", seed, medium, 64, 200)
        write_case("t5", seed, medium, 64, 200, decoder=64)
    write_case("bert", 1234, short, 32, 300, short=0.5)
    write_case("bert", 1234, medium, 128, 50, short=0)
    write_case("bert", 77, medium, 96, 100, prob=0.3)
    write_case("bert", 1234, medium, 64, 200, head=0)
    write_case("bert", 42, lone, 48, 60, head=0)
    write_case("bert", 1234, medium, 64, 200, nsp=1)
    write_case("bert", 9, short, 24, 500, nsp=1)
    write_case("bert", 3, (8, 1, 20, 12), 40, 40, nsp=1)
    write_case("bert", 1, short, 8, 100, short=1)
    write_case("t5", 1234, short, 32, 300, short=0.5, decoder=48)
    write_case("t5", 42, lone, 48, 60, decoder=40)
    write_case("t5", 5, medium, 160, 60, prob=0.5, decoder=170)


main()
