#!/usr/bin/env bash
# embed: an array of NumPy with a row for each line; with MEGA_PEERS, the means that transformers computes.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
export OMP_NUM_THREADS=2
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . the a fox dog cat owl runs sleeps >vocab.txt
for i in $(seq 1 30); do echo "The fox runs. A dog sleeps. The owl runs."; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix t >log 2>&1 || fail "preprocessing"
"$MEGALITH" pretrain_bert --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 24 --micro-batch-size 4 \
    --train-iters 4 --lr 1e-2 --eval-iters 0 \
    --init-method-std 0.2 --data-path t_text_sentence --split 100,0,0 --vocab-file vocab.txt --save bert >log 2>&1 ||
    fail "pretrain_bert"
# two data sets without weights, by size (order and weights: test_sentence_blends.c)
cp t_text_sentence.bin u.bin && cp t_text_sentence.idx u.idx
for command in "pretrain_bert" "pretrain_t5 --decoder-seq-length 16 --vocab-extra-ids 10"; do
    "$MEGALITH" $command --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 --micro-batch-size 4 \
        --train-iters 2 --lr 1e-3 \
        --eval-iters 0 --data-path t_text_sentence u --split 100,0,0 --vocab-file vocab.txt >log 2>&1 ||
        note "$command by size: $(tail -n 2 log)"
done
printf '%s\n' "the fox" "a dog runs ." "" \
    "the cat sleeps . the owl runs . the fox sleeps . a cat runs . a dog sleeps . the owl runs . the fox" >lines.txt
"$MEGALITH" embed --load bert --input lines.txt --output one.npy --micro-batch-size 3 >out 2>log || fail "embed"
grep -q '^4 texts, hidden size 32: one.npy$' out || note "embed says: $(cat out)"
grep -q '1 texts have more than 24 tokens' log || note "nothing is said of a long text: $(cat log)"
[ "$(wc -c <one.npy)" = $((192 + 4 * 4 * 32)) ] || note "one.npy has $(wc -c <one.npy) bytes"
"$MEGALITH" embed --load bert --input lines.txt --output other.npy --micro-batch-size 1 >out 2>log ||
    fail "embed, one by one"
cp one.npy first.npy
"$MEGALITH" embed --load bert --input lines.txt --output one.npy --micro-batch-size 3 --vocab-file vocab.txt >out \
    2>log || fail "embed, again and with the vocabulary"
cmp one.npy first.npy || note "another array when embed writes it again"
sed 's/dog/duck/' vocab.txt >ducks.txt
cp lines.txt lines.txt.npy
refuses "another vocabulary" "another tokenizer than the one in the folder" embed --load bert --input lines.txt \
    --output new.npy --vocab-file ducks.txt
sed 's/$/\r/' lines.txt >returns.txt
"$MEGALITH" embed --load bert --input returns.txt --output returns.npy --micro-batch-size 3 >out 2>log ||
    fail "embed, lines that end with a return"
cmp one.npy returns.npy || note "the return at the end of a line is embedded"
[ "$(wc -c <one.npy)" = "$(wc -c <other.npy)" ] || note "another size with another micro-batch"
printf 'the fox\na \xff b\n' >bytes.txt
refuses "bytes that are not UTF-8" "bytes.txt:2:3: bytes that are not UTF-8" embed --load bert --input bytes.txt \
    --output bytes.npy
printf 'the fox\na \0 b\n' >bytes.txt
refuses "a zero byte" "bytes.txt:2:3: a zero byte" embed --load bert --input bytes.txt --output bytes.npy
{ printf '\xef\xbb\xbf'; cat lines.txt; } >mark.txt
"$MEGALITH" embed --load bert --input mark.txt --output mark.npy --micro-batch-size 3 >out 2>log ||
    fail "embed, a byte order mark"
cmp one.npy mark.npy || note "the byte order mark is embedded"
refuses "a file that exists" "lines.txt.npy: this file is there already and is not an array of embed" embed --load \
    bert --input lines.txt --output lines.txt.npy
refuses "nothing" "missing: --load FOLDER|missing: --input FILE|missing: --output FILE.npy" embed --num-threads 1
refuses "another ending" "a file whose name ends with .npy" embed --load bert --input lines.txt --output x.txt
if [ -x "${MEGA_PEERS:-}" ]; then
    cat >means.py <<'PY'
import glob
import numpy
import torch
import transformers
folder = glob.glob("bert/iter_*")[0]
vocabulary = [line.rstrip("\n") for line in open("vocab.txt")]
model = transformers.AutoModel.from_pretrained(folder).eval()
ours = numpy.load("one.npy")
assert abs(ours - numpy.load("other.npy")).max() < 1e-5
for i, line in enumerate(open("lines.txt")):
    ids = ([2] + [vocabulary.index(word) for word in line.split()])[:23] + [3]
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
    assert abs(ours[i] - theirs).max() < 1e-5, (i, abs(ours[i] - theirs).max())
PY
    "$MEGA_PEERS" means.py >out 2>log || note "transformers: $(tail -1 log)"
    # Folders of encoders alone: names without the prefix of the family, no heads.
    cat >bare.py <<'PY'
import sys
import numpy
import torch
from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, MegatronBertConfig, MegatronBertModel, ModernBertConfig,
                          ModernBertModel, RobertaConfig, RobertaModel, XLMRobertaConfig, XLMRobertaModel)
sizes = dict(vocab_size=14, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, initializer_range=0.3)
of = {"bert": (BertModel, BertConfig, {}), "megatron": (MegatronBertModel, MegatronBertConfig, {}),
      "roberta": (RobertaModel, RobertaConfig, dict(pad_token_id=1, type_vocab_size=1)), "xlm": (XLMRobertaModel, XLMRobertaConfig, dict(pad_token_id=1)),
      "distilbert": (DistilBertModel, DistilBertConfig, dict(hidden_dim=40)),
      "modernbert": (ModernBertModel, ModernBertConfig, dict(pad_token_id=0, bos_token_id=2, eos_token_id=3, local_attention=8))}
words = [line.rstrip("\n") for line in open("vocab.txt")]
for name, (model, config, more) in of.items():
    if sys.argv[1] == "make":
        torch.manual_seed(1)
        rest = {} if name == "distilbert" else dict(intermediate_size=40)
        model(config(**sizes, **rest, max_position_embeddings=40, **more)).save_pretrained("bare/" + name)
        continue
    m, ours = model.from_pretrained("bare/" + name).eval(), numpy.load(f"bare-{name}.npy")
    for i, line in enumerate(["the fox", "a dog runs . the owl sleeps ."]):
        ids = [2] + [words.index(word) for word in line.split()] + [3]
        with torch.no_grad():
            theirs = m(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
        assert abs(ours[i] - theirs).max() < 1e-5, (name, i, abs(ours[i] - theirs).max())
PY
    printf '%s\n' "the fox" "a dog runs . the owl sleeps ." >bare.txt
    "$MEGA_PEERS" bare.py make >out 2>log || fail "encoders alone: $(tail -1 log)"
    for name in bert megatron roberta xlm distilbert modernbert; do
        cp vocab.txt "bare/$name"
        "$MEGALITH" embed --load "bare/$name" --input bare.txt --output "bare-$name.npy" >out 2>log ||
            note "$name: $(tail -2 log)"
    done
    "$MEGA_PEERS" bare.py compare >out 2>log || note "encoders alone: $(tail -1 log)"
    refuses "a head for words" "holds an encoder without a head" fill_mask --load bare/bert --text "the [MASK] ."
fi
finish
