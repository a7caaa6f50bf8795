"""Prints, for each file, the number of blocks that transformers' run_clm cuts from it, and the loss of a model on them.

    run_clm_transformers.py MODEL BLOCK FILE...
"""

import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

folder, length = sys.argv[1], int(sys.argv[2])
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
model = AutoModelForCausalLM.from_pretrained(folder).eval()
for path in sys.argv[3:]:
    with open(path, encoding="utf-8", newline="") as file:
        texts = file.readlines()
    blocks = []
    for first in range(0, len(texts), 1000):
        encoded = tokenizer.encode_batch(texts[first : first + 1000], add_special_tokens=False)
        ids = [token for one in encoded for token in one.ids]
        blocks += [ids[at : at + length] for at in range(0, len(ids) - length + 1, length)]
    inputs = torch.tensor(blocks)
    with torch.no_grad():
        print(len(blocks), model(input_ids=inputs, labels=inputs).loss.item())
