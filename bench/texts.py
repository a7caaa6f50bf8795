"""Tokenizing, training of tokenizers and preprocessing, against Python's libraries. Groups of bench/run.py, which hands itself over as `bench`."""
import glob
import json
import os
import statistics
import tempfile
import time


def source_files():
    """The Python standard library's sources, in a fixed order."""
    folder = os.path.dirname(os.__file__)
    return [p for p in sorted(glob.glob(os.path.join(folder, "**", "*.py"), recursive=True)) if "-packages" not in p]


def texts_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line)["text"].encode() for line in f if line.strip()]


def read_code():
    found = []
    for path in source_files():
        with open(path, "rb") as f:
            data = f.read()
        try:
            data.decode()
            found.append(data)
        except UnicodeDecodeError:
            pass
    return found


def write_documents(path, documents):
    """Length (u32) and bytes of each document: what bench_documents and the peers read."""
    with open(path, "wb") as f:
        for d in documents:
            f.write(len(d).to_bytes(4, "little") + d)


def tokenizer(bench):
    vocab = os.path.join(bench.DATA, "gpt2")
    if not os.path.exists(vocab):
        raise bench.NotMeasured(f"no {vocab}: MEGA_TEST_DATA names the folder of the shared data")
    corpus = os.path.join(bench.DATA, "corpus")
    sets = (("english", lambda: texts_of(os.path.join(corpus, "openwebtext-1000.jsonl"))),
            ("multilingual", lambda: texts_of(os.path.join(corpus, "multilingual.jsonl"))), ("code", read_code))
    for name, read in sets:
        bench.attempt([f"tokenize_{name}_mb_s"] + ([f"tokenize_{name}_of_{p}" for p in ("tiktoken", "tokenizers")]
            if name != "code" else []),
                      lambda n=name, r=read: tokenize_set(bench, n, r(), vocab))


def tokenize_set(bench, name, documents, vocab):
    size = sum(len(d) for d in documents)
    one_core = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    servers, digests = {}, {}
    with tempfile.TemporaryDirectory(dir=os.path.join(bench.ROOT, "build")) as folder:
        path = os.path.join(folder, "documents")
        write_documents(path, documents)
        try:
            servers["megalith"] = bench.server_of("documents", path, vocab, **one_core)
            for kind in ("tiktoken", "tokenizers") if name != "code" else ():
                try:
                    servers[kind] = bench.peer("text_peer.py", path, vocab, kind, **one_core)
                except bench.NotMeasured as e:
                    bench.record(f"tokenize_{name}_of_{kind}", None, "", str(e))

            def encode(kind):
                words = servers[kind].ask("encode")
                digests[kind] = words[3]
                return float(words[1])

            rounds, _ = bench.interleave([lambda k=k: encode(k) for k in servers])
        finally:
            for s in servers.values():
                s.close()
    for i, kind in enumerate(servers):
        rates = [size / r[i] / 1e6 for r in rounds]
        if kind == "megalith":
            bench.record(f"tokenize_{name}_mb_s", statistics.median(rates), "MB/s",
                f"{size / 1e6:.2f} MB, {len(documents)} documents, one core, "
                   "cold cache", rates)
        else:
            same = "same ids" if digests[kind] == digests["megalith"] else "IDS DIFFER"
            bench.record(f"tokenize_{name}_of_{kind}", statistics.median([r[i] / r[0] for r in rounds]), "",
                   f"{kind} {statistics.median(rates):.2f} MB/s, {same}", [r[i] / r[0] for r in rounds])


def train_tokenizer(bench):
    with tempfile.TemporaryDirectory(dir=os.path.join(bench.ROOT, "build")) as folder:
        path = os.path.join(folder, "text.txt")
        with open(path, "wb") as f:
            for name in ("corpus/openwebtext-1000.jsonl", "corpus/multilingual.jsonl"):
                for text in texts_of(os.path.join(bench.DATA, name)):
                    f.write(text + b"\n")
            for name in ("shakespeare/tinyshakespeare.txt", "wikitext-2/valid.txt", "wikitext-2/test.txt",
                "wikitext-103/wiki.test.tokens",
                         "lambada/lambada_test.jsonl", "race/race-dev.txt", "nli/snlisample_dev.tsv",
                             "nli/snlisample_test.tsv"):
                if os.path.exists(os.path.join(bench.DATA, name)):
                    with open(os.path.join(bench.DATA, name), "rb") as source:
                        f.write(source.read().decode(errors="ignore").encode() + b"\n")
            for data in read_code():
                f.write(data + b"\n")
        threads = {"RAYON_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
        theirs = bench.peer("text_peer.py", path, "16000", "train", **threads)

        def mine():
            start = time.perf_counter()
            bench.command_run([bench.MEGALITH, "train_tokenizer", "--input", path, "--vocab-size", "16000", "--output",
                os.path.join(folder, "mine")])
            return time.perf_counter() - start

        try:
            rounds, _ = bench.interleave([mine, lambda: theirs.number("train")])
        finally:
            theirs.close()
        ratios = [r[1] / r[0] for r in rounds]
        bench.record("train_tokenizer_of_tokenizers", statistics.median(ratios), "",
            f"{os.path.getsize(path) / 1e6:.1f} MB: ours "
               f"{statistics.median([r[0] for r in rounds]):.2f} s with start-up, tokenizers {statistics.median([r[1] for r in rounds]):.2f} s",
               ratios)


def preprocess(bench):
    source = os.path.join(bench.DATA, "corpus/openwebtext-1000.jsonl")
    if not os.path.exists(source):
        raise bench.NotMeasured(f"no {source}")
    core = str(min(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(dir=os.path.join(bench.ROOT, "build")) as folder:
        one = os.path.join(folder, "one.jsonl")
        with open(source, encoding="utf-8") as f, open(one, "w", encoding="utf-8") as g:
            g.write(f.readline())

        def run(path):
            start = time.perf_counter()
            bench.command_run(["taskset", "-c", core, bench.MEGALITH, "preprocess_data", "--input", path,
                "--append-eod", "--workers", "1",
                         "--output-prefix", os.path.join(folder, "out"), *bench.vocabulary()])
            return time.perf_counter() - start

        theirs = None
        try:
            theirs = bench.peer("text_peer.py", source, os.path.join(bench.DATA, "gpt2"), "preprocess",
                RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        except bench.NotMeasured as e:
            bench.record("preprocess_of_python", None, "", str(e))
        try:
            rounds, _ = bench.interleave([lambda: run(one), lambda: run(source)]
                + ([lambda: theirs.number("preprocess")] if theirs else []))
        finally:
            if theirs:
                theirs.close()
    size = os.path.getsize(source) / 1e6
    start_up = statistics.median([r[0] for r in rounds])
    seconds = [r[1] - start_up for r in rounds]
    if min(seconds) <= 0:
        raise bench.NotMeasured("the machine was not quiet: a whole run took less than start-up alone")
    bench.record("preprocess_start_s", start_up, "s", "one document", [r[0] for r in rounds])
    bench.record("preprocess_mb_s", size / statistics.median(seconds), "MB/s",
        f"{size:.2f} MB of JSON lines, one worker on one core, start-up "
           "taken off", [size / s for s in seconds])
    if theirs:
        ratios = [r[2] / s for r, s in zip(rounds, seconds)]
        bench.record("preprocess_of_python", statistics.median(ratios), "",
            f"Python loop {size / statistics.median([r[2] for r in rounds]):.2f} "
               "MB/s", ratios)


def groups(bench):
    return {"tokenizer": (lambda: tokenizer(bench), []),
            "train_tokenizer": (lambda: train_tokenizer(bench), ["train_tokenizer_of_tokenizers"]),
            "preprocess": (lambda: preprocess(bench), ["preprocess_mb_s", "preprocess_of_python"])}
