#!/usr/bin/env python3
"""Writes tests/golden/beams.json: beam searches over a table of logits. The row is that of the last token plus its
position, so that texts of the same tokens in another order have other scores.

The rules of transformers are run by its generate(); those of Megatron-LM are written here, as its
beam_search_and_return_on_first_stage describes them.
Usage: make_beams_golden.py >tests/golden/beams.json, with a Python that has transformers.
"""

import json
import sys

import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

VOCAB, STOP = 13, 0


class TableModel(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, table):
        super().__init__(PretrainedConfig(vocab_size=VOCAB, eos_token_id=STOP, pad_token_id=STOP))
        self.table = torch.nn.Parameter(table)
        self.generation_config = GenerationConfig(eos_token_id=STOP, pad_token_id=STOP, use_cache=False)

    def forward(self, input_ids, attention_mask=None, **_):
        positions = torch.arange(input_ids.shape[1])
        return CausalLMOutput(logits=self.table[(input_ids + positions) % VOCAB])

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **kwargs):
        return {"input_ids": input_ids}


def by_transformers(table, prompt, max_new, width, penalty, early):
    out = TableModel(table).generate(
        torch.tensor([[prompt]]),
        attention_mask=torch.ones(1, 1, dtype=torch.long),
        max_new_tokens=max_new,
        num_beams=width,
        num_return_sequences=width,
        length_penalty=penalty,
        early_stopping=early,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    texts = []
    for score, row in zip(out.sequences_scores.tolist(), out.sequences[:, 1:].tolist()):
        if STOP in row:  # the rest is padding
            row = row[: row.index(STOP) + 1]
        if score > -1e8:  # else fewer texts than beams have ended
            texts.append({"score": score, "tokens": row})
    return texts


def by_megatron(table, prompt, max_new, width, penalty):
    logs = torch.log_softmax(table.double(), dim=-1)
    beams = [([], 0.0)]  # all beams begin alike
    ended = []
    for made in range(max_new):
        candidates = []
        for number, (tokens, score) in enumerate(beams):
            row = logs[((tokens[-1] if tokens else prompt) + made) % VOCAB]
            candidates += [(score + row[v].item(), number, v) for v in range(VOCAB)]
        candidates.sort(key=lambda c: -c[0])
        following = []
        for rank, (score, number, token) in enumerate(candidates[: 2 * width]):
            if token == STOP:
                if rank < width:
                    ended.append((score / (made + 1) ** penalty, beams[number][0] + [STOP]))
                    ended = sorted(ended, key=lambda e: -e[0])[:width]
            elif len(following) < width:
                following.append((beams[number][0] + [token], score))
        if len(ended) == width and ended[-1][0] >= candidates[0][0] / (made + 1) ** penalty:
            break
        beams = following
    else:
        for tokens, score in beams:
            ended.append((score / max_new**penalty, tokens))
            ended = sorted(ended, key=lambda e: -e[0])[:width]
    return [{"score": score, "tokens": tokens} for score, tokens in ended]


def main():
    torch.manual_seed(5)
    tables, cases = [], []
    for tilt in (0.0, 1.5, 3.0):
        table = torch.randn(VOCAB, VOCAB) * 1.5
        table[:, STOP] += tilt
        table = torch.round(table * 1000) / 1000
        tables.append([[round(x, 3) for x in row] for row in table.tolist()])
        for width in (2, 3, 6):
            for penalty in (0.0, 1.0, 1.5, -0.5):
                for max_new in (1, 4, 9):
                    case = {"table": len(tables) - 1, "prompt": 3 + width, "max_new": max_new, "width": width,
                        "penalty": penalty}
                    args = (table, case["prompt"], max_new, width, penalty)
                    cases.append({**case, "rules": "megatron", "texts": by_megatron(*args)})
                    for early in (False, True, "never"):
                        cases.append(
                            {**case, "rules": "transformers", "early": str(early).lower(),
                                "texts": by_transformers(*args, early)}
                        )
    json.dump({"stop": STOP, "tables": tables, "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


main()
