#!/usr/bin/env python3
"""Makes a small tokenizer of every kind that megalith reads, with the PyPI packages tokenizers and sentencepiece:

    tools/make_tokenizers.py FOLDER [TEXT [SIZE [TOKENIZER_JSON]]]

Each becomes a folder in FOLDER with a tokenizer.json, or a tokenizer.model, or tiktoken.json. They are trained on TEXT, or on
text made here, and have SIZE tokens (1200). With the tokenizer.json of GPT-2 there are more with its vocabulary and the
pipelines of other families, so that only these differ. Tests compare all of them with the packages; bench/tokenizers.sh
measures them."""
import base64
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SIZE = int(sys.argv[3]) if len(sys.argv) > 3 else 1200
BYTES = [f"<0x{b:02X}>" for b in range(256)]
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = GPT4.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def made_text():
    rng = random.Random(99)
    words = ["".join(rng.choice("etaoinshrdlu") for _ in range(rng.randint(1, 7))) for _ in range(600)]
    words += ["naïve", "Straße", "привет", "日本語", "東京都", "안녕", "e\u0301le\u0301gant", "don't", "we'll", "I'M", "x=1;",
        "#include", "αβγ"]
    ends = [" "] * 12 + [", ", ". ", "\n", "\n\n", "  ", "\t", " - ", "; ", "! ", "(", ") ", "'s ", "123 ", "2024-",
        "7"]
    return "".join(rng.choice(words) + rng.choice(ends) for _ in range(40000))


def byte_level(text, pre, special, normalizer=None, size=SIZE, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.decoder = decoders.ByteLevel()
    return t


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def plain_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def begin(token, t):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token} $B",
        special_tokens=[(token, t.token_to_id(token))])


def characters(text, special, fallback=True, size=SIZE, **model):
    """A model of characters, as SentencePiece's: words begin with the mark, and no merge crosses to the next word."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fallback, fuse_unk=True, **model))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator(text,
        trainers.BpeTrainer(vocab_size=size, special_tokens=special + (BYTES if fallback else []),
                                                    limit_alphabet=150, show_progress=False))
    root = json.loads(t.to_str())
    root["added_tokens"] = [a for a in root["added_tokens"] if a["content"] not in BYTES]
    root["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(root))


def fallback_decoder(strip=True):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def families(text):
    t = byte_level(text, sequence(split(GPT4), plain_bytes()), ["<|begin_of_text|>", "<|end_of_text|>"],
        ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin("<|begin_of_text|>", t)])
    yield "llama3", t, "<|end_of_text|>"

    t = byte_level(text, sequence(split(QWEN2), plain_bytes()), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        normalizers.NFC())
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "qwen2", t, "<|endoftext|>"

    digits = sequence(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "starcoder", byte_level(text, digits, ["<|endoftext|>", "<fim_prefix>"]), "<|endoftext|>"

    yield "bloom", byte_level(text, sequence(split(BLOOM), plain_bytes()), ["<unk>", "<s>", "</s>"]), "</s>"
    yield "gpt4o", byte_level(text, sequence(split(GPT4O), plain_bytes()), ["<|endoftext|>"]), "<|endoftext|>"

    many = sequence(split(r"[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
        split(r"\s+$"),
                    split("[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(individual_digits=False), plain_bytes())
    yield "sequence", byte_level(text, many, ["<s>", "</s>"]), "</s>"

    t = byte_level(text, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"], normalizers.NFC())
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    yield "neox", t, "<|endoftext|>"

    t = byte_level(text, pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True),
        AddedToken("<right>", rstrip=True, special=True)])
    t.add_tokens([AddedToken("word", single_word=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    yield "opt", t, "</s>"

    t = byte_level(text, sequence(split(" ", "removed"), split(r"[aeiou]", "merged_with_previous"),
        split("-", "merged_with_next"),
                                  split(r"\d", "contiguous"), split(r"[(\[]", "isolated", True), plain_bytes()),
                                      ["<s>"],
                   normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip(),
                       normalizers.Replace(Regex(r"x+"), "y"),
                                         normalizers.Replace("ll", "L")]))
    yield "behaviors", t, "<s>"

    special = ["<unk>", "<s>", "</s>"]
    t = characters(text, special)
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = fallback_decoder()
    t.post_processor = begin("<s>", t)
    yield "llama2", t, "</s>"

    t = characters(text, special)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = fallback_decoder()
    t.post_processor = begin("<s>", t)
    yield "mistral", t, "</s>"

    t = characters(text, ["<pad>", "<eos>", "<bos>", "<unk>"])
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = fallback_decoder(strip=False)
    t.add_special_tokens(["<start_of_turn>"])
    t.post_processor = begin("<bos>", t)
    yield "gemma", t, "<eos>"

    t = characters(text, special, fallback=False)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    yield "metaspace", t, "</s>"
    t = Tokenizer.from_str(t.to_str())
    t.normalizer = normalizers.Sequence([normalizers.Strip(left=True, right=False), normalizers.Replace("x", "")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    yield "metaspace-first", t, "</s>"


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(text, lower=True, prefix="##", size=SIZE, **normalizer):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, **normalizer)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=size, special_tokens=BERT, show_progress=False,
        limit_alphabet=150,
                                                          continuing_subword_prefix=prefix))
    t.decoder = decoders.WordPiece(prefix=prefix)
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def berts(text):
    yield "bert", wordpiece(text), "[SEP]"
    t = wordpiece(text, lower=False)
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.decoder = decoders.WordPiece(cleanup=False)
    yield "bert-cased", t, "[SEP]"
    t = wordpiece(text, prefix="@", lower=False, clean_text=False, strip_accents=True, handle_chinese_chars=False)
    root = json.loads(t.to_str())
    root["model"]["max_input_chars_per_word"] = 9
    yield "bert-odd", Tokenizer.from_str(json.dumps(root)), "[SEP]"
    t = wordpiece(text, lower=True, strip_accents=False)
    t.pre_tokenizer = sequence(pre_tokenizers.WhitespaceSplit(), split(r"[^\w]+"))
    yield "bert-white", t, "[SEP]"
    t = wordpiece(text, lower=False)
    second = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
        lowercase=True)
    t.normalizer = normalizers.Sequence([normalizers.Nmt(),
        normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=False), second])
    yield "bert-nmt", t, "[SEP]"


def unigrams(folder):
    """Models of SentencePiece in the pipelines of T5, XLM-R and ALBERT."""
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(open(os.path.join(folder, "sp-unigram", "tokenizer.model"), "rb").read())
    pieces = [(p.piece, p.score) for p in model.pieces][3:]
    precompiled = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)
    mark = pre_tokenizers.Metaspace(prepend_scheme="always")

    extra = [f"<extra_id_{i}>" for i in range(9, -1, -1)]
    t = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces + [(e, 0.0) for e in extra],
        2))
    t.normalizer, t.pre_tokenizer, t.decoder = precompiled, mark, decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens(["<pad>", "</s>", "<unk>", *extra])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
        special_tokens=[("</s>", 1)])
    yield "t5", t, "</s>"

    t = Tokenizer(models.Unigram([("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces, 3))
    t.normalizer = normalizers.Sequence([precompiled, normalizers.Strip(left=False),
        normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer, t.decoder = sequence(pre_tokenizers.WhitespaceSplit(),
        mark), decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    yield "xlmr", t, "</s>"
    t = Tokenizer.from_str(t.to_str())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), precompiled, normalizers.NFD(), precompiled])
    yield "xlmr-twice", t, "</s>"

    t = Tokenizer(models.Unigram([("<unk>", 0.0)] + pieces + [(b, -9.0) for b in BYTES], 0, True))
    t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), precompiled])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens(["<unk>"])
    yield "albert", t, "<unk>"


def like_gpt2(path):
    """The vocabulary of GPT-2 in the pipelines of others."""
    digits = sequence(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False))
    for name, pre, normalizer, ignore in [("gpt2-llama3", sequence(split(GPT4), plain_bytes()), None, True),
                                          ("gpt2-qwen2", sequence(split(QWEN2), plain_bytes()), normalizers.NFC(),
                                              False),
                                          ("gpt2-starcoder", digits, None, False),
                                              ("gpt2-gpt4o", sequence(split(GPT4O), plain_bytes()), None, False)]:
        root = json.load(open(path, encoding="utf-8"))
        root["model"]["ignore_merges"] = ignore
        t = Tokenizer.from_str(json.dumps(root))
        t.pre_tokenizer = pre
        if normalizer is not None:
            t.normalizer = normalizer
        yield name, t, "<|endoftext|>"


def sentencepieces(folder, text):
    import sentencepiece
    corpus = os.path.join(folder, "corpus.txt")
    open(corpus, "w", encoding="utf-8").write(text)
    common = dict(input=corpus, model_type="bpe", vocab_size=SIZE, minloglevel=2, num_threads=1)
    kinds = {
        "sp-llama": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                         allow_whitespace_only_pieces=True, split_digits=True, character_coverage=0.998),
        "sp-nfkc": dict(character_coverage=0.998),
        "sp-user": dict(user_defined_symbols=["<sep>", "abc", "▁▁"], add_dummy_prefix=False, byte_fallback=True,
            pad_id=3),
        "sp-crossing": dict(split_by_whitespace=False, byte_fallback=True),
        "sp-unigram": dict(model_type="unigram", hard_vocab_limit=False, character_coverage=0.998),
        "sp-t5": dict(model_type="unigram", hard_vocab_limit=False, character_coverage=0.998, pad_id=0, eos_id=1,
            unk_id=2, bos_id=-1),
        "sp-unigram-bytes": dict(model_type="unigram", hard_vocab_limit=False, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False,
                                 allow_whitespace_only_pieces=True, user_defined_symbols=["<sep>", "abc", "▁▁", "e f"]),
        "sp-unigram-crossing": dict(model_type="unigram", hard_vocab_limit=False, split_by_whitespace=False,
            normalization_rule_name="nmt_nfkc_cf", add_dummy_prefix=False,
                                    character_coverage=0.998),
    }
    for name, options in kinds.items():
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        sentencepiece.SentencePieceTrainer.train(model_prefix=os.path.join(folder, name, "tokenizer"),
            **{**common, **options})
    os.remove(corpus)


def tiktoken_json(folder, text, size=900):
    """Tokens in order of rank: the bytes, then what a byte-level BPE learns."""
    t = byte_level([text], sequence(split(GPT4O), plain_bytes()), [], size=size)
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    back = {chr(b): b for b in own}
    back.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in own)})
    learned = [bytes(back[c] for c in m[0] + m[1]) for m in map(tuple, json.loads(t.to_str())["model"]["merges"])]
    tokens = list(dict.fromkeys([bytes([b]) for b in range(256)] + learned))
    os.makedirs(os.path.join(folder, "tiktoken"), exist_ok=True)
    rows = [{"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": b.decode(errors="replace")} for i,
        b in enumerate(tokens)]
    json.dump(rows, open(os.path.join(folder, "tiktoken", "tiktoken.json"), "w"))


def bert_vocabulary(folder, t):
    """A folder of `transformers` without a tokenizer.json."""
    os.makedirs(os.path.join(folder, "bert-vocab"), exist_ok=True)
    tokens = sorted(t.get_vocab().items(), key=lambda x: x[1])
    open(os.path.join(folder, "bert-vocab", "vocab.txt"), "w", encoding="utf-8").writelines(token + "\n" for token,
        _ in tokens)
    json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True},
        open(os.path.join(folder, "bert-vocab", "tokenizer_config.json"), "w"))


def main():
    folder = sys.argv[1]
    text = open(sys.argv[2], encoding="utf-8", newline="").read() if len(sys.argv) > 2 else made_text()
    lines = text.splitlines(keepends=True)
    os.makedirs(folder, exist_ok=True)
    more = list(like_gpt2(sys.argv[4])) if len(sys.argv) > 4 else []
    sentencepieces(folder, text)
    for name, t, end in [*families(lines), *berts(lines), *unigrams(folder), *more]:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        t.save(os.path.join(folder, name, "tokenizer.json"))
        json.dump({"eos_token": end}, open(os.path.join(folder, name, "tokenizer_config.json"), "w"))
    tiktoken_json(folder, text)
    bert_vocabulary(folder, Tokenizer.from_file(os.path.join(folder, "bert", "tokenizer.json")))


if __name__ == "__main__":
    main()
