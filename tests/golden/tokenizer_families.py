"""Compares `megalith` with tokenizers, sentencepiece and tiktoken: ids and texts of small tokenizers of every kind, which
tools/make_tokenizers.py makes. Run by test_tokenizer_families.sh in an empty folder; argv: the program, the source folder,
and files of JSON lines whose texts are compared besides the random ones."""
import json
import os
import random
import struct
import subprocess
import sys
import unicodedata

import sentencepiece
import tiktoken
from tokenizers import Tokenizer, normalizers

PROGRAM, SOURCE, FILES = sys.argv[1], sys.argv[2], sys.argv[3:]
STRINGS = int(os.environ.get("MEGA_STRINGS", "10000"))
failures = 0


def check(what, ok, detail=""):
    global failures
    print("ok    " if ok else "FAILED", what, "" if ok else detail)
    failures += not ok


def megalith(*arguments):
    run = subprocess.run([PROGRAM, *arguments], capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(f"megalith {' '.join(arguments)}: {run.stderr.decode()}")
    return run.stdout


def random_strings(count):
    rng = random.Random(2024)
    likely = ["'s", "'S", "'re", "'LL", "'", "''", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "the", "The", "HTTPServer", "7", "42", "12345",
              "!", "?!", "_", "(", ")", "/", "-", "--", "\u00a0", "\u3000", "é", "e\u0301", "ﬁ", "Å", "日本", "東京", "\u0301", "٣", "²", "😀", "👨\u200d👩", "<|endoftext|>",
              "<|im_start|>", "<s>", "</s>", "<mask>", "<right>", "word", "<unk>", "<start_of_turn>", "<sep>", "abc", "\u2028", "\ufffd", "\0", "▁", "▁▁", "ſ",
              "ı", "İ", "한국", "각", "ß", "Ω", "\u200b", "\u0085", "<0x41>", "<EOD>", "<extra_id_1>", "<SPECIAL_9>", "\ufb01", "１２", "x", "xx", "ll"]
    known = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")]
    # their normal forms are those of Unicode 12
    forms = [(form, getattr(normalizers, form)()) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    known = [c for c in known if all(n.normalize_str(c) == unicodedata.normalize(form, c) for form, n in forms)]
    latin = [chr(c) for c in range(32, 0x250)]
    out = []
    for i in range(count):
        wide = known if i % 4 == 0 else latin
        out.append("".join(rng.choice(likely) if rng.random() < 0.75 else rng.choice(wide) for _ in range(rng.randint(1, 24))))
    return out


def documents_of(prefix):
    """The ids of each document of a data set."""
    with open(prefix + "_text_document.idx", "rb") as f:
        index = f.read()
    assert index[:9] == b"MMIDIDX\0\0"
    code, count, documents = struct.unpack_from("<BQQ", index, 17)
    sizes = struct.unpack_from(f"<{count}i", index, 34)
    ends = struct.unpack_from(f"<{documents}q", index, 34 + 12 * count)
    data = open(prefix + "_text_document.bin", "rb").read()
    width = {8: 2, 4: 4}[code]
    ids = struct.unpack(f"<{len(data) // width}{'H' if width == 2 else 'i'}", data)
    out, at = [], 0
    for d in range(documents - 1):
        n = sum(sizes[ends[d]:ends[d + 1]])
        out.append(list(ids[at:at + n]))
        at += n
    return out


def compare(name, options, texts, ids_of, text_of=None):
    megalith("preprocess_data", "--input", "texts.jsonl", "--output-prefix", name, "--workers", "1", *options)
    ours = documents_of(name)
    theirs = ids_of(texts)
    bad = [i for i in range(len(texts)) if ours[i] != theirs[i]]
    detail = "" if not bad else f"{len(bad)} differ; {texts[bad[0]][:200]!r}\n  ours   {ours[bad[0]][:60]}\n  theirs {theirs[bad[0]][:60]}"
    check(f"{name}: ids of {len(texts)} texts", len(ours) == len(texts) and not bad, detail)
    for i in list(range(0, 300, 12)) if text_of is not None else []:
        if not theirs[i] or bad:
            continue
        shown = megalith("tokenize", *options, "--text-only", "--ids", *map(str, theirs[i])).decode(errors="replace")
        wanted = text_of(theirs[i])
        check(f"{name}: decoding", shown == wanted, f"{shown!r}, expected {wanted!r}: {theirs[i]}") if shown != wanted else None


def megatron_ids(model, extra):
    """SentencePieceTokenizer of Megatron-LM: special tokens of its own, found in the text before it is encoded."""
    own = {}

    def add(token):
        own[token] = model.piece_to_id(token) if model.piece_to_id(token) != model.unk_id() or token == "<unk>" else model.get_piece_size() + added[0]
        added[0] += own[token] >= model.get_piece_size()

    added = [0]
    for token in ["<CLS>", "<SEP>", "<EOD>", "<MASK>"]:
        add(token)
    for number, fallback in [(model.pad_id(), "<PAD>"), (model.bos_id(), "<BOS>"), (model.eos_id(), "<EOS>")]:
        add(model.id_to_piece(number) if number >= 0 else fallback)
    for i in range(extra):
        add(f"<extra_id_{i}>")

    def encode(text):
        ids = []
        while True:
            found = [(text.index(t), t) for t in own if t in text]
            if not found:
                return ids + model.encode_as_ids(text)
            at, token = min(found)
            ids += model.encode_as_ids(text[:at]) + [own[token]]
            text = text[at + len(token):]
    return encode


def main():
    subprocess.run([sys.executable, os.path.join(SOURCE, "tools/make_tokenizers.py"), "kinds"], check=True)
    texts = random_strings(STRINGS)
    for path in FILES:
        texts += [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
    with open("texts.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
    only = os.environ.get("MEGA_ONLY", "")
    for name in sorted(os.listdir("kinds")):
        folder = os.path.join("kinds", name)
        if only not in name or not os.path.exists(os.path.join(folder, "tokenizer.json")):
            continue
        t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        compare(name, ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder], texts,
                lambda x, t=t: [e.ids for e in t.encode_batch(x)], lambda ids, t=t: t.decode(ids, skip_special_tokens=False))
    for name in ["sp-llama", "sp-nfkc", "sp-user", "sp-crossing"]:
        if only not in name:
            continue
        path = os.path.join("kinds", name, "tokenizer.model")
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        options = ["--tokenizer-model", path, "--tokenizer-type"]
        compare(name, [*options, "GPTSentencePieceTokenizer"], texts, model.encode_as_ids, model.decode_ids)
        compare(name + "-llama2", [*options, "Llama2Tokenizer"], texts, lambda x, m=model: [[m.bos_id(), *ids] for ids in m.encode_as_ids(x)])
        own = megatron_ids(model, 3)
        compare(name + "-own", [*options, "SentencePieceTokenizer", "--vocab-extra-ids", "3"], texts, lambda x, f=own: [f(t) for t in x])
    if only in "tiktoken":
        tiktokens("kinds/tiktoken/tiktoken.json", texts)
    sys.exit(1 if failures else 0)


def tiktokens(path, texts):
    import base64
    rows = json.load(open(path, encoding="utf-8"))
    special = 20
    names = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"]
    names += [f"<SPECIAL_{i}>" for i in range(len(names), special)]
    patterns = {
        "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        "v2": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
              r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    }
    for version, pattern in patterns.items():
        t = tiktoken.Encoding("x", pat_str=pattern, special_tokens={n: i for i, n in enumerate(names)},
                              mergeable_ranks={base64.b64decode(r["token_bytes"]): r["rank"] + special for r in rows})
        compare("tiktoken-" + version, ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path, "--tiktoken-pattern", version,
                                        "--tiktoken-num-special-tokens", str(special), "--vocab-size", str(len(rows) + special)], texts,
                lambda x, t=t: [t.encode(s, allowed_special="all") for s in x], t.decode)


main()
