"""A folder of each family of encoders with random weights and a small tokenizer, and what the fill-mask pipeline of transformers finds with it;
test_fill_mask_transformers.sh compares.

    fill_mask_transformers.py make [NAME...]      makes NAME/, NAME.txt (texts), NAME.targets, NAME.json
    fill_mask_transformers.py compare NAME KIND FILE    FILE: what megalith printed; KIND: all or targets
"""
import json
import os
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
TOP = 7
COMMON = dict(hidden_size=48, intermediate_size=40, num_hidden_layers=4, num_attention_heads=6,
    max_position_embeddings=130)
CASES = {
    "bert": ("bert", "wordpiece", True, COMMON),
    "bert-masked": ("bert", "wordpiece", False, dict(COMMON, hidden_act="gelu_new")),
    "megatron-bert": ("megatron-bert", "wordpiece", True, COMMON),
    "megatron-bert-masked": ("megatron-bert", "wordpiece", False, COMMON),
    "roberta": ("roberta", "bytes", False, dict(COMMON, type_vocab_size=1)),
    "xlm-roberta": ("xlm-roberta", "unigram", False, COMMON),
    "distilbert": ("distilbert", "wordpiece", False,
        dict(dim=48, hidden_dim=40, n_layers=4, n_heads=6, max_position_embeddings=130)),
    "modernbert": ("modernbert", "bytes of bert", False, dict(COMMON, local_attention=8)),
}


def tokenizer_of(kind, lines):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast
    sys.path.insert(0, os.path.join(os.environ["MEGA_SOURCE"], "tools"))
    words, sys.argv = sys.argv, sys.argv[:1]  # it reads the words of its own command when it is imported
    import make_tokenizers as made
    sys.argv = words
    names = dict(cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]")
    if kind == "wordpiece":
        t = made.wordpiece(lines, size=200)
    elif kind == "bytes of bert":
        t = made.byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False),
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], size=400)
        t.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
        t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    else:
        names = dict(cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
            bos_token="<s>", eos_token="</s>")
        if kind == "bytes":
            t = made.byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False),
                ["<s>", "<pad>", "</s>", "<unk>"], size=400)
        else:
            t = Tokenizer(models.Unigram())
            t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(
                prepend_scheme="always")
            t.train_from_iterator(lines,
                trainers.UnigramTrainer(vocab_size=200, special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
                    unk_token="<unk>",
                                                                 show_progress=False))
        t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    mask = "[MASK]" if "[MASK]" in names.values() else "<mask>"
    if kind != "wordpiece":  # the name of the token alone would be one that is not `lstrip`
        names["mask_token"] = AddedToken(mask, lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=t, **names), mask


def make(name, lines):
    import torch
    import transformers
    family, kind, pairs, keys = CASES[name]
    tokenizer, mask = tokenizer_of(kind, lines)
    texts = [f"the quick {mask} jumps", f"{mask} dogs sleep, and the owl jumps over {mask} .",
        f"Naïve FOXES don't sleep {mask}",
             f"the {mask} of the {mask} runs {mask} a lazy {mask} and a {mask}.", f"{mask}",
                 f"a dog{mask}! 'the owl'  {mask}?", " ".join([mask] * 11),
             f"over and over the lazy foxes jump and {mask} under the quick owls and dogs of the {mask}"]
    targets = ["fox", "the", "owls", " dog", "sleep"]
    torch.manual_seed(5)
    ends = dict(pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id)
    config = transformers.AutoConfig.for_model(family, vocab_size=len(tokenizer), **ends, **keys)
    kind_of = transformers.AutoModelForPreTraining if pairs else transformers.AutoModelForMaskedLM
    model = kind_of.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            drawn = 0.2 * torch.randn_like(p)
            p.copy_(p + drawn if p.dim() == 1 and key.endswith("weight") else drawn)
    model.save_pretrained(name)
    tokenizer.save_pretrained(name)
    fill = transformers.pipeline("fill-mask", model=transformers.AutoModelForMaskedLM.from_pretrained(name),
        tokenizer=tokenizer)
    rows = {"all": fill(texts, top_k=TOP), "targets": fill(texts, top_k=TOP, targets=targets)}
    json.dump(rows, open(name + ".json", "w"))
    open(name + ".txt", "w").writelines(text + "\n" for text in texts)
    print(name)


def compare(name, kind, path):
    expected = json.load(open(name + ".json"))[kind]
    lines = [json.loads(line) for line in open(path)]
    texts = open(name + ".txt").read().splitlines()
    assert [line["text"] for line in lines] == texts, lines
    for line, theirs in zip(lines, expected):
        theirs = theirs if isinstance(theirs[0], list) else [theirs]
        assert len(line["masks"]) == len(theirs), (line["text"], len(line["masks"]), len(theirs))
        for ours, wanted in zip(line["masks"], theirs):
            for key in ("token", "token_str", "sequence"):
                assert [o[key] for o in ours] == [w[key] for w in wanted], (name, line["text"], key,
                    [o[key] for o in ours], [w[key] for w in wanted])
            far = max(abs(o["score"] - w["score"]) for o, w in zip(ours, wanted))
            assert far < 1e-5, (name, line["text"], far)


if sys.argv[1] == "make":
    for which in sys.argv[2:] or list(CASES):
        make(which,
            [line for _ in range(40) for line in ("The quick fox jumps over the lazy dog and the owl.",
                "Foxes don't sleep, dogs do!",
                                                           "A naïve owl runs under the quick dogs; it sleeps.")])
else:
    compare(*sys.argv[2:])
