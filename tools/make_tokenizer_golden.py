#!/usr/bin/env python3
"""Writes tests/golden/tokenizer.txt: for each text file, how many ids it has and the FNV-1a hash of them (int32, little
endian), as Hugging Face `tokenizers` gives them with special tokens taken as text; for the GPT-2 vocabulary checked against
`tiktoken` as well.

usage: tools/make_tokenizer_golden.py DATA > tests/golden/tokenizer.txt     (DATA: the folder of shared data)
"""
import json
import os
import sys

import numpy as np
import tiktoken
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers

FILES = """corpus/multilingual.jsonl corpus/openwebtext-1000.jsonl shakespeare/tinyshakespeare.txt wikitext-2/test.txt
wikitext-2/valid.txt wikitext-103/wiki.test.tokens lambada/lambada_test.jsonl race/race-dev.txt race/expmrc-race-dev.json
nli/snlisample_train.tsv unicode/blns.txt unicode/blns.json unicode/UTF-8-demo.txt unicode/UnicodeData.txt
unicode/NormalizationTest.txt unicode/GraphemeBreakTest.txt unicode/CaseFolding.txt gpt2/merges.txt bert/vocab-cased.txt
megatron-indexed/gpt2-tiny-vocab.json""".split()
VOCABULARIES = [("gpt2/vocab.json", "gpt2/merges.txt"),
                ("megatron-indexed/gpt2-tiny-vocab.json", "megatron-indexed/gpt2-tiny-merges.txt")]


def fnv1a(data):
    h = 14695981039346656037
    for byte in data:
        h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return h


def symbol_bytes():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(rest)}


def other_opinion(vocab_file):
    back = symbol_bytes()
    vocab = json.load(open(vocab_file, encoding="utf-8"))
    ranks = {bytes(back[c] for c in key): i for key, i in vocab.items() if key != "<|endoftext|>"}
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def main():
    data = sys.argv[1]
    print(f"# tools/make_tokenizer_golden.py, tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}")
    print("# vocab merges file ids hash")
    for vocab, merges in VOCABULARIES:
        t = Tokenizer(models.BPE.from_file(os.path.join(data, vocab), os.path.join(data, merges)))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        second = other_opinion(os.path.join(data, vocab)) if vocab.startswith("gpt2/") else None
        for name in FILES:
            text = open(os.path.join(data, name), encoding="utf-8", newline="").read()
            ids = np.array(t.encode(text).ids, dtype="<i4")
            if second is not None:
                assert second.encode_ordinary(text) == ids.tolist(), name
            print(vocab, merges, name, len(ids), f"{fnv1a(ids.tobytes()):016x}", flush=True)


main()
