#!/usr/bin/env bash
# One step of examples/resnet18_cifar10.c equals PyTorch's: loss, gradients and running statistics, in fp32 and float64.
set -eu
: "${MEGA_SOURCE:?run by ctest}" "${MEGA_BUILD:?run by ctest}"
if [ ! -x "${MEGA_PEERS:-}" ]; then
    echo "SKIPPED: MEGA_PEERS names no Python that has torch"
    exit 77
fi
if ! command -v pkg-config >/dev/null; then
    echo "SKIPPED: pkg-config is not there"
    exit 77
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
sanitize=$(sed -n 's/^MEGA_SANITIZE:[A-Z]*=//p' "$MEGA_BUILD/CMakeCache.txt")
cmake --install "$MEGA_BUILD" --prefix "$temp/at" >log 2>&1 || { cat log; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$temp/at" -name megalith.pc)")
export PKG_CONFIG_PATH
# The whole batch is one group of batch norm.
# shellcheck disable=SC2046  # lists of words
$cc -std=c17 -O1 -Wall -Wextra -Werror ${sanitize:+-fsanitize=$sanitize} $(pkg-config --cflags megalith) \
    -DBATCH=16 -DGROUP=16 -DTEST=1 "$MEGA_SOURCE/tests/golden/resnet18_step.c" -o step $(pkg-config --libs megalith) -lm
"$MEGA_PEERS" -c '
import numpy as np
random = np.random.default_rng(5)
pictures = random.integers(0, 256, (17, 3073), dtype=np.uint8)
pictures[:, 0] = random.integers(0, 10, 17)
pictures.tofile("pictures")'
for run in "1e-5" "1e-6 --fp64"; do
    read -r tolerance options <<<"$run"
    # shellcheck disable=SC2086  # a list of words
    ./step pictures $options >printed 2>log || { cat log; exit 1; }
    echo "resnet18 ${options:-in fp32}, within $tolerance:"
    "$MEGA_PEERS" "$MEGA_SOURCE/tests/golden/resnet18_torch.py" pictures 16 "$tolerance" <printed
done
