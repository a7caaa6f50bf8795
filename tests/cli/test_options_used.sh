#!/usr/bin/env bash
# Every option that "works" is read somewhere: its field stands behind -> or . in a file outside src/config. An option that
# nothing reads would be accepted and do nothing.
set -u
: "${MEGA_SOURCE:?run by ctest}"
cd "$MEGA_SOURCE" || exit 1
# what follows from these fields is read instead of them
derived='bf16|fp64|preset|use_distributed_optimizer|num_layers_per_virtual_pipeline_stage|gradient_accumulation_steps'
code=$(mktemp)
trap 'rm -f "$code"' EXIT
find src -name '*.c' ! -path 'src/config/*' ! -path '*/tests/*' -exec cat {} + >"$code"
failures=0
count=0
while read -r name field; do
    count=$((count + 1))
    last=${field##*.}
    [[ "$last" =~ ^($derived)$ ]] && continue
    if ! grep -qE "(->|\.)$last\b" "$code"; then
        echo "FAILED: nothing reads $field, which --$name sets"
        failures=$((failures + 1))
    fi
done < <(cat src/config/options_*.c | tr '\n' ' ' | grep -oE 'OPTION\("[^"]+", *[a-z_0-9.]+' | sed -E 's/OPTION\("([^"]+)", */\1 /')
if [ $count -lt 100 ]; then
    echo "FAILED: only $count options were found in the table"
    exit 1
fi
[ $failures -eq 0 ]
