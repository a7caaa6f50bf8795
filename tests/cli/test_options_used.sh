#!/usr/bin/env bash
# Every option that "works" is read somewhere: its field occurs after -> or . in a file that has neither rows nor rules.
# An option that nothing reads would be accepted without effect. Fields are searched in the forms that code uses:
# ROOM.NAME if the struct of the room is part of another, o->NAME in the room itself, cfg->NAME for those of train/,
# s->NAME for those of engine/, p->NAME for those of launch/.
set -u
: "${MEGA_SOURCE:?run by ctest}"
cd "$MEGA_SOURCE" || exit 1
# for these fields, code reads a value that is derived from them
derived='train_tokens|ckpt_step|lr_decay_tokens|lr_warmup_tokens|bf16|fp64|preset|activation_checkpoint_interval|use_distributed_optimizer|num_layers_per_virtual_pipeline_stage|gradient_accumulation_steps|weight_decay|profile'
by_rule='overwrite|deepspeed|local_rank' # a rule does what it says
rows=$(mktemp) code=$(mktemp)
trap 'rm -f "$rows" "$code"' EXIT
# ROOM STRUCT NAME FIELD, a line for each row
for file in $(grep -lE '\bMEGA_OPTION\(' src/*/*.c); do
    room=${file#src/} room=${room%%/*}
    struct=$(sed -nE 's/^#define ROW\(name, field, kind\) MEGA_OPTION\(([a-z_]+), .*/\1/p' "$file")
    tr '\n' ' ' <"$file" | grep -oE '\{(ROW|MEGA_OPTION)\([^)]*\)' | tr -d '",{' |
        sed -E \
            "s/^ROW\(([^ ]+) ([^ ]+) .*/$room $struct \1 \2/; s/^MEGA_OPTION\(([^ ]+) ([^ ]+) ([^ ]+) .*/$room \1 \2 \3/"
done | grep -v ' name setting$' >"$rows" # optimizer_arguments.h has the rows of that macro
find src -name '*.c' ! -name 'rules*.c' ! -name 'options*.c' ! -name 'derive.c' ! -name 'preset.c' ! -name \
    'settings.c' \
    ! -path 'src/config/*' ! -path '*/tests/*' ! -path src/cli/program.c >"$code"
# Rows of members, which say the setting that each is taken from; rows and the code that reads them.
printf 'src/%s\n' engine/option_rows.h engine/options.c launch/options.c >>"$code"
is_read() { # ROOM STRUCT FIELD
    local group=$1 inside="o->$3"
    case $2 in
    mega_train_options) inside="cfg(->|\.)$3" group=train ;;
    launch_plan) inside="p->$3" ;;
    mega_engine_settings) inside="(s|of)->$3" ;;
    setup_values) inside="v(->|\.)$3" ;;
    mega_command_options) inside="cfg(->|\.)$3" ;;
    mega_*_options) [ "$1" = cli ] && group=${2#mega_} group=${group%_options} group=${group%_command} ;;
    esac
    xargs grep -qE "\b$group\.$3\b" <"$code" || grep "^src/$1/" "$code" | xargs grep -qE "\b$inside\b" ||
        { [ "$2" = setup_values ] && grep -qE "\b$inside\b" src/engine/setup_options.c; }
}
failures=0
count=0
# An option of an optimizer, by the member of mega_optimizer_options.
for member in $(grep -oE '^    R\(([^,]*,){5} \w+' src/optim/include/megalith/optimizer_arguments.h | sed 's/.* //'); do
    count=$((count + 1))
    { grep '^src/optim/' "$code"; echo src/backend/include/megalith/optimizer_formulas.h; } |
        xargs grep -qE "\bARGUMENT(_|\([^,]*, )$member\b|\b(options\.|o->)$member\b" &&
        continue
    grep -qE "\ba->$member\b" src/backend/include/megalith/optimizer_formulas.h && continue
    echo "FAILED: no optimizer reads $member of mega_optimizer_options"
    failures=$((failures + 1))
done
while read -r room struct name field; do
    count=$((count + 1))
    [[ "$field" =~ ^($derived|$by_rule)$ ]] && continue
    if ! is_read "$room" "$struct" "$field"; then
        echo "FAILED: nothing reads $field of $struct, which --$name sets"
        failures=$((failures + 1))
    fi
done <"$rows"
if [ $count -lt 190 ]; then
    echo "FAILED: only $count options were found in the rooms"
    exit 1
fi
[ $failures -eq 0 ]
