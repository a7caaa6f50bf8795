"""WikiText-103 and LAMBADA of a GPT-2 folder with transformers: tasks_transformers.py FOLDER LENGTH OVERLAP WIKITEXT
LAMBADA

Prints two lines: targets, mean loss and token ratio of WikiText; right ones of LAMBADA loose and strict, and passages.
All of it is computed
from the description of these tasks, not by the program.
"""
import json
import math
import re
import sys

import tokenizers
import torch
import transformers

folder, length, overlap, wikitext, lambada = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
model = transformers.AutoModelForCausalLM.from_pretrained(folder).double().eval()
tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
positions = model.config.n_positions


def ids(text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def logits(tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def undo_spaces(text):
    text = text.replace("s '", "s'")
    for mark in "-,.":
        text = text.replace(f" @{mark}@ ", mark)
    for mark in ":;.!?,":
        text = text.replace(f" {mark} ", f"{mark} ")
    for begin, end in (("(", ")"), ("[", "]"), ("{", "}"), ('"', '"'), ("'", "'")):
        b, e = re.escape(begin), re.escape(end)
        text = re.sub(rf"{b}\s*([^{e}]*?)\s*{e}", lambda m: begin + m.group(1) + end, text)
    for spaced in ("= = = =", "= = =", "= ="):
        text = text.replace(spaced, spaced.replace(" ", ""))
    text = text.replace(" \N{DEGREE SIGN} ", "\N{DEGREE SIGN}").replace(" \n", "\n").replace("\n ", "\n")
    return text.replace(" N ", " 1 ").replace(" 's", "'s")


with open(wikitext, encoding="utf-8") as f:
    text = f.read()
words = len(text.strip().split(" "))
tokens = ids(undo_spaces(text))
windows = max(math.ceil(max(len(tokens) - 1 - overlap, 0) / overlap) + 1, 1)
loss, targets = 0.0, 0
for i in range(windows):
    window = tokens[i * overlap : i * overlap + length + 1]
    if len(window) < 2:
        continue
    losses = torch.nn.functional.cross_entropy(logits(window[:-1]), torch.tensor(window[1:]), reduction="none")
    first = 0 if i == 0 else length - overlap
    loss += losses[first:].sum().item()
    targets += len(losses[first:])
print(targets, repr(loss / (len(tokens) - 1)), repr((len(tokens) - 1) / (words - 1)))

right, passages = [0, 0], 0
with open(lambada, encoding="utf-8") as f:
    for line in f:
        text = json.loads(line)["text"]
        passages += 1
        last = text.split()[-1]
        whole = ids(text)
        for strict, (context,
            label) in enumerate(((whole[:-1], whole[-1:]), (ids(text[: text.rfind(last)].strip()), ids(" " + last)))):
            context = context[-(positions - len(label)) :]
            if not context:
                continue
            made = logits(context + label[:-1])[len(context) - 1 :].argmax(-1).tolist()
            right[strict] += made == label
print(*right, passages)
