/* Rules for every composition: columns of the rows define them. */
#include "config_impl.h"
#include <stdio.h>
#include <string.h>

void mega_options_divisors(int64_t n, int64_t around, char *out, size_t size)
{
    int64_t found[8];
    size_t count = 0;
    if (around > n) around = n; /* a divisor of n is at most n */
    for (int64_t away = 0; away <= n && count < ROW_COUNT(found) && away < 100000; away++) {
        const int64_t both[2] = {around - away, away <= n - around ? around + away : 0};
        for (int side = 0; side < (away > 0 ? 2 : 1) && count < ROW_COUNT(found); side++) {
            if (both[side] > 0 && both[side] <= n && n % both[side] == 0) found[count++] = both[side];
        }
    }
    if (count == 0) found[count++] = 1;
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && found[j - 1] > found[j]; j--) {
            const int64_t swap = found[j];
            found[j] = found[j - 1];
            found[j - 1] = swap;
        }
    }
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const int n_written = snprintf(out + used, size - used, "%s%lld", i > 0 ? ", " : "", (long long)found[i]);
        used += n_written > 0 ? (size_t)n_written : 0;
    }
}

/* Checks upper limits of derived values. Values that were typed or read from a checkpoint have been checked already. */
void mega_options_rule_most(mega_options *o)
{
    for (option_walk w = {.table = &o->table}; mega_option_next(&w);) {
        char dest[80];
        int64_t value;
        if (w.row->most == 0 || w.row->kind != MEGA_OPTION_INT || (w.commands & mega_options_command_bit(o)) == 0)
            continue;
        if (o->entry[w.index].source == MEGA_SET_BY_DEFAULT) continue;
        memcpy(&value, mega_value_at(o, w.index), sizeof value);
        if (value <= w.row->most) continue;
        mega_options_mistake(o, "%s must be at most %lld", mega_options_origin(o, mega_option_dest(w.row, dest)),
                             (long long)w.row->most);
    }
}

/* Checks options that are built only for the value of another option: `neutral` is "=num-attention-heads". */
void mega_options_rule_equal(mega_options *o)
{
    for (option_walk w = {.table = &o->table}; mega_option_next(&w);) {
        const mega_option_row *row = w.row;
        const option_entry *entry = &o->entry[w.index];
        if (row->neutral == NULL || row->neutral[0] != '=' || entry->text == NULL) continue;
        const size_t other =
            mega_option_find(&o->table, row->neutral + 1, strlen(row->neutral + 1), mega_options_command_bit(o));
        if (other == SIZE_MAX) continue;
        char dest[80];
        int64_t wanted, given = 0;
        memcpy(&wanted, mega_value_at(o, other), sizeof wanted);
        if (mega_value_int(entry->text, &given) && given == wanted) continue;
        mega_options_problem(o, MEGA_ERR_UNSUPPORTED, "%s %s is not implemented yet (only %s is accepted): %s",
                             entry->typed, entry->text,
                             mega_options_origin(o, mega_option_dest(row_at(o, other), dest)), row->remark);
    }
}

/* Rejects options that have no effect with one rank, if there are more ranks: there they would be silently ignored. */
void mega_options_rule_alone(mega_options *o)
{
    for (option_walk w = {.table = &o->table}; mega_option_next(&w);) {
        const option_entry *entry = &o->entry[w.index];
        const int64_t ranks = mega_option_ranks(o, w.row);
        if (ranks <= 1 || entry->source != MEGA_SET_BY_COMMAND_LINE) continue;
        mega_options_problem(o, MEGA_ERR_UNSUPPORTED, "%s: found --%s %lld, expected 1, where it has no effect: %s",
                             entry->typed, w.row->alone, (long long)ranks, w.row->remark);
    }
}
