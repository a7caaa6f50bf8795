#!/usr/bin/env bash
# The C programs in examples/ compile with the installed headers alone, and train: the same losses in every layout.
set -eu
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
. "$MEGA_SOURCE/tests/kit/ranks.sh"
if ! command -v pkg-config >/dev/null; then
    echo "SKIPPED: pkg-config is not there"
    exit 77
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
extra=()
if [ -n "$sanitize" ]; then extra=("-fsanitize=$sanitize"); fi
cmake --install "$MEGA_BUILD" --prefix "$temp/at" >"$temp/log" 2>&1 || { cat "$temp/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$temp/at" -name megalith.pc)")
export PKG_CONFIG_PATH

compile() { # NAME options…
    local name=$1
    shift
    # shellcheck disable=SC2046  # lists of words
    $cc -std=c17 -O1 -Wall -Wextra -Werror $(pkg-config --cflags megalith) "${extra[@]}" "$@" \
        "$MEGA_SOURCE/examples/$name.c" -o "$temp/$name" $(pkg-config --libs megalith)
}

# Compares the losses of two layouts line by line; the last printed digit may differ by one.
compare() { # NAME A B
    paste -d' ' "$2" "$3" | awk -v name="$1" '
        { n++; for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 0.0011 || d < -0.0011) bad = $0 } }
        END { if (bad != "" || n == 0) { print name ": " (n == 0 ? "nothing was printed" : bad); exit 1 } }'
}

# Trains a program on one rank, then on two in each layout: the lines that begin with WORD have the same numbers.
layouts() { # NAME WORD ARGUMENTS… -- LAYOUT…
    local name=$1 word=$2 layout
    shift 2
    local arguments=()
    while [ "$1" != -- ]; do
        arguments+=("$1")
        shift
    done
    shift
    rm -rf "$temp/gpt-lite" "$temp/mixture-of-experts" "$temp/digits" "$temp/resnet18"
    (cd "$temp" && ./"$name" "${arguments[@]}" >alone 2>log) || { cat "$temp/log"; exit 1; }
    for layout; do
        rm -rf "$temp/gpt-lite" "$temp/mixture-of-experts" "$temp/digits" "$temp/resnet18"
        # shellcheck disable=SC2086  # a list of words
        (cd "$temp" && ranks 2 ./"$name" "${arguments[@]}" $layout >ranks 2>log </dev/null) ||
            { cat "$temp/log"; exit 1; }
        grep "^$word" "$temp/ranks" >"$temp/lines" || true
        compare "$name $layout" "$temp/alone" "$temp/lines"
    done
}
first_loss() { awk 'NR == 1 { sub(",", "", $4); print $4 }' "$temp/alone"; }
falls() { # STEPS: the loss of the last step is below nine tenths of the first
    awk -v steps="$1" '{ sub(",", "", $4); last = $4 } NR == 1 { first = $4 }
        END { exit !(NR == steps && last < 0.9 * first) }' "$temp/alone" || { cat "$temp/alone"; exit 1; }
}
pipeline="--pipeline-model-parallel-size 2"
tensor="--tensor-model-parallel-size 2"

echo "gpt_lite: on 1 rank, a pipeline, ZeRO 3, tensor parallelism, a DeepSpeed JSON"
compile gpt_lite -DLAYERS=2 -DWIDTH=32 -DHEADS=2 -DSEQ=32 -DSTEPS=12
seq -s ' ' 1 2000 >"$temp/text"
cp "$MEGA_SOURCE/examples/ds_config.json" "$temp"
layouts gpt_lite step text --lr 1e-2 -- "$pipeline" "--zero-stage 3" "$tensor" "--deepspeed_config ds_config.json"
falls 12

echo "gpt_lite: each JSON of its tutorial on 2 ranks, with the losses of data parallelism"
compile gpt_lite -DLAYERS=2 -DWIDTH=32 -DHEADS=2 -DSEQ=32 -DSTEPS=4 -DRECOMPUTE=1
cp "$MEGA_SOURCE"/examples/gpt_lite_*.json "$temp"
for json in ddp zero2 zero3 checkpointing pipeline serial; do
    rm -rf "$temp/gpt-lite"
    n=2 layout=""
    [ $json != pipeline ] || layout="$pipeline --gradient-accumulation-steps 4"
    [ $json != serial ] || n=1
    # shellcheck disable=SC2086  # a list of words
    (cd "$temp" && ranks $n ./gpt_lite text --deepspeed --deepspeed_config gpt_lite_$json.json $layout >ranks 2>log \
        </dev/null) || { cat "$temp/log"; exit 1; }
    grep '^step' "$temp/ranks" >"$temp/lines" || true
    [ "$(wc -l <"$temp/lines")" = 4 ] || { echo "gpt_lite_$json.json: $(cat "$temp/lines")"; exit 1; }
    [ $json != ddp ] || cp "$temp/lines" "$temp/ddp"
    [ $json = serial ] || compare "gpt_lite_$json.json" "$temp/ddp" "$temp/lines"
done

echo "custom_loss: the same; the loss of a text grows with ALPHA and with its key words"
sizes=(-DLAYERS=2 -DWIDTH=32 -DSEQ=32 -DSTEPS=12)
compile custom_loss "${sizes[@]}" '-DKEYWORDS="7"'
layouts custom_loss step text --lr 1e-2 -- "$pipeline" "--zero-stage 3" "$tensor"
falls 12
weighted=$(first_loss)
compile custom_loss "${sizes[@]}" '-DKEYWORDS=""'
(cd "$temp" && ./custom_loss text >alone 2>log) || { cat "$temp/log"; exit 1; }
plain=$(first_loss)
compile custom_loss "${sizes[@]}" '-DKEYWORDS=""' -DALPHA=3.0F
(cd "$temp" && ./custom_loss text >alone 2>log) || { cat "$temp/log"; exit 1; }
awk -v plain="$plain" -v weighted="$weighted" -v thrice="$(first_loss)" '
    BEGIN { exit !(plain > 5.4 && plain < 5.7 && weighted > 1.5 * plain && thrice > 2.999 * plain && thrice < 3.001 * plain) }' ||
    { echo "first losses: without key words $plain, with them $weighted, with ALPHA 3 $(first_loss)"; exit 1; }

echo "mixture: on 1 rank, a pipeline, ZeRO 3, tensor parallelism"
compile mixture -DLAYERS=2 -DWIDTH=32 -DEXPERTS=6 -DCHOICES=2 -DINSIDE=16 -DSEQ=32 -DSTEPS=12
layouts mixture step text --lr 1e-2 -- "$pipeline" "--zero-stage 3" "$tensor"
falls 12

echo "two_losses: on 1 rank, a pipeline, ZeRO 2"
compile two_losses -DWIDTH=16 -DSTEPS=30
layouts two_losses step text --lr 1e-2 -- "$pipeline" "--zero-stage 2"
falls 30
awk \
    '{ sub(",", "", $4); d = $4 - 0.25 * $7 - $14 } d > 0.0002 || d < -0.0002 { bad = $0 } END { if (bad) print bad; exit bad != "" }' \
    "$temp/alone" || { echo "the loss is not the sum of its parts"; exit 1; }

echo "resnet18_cifar10: on 1 rank, ZeRO 2, a pipeline; the parameters have torchvision's names, shapes and number"
for ((i = 0; i < 36; i++)); do # CIFAR-10's binary version: a byte of label, then 32 x 32 bytes of each colour
    # shellcheck disable=SC2059  # the octal number of the label
    printf "\\$(printf %o $((i % 10)))"
    seq $((i % 10)) $((i / 10 + 3)) 9999 | head -c 3072
done >"$temp/pictures" 2>"$temp/log"
# In double, because batch norm of few values enlarges the rounding errors of fp32.
compile resnet18_cifar10 -DWIDTH=8 -DEPOCHS=4 -DSTEPS=6 -DBATCH=16 -DGROUP=8 -DTEST=4
layouts resnet18_cifar10 epoch pictures --lr 0.03 --fp64 -- "--zero-stage 2" "$pipeline"
falls 4
compile resnet18_cifar10 -DEPOCHS=1 -DSTEPS=1 -DBATCH=4 -DGROUP=4 -DTEST=4
layouts resnet18_cifar10 epoch pictures --lr 1e-4 --
head -c 40000 "$temp/resnet18/iter_0000001/model.safetensors" |
    grep -ao '"[a-z0-9._]*": *{"dtype": *"F32", *"shape": *\[[0-9, ]*\]' | tr -d '" ]' |
        sed 's/:{.*\[/ /' >"$temp/tensors"
grep -vE 'running_(mean|var) ' "$temp/tensors" | awk '
    { n = split($2, d, ","); k = 1; for (i = 1; i <= n; i++) k *= d[i]; total += k }
    END { if (total != 11181642) { print "resnet18_cifar10: " total " parameters; expected 11181642"; exit 1 } }'
for tensor in "conv1.weight 64,3,7,7" "bn1.running_mean 64" "layer1.1.conv2.weight 64,64,3,3" \
    "layer2.0.downsample.0.weight 128,64,1,1" "layer4.0.downsample.1.running_var 512" "fc.weight 10,512" "fc.bias 10"; \
    do
    grep -qxF "$tensor" "$temp/tensors" || { echo "resnet18_cifar10: no $tensor in:"; cat "$temp/tensors"; exit 1; }
done

data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}/mnist
if [ ! -f "$data/t10k-images-idx3-ubyte.gz" ]; then
    echo "SKIPPED: mnist: its digits are not in shared/data/mnist"
    exit 0
fi
echo "mnist: on 1 rank, ZeRO 2, a pipeline"
compile mnist -DTRAIN=640 -DTEST=160 -DEPOCHS=2
set -- "$data/t10k-images-idx3-ubyte.gz" "$data/t10k-labels-idx1-ubyte.gz"
layouts mnist epoch "$@" -- "--zero-stage 2" "$pipeline"
awk 'END { exit !($(NF - 1) > 40) }' "$temp/alone" || { echo "mnist does not learn:"; cat "$temp/alone"; exit 1; }
