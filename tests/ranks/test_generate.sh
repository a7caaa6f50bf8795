#!/usr/bin/env bash
# Generation on ranks that share a model or the prompts prints the text of one rank, greedy and sampled, in every mode.
# Evaluation on tensor-parallel ranks, pipeline stages and data-parallel ranks prints the figures of one rank. Output
# and mistakes are printed once.
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
"$MEGALITH" preprocess_data --input text.txt --split-on-blank-lines --tokenizer-type ByteTokenizer --append-eod \
    --output-prefix text >log 2>&1 || fail "$(cat log)"
"$MEGALITH" pretrain_gpt --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 128 --micro-batch-size 4 \
    --lr 3e-3 --attention-dropout 0 --hidden-dropout 0 \
    --train-iters 60 --tokenizer-type ByteTokenizer --data-path text_text_document --split 100,0,0 --eval-iters 0 \
    --save model >log 2>&1 || fail "$(tail -n 3 log)"
cp text.txt prompts.txt

# ranks and the options of their layout
layout_of() {
    case "$1" in
    tp2) echo 2 --tensor-model-parallel-size 2 ;;
    pp2) echo 2 --pipeline-model-parallel-size 2 ;;
    dp2) echo 2 ;;
    tp2pp2) echo 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ;;
    pp2dp2) echo 4 --pipeline-model-parallel-size 2 ;;
    tp2dp2) echo 4 --tensor-model-parallel-size 2 ;;
    tp2pp2dp2) echo 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ;;
    pp2i) echo 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 ;;
    pp2tp2i) echo 4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 \
        --num-virtual-stages-per-pipeline-rank 2 ;;
    pp3) echo 3 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2 ;;
    esac
}
on() { # layout, command, its arguments
    local n options
    read -r n options <<<"$(layout_of "$1")"
    # shellcheck disable=SC2086
    ranks "$n" "$MEGALITH" "$2" $options "${@:3}"
}
long='a text that is longer than a chunk of a prompt is and so is read in two pieces, one after the other'
# name, layouts, then options: one rank and each layout, there also with the options in $cut, give the same bytes on
# standard output
cut=()
same() {
    local name=$1 layouts=$2 layout
    shift 2
    "$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 "$@" >one.txt 2>one.err <input ||
        fail "$name, one rank: $(cat one.err)"
    for layout in $layouts; do
        on "$layout" generate_samples_gpt --load model --out-seq-length 20 "$@" "${cut[@]}" >many.txt 2>many.err \
            <input ||
            fail "$name, $layout: $(cat many.err)"
        cmp -s one.txt many.txt || fail "$name, $layout: another text: $(diff one.txt many.txt)"
    done
}
: >input
all="tp2 pp2 dp2 tp2pp2 pp2dp2"
[ "${MEGA_MATRIX:-full}" = full ] || all="tp2 pp2dp2" # for slow builds
same greedy "$all" --prompt "line 1" --greedy
same drawn "$all pp3 pp2i" --prompt "line 1" --prompt "line 22 of" --prompt "$long" --seed 5
same batch "$all tp2pp2dp2 pp2tp2i" --prompt "line 1" --prompt "line 22 of a" --prompt "$long" --prompt "of" --prompt \
    "li" --batch 2 --top_k 5
same again "pp2 dp2 pp2i" --prompt "line 1" --greedy --recompute
same free "tp2dp2 pp2dp2" --num-samples 5 --batch 2 --top_p 0.9
same pieces "pp2 pp2i" --prompt "$long" --prompt "line" --batch 2 --inference-batch-times-seqlen-threshold 32
same beams "tp2pp2 pp2i dp2" --prompt "line 1" --prompt "$long" --num-beams 5 --length-penalty 1.5
same "beams to the end" "pp2dp2" --prompt "line 2" --num-beams 3 --beam-rules transformers --early-stopping never
same rules "tp2 pp2i" --prompt "line 1" --prompt "$long" --batch 2 --top_p 0.9 --top_p_decay 0.9 --repetition_penalty \
    1.2 --min_p 0.01 --stop xt
cut=(--inference-micro-batches 2)
same "a batch in two" "pp2 tp2pp2 pp2i" --prompt "line 1" --prompt "line 22 of a" --prompt "$long" --prompt "of" \
    --batch 4 --seed 5
same "beams in two" "pp2" --prompt "line 1" --num-beams 5
cut=()
same bf16 "pp2 dp2" --prompt "line 1" --prompt "$long" --bf16
printf 'line 1\nline 2\nstop\nline 3\n' >input
same conversation "tp2 pp2" --interactive
same lines "dp2" --top_k 3
printf 'line 1\n%s\nline 2\n%s\n%s\nline 3\n' "$long $long" "$long $long" "$long $long" >input
same "long lines" "tp2 pp2" --top_k 3
same "long lines in batches" "pp2dp2 tp2dp2" --top_k 3 --batch 2
same "a rank without prompts" "dp2" --top_k 3 --batch 3
printf 'line 1\nline 2\nstop\nline 3\n' >input
# megalith launch passes on its standard input, from a pipe and in the background too
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 --top_k 3 <input >one.txt 2>one.err ||
    fail "lines, one rank: $(cat one.err)"
for log in "" "--log_dir logs"; do
    # shellcheck disable=SC2086
    (unset RANK WORLD_SIZE; cat input | "$MEGALITH" launch --nproc_per_node 2 $log generate_samples_gpt --load model \
        --out-seq-length 20 --top_k 3 >many.txt 2>many.err) &
    wait $! || fail "lines by launch: $(cat many.err)"
    sed 's/^\[0\] //' many.txt | cmp -s one.txt - || fail "lines by launch: another text: $(diff one.txt many.txt)"
done
: >input
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 20 --sample-input-file prompts.txt --genfile one.json \
    >one.txt 2>&1 || fail "prompt file: $(cat one.txt)"
mv prompts.txt.out one.out
for layout in tp2 pp2dp2; do
    on "$layout" generate_samples_gpt --load model --out-seq-length 20 --sample-input-file prompts.txt --genfile \
        many.json \
        >many.txt 2>&1 <input || fail "prompt file, $layout: $(cat many.txt)"
    [ "$(wc -l <many.json)" -eq 60 ] && cmp -s one.json many.json && cmp -s one.out prompts.txt.out ||
        fail "$layout: files of a generation are not those of one rank"
done

for i in $(seq 1 15); do echo "{\"text\": \"line $i of a text of $i words\"}"; done >passages.jsonl
printf '{"text": ""}\n\n{"text": " \\n"}\n' >>passages.jsonl # three passages without a word
# figures of a task to six digits
figures() { grep 'validation results' "$1" | grep -oE '[0-9.]+E?[+-]?[0-9]*' | awk '{printf "%.5e ", $1}'; }
for task in "LM_LOSS text.txt tp2 dp2 pp2 tp2pp2 pp2dp2 pp2i" "WIKITEXT103 text.txt tp2dp2 pp3" \
    "LAMBADA passages.jsonl tp2 dp2 tp2pp2 pp2dp2 pp2tp2i"; do
    read -r name file layouts <<<"$task"
    "$MEGALITH" tasks --task "$name" --load model --valid-data "$file" --seq-length 32 >one.txt 2>&1 ||
        fail "$name, one rank: $(cat one.txt)"
    [ "$name" != LAMBADA ] || grep -q 'total examples: 1.5000E+01' one.txt ||
        fail "empty passages count: $(cat one.txt)"
    for layout in $layouts; do
        on "$layout" tasks --task "$name" --load model --valid-data "$file" --seq-length 32 \
            >many.txt 2>&1 <input || fail "$name, $layout: $(cat many.txt)"
        [ "$(grep -c 'validation results' many.txt)" -eq 1 ] || fail "$name, $layout: more than one voice"
        [ "$(figures one.txt)" = "$(figures many.txt)" ] ||
            fail "$name, $layout: $(figures one.txt) became $(figures many.txt)"
    done
done
# Log-probabilities and logits reach the first rank from the last stage.
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 6 --prompt "line 1" --prompt "of a" --batch 2 \
    --logprobs --genfile one.json --overwrite \
    --return-logits one.npy >one.txt 2>&1 || fail "logits: $(cat one.txt)"
for layout in tp2 pp2 pp2i; do
    on "$layout" generate_samples_gpt --load model --out-seq-length 6 --prompt "line 1" --prompt "of a" --batch 2 \
        --logprobs --genfile many.json --overwrite \
        --return-logits "$layout.npy" >many.txt 2>&1 <input || fail "logits, $layout: $(cat many.txt)"
    [ "$(stat -c %s one.npy)" = "$(stat -c %s "$layout.npy")" ] &&
        [ "$(cut -d '[' -f 1,2 one.json)" = "$(cut -d '[' -f 1,2 many.json)" ] ||
        fail "logits, $layout: $(cat many.json)"
done
for layout in pp2 pp2i; do cmp -s one.npy $layout.npy && cmp -s one.json many.json ||
    fail "logits, $layout: other numbers"; done
on dp2 generate_samples_gpt --load model --out-seq-length 6 --prompt "line 1" --prompt "of a" --logprobs --genfile \
    many.json --overwrite >many.txt 2>&1 <input ||
    fail "log-probabilities, dp2: $(cat many.txt)"
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 6 --prompt "line 1" --prompt "of a" --logprobs \
    --genfile one.json --overwrite >one.txt 2>&1 || fail "$(cat one.txt)"
cmp -s one.json many.json || fail "log-probabilities, dp2: $(diff one.json many.json)"
ranks 2 "$MEGALITH" tasks --task LM_LOSS --load model --valid-data text.txt --seq-length 32 \
    --tensor-model-parallel-size 2 --sequence-parallel >many.txt 2>&1 <input ||
    fail "evaluation under sequence parallelism: $(cat many.txt)"
"$MEGALITH" tasks --task LM_LOSS --load model --valid-data text.txt --seq-length 32 >one.txt 2>&1
[ "$(figures one.txt)" = "$(figures many.txt)" ] || fail "evaluation under sequence parallelism: $(figures many.txt)"

told() { # text, ranks, then the command
    local text=$1 n=$2
    shift 2
    ranks "$n" "$MEGALITH" "$@" >mistake.log 2>&1 <input && fail "taken: $*"
    grep -q -- "$text" mistake.log && [ "$(grep -c 'error:' mistake.log)" -eq 1 ] ||
        fail "not told once: $text: $(cat mistake.log)"
}
told 'generate only when every copy has a prompt' 2 generate_samples_gpt --load model --interactive
told 'the model has 4 layers' 3 generate_samples_gpt --load model --prompt x --pipeline-model-parallel-size 3
told 'pipeline-stage 3: the 4 layers of the model cannot be cut so' 2 tasks --task LM_LOSS --load model --valid-data \
    text.txt --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 3
told 'pipeline-rank 3: the 4 layers of the model cannot be cut so' 2 generate_samples_gpt --load model --prompt x \
    --pipeline-model-parallel-size 2 \
    --num-virtual-stages-per-pipeline-rank 3
told 'positions' 2 generate_samples_gpt --load model --prompt x --prompt "$long $long $long"
told '4 attention heads' 3 generate_samples_gpt --load model --prompt x --tensor-model-parallel-size 3
told 'does not divide the world of 2 ranks' 2 tasks --task LM_LOSS --load model --valid-data text.txt \
    --tensor-model-parallel-size 4
told '/nowhere/x' 2 generate_samples_gpt --load model --prompt x --genfile /nowhere/x
told 'nowhere' 2 tasks --task LM_LOSS --load model --valid-data nowhere --tensor-model-parallel-size 2
echo "ok"
exit 0
