#!/usr/bin/env bash
# A folder of each family (tools/make_family_golden.py) is loaded, trained with a learning rate that changes no weight,
# and saved: the tensors are the same, and transformers computes the same logits from both folders.
. "${MEGA_SOURCE:?}/tests/kit/kit.sh"
[ -x "${MEGA_PEERS:-}" ] || skip "MEGA_PEERS names no Python that has transformers"
"$MEGA_PEERS" "$MEGA_SOURCE/tools/make_family_golden.py" models >log 2>&1 || fail "making the models: $(tail -3 log)"
for i in $(seq 1 60); do echo "$((i * 7 % 58)) $((i * 11 % 58)) $((i * i % 58)) $i 3 1 4 1 5 9 2 6"; done |
    sed 's/\b59\b\|\b60\b/0/g' >ids.txt
"$MEGALITH" preprocess_data --input ids.txt --tokenizer-type NullTokenizer --vocab-size 60 --append-eod \
    --output-prefix ids >log 2>&1 || fail "data"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . w{1..50} >vocab.txt
for i in $(seq 1 9); do echo "W$i w$((i + 9)) w20. W$((2 * i)) w7 w$((50 - i)). W5 w6 w8 w9."; echo; done >sentences.txt
"$MEGALITH" preprocess_data --input sentences.txt --split-on-blank-lines --split-sentences --tokenizer-type \
    BertWordPieceLowerCase --vocab-file vocab.txt \
    --output-prefix s >log 2>&1 || fail "sentences: $(tail -3 log)"
for folder in models/*/; do
    own=(pretrain_gpt --tokenizer-type NullTokenizer --vocab-size 60 --data-path ids_text_document)
    grep -q 'MaskedLM\|PreTraining' "$folder/config.json" &&
        own=(pretrain_bert --vocab-file vocab.txt --data-path s_text_sentence)
    grep -q 'ConditionalGeneration' "$folder/config.json" &&
        own=(pretrain_t5 --vocab-file vocab.txt --vocab-extra-ids 3 --data-path s_text_sentence)
    "$MEGALITH" "${own[@]}" --load "$folder" --finetune --split 100,0,0 --train-iters 1 --lr 1e-30 --min-lr 0 \
        --weight-decay 0 --seq-length 16 \
        --micro-batch-size 1 --global-batch-size 1 --eval-iters 0 --no-save-optim --save "saved/$(basename "$folder")" \
        >log 2>&1 || fail "$folder: $(tail -3 log)"
done
cat >compare.py <<'PY'
import glob
import os
import sys

import safetensors.torch
import torch
import transformers

wrong = 0
for name in sorted(os.listdir("saved")):
    before, after = "models/" + name, glob.glob(f"saved/{name}/iter_*")[0]
    a, b = (safetensors.torch.load_file(folder + "/model.safetensors") for folder in (before, after))
    same = set(a) == set(b) and all(torch.equal(a[key], b[key]) for key in a)
    if name == "megatron-t5":  # which transformers does not know
        wrong += not same
        print("FAILED: megatron-t5: other tensors" if not same else "megatron-t5")
        continue
    kind = getattr(transformers, transformers.AutoConfig.from_pretrained(before).architectures[0])
    models = [kind.from_pretrained(folder, output_loading_info=True) for folder in (before, after)]
    ids = torch.arange(48).reshape(2, 24)
    with torch.no_grad():
        more = {"decoder_input_ids": ids.flip(1)} if "ConditionalGeneration" in kind.__name__ else {}
        logits = [model(ids, return_dict=False, **more)[0] for model, _ in models]
    whole = not models[1][1]["missing_keys"] and not models[1][1]["unexpected_keys"]
    if not (same and whole and torch.equal(*logits)):
        print(f"FAILED: {name}: tensors {same}, keys {whole}, logits differ by {(logits[0] - logits[1]).abs().max().item()}")
        wrong += 1
sys.exit(wrong > 0 or len(os.listdir("saved")) < 47)
PY
"$MEGA_PEERS" compare.py >out 2>err || fail "compared: $(grep FAILED out; tail -3 err)"
finish
