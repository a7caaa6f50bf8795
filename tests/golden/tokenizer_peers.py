"""Compares `megalith` with the PyPI packages tokenizers, tiktoken and transformers on text made here. Run by
test_tokenizer_peers.sh in an empty folder; argv: the program."""
import json
import os
import random
import subprocess
import sys
import unicodedata

import tiktoken
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PROGRAM = sys.argv[1]
failures = 0


def check(what, ok, detail=""):
    global failures
    print("ok    " if ok else "FAILED", what, "" if ok else detail)
    failures += not ok


def megalith(*arguments, text=None):
    run = subprocess.run([PROGRAM, *arguments], input=None if text is None else text.encode(), capture_output=True,
        check=False)
    if run.returncode != 0:
        sys.exit(f"megalith {' '.join(arguments)}: {run.stderr.decode()}")
    return run.stdout


def our_ids(options, text, special=False):
    return [int(i) for i in megalith("tokenize", *options, "--ids-only", *(["--special"] if special else []),
        text=text).split()]


def agreed_characters():
    """Code points that Python's Unicode knows, as far as it is not newer than 15.0. `tokenizers` and `tiktoken` agree with
    15.0 on all of them; of the later ones (5,004 letters and numbers in Unicode 16 and 17) they have another opinion."""
    ok = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
    assert tuple(map(int, unicodedata.unidata_version.split("."))) <= (15, 0,
        0), "run with a Python of Unicode 15.0 or older"
    return ok


def random_text(rng, characters, length):
    likely = ["'s", "'re", "'ll", "'", " ", "  ", "\n", "\t", "the", "Fish", "7", "42", "!", "_", "\u00a0", "\u3000",
        "é", "日本",
              "\u0301", "٣", "²", "😀", "<|endoftext|>", "\r\n", "\u2028", "\ufffd", "\0"]
    return "".join(rng.choice(likely) if rng.random() < 0.7 else rng.choice(characters) for _ in range(length))


def symbol_bytes():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(rest)}


def tiktoken_of(vocab):
    back = symbol_bytes()
    end = "<|endoftext|>"
    ranks = {bytes(back[c] for c in key): i for key, i in vocab.items() if key != end}
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={end: vocab[end]})


def compare(name, folder, options, text):
    theirs = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    check(f"{name}: special tokens as tokens", our_ids(options, text, True) == theirs.encode(text).ids)
    theirs.encode_special_tokens = True
    ids = our_ids(options, text)
    check(f"{name}: special tokens as text", ids == theirs.encode(text).ids)
    back = megalith("tokenize", *options, "--text-only", "--ids", *map(str, ids[:5000]))
    check(f"{name}: decoding", text.encode().startswith(back) and len(back) > 0 and
          theirs.decode(ids[:5000], skip_special_tokens=False) == back.decode(errors="replace"))
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    part = text[:2000]
    check(f"{name}: AutoTokenizer", auto.encode(part) == our_ids(options, part, True))
    auto.save_pretrained(folder + "-again")
    again = [folder + "-again/tokenizer.json" if part.endswith(".json") else part for part in options
        if "merge" not in part]
    check(f"{name}: what transformers saves", our_ids(again, text) == ids)
    check(f"{name}: end of text", auto.eos_token == "<|endoftext|>"
        and auto.eos_token_id == theirs.get_vocab_size() - 1)


def t5_folder(name, form, options, roles, text):
    """The folder of a T5: AutoTokenizer must have all tokens of the model, at their ids and in their roles."""
    options = [*options, "--vocab-extra-ids", "20"]
    with open("fables.txt", "w", encoding="utf-8") as f:
        f.write("The fox runs. A dog jumps over the owl.\n\n" * 20)
    megalith("preprocess_data", "--input", "fables.txt", "--split-on-blank-lines", "--split-sentences", *options,
        "--output-prefix", name)
    megalith("pretrain_t5", "--t5-form", form,
        *"--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --decoder-seq-length 12 --micro-batch-size 2".split(),
             *"--train-iters 1 --lr 1e-3 --eval-iters 0 --split 100,0,0 --data-path".split(), name + "_text_sentence",
                 *options, "--save", name)
    folder = name + "/iter_0000001"
    config = json.load(open(folder + "/config.json", encoding="utf-8"))
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    check(f"{name}: as many tokens as the model", len(auto) == config["vocab_size"],
        f"{len(auto)} of {config['vocab_size']}")
    check(f"{name}: ids", auto.encode(text) == our_ids(options, text, True),
        f"{auto.encode(text)}, ours {our_ids(options, text, True)}")
    check(f"{name}: roles", (auto.pad_token, auto.eos_token, auto.bos_token) == roles,
        f"{(auto.pad_token, auto.eos_token, auto.bos_token)}")
    check(f"{name}: inputs", set(auto(text)) == {"input_ids", "attention_mask"})
    auto.save_pretrained(folder + "-again")
    check(f"{name}: what transformers saves",
        our_ids(["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder + "-again"],
            text) == auto.encode(text))


def t5_folders(corpus):
    text = "The  fox <extra_id_0> jumps\tover <extra_id_1>. na\u00efve \ufb01ne \u65e5 \n the dog "
    with open("vocab.txt", "w", encoding="utf-8") as f:
        f.write("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] . the fox a dog ##s runs jumps over owl naive fine".split())
            + "\n")
    t5_folder("wordpiece", "v1.1", ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", "vocab.txt"],
        ("[PAD]", "[EOS]", "[BOS]"), text)
    megalith("train_tokenizer", "--input", corpus, "--tokenizer-type", "SentencePieceTokenizer", "--vocab-size", "1000",
        "--output", "pieces")
    t5_folder("unigram", "t5", ["--tokenizer-type", "SentencePieceTokenizer", "--tokenizer-model",
        "pieces/tokenizer.model"], ("<pad>", "</s>", "<BOS>"), text)


def main():
    rng = random.Random(1234)
    characters = agreed_characters()
    words = ["".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, 6))) for _ in range(300)]
    corpus = "".join(rng.choice(words) + rng.choice([" ", " ", " ", "\n", ", ", "'s ", ". ", "  "])
        for _ in range(30000))
    corpus += random_text(rng, characters, 3000).replace("\0", "")  # train_tokenizer refuses zero bytes
    open("corpus.txt", "w", encoding="utf-8", newline="").write(corpus)

    megalith("train_tokenizer", "--input", "corpus.txt", "--vocab-size", "900", "--output", "bpe")
    options = ["--vocab-file", "bpe/vocab.json", "--merge-file", "bpe/merges.txt"]
    text = random_text(rng, characters, 20000)
    compare("BPE", "bpe", options, text)
    vocab = json.load(open("bpe/vocab.json", encoding="utf-8"))
    check("BPE: tiktoken", tiktoken_of(vocab).encode_ordinary(text) == our_ids(options, text))
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=900, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = [tuple(m) for m in json.loads(theirs.to_str())["model"]["merges"]]
    ours = [tuple(line.split(" "))
        for line in open("bpe/merges.txt", encoding="utf-8", newline="\n").read().split("\n")[1:-1]]
    check("trainer: the same merges as tokenizers'", merges == ours)

    pairs = json.load(open("bpe/tokenizer.json", encoding="utf-8"))
    pairs["model"]["merges"] = [m.split(" ") for m in pairs["model"]["merges"]]
    pairs["added_tokens"] += [{"id": 900 + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False,
                               "normalized": i == 1, "special": i == 2} for i,
                                   c in enumerate(["fish", "fishes", "<x>"])]
    os.makedirs("added", exist_ok=True)
    json.dump(pairs, open("added/tokenizer.json", "w"))
    theirs = Tokenizer.from_file("added/tokenizer.json")
    for sample in ["fishes fish<x>fishesfish <|endoftext|>", "<|endoftext|><x><|endof fishe", "fish", ""]:
        check(f"added tokens in {sample!r}",
            our_ids(["--vocab-file", "added/tokenizer.json"], sample, True) == theirs.encode(sample).ids)

    megalith("train_tokenizer", "--input", "corpus.txt", "--tokenizer-type", "CharTokenizer", "--output", "char")
    known = sorted(set(corpus))
    compare("characters", "char", ["--tokenizer-type", "CharTokenizer", "--vocab-file", "char/vocab.json"],
            "".join(rng.choice(known) for _ in range(3000)) + corpus[:2000]
                + "<|endoftext|>a" * ("<" in known and "|" in known))
    t5_folders("corpus.txt")
    sys.exit(1 if failures else 0)


main()
