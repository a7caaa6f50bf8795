#!/usr/bin/env python3
"""Writes src/text/models/bert_table.c: the characters that BERT's steps of the PyPI package tokenizers treat otherwise than their
category in src/text/unicode/categories.txt says, because it has the categories of Unicode 8:

    tools/make_bert_table.py > src/text/models/bert_table.c
"""
import os
import re

import tokenizers
from tokenizers import normalizers, pre_tokenizers

DROP, PUNCTUATION, MARK = 1, 64, 128
clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
split = pre_tokenizers.BertPreTokenizer()


def ours():
    here = os.path.dirname(os.path.abspath(__file__))
    text = open(os.path.join(here, "../src/text/unicode/categories.txt"), encoding="utf-8").read()
    ranges = [(int(cp, 16), name) for cp, name in re.findall(r"\b([0-9A-F]{4,6}) ([A-Z][a-z])\b", text)]
    for (first, name), (after, _) in zip(ranges, ranges[1:] + [(0x110000, "")]):
        kind = DROP if name in ("Cc", "Cf", "Co") else MARK if name == "Mn" else PUNCTUATION if name[0] == "P" else 0
        for c in range(first, after):
            yield c, name, kind


def theirs(c):
    text = "a" + chr(c) + "b"
    if clean.normalize_str(text) == "ab":
        return DROP
    if strip.normalize_str(text) == "ab":
        return MARK
    return PUNCTUATION if len(split.pre_tokenize_str(text)) == 3 else 0


def main():
    rows = []
    for c, name, kind in ours():
        if c < 128 or name in ("Cs", "Zs", "Zl", "Zp") or c in (0x85, 0xFFFD) or name == "Cn":
            continue
        found = theirs(c)
        if found == kind:
            continue
        if rows and rows[-1][0] + rows[-1][1] == c and rows[-1][2] == found:
            rows[-1][1] += 1
        else:
            rows.append([c, 1, found])
    print(f"/* Made by tools/make_bert_table.py with tokenizers {tokenizers.__version__}; do not edit. */")
    print('#include "bert.h"\n\n/* clang-format off */\nconst mega_bert_exception mega_bert_exceptions[] = {')
    for i in range(0, len(rows), 6):
        print("    " + " ".join(f"{{0x{c:X}, {n}, {k}}}," for c, n, k in rows[i:i + 6]))
    print(f"}};\n/* clang-format on */\nconst int mega_bert_exceptions_count = {len(rows)};")


main()
