"""Trains models of four families with Lamb in PyTorch and in megalith, from the same folder over the same tokens, and
compares the losses. A tensor of Lamb is what the folder stores under one name: the loop below is over transformers' parameters.

usage: python lamb_torch.py MEGALITH     (in an empty folder)
"""
import copy
import json
import struct
import subprocess
import sys

import numpy as np
import torch
import transformers as t

SEQ, VOCAB, BATCH, ITERS, LR, DECAY, SEED = 16, 257, 4, 8, 1e-2, 0.1, 1234
MOST = 3e-5
common = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2)
gpt2 = dict(n_layer=2, n_head=4, n_embd=36, n_inner=92, n_positions=SEQ, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
llama = dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=48, intermediate_size=88,
             max_position_embeddings=SEQ, tie_word_embeddings=False)
MODELS = {
    "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(**gpt2, **common)),
    "llama": (t.LlamaForCausalLM, t.LlamaConfig(**llama, **common)),
    # the tokens have no pad, whose row transformers does not train
    "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**llama, original_max_position_embeddings=SEQ, pad_token_id=VOCAB - 1,
                                       **common)),
    "gpt_bigcode": (t.GPTBigCodeForCausalLM, t.GPTBigCodeConfig(**gpt2, **common)),
}


def write_data(tokens):
    """One document as Megatron's indexed format stores it: dtype code 8 is uint16."""
    tokens.astype(np.uint16).tofile("d.bin")
    with open("d.idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 1, 2))
        f.write(struct.pack("<i", len(tokens)) + struct.pack("<q", 0) + struct.pack("<qq", 0, 1))


def samples(tokens):
    """Megatron's order over one epoch of one document: a seeded permutation of the windows."""
    order = np.arange((len(tokens) - 1) // SEQ, dtype=np.uint32)
    np.random.RandomState(SEED).shuffle(order)
    return [tokens[i * SEQ : i * SEQ + SEQ + 1] for i in order]


def lamb(p, g, m, v, k, decay):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    u = m / (v.sqrt() + 1e-8) + decay * p
    weight, step = p.norm().item(), u.norm().item()
    ratio = 1 if weight == 0 or step == 0 else min(max(weight / step, 0.01), 10)
    p.sub_(LR * (1 - 0.999**k) ** 0.5 / (1 - 0.9**k) * ratio * u)


def pieces(name, tensors, splits):
    """The tensors of Lamb in a parameter; with `splits`, as if the halves of a joined projection were two."""
    joined = splits and any(word in name for word in ("c_attn.weight", "qkv_proj", "gate_up_proj"))
    return zip(*(t.chunk(2, longer(t)) for t in tensors)) if joined else [tensors]


def longer(t):
    return max(range(t.ndim), key=lambda d: t.shape[d])


def torch_run(model, rows, splits):
    state = [(name, p, torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()]
    losses = []
    for i in range(ITERS):
        batch = torch.tensor(np.stack(rows[i * BATCH : (i + 1) * BATCH]).astype(np.int64))
        model.zero_grad()
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for name, p, m, v in state:
                for piece in pieces(name, (p, p.grad, m, v), splits):
                    lamb(*piece, i + 1, DECAY if p.ndim > 1 else 0)
    return losses


def megalith_run(megalith, name):
    command = [megalith, "pretrain_gpt", "--load", name, "--finetune", "--use-checkpoint-args", "--seq-length", SEQ,
               "--micro-batch-size", BATCH, "--global-batch-size", BATCH, "--train-iters", ITERS, "--lr", LR,
               "--lr-decay-style", "constant", "--weight-decay", DECAY, "--clip-grad", 0, "--hidden-dropout", 0,
               "--attention-dropout", 0, "--seed", SEED, "--eval-iters", 0, "--data-path", "d", "--split", "100,0,0",
               "--tokenizer-type", "NullTokenizer", "--vocab-size", VOCAB - 1, "--optimizer", "lamb",
               "--metrics-file", name + ".jsonl", "--log-interval", 1]
    subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr)
    with open(name + ".jsonl") as f:
        return [r["lm_loss"] for r in map(json.loads, f) if "lm_loss" in r]


def apart(a, b):
    return max(abs(x - y) / y for x, y in zip(a, b))


def compare(megalith, name, rows):
    torch.manual_seed(5)
    kind, config = MODELS[name]
    config._attn_implementation = "eager"
    model = kind(config).float()
    with torch.no_grad():  # rows of unlike size, so that the norm of a part is not that of the whole
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
            if p.ndim > 1:
                p.mul_(torch.linspace(0.2, 3, max(p.shape)).unsqueeze(1 - longer(p)))
    model.save_pretrained(name)
    split = torch_run(copy.deepcopy(model), rows, True)
    there, here = torch_run(model, rows, False), megalith_run(megalith, name)
    print(f"{name}: losses {apart(here, there):.2g} apart, {apart(split, there):.2g} if joined projections were two tensors")
    told = name == "llama" or apart(split, there) > 10 * MOST
    return len(here) == ITERS and apart(here, there) < MOST and told


rows = np.random.RandomState(3).randint(0, VOCAB - 1, 4000)
write_data(rows)
torch.set_num_threads(1)
wrong = [name for name in MODELS if not compare(sys.argv[1], name, samples(rows))]
sys.exit(f"not the numbers of PyTorch: {', '.join(wrong)}" if wrong else 0)
