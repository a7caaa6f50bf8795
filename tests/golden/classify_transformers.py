"""Evaluates folders that megalith tasks wrote with transformers: classify_transformers.py (FOLDER TASK LENGTH FILE)…

Prints for each the folder, the number of samples that are right, the number of samples and the mean loss. The samples are built here, from
the description of the tasks' data and not from the program: [CLS] first [SEP] second [SEP], or [CLS] first [SEP], cut at the end of LENGTH - 1 tokens.
"""
import json
import os
import re
import sys

import torch
import transformers


def read_vocabulary(folder):
    if os.path.exists(folder + "/vocab.txt"):
        with open(folder + "/vocab.txt", encoding="utf-8") as f:
            return {line.rstrip("\n"): i for i, line in enumerate(f)}
    with open(folder + "/tokenizer.json", encoding="utf-8") as f:
        return json.load(f)["model"]["vocab"]


class Texts:
    """Samples of one task: a list of (sequences, label), a sequence being (tokens, types, mask)."""

    def __init__(self, folder, length):
        self.vocabulary, self.length = read_vocabulary(folder), length

    def ids(self, text):
        text = re.sub(r"\s+", " ", text)
        for _ in range(3):
            text = text.replace(" . ", ". ")
        # every word is in the vocabulary
        return [self.vocabulary[word] for word in re.findall(r"\w+|[^\w\s]", text.lower())]

    def sequence(self, first, second):
        cls, sep, pad = (self.vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]"))
        first, last = self.ids(first)[:128], self.length - 1
        tokens, types = [cls] + first, [0] * (len(first) + 1)
        if second is not None:
            second = self.ids(second)
            tokens, types = tokens + [sep] + second, types + [0] + [1] * len(second)
        tokens, types = tokens[:last] + [sep], types[:last] + [0 if second is None else 1]
        more = self.length - len(tokens)
        return tokens + [pad] * more, types + [0] * more, [1] * len(tokens) + [0] * more

    def read(self, task, file):
        with open(file, encoding="utf-8") as f:
            lines = [line.strip() for line in f]
        if task == "RACE":
            for page in (json.loads(line) for line in lines if line):
                for question, options, answer in zip(page["questions"], page["options"], page["answers"]):
                    texts = [question.replace("_", option) if "_" in question else question + " " + option
                        for option in options]
                    yield [self.sequence(text, page["article"]) for text in texts], "ABCD".index(answer)
            return
        for row in (line.split("\t") for line in lines[task != "CoLA" :]):
            if task == "MNLI":
                yield [self.sequence(row[8], row[9])], ["contradiction", "entailment", "neutral"].index(row[-1])
            elif task == "SST-2":
                yield [self.sequence(row[0], None)], int(row[1])
            elif task == "CoLA":
                yield [self.sequence(row[3], None)], int(row[1])
            elif task == "MRPC":
                yield [self.sequence(row[3], row[4])], int(row[0])
            elif task in ("QNLI", "RTE"):
                yield [self.sequence(row[1], row[2])], ["entailment", "not_entailment"].index(row[3])
            elif task == "WNLI":
                yield [self.sequence(row[1], row[2])], int(row[3])
            else:
                yield [self.sequence(row[3], row[4])], int(row[5])


def evaluate(folder, task, length, file):
    kind = transformers.AutoModelForMultipleChoice if task == "RACE" else transformers.AutoModelForSequenceClassification
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    with open(folder + "/config.json", encoding="utf-8") as f:
        assert type(model).__name__ == json.load(f)["architectures"][0]
    model = model.double().eval()
    right, total, loss = 0, 0, 0.0
    for sequences, label in Texts(folder, length).read(task, file):
        tokens, types, mask = (torch.tensor([s[i] for s in sequences]) for i in range(3))
        if task == "RACE":
            tokens, types, mask = tokens[None], types[None], mask[None]
        with torch.no_grad():
            logits = model(input_ids=tokens, token_type_ids=types, attention_mask=mask).logits
        right += int(logits.argmax().item() == label)
        total += 1
        loss += torch.nn.functional.cross_entropy(logits, torch.tensor([label])).item()
    print(folder, right, total, repr(loss / total))


for i in range(1, len(sys.argv), 4):
    evaluate(sys.argv[i], sys.argv[i + 1], int(sys.argv[i + 2]), sys.argv[i + 3])
