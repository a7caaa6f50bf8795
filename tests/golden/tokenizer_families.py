"""Compares `megalith` with tokenizers, sentencepiece and tiktoken: ids and texts of small tokenizers of every kind, which
tools/make_tokenizers.py makes. Run by test_tokenizer_families.sh in an empty folder; argv: the program, the source folder,
and files of JSON lines whose texts are compared besides the random ones."""
import json
import os
import random
import shutil
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
    likely = ["'s", "'S", "'re", "'LL", "'", "''", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "the", "The",
        "HTTPServer", "7", "42", "12345",
              "!", "?!", "_", "(", ")", "/", "-", "--", "\u00a0", "\u3000", "é", "e\u0301", "ﬁ", "Å", "日本", "東京",
                  "\u0301", "٣", "²", "😀", "👨\u200d👩", "<|endoftext|>",
              "<|im_start|>", "<s>", "</s>", "<mask>", "<right>", "word", "<unk>", "<start_of_turn>", "<sep>", "abc",
                  "\u2028", "\ufffd", "\0", "▁", "▁▁", "ſ",
              "ı", "İ", "한국", "각", "ß", "Ω", "\u200b", "\u0085", "<0x41>", "<EOD>", "<extra_id_1>", "<SPECIAL_9>",
                  "\ufb01", "１２", "x", "xx", "ll"]
    known = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000
        and unicodedata.category(chr(c)) not in ("Cn", "Co")]
    # their normal forms are those of Unicode 12
    forms = [(form, getattr(normalizers, form)()) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    known = [c for c in known if all(n.normalize_str(c) == unicodedata.normalize(form, c) for form, n in forms)]
    strip = normalizers.StripAccents()
    known = [c for c in known if (strip.normalize_str("a" + c) == "a") == (unicodedata.category(c)[0] == "M")]
    latin = [chr(c) for c in range(32, 0x250)]
    out = []
    for i in range(count):
        wide = known if i % 4 == 0 else latin
        out.append("".join(rng.choice(likely) if rng.random() < 0.75 else rng.choice(wide)
            for _ in range(rng.randint(1, 24))))
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
        check(f"{name}: decoding", shown == wanted,
            f"{shown!r}, expected {wanted!r}: {theirs[i]}") if shown != wanted else None


def megatron_ids(model, extra):
    """SentencePieceTokenizer of Megatron-LM: special tokens of its own, found in the text before it is encoded."""
    own = {}

    def add(token):
        own[token] = model.piece_to_id(token) if model.piece_to_id(
            token) != model.unk_id() or token == "<unk>" else model.get_piece_size() + added[0]
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


class BertWordPiece:
    """Megatron-LM's BertWordPieceLowerCase and BertWordPieceCase, by the rules that its documentation and users state."""

    def __init__(self, path, lower):
        self.lower, self.ids = lower, {}
        for i, line in enumerate(open(path, encoding="utf-8")):
            self.ids[line.strip()] = i
        self.tokens = {i: t for t, i in self.ids.items()}

    @staticmethod
    def chinese(c):
        return any(a <= ord(c) <= b for a, b in [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF),
            (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
                                                 (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)])

    @staticmethod
    def punctuation(c):
        return 33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(
            c) <= 126 or unicodedata.category(c)[0] == "P"

    def words(self, text):
        clean = ""
        for c in text:
            if c in "\t\n\r" or unicodedata.category(c) == "Zs":
                clean += " "
            elif c not in "\0\ufffd" and unicodedata.category(c) not in ("Cc", "Cf"):
                clean += f" {c} " if self.chinese(c) else c
        for word in clean.split():
            if self.lower:
                word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
            yield from "".join(f" {c} " if self.punctuation(c) else c for c in word).split()

    def encode(self, text):
        ids = []
        for word in self.words(text):
            parts, at = [], 0
            while at < len(word) <= 200:
                end = next((e for e in range(len(word), at, -1) if ("##" if at else "") + word[at:e] in self.ids), None)
                if end is None:
                    break
                parts.append(self.ids[("##" if at else "") + word[at:end]])
                at = end
            ids += parts if at == len(word) else [self.ids["[UNK]"]]
        return ids

    def decode(self, ids):
        text = " ".join(self.tokens[i] for i in ids).replace(" ##", "").strip()
        for a, b in [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
            (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")]:
            text = text.replace(a, b)
        return text


def compare_bert(name, path, texts):
    for kind, lower in [("BertWordPieceLowerCase", True), ("BertWordPieceCase", False)]:
        theirs = BertWordPiece(path, lower)
        compare(f"{name}-{kind}", ["--tokenizer-type", kind, "--vocab-file", path], texts, lambda x,
            t=theirs: [t.encode(s) for s in x], theirs.decode)


def shared_vocabularies(folder, only, texts):
    """Those that were published, where the shared data is there."""
    for name in ["uncased", "cased"]:
        path = f"{folder}/bert/tokenizer-{name}.json"
        if only in f"shared-bert-{name}" and os.path.exists(path):
            t = Tokenizer.from_file(path)
            compare(f"shared-bert-{name}", ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", path],
                texts,
                    lambda x, t=t: [e.ids for e in t.encode_batch(x)], lambda ids,
                        t=t: t.decode(ids, skip_special_tokens=False))
            compare_bert(f"shared-bert-{name}", f"{folder}/bert/vocab-{name}.txt", texts)
    for name in ["t5/spiece-fr", "sentencepiece/test_model", "sentencepiece/test_ja_model"]:
        path = f"{folder}/{name}.model"
        if only in "shared-" + name and os.path.exists(path):
            model = sentencepiece.SentencePieceProcessor(model_file=path)
            compare("shared-" + name.replace("/", "-"),
                ["--tokenizer-model", path, "--tokenizer-type", "GPTSentencePieceTokenizer"], texts,
                    model.encode_as_ids,
                    model.decode_ids)


def compare_folders(only, texts):
    """Folders of `transformers` with a SentencePiece model and no tokenizer.json."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer
    for name, model, file, config in [("t5", "sp-t5", "spiece.model",
        {"tokenizer_class": "T5Tokenizer", "extra_ids": 7}),
                                      ("xlmr", "sp-unigram", "sentencepiece.bpe.model",
                                          {"tokenizer_class": "XLMRobertaTokenizer"})]:
        folder = "folder-" + name
        if only not in folder:
            continue
        os.makedirs(folder, exist_ok=True)
        shutil.copy(f"kinds/{model}/tokenizer.model", f"{folder}/{file}")
        json.dump(config, open(folder + "/tokenizer_config.json", "w"))
        t = AutoTokenizer.from_pretrained(folder)
        compare(folder, ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder], texts, lambda x,
            t=t: [t.encode(s) for s in x],
                lambda ids, t=t: t.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


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
                lambda x, t=t: [e.ids for e in t.encode_batch(x)], lambda ids,
                    t=t: t.decode(ids, skip_special_tokens=False))
    if only in "bert-vocab":
        compare_bert("bert", "kinds/bert-vocab/vocab.txt", texts)
        t = Tokenizer.from_file("kinds/bert/tokenizer.json")
        compare("bert-vocab", ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", "kinds/bert-vocab"],
            texts, lambda x: [e.ids for e in t.encode_batch(x)])
    compare_folders(only, texts)
    shared_vocabularies(os.environ.get("MEGA_TEST_DATA", SOURCE + "/../shared/data"), only, texts)
    for name in ["sp-llama", "sp-nfkc", "sp-user", "sp-crossing", "sp-unigram", "sp-unigram-bytes",
        "sp-unigram-crossing"]:
        if only not in name:
            continue
        path = os.path.join("kinds", name, "tokenizer.model")
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        options = ["--tokenizer-model", path, "--tokenizer-type"]
        compare(name, [*options, "GPTSentencePieceTokenizer"], texts, model.encode_as_ids, model.decode_ids)
        compare(name + "-llama2", [*options, "Llama2Tokenizer"], texts, lambda x,
            m=model: [[m.bos_id(), *ids] for ids in m.encode_as_ids(x)])
        own = megatron_ids(model, 3)
        compare(name + "-own", [*options, "SentencePieceTokenizer", "--vocab-extra-ids", "3"], texts, lambda x,
            f=own: [f(t) for t in x])
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
        compare("tiktoken-" + version, ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path,
            "--tiktoken-pattern", version,
                                        "--tiktoken-num-special-tokens", str(special), "--vocab-size",
                                            str(len(rows) + special)], texts,
                lambda x, t=t: [t.encode(s, allowed_special="all") for s in x], t.decode)


main()
