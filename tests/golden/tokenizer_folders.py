"""Compares `megalith` with AutoTokenizer on folders whose tokenizer_config.json, special_tokens_map.json or
added_tokens.json say
something: one folder for each key and kind, and the shapes of published ones. Ids, the end of a text and decoded text
are equal,
or `megalith` refuses and names the key. Run by test_tokenizer_folders.sh in an empty folder; argv: the program, the
source."""
import json
import os
import shutil
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer  # noqa: E402

PROGRAM, SOURCE = sys.argv[1], sys.argv[2]
ONLY = os.environ.get("MEGA_ONLY", "")  # a part of names
ALL = os.environ.get("MEGA_ALL", "")  # not each ninth alone
TEXTS = ["the files <new> of</s> it", " Two  blanks, and\tone <new>x", "Ünï 日本 don't ., he's <mask> here <s>",
    "x<|endoftext|>y [MASK] z[CLS] <extra_id_3> z", "<pad> 12345 e\u0301"]
count = {"equal": 0, "refused": 0, "FAILED": 0}


def note(name, verdict, detail=""):
    count[verdict] += 1
    if verdict != "equal" or os.environ.get("MEGA_VERBOSE"):
        print(f"{verdict} {name}: {detail}")


def megalith(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, check=False)


def documents(prefix):
    """The ids of each document of a data set of one sequence each."""
    import struct
    index = open(prefix + "_text_document.idx", "rb").read()
    code, sequences, _ = struct.unpack_from("<BQQ", index, 17)
    sizes = struct.unpack_from(f"<{sequences}i", index, 34)
    data = open(prefix + "_text_document.bin", "rb").read()
    width, letter = (2, "H") if code == 8 else (4, "i")
    ids = struct.unpack(f"<{len(data) // width}{letter}", data)
    out, at = [], 0
    for n in sizes:
        out.append(list(ids[at:at + n]))
        at += n
    return out


def check(folder, keys):
    """keys: what a refusal must name."""
    options = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder]
    with open("texts.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in TEXTS)
    try:
        theirs = AutoTokenizer.from_pretrained(folder)
        wanted = [theirs.encode(t) for t in TEXTS]
    except Exception as error:  # `transformers` cannot read it: any message will do
        theirs, wanted = None, str(error)[:100]
    append = ["--append-eod"] if theirs is not None and theirs.eos_token_id is not None else []
    run = megalith("preprocess_data", "--input", "texts.jsonl", "--output-prefix", "ours", "--workers", "1", *options,
        *append)
    if run.returncode != 0:
        message = " ".join(line for line in run.stderr.decode().splitlines() if "error" in line)
        named = theirs is None or any(k in message for k in keys)
        return note(folder, "refused" if named else "FAILED", message[:400])
    if theirs is None:
        return note(folder, "refused", "by transformers alone: " + wanted)
    wanted = [w + [theirs.eos_token_id] * len(append) for w in wanted]
    ours = documents("ours")
    for mine, right, text in zip(ours, wanted, TEXTS):
        if mine != right:
            return note(folder, "FAILED",
                f"{text!r}\n    ours   {mine}\n    theirs {right}\n    {theirs.convert_ids_to_tokens(right)}")
    ids = [i for w in wanted for i in w]
    shown = megalith("tokenize", *options, "--text-only", "--ids", *map(str, ids)).stdout.decode(errors="replace")
    if shown != theirs.decode(ids):
        return note(folder, "FAILED", f"decoded {shown!r}\n    theirs {theirs.decode(ids)!r}")
    return note(folder, "equal")


def token(content, **flags):
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": False, "rstrip": False,
        "single_word": False, **flags}


def make(name, kind, config, without=(), files=None, edit=None):
    folder = f"folders/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file in os.listdir(f"kinds/{kind}"):
        if file not in without and file != "tokenizer_config.json":
            shutil.copy(f"kinds/{kind}/{file}", folder)
    if edit is not None:
        root = json.load(open(folder + "/tokenizer.json", encoding="utf-8"))
        edit(root)
        json.dump(root, open(folder + "/tokenizer.json", "w", encoding="utf-8"))
    if config is not None:
        json.dump(config, open(folder + "/tokenizer_config.json", "w", encoding="utf-8"))
    for file, value in (files or {}).items():
        json.dump(value, open(f"{folder}/{file}", "w", encoding="utf-8"))
    return folder


# the class of each kind of file, and settings that it reads
KINDS = {
    "gpt2": ("GPT2Tokenizer", ["add_prefix_space"]),
    "codegen": ("CodeGenTokenizer", ["add_prefix_space"]),
    "opt": ("RobertaTokenizer", ["add_prefix_space"]),
    "neox": ("GPTNeoXTokenizer", ["add_prefix_space"]),
    "qwen2": ("Qwen2Tokenizer", ["add_prefix_space"]),
    "qwen35": ("Qwen3_5Tokenizer", ["add_prefix_space"]),
    "llama2": ("LlamaTokenizer", ["add_prefix_space", "legacy"]),
    "mistral": ("LlamaTokenizer", ["legacy"]),
    "llama3": ("LlamaTokenizer", ["legacy"]),
    "gemma": ("GemmaTokenizer", ["add_prefix_space"]),
    "bert": ("BertTokenizer", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"]),
    "bert-odd": ("DistilBertTokenizer", ["do_lower_case"]),
    "t5": ("T5Tokenizer", ["add_prefix_space"]),
    "xlmr": ("XLMRobertaTokenizer", ["add_prefix_space"]),
    "albert": ("AlbertTokenizer", ["do_lower_case", "keep_accents", "add_prefix_space"]),
    "albert-around": ("AlbertTokenizerFast", []),
    "bert-vocab": ("BertTokenizer", ["do_lower_case", "strip_accents"]),
    "gpt2-plain": ("GPT2Tokenizer", ["add_prefix_space"]),
    "sp-llama": ("LlamaTokenizer", ["legacy"]),
    "t5-plain": ("T5Tokenizer", []),
    "metaspace": ("PreTrainedTokenizerFast", ["add_prefix_space"]),
    "bloom": ("BloomTokenizerFast", ["add_prefix_space"]),
}
BOTH = ["add_bos_token", "add_eos_token", "split_special_tokens", "clean_up_tokenization_spaces",
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", "fix_mistral_regex"]
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]


def keys_of(kind, name, own):
    """Folders of one kind: what is said, and the key that a refusal may name."""
    yield "plain", {}, [], {}
    for key in own + BOTH:
        for value in [True, False]:
            yield f"{key}-{value}", {key: value}, [key], {}
    yield "clean-both", {"clean_up_tokenization_spaces": True, BOTH[4]: True}, [BOTH[3]], {}
    yield "ends", {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}, [], {}
    for key in ROLES:
        yield key, {key: "<new>"}, [key], {}
        yield key + "-object", {key: token("<new>", lstrip=True, rstrip=True)}, [key], {}
        yield key + "-known", {key: "the"}, [key], {}
        yield key + "-null", {key: None}, [key], {}
        yield key + "-map", {key: "<other>"}, [key], {"special_tokens_map.json": {key: {"content": "<new>",
            "rstrip": True}}}
    yield "decoder", {"added_tokens_decoder": {"9000": {**token("<new>", lstrip=True), "special": True},
        "8": {**token("it", single_word=True), "special": False}}}, ["added_tokens_decoder"], {}
    yield "decoder-map", {"added_tokens_decoder": {}}, ["added_tokens_decoder"], {
        "special_tokens_map.json": {"eos_token": "<new>"}}
    yield "additional", {"additional_special_tokens": ["<new>",
        token("it", rstrip=True)]}, ["additional_special_tokens"], {}
    yield "extra", {"extra_special_tokens": ["<new>"],
        "additional_special_tokens": ["it"]}, ["extra_special_tokens"], {}
    yield "extra-object", {"extra_special_tokens": {"a_token": "<new>"},
        "additional_special_tokens": ["it"]}, ["extra_special_tokens"], {}
    yield "own-role", {"image_token": "<new>", "video_token": token("it")}, ["image_token"], {}
    yield from specific()
    yield from flags()
    yield "map-additional", {}, ["additional_special_tokens"], {
        "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}
    yield "map-after", {"additional_special_tokens": ["it"]}, ["additional_special_tokens"], {
        "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}
    yield "added", {"eos_token": "<new>"}, ["added_tokens.json"], {"added_tokens.json": {"it": 9001, "<new>": 9000}}
    yield "added-taken", {}, ["added_tokens.json"], {"added_tokens.json": {"it": 0}}
    yield "long", {"model_max_length": 1000000000000000019884624838656, "padding_side": "left",
        "truncation_side": "left", "errors": "replace"}, [], {}
    yield "inputs", {"init_inputs": ["a"]}, ["init_inputs"], {}
    yield "files", {"fast_tokenizer_files": ["tokenizer.4.0.0.json", "tokenizer.json"]}, ["fast_tokenizer_files"], {}
    yield "file-class", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<new>"}, [], {}
    yield "unknown-class", {"tokenizer_class": "SomethingTokenizer", "eos_token": "<new>"}, [], {}
    yield "fast-class", {"tokenizer_class": name.removesuffix("Fast") + "Fast"}, [], {}
    yield "own-class", {"tokenizer_class": "CohereTokenizer"}, ["tokenizer_class"], {}
    yield "no-class", {"tokenizer_class": None, "eos_token": "<new>"}, [], {}
    for model_type in ["gpt2", "llama", "mistral", "qwen2", "phi3", "bert", "modernbert", "gpt_bigcode", "t5"]:
        yield "of-" + model_type, {}, ["tokenizer_class"], {"config.json": {"model_type": model_type}}
        yield "only-" + model_type, {"tokenizer_class": None}, ["tokenizer_class",
            "model_type"], {"config.json": {"model_type": model_type}}


def specific():
    """Roles of the model's own, and what else names them."""
    key, value = "model_specific_special_tokens", {"a": "<new>", "b": token("it", single_word=True)}
    keys = [key]
    yield "specific", {key: value}, keys, {}
    yield "specific-null", {key: None}, keys, {}
    yield "specific-empty", {key: {}, "image_token": "<new>"}, keys, {}
    yield "specific-list", {key: ["<new>"]}, keys, {}
    yield "specific-untyped", {key: {"a": {"content": "<new>"}}}, keys, {}
    yield "specific-number", {key: {"a": 3}}, keys, {}
    yield "specific-string", {key: value, "image_token": "of"}, keys, {}
    yield "specific-object", {key: value, "image_token": token("of"), "a": token("x")}, keys, {}
    yield "specific-same", {key: {"image_token": "<new>"}, "image_token": token("it", rstrip=True),
        "z_token": token("of")}, keys, {}
    yield "specific-extra", {key: value, "extra_special_tokens": {"c": "of"}}, keys, {}
    yield "specific-role", {key: {"eos_token": "<new>", "cls_token": token("it", lstrip=True)},
        "eos_token": "</s>"}, keys, {}
    yield "specific-map", {}, keys, {"special_tokens_map.json": {key: value}}
    yield "specific-map-extra", {key: value}, keys, {"special_tokens_map.json": {"extra_special_tokens": {"c": "of"}}}
    yield "specific-map-own", {key: value}, keys, {"special_tokens_map.json": {"image_token": "of",
        "c_token": {"content": "file", "lstrip": True}}}
    yield "specific-added", {key: value}, keys, {"added_tokens.json": {"it": 9001, "<new>": 9000}}
    yield "extra-role", {"extra_special_tokens": {"eos_token": "<new>"}}, ["extra_special_tokens"], {}


def flags():
    """One token under two names, with the flags of each; and which of them is special."""
    split = {"split_special_tokens": True}
    plain = {k: v for k, v in token("<new>", special=False).items() if k != "__type"}
    yield "two-roles", {"bos_token": token("<new>", rstrip=True), "eos_token": "<new>"}, [], {}
    yield "two-roles-after", {"bos_token": "<new>", "eos_token": token("<new>", lstrip=True)}, [], {}
    yield "two-roles-objects", {"sep_token": token("<new>", rstrip=True), "pad_token": token("<new>", lstrip=True),
        "image_token": token("<new>", single_word=True)}, ["sep_token"], {}
    yield "two-roles-extra", {"eos_token": token("<new>", rstrip=True),
        "extra_special_tokens": ["<new>", token("it", lstrip=True), "it"]}, [], {}
    yield "two-roles-object", {"eos_token": "<new>",
        "extra_special_tokens": {"a": token("<new>", rstrip=True), "b": "<new>"}}, [], {}
    yield "split-decoder", {**split, "eos_token": "<new>", "added_tokens_decoder": {"9000": plain}}, [], {}
    yield "split-decoder-normal", {**split, "eos_token": "<new>",
        "added_tokens_decoder": {"9000": {**plain, "normalized": True}}}, [], {}
    yield "split-decoder-own", {**split, "image_token": "<new>", "added_tokens_decoder": {"9000": plain}}, [], {}
    yield "split-decoder-extra", {**split, "extra_special_tokens": ["<new>", "it"],
        "added_tokens_decoder": {"9000": plain}}, [], {}
    yield "split-decoder-known", {**split, "added_tokens_decoder": {str(i): {**plain, "content": t} for i,
        t in enumerate(["<unk>", "<s>", "</s>", "<pad>", "[MASK]"])}}, ["added_tokens_decoder"], {}
    yield "split-roles", {**split, "sep_token": "<new>", "cls_token": token("it", normalized=True)}, ["sep_token"], {}
    yield "split-added", {**split, "eos_token": "<new>"}, ["added_tokens.json"], {"added_tokens.json": {"it": 9001,
        "<new>": 9000}}
    yield "split-extra-object", {**split, "extra_special_tokens": [token("<new>"), token("it", special=True),
        "of"]}, [], {}
    yield "words", {k: token(t, single_word=True) for k,
        t in zip(ROLES, ["<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"])}, ["unk_token"], {}
    yield "words-new", {k: token("<new>", single_word=True, lstrip=True) for k in ROLES}, ["unk_token"], {}


def kinds():
    number = 0
    for kind, (name, own) in KINDS.items():
        for what, config, keys, files in keys_of(kind, name, own):
            number += 1
            if ONLY not in f"{kind}-{what}" or not (ONLY or ALL or number % 9 == 0):
                continue
            config = {"tokenizer_class": name, **config}
            config = {k: v for k, v in config.items() if k != "tokenizer_class" or v is not None}
            check(make(f"{kind}-{what}", kind, config, files=files), [*keys, "tokenizer_class", "model_type"]
                if "of-" in what or "only-" in what else keys)


def main():
    subprocess.run([sys.executable, os.path.join(SOURCE, "tools/make_tokenizers.py"), "kinds"], check=True)
    more_kinds()
    kinds()
    if not ONLY or ONLY in "published":
        published()
    print(f"{count['equal']} folders equal AutoTokenizer, {count['refused']} refused by name, {count['FAILED']} differ")
    sys.exit(1 if count["FAILED"] else 0)


def more_kinds():
    """GPT-2's own, and those with the vocabulary of another kind."""
    subprocess.run([PROGRAM, "train_tokenizer", "--input", SOURCE + "/docs/tokenizer.md", "--vocab-size", "600",
        "--output", "kinds/gpt2"], check=True, capture_output=True)
    shutil.copytree("kinds/gpt2", "kinds/codegen", dirs_exist_ok=True)
    os.makedirs("kinds/gpt2-plain", exist_ok=True)
    for file in ["vocab.json", "merges.txt"]:
        shutil.copy(f"kinds/gpt2/{file}", "kinds/gpt2-plain")
    shutil.copytree("kinds/qwen2", "kinds/qwen35", dirs_exist_ok=True)
    os.makedirs("kinds/t5-plain", exist_ok=True)
    shutil.copy("kinds/sp-t5/tokenizer.model", "kinds/t5-plain/spiece.model")
    albert = json.load(open("kinds/albert/tokenizer.json", encoding="utf-8"))
    own = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]  # without [CLS] and [SEP] the class reads none
    albert["model"]["vocab"][:1] = [[t, 0.0] for t in own]
    albert["model"]["unk_id"] = 1
    plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    albert["added_tokens"] = [{"id": i, "content": t, **plain, "lstrip": t == "[MASK]"} for i, t in enumerate(own)]
    json.dump(albert, open("kinds/albert/tokenizer.json", "w", encoding="utf-8"))
    around = {t: {"id": t, "ids": [own.index(t)], "tokens": [t]} for t in ["[CLS]", "[SEP]"]}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    albert["post_processor"] = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": around}
    os.makedirs("kinds/albert-around", exist_ok=True)
    json.dump(albert, open("kinds/albert-around/tokenizer.json", "w", encoding="utf-8"))


def published():
    """The files and keys of published folders, with small vocabularies."""
    long = 1000000000000000019884624838656
    ends = {"bos_token": {"content": "<s>", "lstrip": False, "normalized": False, "rstrip": False,
        "single_word": False},
            "eos_token": {"content": "</s>", "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False}}
    decoder = {str(i): {"content": c, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
        "special": True}
               for i, c in enumerate(["<unk>", "<s>", "</s>"])}
    shapes = [
        ("gpt2", "gpt2", {"model_max_length": 1024}, {"config.json": {"model_type": "gpt2"}}),
        ("llama-2", "llama2", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
            "legacy": False, "model_max_length": long, "pad_token": None,
                               "sp_model_kwargs": {}, "clean_up_tokenization_spaces": False, "bos_token": token("<s>"),
                                   "eos_token": token("</s>"), "unk_token": token("<unk>")},
         {"config.json": {"model_type": "llama"}, "special_tokens_map.json": {**ends, "unk_token": "<unk>"}}),
        ("llama-3", "llama3", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>",
            "eos_token": "<|end_of_text|>", "clean_up_tokenization_spaces": True},
         {"config.json": {"model_type": "llama"}}),
        ("mistral", "mistral", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "legacy": False,
            "added_tokens_decoder": decoder, "bos_token": "<s>", "eos_token": "</s>",
                                "additional_special_tokens": [], "use_default_system_prompt": False},
                                    {"config.json": {"model_type": "mistral"}}),
        ("qwen2", "qwen2", {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False,
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": None,
                            "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "split_special_tokens": False,
                                "errors": "replace"}, {"config.json": {"model_type": "qwen2"}}),
        ("gemma", "gemma", {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>",
            "eos_token": "<eos>", "pad_token": "<pad>", "spaces_between_special_tokens": False},
         {"config.json": {"model_type": "gemma"}}),
        ("bert", "bert", {"do_lower_case": True, "model_max_length": 512}, {"config.json": {"model_type": "bert"}}),
        ("roberta", "opt", {"model_max_length": 512, "tokenizer_class": "RobertaTokenizer", "add_prefix_space": False,
            "trim_offsets": True}, {"config.json": {"model_type": "roberta"}}),
        ("xlm-roberta", "xlmr", {"model_max_length": 512, "tokenizer_class": "XLMRobertaTokenizer",
            "mask_token": token("<mask>", lstrip=True)}, {"config.json": {"model_type": "xlm-roberta"}}),
        ("t5", "t5",
            {"tokenizer_class": "T5Tokenizer", "extra_ids": 10,
                "additional_special_tokens": [f"<extra_id_{i}>" for i in range(10)], "eos_token": "</s>"},
         {"config.json": {"model_type": "t5"}}),
        ("modernbert", "neox", {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": token("[MASK]", lstrip=True)},
         {"config.json": {"model_type": "modernbert"}}),
        ("neox", "neox", {"tokenizer_class": "GPTNeoXTokenizer", "add_prefix_space": False,
            "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
         {"config.json": {"model_type": "gpt_neox"}}),
        ("bloom", "bloom", {"tokenizer_class": "BloomTokenizerFast", "add_prefix_space": False, "unk_token": "<unk>",
            "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
         {"config.json": {"model_type": "bloom"}}),
        ("opt", "gpt2", {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": token("</s>"),
            "eos_token": token("</s>"), "pad_token": token("<pad>")},
         {"config.json": {"model_type": "opt"}}),
        ("starcoder", "starcoder", {"tokenizer_class": "GPT2TokenizerFast", "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>", "additional_special_tokens": ["<fim_prefix>"]},
         {"config.json": {"model_type": "gpt_bigcode"}}),
    ]
    for name, kind, config, files in shapes:
        check(make("published-" + name, kind, config, files=files), [])
    plain = [("gpt2-plain", "gpt2",
        {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "<|endoftext|>"}, ["tokenizer.json"]),
             ("roberta-plain", "gpt2", {"tokenizer_class": "RobertaTokenizer"}, ["tokenizer.json"]),
             ("bert-plain", "bert-vocab", {"tokenizer_class": "BertTokenizer", "do_lower_case": False,
                 "strip_accents": True}, []),
             ("bert-words", "bert-vocab",
                 {"tokenizer_class": "BertTokenizer",
                     **{f"{k}_token": token(f"[{k.upper()}]", single_word=True, rstrip=k == "mask")
                         for k in ["unk", "sep", "pad", "cls", "mask"]}}, []),
             ("llama-plain", "sp-llama", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True,
                 "add_eos_token": True}, []),
             ("llama-legacy", "sp-llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True}, []),
             ("llama-user", "sp-user", {"tokenizer_class": "LlamaTokenizer", "additional_special_tokens": ["<new>"]},
                 []),
             ("llama-file", "sp-llama", {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}, []),
             ("llama-nfkc", "sp-nfkc", {"add_eos_token": True}, [])]
    for name, kind, config, without in plain:
        check(make("published-" + name, kind, config, without=without), [])


main()
