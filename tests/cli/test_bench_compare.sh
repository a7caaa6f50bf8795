#!/usr/bin/env bash
# bench/compare.py compares a result with itself, with a worse and a better one, with one that lacks figures, and with
# no result.
. "${MEGA_SOURCE:?run by ctest}/tests/kit/kit.sh"
command -v python3 >/dev/null || skip "no python3, in which bench/compare.py is written"
result() { # NAME VALUE [LOW HIGH] …: a file of figures, on standard output
    local between='['
    while [ $# -ge 4 ]; do
        printf '%s{"name": "%s", "value": %s, "unit": "", "detail": {' "$between" "$1" "$2"
        [ "$3" = - ] || printf '"low": %s, "high": %s' "$3" "$4"
        printf '}}'
        between=', '
        shift 4
    done
    printf ']\n'
}
compare() { # STATUS BEFORE AFTER
    python3 "$MEGA_SOURCE/bench/compare.py" "$2" "$3" >out 2>err
    local status=$?
    [ $status -eq "$1" ] || note "$2 beside $3: status $status, expected $1"
}
says() { # FIGURE WORD
    grep -qE "^$1 .* $2\$" out || note "$1 is not called $2"
}
totals() { grep -q "^$1 worse\$" out || note "not $1 worse"; }

for record in "$MEGA_SOURCE"/bench/records/*.json; do
    compare 0 "$record" "$record"
    [ "$(grep -cE ' \+0\.0 % (same|machine)$' out)" = "$(grep -o '"name"' "$record" | wc -l)" ] ||
        note "a record is not the same as itself"
done

result step_of_torch 1.5 1.4 1.6 cold_start_s 0.1 0.09 0.11 tokenize_mb_s 100 90 110 allocations_per_step 0 - - \
    checkpoint_write_of_dd 0.8 - - plan_error_percent 0.03 - - machine_copy 30 - - gone 1 - - >before
result step_of_torch 1.3 1.2 1.39 cold_start_s 0.2 0.19 0.21 tokenize_mb_s 80 70 95 allocations_per_step 2 - - \
    checkpoint_write_of_dd 0.77 - - plan_error_percent 0.06 - - machine_copy 15 - - new 1 - - >after
compare 1 before after
says step_of_torch WORSE # the ranges do not touch
says cold_start_s WORSE  # less is better
says tokenize_mb_s same  # the ranges touch
says allocations_per_step WORSE
says checkpoint_write_of_dd same # less than 5 %
says plan_error_percent same     # a hundredth of a point
says machine_copy machine        # not ours
says gone 'only before'
says new 'only after'
totals 3
compare 0 after before
says step_of_torch better
says cold_start_s better
says allocations_per_step better
totals 0

result plan_error_percent 0.03 - - >before
result plan_error_percent 1.5 - - >after
compare 1 before after
echo '{"name": "step"}' >no-result
for wrong in no-result nowhere; do
    compare 2 before $wrong
    grep -q "^$wrong: no result" err || note "$wrong is not named"
done
finish
