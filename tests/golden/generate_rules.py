"""Checks a generation against the rules of Megatron-LM and transformers, written here: which token is drawn from the logits
that --return-logits wrote, and the probabilities of --logprobs.

usage: generate_rules.py TEXTS.json LOGITS.safetensors [name=value ...]; names are those of the options.
"""

import json
import struct
import sys

import numpy

MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def uniform(seed, index, position):
    r = philox((index & MASK, index >> 32, position, 0), (seed, 0x53414D50))
    return ((r[0] >> 5) * 67108864.0 + (r[1] >> 6)) / 9007199254740992.0


def read_tensors(path):
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    types = {"F32": "<f4", "I64": "<i8"}
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        out[name] = numpy.frombuffer(raw[8 + size + begin : 8 + size + end], types[t["dtype"]]).reshape(t["shape"])
    return out


def draw(logits, history, index, drawn, o):
    x = logits.astype(numpy.float64)
    for i in set(history):  # once per id
        x[i] = x[i] / o["repetition_penalty"] if x[i] > 0 else x[i] * o["repetition_penalty"]
    if o["colon"] and history[-1] == ord(":"):
        x[ord("\n")] = -1e10
    if o["greedy"] or o["top_k"] == 1:
        return int(numpy.argmax(x))
    x = x / o["temperature"]
    order = numpy.lexsort((numpy.arange(len(x)), -x))
    if o["top_k"] > 0:
        order = order[x[order] >= x[order[o["top_k"] - 1]]]
    if o["top_p"] > 0:
        p = o["top_p"]
        for _ in range(drawn if o["top_p_decay"] > 0 else 0):
            p *= o["top_p_decay"]
            if o["top_p_bound"] > 0:
                p = max(p, o["top_p_bound"])
        e = numpy.exp(x[order] - x[order[0]])
        before = numpy.concatenate([[0.0], numpy.cumsum(e)[:-1]]) / e.sum()
        order = order[(before <= p) | (numpy.arange(len(order)) == 0)]
    order = order[numpy.exp(x[order] - x[order[0]]) >= o["min_p"]]
    if o["top_k"] == 0 and o["top_p"] == 0 and o["min_p"] == 0:
        order = numpy.sort(order)  # without a filter ids keep their order
    e = numpy.exp(x[order] - x.max())
    rest = uniform(o["seed"], index, len(history)) * e.sum() - numpy.cumsum(e)
    return int(order[numpy.argmax(rest < 0)])


def main():
    o = dict(temperature=1.0, top_k=0, top_p=0.0, top_p_decay=0.0, top_p_bound=0.0, min_p=0.0, repetition_penalty=1.0)
    o.update(seed=1234, greedy=0, colon=0, bos=-1)
    for pair in sys.argv[3:]:
        name, value = pair.split("=")
        o[name] = type(o[name])(value)
    tensors = read_tensors(sys.argv[2])
    texts = [json.loads(line) for line in open(sys.argv[1])]
    first = 0
    for index, text in enumerate(texts):
        mine = tensors["texts"] == index
        rows, tokens = tensors["logits"][mine], tensors["tokens"][mine].tolist()
        prompt = text["tokens"][: len(text["tokens"]) - len(tokens)]
        assert text["tokens"] == prompt + tokens and len(text["logprobs"]) == len(text["tokens"]) - 1, index
        assert o["bos"] < 0 or prompt[0] == o["bos"], prompt
        for k, row in enumerate(rows):
            history = prompt + tokens[:k]
            assert tokens[k] == draw(row, history, index, k, o), (index, k, tokens[k])
            wide = row.astype(numpy.float64)
            expected = wide[tokens[k]] - wide.max() - numpy.log(numpy.exp(wide - wide.max()).sum())
            assert abs(text["logprobs"][len(prompt) - 1 + k] - expected) < 1e-5, (index, k)
        first += len(rows)
    assert first == len(tensors["logits"]) > 0
    print("%d tokens are those of the rules" % first)


main()
