#!/usr/bin/env bash
# Ranks that divide the experts of a model generate and evaluate as one rank, in every layout: texts, log-probabilities,
# losses; also where some ranks have fewer windows than others, or none. Each rank needs less memory than one alone.
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
for i in $(seq 1 60); do echo "line $i of a text of $((i * 7919 % 100)) words"; done >text.txt
"$MEGALITH" pretrain_gpt --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --micro-batch-size 4 \
    --num-experts 8 --moe-ffn-hidden-size 64 --moe-layer-freq '([0]*1+[1]*3)' --disable-bias-linear --swiglu \
    --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights --lr 5e-3 \
    --train-iters 60 --tokenizer-type ByteTokenizer --train-data-path text.txt --eval-iters 0 --save model >log 2>&1 ||
    fail "$(tail -n 3 log)"
ep=--expert-model-parallel-size tp=--tensor-model-parallel-size pp=--pipeline-model-parallel-size
layout_of() { # ranks and the options of a layout
    case "$1" in
    ep2) echo 2 $ep 2 ;;
    ep4) echo 4 $ep 4 ;;
    ep2dp2) echo 4 $ep 2 ;;
    ep2tp2) echo 4 $ep 2 $tp 2 ;;
    ep2pp2) echo 4 $ep 2 $pp 2 ;;
    ep2pp2i) echo 4 $ep 2 $pp 2 --num-layers-per-virtual-pipeline-stage 1 ;;
    ep2tp2pp2) echo 8 $ep 2 $tp 2 $pp 2 ;;
    esac
}
on() { # layout, command, its arguments
    local n options
    read -r n options <<<"$(layout_of "$1")"
    # shellcheck disable=SC2086
    ranks "$n" "$MEGALITH" "$2" --load model $options "${@:3}"
}
long='a text that is longer than a chunk of a prompt is'
same() { # name, layouts, options: the bytes of one rank
    local name=$1 layouts=$2 layout
    shift 2
    "$MEGALITH" generate_samples_gpt --load model --out-seq-length 12 "$@" >one.txt 2>err <input ||
        fail "$name, one rank: $(cat err)"
    for layout in $layouts; do
        on "$layout" generate_samples_gpt --out-seq-length 12 "$@" >many.txt 2>err <input ||
            fail "$name, $layout: $(cat err)"
        cmp -s one.txt many.txt || fail "$name, $layout: another text: $(diff one.txt many.txt)"
    done
}
: >input
three=(--prompt "line 1" --prompt "$long" --prompt "line 22 of")
all="ep2 ep4 ep2dp2 ep2tp2 ep2pp2 ep2pp2i ep2tp2pp2"
[ "${MEGA_MATRIX:-full}" = full ] || all="ep2dp2 ep2pp2i" # for slow builds
same drawn "$all" "${three[@]}" --seed 5
same batch "ep4 ep2dp2 ep2pp2" "${three[@]}" --batch 2 --top_k 5
same pieces "ep2" "${three[@]}" --batch 2 --inference-batch-times-seqlen-threshold 8
same beams "ep4 ep2tp2" "${three[@]}" --num-beams 3
same again "ep2" --prompt "line 1" --greedy --recompute
printf 'line 1\nline 2\nstop\nline 3\n' >input
same conversation "ep4" --interactive
: >input

figures() { grep 'validation results' "$1" | grep -oE '[0-9.]+E?[+-]?[0-9]*' | awk '{printf "%.5e ", $1}'; }
for i in $(seq 1 7); do echo "{\"text\": \"line $i of a text of $i words\"}"; done >passages.jsonl
head -c 700 text.txt >short.txt # 22 windows, 6 batches; with 8 windows a batch, some ranks have none
for task in "LM_LOSS short.txt 4 $all" "LM_LOSS short.txt 8 ep4 ep2dp2" "WIKITEXT103 text.txt 1 ep4" \
    "LAMBADA passages.jsonl 4 ep2dp2 ep2tp2"; do
    read -r name file batch layouts <<<"$task"
    with=(--task "$name" --valid-data "$file" --seq-length 32 --micro-batch-size "$batch")
    "$MEGALITH" tasks --load model "${with[@]}" >one.txt 2>&1 || fail "$name, one rank: $(cat one.txt)"
    for layout in $layouts; do
        for rounds in 1.5 0.3; do
            on "$layout" tasks "${with[@]}" --moe-buffer-factor $rounds >many.txt 2>&1 <input ||
                fail "$name, $layout: $(cat many.txt)"
            [ "$(grep -c 'validation results' many.txt)" -eq 1 ] || fail "$name, $layout: more than one voice"
            [ "$(figures one.txt)" = "$(figures many.txt)" ] ||
                fail "$name, $layout: $(figures one.txt) became $(figures many.txt)"
        done
    done
done

# from C
"$MEGALITH" generate_samples_gpt --load model --out-seq-length 12 --prompt "line 3" --greedy >one.txt 2>err ||
    fail "one rank: $(cat err)"
for axis in ep tp pp; do
    ranks 2 "$MEGA_BUILD/tests/ranks_generator" model $axis "line 3" >many.txt 2>err <input || fail "$axis: $(cat err)"
    cmp -s one.txt many.txt || fail "mega_generator_open, $axis: another text: $(diff one.txt many.txt)"
done
ranks 2 "$MEGA_BUILD/tests/ranks_generator" model none "line 3" >log 2>&1 <input && fail "two copies from C"
grep -q 'mega_generator_open: 2 ranks, and tp 1 x pp 1 x ep 1 share the model' log || fail "two copies: $(cat log)"

lines=(--prompt "line 1" --prompt "of a" --batch 2 --logprobs --overwrite)
"$MEGALITH" generate_samples_gpt --load model "${lines[@]}" --out-seq-length 6 --genfile one.json \
    --return-logits one.npy >log 2>&1 || fail "logits: $(cat log)"
on ep4 generate_samples_gpt "${lines[@]}" --out-seq-length 6 --genfile many.json --return-logits many.npy \
    >log 2>&1 <input || fail "logits of ranks: $(cat log)"
[ "$(stat -c %s one.npy)" = "$(stat -c %s many.npy)" ] &&
    [ "$(cut -d '[' -f 1,2 one.json)" = "$(cut -d '[' -f 1,2 many.json)" ] || fail "logits of ranks: $(cat many.json)"

needs() { # of the message that refuses too little memory
    grep -oE '\(weights [0-9.]+ MB' "$1" | grep -oE '[0-9.]+'
}
"$MEGALITH" generate_samples_gpt --load model --prompt x --memory-limit 1 >one.txt 2>&1 && fail "one byte is enough"
on ep4 generate_samples_gpt --prompt x --memory-limit 1 >many.txt 2>&1 <input && fail "one byte is enough for four"
awk -v one="$(needs one.txt)" -v four="$(needs many.txt)" 'BEGIN { exit !(four > 0 && four < 0.5 * one) }' ||
    fail "weights of a rank: $(needs one.txt) MB alone, $(needs many.txt) MB of four"

told() { # text, ranks, then the command
    local text=$1 n=$2
    shift 2
    ranks "$n" "$MEGALITH" "$@" >mistake.log 2>&1 <input && fail "taken: $*"
    grep -q -- "$text" mistake.log && [ "$(grep -c 'error:' mistake.log)" -eq 1 ] ||
        fail "not told once: $text: $(cat mistake.log)"
}
told '8 experts over 3 ranks of ep' 3 generate_samples_gpt --load model --prompt x $ep 3
told '8 experts over 3 ranks of ep' 3 tasks --task LM_LOSS --load model --valid-data text.txt $ep 3
told 'does not divide the 3 data-parallel ranks' 3 generate_samples_gpt --load model --prompt x $ep 2
told '2 copies of the model were started' 4 generate_samples_gpt --load model --prompt x --return-logits x.npy $ep 2
told '2 copies of the model were started, and they generate only when every copy' 4 generate_samples_gpt --load model \
    --interactive $ep 2
told '2 copies of the model were started, and one request' 4 run_text_generation_server --load model $ep 2
"$MEGALITH" pretrain_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 \
    --lr 1e-3 --train-iters 1 --tokenizer-type ByteTokenizer --train-data-path text.txt --eval-iters 0 --save dense \
    >log 2>&1 ||
    fail "$(tail -n 3 log)"
told 'the model has no experts to divide' 2 generate_samples_gpt --load dense --prompt x $ep 2
echo ok
