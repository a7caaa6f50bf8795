#!/usr/bin/env bash
# Every option that "works" is read somewhere: its field stands after -> or . in a file outside src/config. An option that
# nothing reads would be accepted and do nothing. Fields are looked for as code writes them: cfg->NAME, cfg->GROUP.NAME, or
# o->NAME in a file where o points to that GROUP of options. The same name in another struct or group does not count.
set -u
: "${MEGA_SOURCE:?run by ctest}"
cd "$MEGA_SOURCE" || exit 1
# what follows from these fields is read instead of them
derived='bf16|fp64|preset|use_distributed_optimizer|num_layers_per_virtual_pipeline_stage|gradient_accumulation_steps|weight_decay|profile'
by_rule='overwrite' # a rule does what it says
code=$(mktemp)
trap 'rm -f "$code"' EXIT
find src -name '*.c' ! -path 'src/config/*' ! -path '*/tests/*' -exec cat {} + >"$code"
is_read() { # FIELD of mega_config
    case $1 in
    *.*)
        grep -qE "(->|\.)${1%%.*}\.${1##*.}\b" "$code" ||
            grep -lE "mega_${1%%.*}_options \*o\b" src/cli/*.c | xargs -r grep -qE "\bo->${1##*.}\b"
        ;;
    *) grep -qE "\bcfg(->|\.)$1\b" "$code" ;;
    esac
}
failures=0
count=0
while read -r name field; do
    count=$((count + 1))
    [[ "$field" =~ ^($derived|$by_rule)$ ]] && continue
    if ! is_read "$field"; then
        echo "FAILED: nothing reads $field, which --$name sets"
        failures=$((failures + 1))
    fi
done < <(cat src/config/options_*.c | tr '\n' ' ' | grep -oE 'OPTION\("[^"]+", *[a-z_0-9.]+' | sed -E 's/OPTION\("([^"]+)", */\1 /')
if [ $count -lt 100 ]; then
    echo "FAILED: only $count options were found in the table"
    exit 1
fi
[ $failures -eq 0 ]
