#!/usr/bin/env bash
# Texts of a beam search equal those of transformers' generate(), and by Megatron's rules those of Megatron's search
# over the logits of transformers (written here), unless the two best scores of the peer differ by less than 1e-5.
set -euo pipefail
: "${MEGALITH:?}" "${MEGA_SOURCE:?}"
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS names no Python that has transformers"
    exit 77
fi
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1
cat "$MEGA_SOURCE"/README.md "$MEGA_SOURCE"/ARCHITECTURE.md "$MEGA_SOURCE"/docs/{recipes,training}.md >corpus.txt
"$MEGALITH" train_tokenizer --input corpus.txt --vocab-size 500 --output model >log 2>&1
printf 'The tokenizer\nA training step is a program. A model is a function\nx\n' >prompts.txt

"$MEGA_PEERS" - <<'PY'
import json
import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(3)
tokenizer = Tokenizer.from_file("model/tokenizer.json")
eos = tokenizer.token_to_id("<|endoftext|>")
config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=96, n_embd=48, n_layer=4, n_head=4, bos_token_id=eos, eos_token_id=eos,
                    initializer_range=0.2)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():  # so that some texts end before the greatest length
    model.transformer.ln_f.bias += 1.2 * model.transformer.wte.weight[eos] / model.transformer.wte.weight[eos].norm()
model.save_pretrained("model")
prompts = open("prompts.txt").read().splitlines()
NEW = 24


def transformers(ids, width, penalty, early):
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=NEW, num_beams=width, length_penalty=penalty,
                         early_stopping=early, num_return_sequences=2, do_sample=False, pad_token_id=eos, return_dict_in_generate=True,
                         output_scores=True)
    tokens = out.sequences[0, len(ids):].tolist()
    if eos in tokens:
        tokens = tokens[:tokens.index(eos) + 1]
    return tokens, out.sequences_scores.tolist()


def megatron(ids, width, penalty):
    beams, ended = [([], 0.0)], []
    for made in range(NEW):
        with torch.no_grad():
            logits = model(torch.tensor([ids + tokens for tokens, _ in beams])).logits[:, -1].double()
        scores = torch.log_softmax(logits, -1) + torch.tensor([[s] for _, s in beams])
        best, at = scores.view(-1).sort(descending=True)
        following, vocab = [], logits.shape[1]
        for rank in range(2 * width):
            beam, token, score = at[rank].item() // vocab, at[rank].item() % vocab, best[rank].item()
            if token == eos:
                if rank < width:
                    ended.append((score / (made + 1) ** penalty, beams[beam][0] + [eos]))
            else:
                following.append((beams[beam][0] + [token], score))
            if len(following) == width:
                break
        ended = sorted(ended, key=lambda e: -e[0])[:width]
        if len(ended) == width and ended[-1][0] >= best[0].item() / (made + 1) ** penalty:
            break
        beams = following
    else:
        ended = sorted(ended + [(s / NEW ** penalty, t) for t, s in beams], key=lambda e: -e[0])[:width]
    return ended[0][1], [s for s, _ in ended[:2]]


cases = []
for width in (4, 20):
    for penalty in (1.0, 1.5):
        cases.append(("megatron", "false", width, penalty, [megatron(tokenizer.encode(p).ids, width, penalty) for p in prompts]))
    for early in (False, True, "never"):
        penalty = 1.0 if early is False else 0.6
        cases.append(("transformers", str(early).lower(), width, penalty, [transformers(tokenizer.encode(p).ids, width, penalty, early) for p in prompts]))
json.dump(cases, open("expected.json", "w"))
with open("cases.txt", "w") as out:
    for rules, early, width, penalty, _ in cases:
        out.write("--beam-rules %s --early-stopping %s --num-beams %d --length-penalty %g\n" % (rules, early, width, penalty))
assert any(t[-1] == eos for c in cases for t, _ in c[4]) and any(t[-1] != eos for c in cases for t, _ in c[4]), [[t[-1] == eos for t, _ in c[4]] for c in cases]
PY

cat >compare.py <<'PY'
import json, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file("model/tokenizer.json")
case = json.load(open("expected.json"))[int(sys.argv[1])]
prompts = open("prompts.txt").read().splitlines()
rows = [json.loads(line) for line in open("got.json")]
assert len(rows) == len(prompts)
eos = tokenizer.token_to_id("<|endoftext|>")
for row, prompt, (tokens, scores) in zip(rows, prompts, case[4]):
    if abs(scores[0] - scores[1]) < 1e-5:
        continue
    finished = tokens[-1] == eos
    text = prompt + tokenizer.decode(tokens[:-1] if finished else tokens, skip_special_tokens=False)
    assert abs(row["score"] - scores[0]) < 1e-4, (row["score"], scores)
    assert row["text"].replace("\ufffd", "") == text.replace("\ufffd", ""), (row["text"], text)
    assert row["length"] == len(tokenizer.encode(prompt).ids) + len(tokens) and row["finished"] == finished, row
PY

number=0
while read -r options; do
    options=${options/--beam-rules megatron --early-stopping false/--beam-rules megatron}
    for way in "" "--recompute"; do
        [ -z "$way" ] || [ $((number % 3)) -eq 0 ] || continue
        # shellcheck disable=SC2086
        "$MEGALITH" generate_samples_gpt --load model --sample-input-file prompts.txt --genfile got.json --overwrite \
            --out-seq-length 24 $options $way >log 2>&1 ||
            { cat log; exit 1; }
        "$MEGA_PEERS" compare.py $number || { echo "FAILED: $options $way"; exit 1; }
    done
    if [ $((number % 2)) -eq 0 ]; then
        # shellcheck disable=SC2086
        ranks 4 "$MEGALITH" generate_samples_gpt --load model --sample-input-file prompts.txt --genfile got.json \
            --overwrite --out-seq-length 24 $options \
            --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >log 2>&1 </dev/null || { cat log; exit 1; }
        "$MEGA_PEERS" compare.py $number || { echo "FAILED: $options on four ranks"; exit 1; }
    fi
    number=$((number + 1))
done <cases.txt
echo "ok: $number kinds of searches find the texts of the peers"
