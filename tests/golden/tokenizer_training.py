"""Trains WordPiece and Unigram vocabularies with `megalith` and with tokenizers and sentencepiece on the same text, and compares
the bits a character of held-out text: each token costs the logarithm of how often it occurs in the training text. Run by
test_tokenizer_training.sh in an empty folder; argv: the program and the source folder. MEGA_TRAINING_BYTES: how much text
(600,000), MEGA_TRAINING_VOCABULARY: how many tokens (2,000)."""
import collections
import filecmp
import glob
import io
import json
import math
import os
import subprocess
import sys
import time

import sentencepiece
from tokenizers import BertWordPieceTokenizer, Tokenizer

PROGRAM, SOURCE = sys.argv[1:3]
BYTES = int(os.environ.get("MEGA_TRAINING_BYTES", "600000"))
SIZE = int(os.environ.get("MEGA_TRAINING_VOCABULARY", "2000"))
MOST = 1.01  # times the peer's bits
failures = 0


def check(what, ok, detail=""):
    global failures
    print("ok    " if ok else "FAILED", what, detail)
    failures += not ok


def megalith(*arguments):
    run = subprocess.run([PROGRAM, *arguments], capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(f"megalith {' '.join(arguments)}: {run.stderr.decode()}")
    return run.stdout.decode()


def documents():
    """Real text where it is there, else our own pages."""
    path = os.path.join(os.environ.get("MEGA_TEST_DATA", SOURCE + "/../shared/data"), "corpus/openwebtext-1000.jsonl")
    if os.path.exists(path):
        texts = [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
    else:
        texts = [open(p, encoding="utf-8").read() for p in sorted(glob.glob(SOURCE + "/docs/*.md"))]
        texts = [part for text in texts for part in text.split("\n\n")]
    texts = [" ".join(t.replace("\u2581", " ").split()) for t in texts]  # blanks alone, as both trainers see them
    held, kept, total = [], [], 0
    for i, text in enumerate(t for t in texts if t):
        if total > BYTES:
            break
        (held if i % 10 == 9 else kept).append(text)
        total += len(text.encode())
    return kept, held


def bits(encode, kept, held):
    """Bits a character, and tokens a character."""
    counts = collections.Counter(i for ids in encode(kept) for i in ids)
    total = sum(counts.values()) + SIZE
    ids = [i for one in encode(held) for i in one]
    characters = sum(map(len, held))
    return -sum(math.log2((counts[i] + 1) / total) for i in ids) / characters, len(ids) / characters


def compare(name, ours, theirs, kept, held):
    a, b = bits(ours, kept, held), bits(theirs, kept, held)
    check(f"{name}: bits a character", a[0] <= MOST * b[0],
          f"{a[0]:.4f}, theirs {b[0]:.4f} ({a[0] / b[0]:.4f}); tokens a character {a[1]:.4f}, theirs {b[1]:.4f}")


def timed(what):
    started = time.time()
    out = what()
    return out, time.time() - started


def learn(kind, folder):
    """Trains with one and with three threads: the same files. Returns the seconds with two."""
    options = ["train_tokenizer", "--input", "kept.jsonl", "--tokenizer-type", kind, "--vocab-size", str(SIZE),
        "--output"]
    seconds = timed(lambda: megalith(*options, folder, "--workers", "2"))[1]
    for workers in ["1", "3"]:
        again = f"{folder}-{workers}"
        megalith(*options, again, "--workers", workers)
        names = sorted(os.listdir(folder))
        same = names == sorted(os.listdir(again)) and not any(filecmp.cmpfiles(folder, again, names, shallow=False)[1:])
        check(f"{kind}: {workers} workers", same, "" if same else f"{names}, {sorted(os.listdir(again))}")
    return seconds


def our_ids(text, *options):
    return [int(i) for i in megalith("tokenize", "--ids-only", "--text", text, *options).split()]


def wordpiece(kind, lower, kept, held):
    seconds = learn(kind, kind)
    ours = Tokenizer.from_file(kind + "/tokenizer.json")
    lines = open(kind + "/vocab.txt", encoding="utf-8").read().split("\n")[:-1]
    vocabulary = ours.get_vocab()
    check(f"{kind}: vocab.txt and tokenizer.json", len(lines) == len(vocabulary) <= SIZE
        and all(vocabulary[t] == i for i, t in enumerate(lines)))
    peer = BertWordPieceTokenizer(lowercase=lower)
    theirs = timed(lambda: peer.train_from_iterator(kept, vocab_size=SIZE, show_progress=False))[1]
    print(f"       {kind}: {seconds:.2f} s with two threads, tokenizers {theirs:.2f} s")
    check(f"{kind}: tokens", len(lines) == peer.get_vocab_size(), f"{len(lines)}, theirs {peer.get_vocab_size()}")
    common = len(set(lines) & set(peer.get_vocab()))
    check(f"{kind}: tokens of both", common >= 0.97 * len(lines), f"{common} of {len(lines)}")

    def encode(t):
        return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]
    compare(kind, encode(ours), encode(peer), kept, held)
    for text in held[:5]:
        ids = our_ids(text[:500], "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", kind)
        check(f"{kind}: ids of tokenizer.json", ids == ours.encode(text[:500]).ids)


def unigram(kept, held):
    kind = "SentencePieceTokenizer"
    seconds = learn(kind, kind)
    ours = sentencepiece.SentencePieceProcessor(model_file=kind + "/tokenizer.model")
    model = io.BytesIO()
    theirs = timed(lambda: sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(kept), model_writer=model, vocab_size=SIZE, model_type="unigram",
            normalization_rule_name="identity", pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, max_sentence_length=1 << 24, num_threads=2, minloglevel=2))[1]
    print(f"       {kind}: {seconds:.2f} s with two threads, sentencepiece {theirs:.2f} s")
    peer = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    check("Unigram: pieces", ours.get_piece_size() == peer.get_piece_size() == SIZE,
        f"{ours.get_piece_size()}, theirs {peer.get_piece_size()}")
    pieces = [{m.id_to_piece(i) for i in range(m.get_piece_size())} for m in (ours, peer)]
    print(f"       Unigram: {len(pieces[0] & pieces[1])} of {SIZE} pieces of both")
    compare("Unigram", ours.encode_as_ids, peer.encode_as_ids, kept, held)
    json_form = Tokenizer.from_file(kind + "/tokenizer.json")
    for text in held[:5] + [" a\tb\r\n\r\nc ", "x\u00e9y \U0001F600"]:
        text = text[:500]
        wanted = ours.encode_as_ids(text)
        check("Unigram: ids of tokenizer.model", our_ids(text, "--tokenizer-type", "GPTSentencePieceTokenizer",
            "--tokenizer-model", kind + "/tokenizer.model") == wanted)
        check("Unigram: tokenizer.json as tokenizers",
            our_ids(text, "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model",
                kind) == json_form.encode(text).ids)
        if "\U0001F600" not in text:
            check("Unigram: both files", json_form.encode(text).ids == wanted + [1])


def main():
    kept, held = documents()
    with open("kept.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in kept)
    print(f"{sum(len(t.encode()) for t in kept)} bytes of text, {sum(len(t.encode()) for t in held)} held out, {SIZE} tokens")
    wordpiece("BertWordPieceLowerCase", True, kept, held)
    wordpiece("BertWordPieceCase", False, kept, held)
    unigram(kept, held)
    sys.exit(1 if failures else 0)


main()
