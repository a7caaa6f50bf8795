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

# Losses of two layouts, line by line, within the last digit that is printed.
compare() { # NAME A B
    paste -d' ' "$2" "$3" | awk -v name="$1" '
        { n++; for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 0.0011 || d < -0.0011) bad = $0 } }
        END { if (bad != "" || n == 0) { print name ": " (n == 0 ? "nothing was printed" : bad); exit 1 } }'
}

echo "gpt_lite: on 1 rank, a pipeline, ZeRO 3, tensor parallelism"
compile gpt_lite -DLAYERS=2 -DWIDTH=32 -DHEADS=2 -DSEQ=32 -DSTEPS=12
seq -s ' ' 1 2000 >"$temp/text"
(cd "$temp" && ./gpt_lite text --lr 1e-2 >alone 2>log) || { cat "$temp/log"; exit 1; }
awk 'NR == 1 { first = $NF } END { exit !(NR == 12 && $NF < 0.9 * first) }' "$temp/alone" || { cat "$temp/alone"; exit 1; }
for layout in "--pipeline-model-parallel-size 2" "--zero-stage 3" "--tensor-model-parallel-size 2"; do
    rm -rf "$temp/gpt-lite"
    # shellcheck disable=SC2086  # a list of words
    (cd "$temp" && ranks 2 ./gpt_lite text --lr 1e-2 $layout >ranks 2>log </dev/null) || { cat "$temp/log"; exit 1; }
    grep '^step' "$temp/ranks" >"$temp/steps" || true
    compare "gpt_lite $layout" "$temp/alone" "$temp/steps"
done

if ! grep -q 'mega_conv2d' "$temp/at/include/megalith/layers.h"; then
    echo "SKIPPED: mnist: layers.h has no mega_conv2d yet"
    exit 0
fi
data=${MEGA_TEST_DATA:-$MEGA_SOURCE/../shared/data}/mnist
if [ ! -f "$data/t10k-images-idx3-ubyte.gz" ]; then
    echo "SKIPPED: mnist: its digits are not in shared/data/mnist"
    exit 0
fi
echo "mnist: on 1 rank, ZeRO 2, a pipeline"
compile mnist -DTRAIN=640 -DTEST=160 -DEPOCHS=2
set -- "$data/t10k-images-idx3-ubyte.gz" "$data/t10k-labels-idx1-ubyte.gz"
(cd "$temp" && ./mnist "$@" >alone 2>log) || { cat "$temp/log"; exit 1; }
for layout in "" "--pipeline-model-parallel-size 2"; do
    rm -rf "$temp/digits"
    # shellcheck disable=SC2086
    (cd "$temp" && ranks 2 ./mnist "$@" $layout >ranks 2>log </dev/null) || { cat "$temp/log"; exit 1; }
    grep '^epoch' "$temp/ranks" >"$temp/epochs" || true
    compare "mnist $layout" "$temp/alone" "$temp/epochs"
done
