#!/usr/bin/env bash
# Greedy text of 256 tokens equals transformers' generate() on the same folder: with the key/value cache, without it, in
# a batch, and on ranks that share the model.
set -euo pipefail
: "${MEGALITH:?}" "${MEGA_SOURCE:?}"
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS names no Python that has transformers"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$MEGA_SOURCE/tests/kit/ranks.sh"
cd "$work"
cat "$MEGA_SOURCE"/README.md "$MEGA_SOURCE"/ARCHITECTURE.md "$MEGA_SOURCE"/docs/{recipes,training}.md >corpus.txt
"$MEGALITH" train_tokenizer --input corpus.txt --vocab-size 500 --output model >log 2>&1
printf \
    'The tokenizer\nA training step is a program. A model is a function that describes the forward computation of one rank into a graph\nx\n' >prompts.txt

"$MEGA_PEERS" - <<'PY'
import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(3)
tokenizer = Tokenizer.from_file("model/tokenizer.json")
eos = tokenizer.token_to_id("<|endoftext|>")
config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=320, n_embd=48, n_layer=4, n_head=4, bos_token_id=eos, eos_token_id=eos,
                    initializer_range=0.3)
model = GPT2LMHeadModel(config).eval()
model.save_pretrained("model")
with open("expected.txt", "w") as out:
    for line in open("prompts.txt").read().splitlines():
        ids = torch.tensor([tokenizer.encode(line).ids])
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=256, do_sample=False, pad_token_id=eos)[0, ids.shape[1]:].tolist()
        if made and made[-1] == eos:
            made.pop()
        out.write("\nContext:" + line + "\n\nMegatron-LM:" + tokenizer.decode(made, skip_special_tokens=False) + "\n")
PY

for options in "" "--recompute" "--batch 3" "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"; do
    n=1
    [ "${options#--tensor}" = "$options" ] || n=4
    # shellcheck disable=SC2086
    $([ $n -eq 1 ] || echo ranks $n) "$MEGALITH" generate_samples_gpt --load model --sample-input-file prompts.txt \
        --sample-output-file got.txt --out-seq-length 256 --greedy \
        $options >log 2>&1 </dev/null || { cat log; exit 1; }
    # Bytes that are not UTF-8 are kept here; transformers shows U+FFFD for them. newline="": a token may be a carriage
    # return.
    "$MEGA_PEERS" -c 'open("shown.txt", "w").write(open("got.txt", errors="replace", newline="").read())'
    if ! cmp shown.txt expected.txt; then
        echo "FAILED: greedy text differs from transformers' with options '$options'"
        diff shown.txt expected.txt | head -20
        exit 1
    fi
done
echo "ok: greedy text equals transformers'"
