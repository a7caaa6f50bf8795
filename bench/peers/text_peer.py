#!/usr/bin/env python3
"""`tokenizers` and `tiktoken` on the documents that bench_documents encodes, and on what megalith trains and preprocesses.

usage: text_peer.py DOCUMENTS VOCAB tiktoken|tokenizers    "encode" -> "seconds S ids H"
       text_peer.py TEXT SIZE train                        "train" -> "seconds S"
       text_peer.py JSONL VOCAB preprocess                 "preprocess" -> "seconds S": the loop that Megatron's tool is
"""
import hashlib
import json
import os
import struct
import sys
import tempfile
import time

import numpy as np


def documents(path):
    with open(path, "rb") as f:
        data = f.read()
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4:at + 4 + length].decode())
        at += 4 + length
    return found


def letters_of_bytes():
    """GPT-2's printable letter of each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    for b in range(256):
        table.setdefault(b, chr(256 + len(table) - len(plain)))
    return table


def make_tiktoken(folder):
    import tiktoken
    byte_of = {c: b for b, c in letters_of_bytes().items()}
    with open(os.path.join(folder, "vocab.json"), encoding="utf-8") as f:
        vocab = json.load(f)
    end = "<|endoftext|>"
    ranks = {bytes(byte_of[c] for c in token): i for token, i in vocab.items() if token != end}
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
    return tiktoken.Encoding("gpt2-of-the-bench", pat_str=pattern, mergeable_ranks=ranks,
        special_tokens={end: vocab[end]})


def make_tokenizers(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    t = Tokenizer(models.BPE.from_file(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt")))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def encoder(path, folder, kind):
    texts = documents(path)
    if kind == "tiktoken":
        t = make_tiktoken(folder)
        one = t.encode_ordinary
    else:
        def one(text):
            return t.encode(text, add_special_tokens=False).ids

    def run():
        nonlocal t
        if kind == "tokenizers":
            t = make_tokenizers(folder)  # its word cache is empty again
        start = time.perf_counter()
        ids = [one(text) for text in texts]
        seconds = time.perf_counter() - start
        flat = np.fromiter((i for d in ids for i in d), dtype=np.int32)
        return f"seconds {seconds:.9g} ids {hashlib.sha256(flat.tobytes()).hexdigest()[:16]}"

    if kind == "tokenizers":
        t = None
    return run


def trainer(path, size):
    from tokenizers import ByteLevelBPETokenizer

    def run():
        start = time.perf_counter()
        ByteLevelBPETokenizer().train([path], vocab_size=int(size), show_progress=False)
        return f"seconds {time.perf_counter() - start:.9g}"
    return run


def preprocessor(path, folder):
    t = make_tokenizers(folder)

    def run():
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as out, open(path, encoding="utf-8") as source:
            with open(os.path.join(out, "out.bin"), "wb") as target:
                sizes = []
                for line in source:
                    ids = np.array(t.encode(json.loads(line)["text"], add_special_tokens=False).ids + [50256],
                        dtype=np.uint16)
                    target.write(ids.tobytes(order="C"))
                    sizes.append(len(ids))
            np.array(sizes, dtype=np.int32).tofile(os.path.join(out, "out.idx"))
        return f"seconds {time.perf_counter() - start:.9g}"
    return run


first, second, how = sys.argv[1:4]
run = trainer(first, second) if how == "train" else preprocessor(first,
    second) if how == "preprocess" else encoder(first, second, how)
print("ready", flush=True)
for line in sys.stdin:
    if line == "quit\n":
        break
    print(run(), flush=True)
