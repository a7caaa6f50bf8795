#!/usr/bin/env bash
# Generation over ranks that share a model gives one rank's text, greedy and drawn, in every mode; evaluation over tensor- and
# data-parallel ranks gives one rank's figures. One voice, and mistakes are told once.
set -u
. "$MEGA_SOURCE/tests/kit/ranks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_NUM_THREADS=1
fail() {
    echo "FAILED: $1"
    exit 1
}
for i in $(seq 1 60); do echo "line $i of a text of $((i * 7919 % 100)) words"; echo; done >text.txt
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --micro-batch-size 4 --lr 3e-3 \
    --train-iters 60 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 --save model >log 2>&1 || fail "$(tail -n 3 log)"
cp text.txt prompts.txt

# name, then options: one rank and two give the same bytes on standard output
same() {
    local name=$1
    shift
    "$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 "$@" >one.txt 2>one.err <input || fail "$name, one rank: $(cat one.err)"
    ranks 2 "$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 --tensor-model-parallel-size 2 "$@" >two.txt 2>two.err <input ||
        fail "$name, two ranks: $(cat two.err)"
    cmp -s one.txt two.txt || fail "$name: another text: $(diff one.txt two.txt)"
}
: >input
same greedy --prompt "line 1" --greedy
same drawn --prompt "line 1" --prompt "line 22 of" --seed 5
same batch --prompt "line 1" --prompt "line 22 of" --batch 2 --top_k 5
same again --prompt "line 1" --greedy --recompute
printf 'line 1\nline 2\nstop\nline 3\n' >input
same conversation --interactive
: >input
ranks 2 "$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 --tensor-model-parallel-size 2 --sample-input-file prompts.txt --genfile two.json \
    >two.txt 2>&1 <input || fail "prompt file: $(cat two.txt)"
[ "$(wc -l <two.json)" -eq 60 ] && [ "$(grep -c '^Context:' prompts.txt.out)" -eq 60 ] || fail "files of a generation are not written once"

for i in $(seq 1 15); do echo "{\"text\": \"line $i of a text of $i words\"}"; done >passages.jsonl
# ranks and tp; figures of a task to six digits
figures() { grep 'validation results' "$1" | grep -oE '[0-9.]+E?[+-]?[0-9]*' | awk '{printf "%.5e ", $1}'; }
for task in "LM_LOSS text.txt" "WIKITEXT103 text.txt" "LAMBADA passages.jsonl"; do
    read -r name file <<<"$task"
    "$MEGALITH" tasks --task "$name" --load model --valid-data "$file" --seq-length 32 >one.txt 2>&1 || fail "$name, one rank: $(cat one.txt)"
    for layout in "2 2" "2 1" "4 2"; do
        n=${layout% *} tp=${layout#* }
        ranks "$n" "$MEGALITH" tasks --task "$name" --load model --valid-data "$file" --seq-length 32 --tensor-model-parallel-size "$tp" \
            >many.txt 2>&1 <input || fail "$name, $n ranks, tp $tp: $(cat many.txt)"
        [ "$(grep -c 'validation results' many.txt)" -eq 1 ] || fail "$name, $n ranks: more than one voice"
        [ "$(figures one.txt)" = "$(figures many.txt)" ] || fail "$name, $n ranks, tp $tp: $(figures one.txt) became $(figures many.txt)"
    done
done
ranks 2 "$MEGALITH" tasks --task LM_LOSS --load model --valid-data text.txt --seq-length 32 --tensor-model-parallel-size 2 --sequence-parallel >many.txt 2>&1 <input ||
    fail "evaluation under sequence parallelism: $(cat many.txt)"
"$MEGALITH" tasks --task LM_LOSS --load model --valid-data text.txt --seq-length 32 >one.txt 2>&1
[ "$(figures one.txt)" = "$(figures many.txt)" ] || fail "evaluation under sequence parallelism: $(figures many.txt)"

told() { # text, ranks, then the command
    local text=$1 n=$2
    shift 2
    ranks "$n" "$MEGALITH" "$@" >mistake.log 2>&1 <input && fail "taken: $*"
    grep -q -- "$text" mistake.log && [ "$(grep -c 'error:' mistake.log)" -eq 1 ] || fail "not told once: $text: $(cat mistake.log)"
}
told 'a text is made by one model' 2 generate_samples_gpt --load model --prompt x
told '4 attention heads' 3 generate_samples_gpt --load model --prompt x --tensor-model-parallel-size 3
told 'does not divide the world of 2 ranks' 2 tasks --task LM_LOSS --load model --valid-data text.txt --tensor-model-parallel-size 4
told 'nowhere' 2 tasks --task LM_LOSS --load model --valid-data nowhere --tensor-model-parallel-size 2
echo "ok"
exit 0
