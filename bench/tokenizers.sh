#!/usr/bin/env bash
# Speeds of every kind of tokenizer on one core, beside GPT-2's own and those of the packages tokenizers and
# sentencepiece:
#
#   bench/tokenizers.sh            needs MEGA_PEERS (bench/peers/install) and the shared data; takes some minutes
#   MEGA_ONLY=bert bench/...       only the kinds with this in their names
#
# Vocabularies are made by tools/make_tokenizers.py from the English texts. Those called gpt2-* have GPT-2's vocabulary,
# so that only the pipeline differs from the lines tokenize_english_mb_s and tokenize_multilingual_mb_s.
set -eu
cd "$(dirname "$0")/.."
peers=${MEGA_PEERS:-$(bench/peers/find)}
data=${MEGA_TEST_DATA:-../shared/data}
tools/build.sh release bench_tokenizer >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$peers" - "$data" "$folder/text" <<'PYTHON'
import json, sys
with open(sys.argv[2], "w", encoding="utf-8") as f:
    for line in open(sys.argv[1] + "/corpus/openwebtext-1000.jsonl", encoding="utf-8"):
        f.write(json.loads(line)["text"] + "\n")
PYTHON
"$peers" tools/make_tokenizers.py "$folder/kinds" "$folder/text" 16000 "$data/gpt2/tokenizer.json"
for kind in behaviors sequence opt neox qwen2 starcoder llama3 gpt4o tiktoken sp-user sp-crossing bert-cased bert-odd \
    bert-white bert-vocab albert sp-t5 sp-unigram-crossing; do rm -r "${folder:?}/kinds/$kind"; done
for name in uncased cased; do # BERT's own vocabularies, the French one of T5, and two of SentencePiece
    mkdir "$folder/kinds/own-bert-$name"
    cp "$data/bert/tokenizer-$name.json" "$folder/kinds/own-bert-$name/tokenizer.json"
done
for name in t5/spiece-fr sentencepiece/test_model sentencepiece/test_ja_model; do
    mkdir "$folder/kinds/own-${name##*/}"
    cp "$data/$name.model" "$folder/kinds/own-${name##*/}/tokenizer.model"
    echo '{"add_bos_token": false}' >"$folder/kinds/own-${name##*/}/tokenizer_config.json"
done
[ -z "${MEGA_ONLY:-}" ] || find "$folder/kinds" -mindepth 1 -maxdepth 1 ! -name "*$MEGA_ONLY*" -exec rm -r {} +
MEGA_TOKENIZERS=$folder/kinds build/bench/bench_tokenizer
RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$peers" - "$data" "$folder/kinds" <<'PYTHON'
import json, os, sys, time
import sentencepiece
from tokenizers import Tokenizer

for corpus, language in [("openwebtext-1000", "english"), ("multilingual", "multilingual")]:
    texts = [json.loads(line)["text"] for line in open(f"{sys.argv[1]}/corpus/{corpus}.jsonl", encoding="utf-8")]
    size = sum(len(t.encode()) for t in texts)
    for name in sorted(os.listdir(sys.argv[2])):
        path = os.path.join(sys.argv[2], name)
        if os.path.exists(path + "/tokenizer.json"):
            encode = Tokenizer.from_file(path + "/tokenizer.json").encode
        elif os.path.exists(path + "/tokenizer.model"):
            encode = sentencepiece.SentencePieceProcessor(model_file=path + "/tokenizer.model").encode_as_ids
        else:
            continue
        begin = time.process_time()
        for t in texts:
            encode(t)
        print(f"PEER tokenize_{name}_{language}_mb_s {size / 1e6 / (time.process_time() - begin):.1f} MB/s", flush=True)
PYTHON
