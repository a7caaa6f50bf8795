/* Converts values of options from text to fields and back. */
#include "config_impl.h"
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether text is a decimal number: 12, -3, .01, 5e8. Rejects hexadecimal, inf and nan, which
 * strtod accepts. */
static bool is_decimal(const char *text)
{
    bool digit = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (isdigit((unsigned char)*c)) digit = true;
        else if (strchr("+-.eE", *c) == NULL)
            return false;
    }
    return digit;
}

bool mega_value_float(const char *text, double *out)
{
    if (!is_decimal(text)) return false;
    char *end = NULL;
    const double x = strtod(text, &end);
    if (*end != '\0' || !isfinite(x)) return false;
    *out = x;
    return true;
}

bool mega_value_int(const char *text, int64_t *out)
{
    if (!is_decimal(text)) return false;
    char *end = NULL;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0) {
        *out = n;
        return true;
    }
    double x;
    if (!mega_value_float(text, &x) || x != floor(x) || fabs(x) > 9.007e15) return false; /* 5e8 is an integer */
    *out = (int64_t)x;
    return true;
}

/* Returns how many bytes a unit stands for, 0 for an unknown unit. Units mean what they do in dd and in every line that
 * this program prints: GB is 10^9 bytes; GiB, and G alone, 2^30. */
static double unit_bytes(const char *unit)
{
    static const char letters[] = "KMGT";
    char folded[4] = {0};
    for (size_t i = 0; unit[i] != '\0' && i < sizeof folded; i++) folded[i] = (char)toupper((unsigned char)unit[i]);
    if (folded[0] == '\0' || strcmp(folded, "B") == 0) return 1;
    const char *letter = strchr(letters, folded[0]), *rest = folded + 1;
    if (letter == NULL || folded[3] != '\0') return 0;
    const bool is_decimal_unit = strcmp(rest, "B") == 0;
    if (!is_decimal_unit && rest[0] != '\0' && strcmp(rest, "I") != 0 && strcmp(rest, "IB") != 0) return 0;
    return pow(is_decimal_unit ? 1000 : 1024, (double)(letter - letters + 1));
}

static bool value_bytes(const char *text, int64_t *out)
{
    char number[40];
    size_t n = strlen(text);
    while (n > 0 && isalpha((unsigned char)text[n - 1])) n--;
    const double factor = unit_bytes(text + n);
    if (n == 0 || n >= sizeof number || factor == 0) return false;
    memcpy(number, text, n);
    number[n] = '\0';
    double x;
    if (!mega_value_float(number, &x) || x < 0 || x * factor > 9e18) return false;
    *out = (int64_t)(x * factor);
    return true;
}

static const char *range_problem(mega_option_range range, double x)
{
    switch (range) {
    case MEGA_RANGE_ANY: return NULL;
    case MEGA_RANGE_POSITIVE: return x > 0 ? NULL : "must be greater than 0";
    case MEGA_RANGE_NOT_NEGATIVE: return x >= 0 ? NULL : "must not be negative";
    case MEGA_RANGE_BELOW_ONE: return x >= 0 && x < 1 ? NULL : "must be at least 0 and below 1";
    case MEGA_RANGE_FRACTION: return x >= 0 && x <= 1 ? NULL : "must be between 0 and 1";
    case MEGA_RANGE_TOP_P: return x >= 0 && x <= 1 ? NULL : "must be between 0 and 1 (0 switches it off)";
    case MEGA_RANGE_SEED: return x >= 1 && x < 4294967296.0 ? NULL : "must be between 1 and 4294967295";
    }
    return NULL;
}

static const char *nearest_choice(mega_options *o, const char *choices, const char *text)
{
    const char *names[16];
    size_t n = 0;
    while (choices != NULL && n < ROW_COUNT(names)) {
        const char *bar = strchr(choices, '|');
        names[n++] = mega_options_text(o, "%.*s", bar != NULL ? (int)(bar - choices) : (int)strlen(choices), choices);
        choices = bar != NULL ? bar + 1 : NULL;
    }
    return mega_options_nearest(text, names, n);
}

static const char *choice_problem(mega_options *o, const mega_option_row *row, const char *text)
{
    char shown[512];
    size_t n = 0;
    for (const char *c = row->choices; *c != '\0' && n < sizeof shown - 3; c++) {
        if (*c == '|') {
            shown[n++] = ',';
            shown[n++] = ' ';
        } else {
            shown[n++] = *c;
        }
    }
    shown[n] = '\0';
    if (mega_option_word_in(row->not_implemented, text, NULL)) {
        return mega_options_text(o, "\"%s\" is not implemented yet; implemented are %s%s%s", text, shown,
                                 row->remark != NULL ? "; " : "", row->remark != NULL ? row->remark : "");
    }
    const char *near = nearest_choice(o, row->choices, text);
    return mega_options_text(o, "\"%s\" is not one of %s%s%s%s", text, shown, near != NULL ? "; did you mean " : "",
                             near != NULL ? near : "", near != NULL ? "?" : "");
}

static const char *text_problem(mega_options *o, const mega_option_row *row, const char *text)
{
    if (row->choices != NULL && !option_word_in_as(row->choices, text, row->folds_case, NULL))
        return choice_problem(o, row, text);
    if (text[0] != '\0' || row->answer != MEGA_ANSWER_WORKS || row->takes_empty) return NULL;
    return "its value is empty (a variable that is not set?); give one, or leave the option out";
}

const char *mega_value_check(mega_options *o, const mega_option_row *row, const char *text)
{
    int64_t n = 0;
    double x = 0;
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF: return NULL;
    case MEGA_OPTION_ANY: return row->choices != NULL ? text_problem(o, row, text) : NULL;
    case MEGA_OPTION_BOOL:
        return mega_option_word_in("true|false|True|False|1|0", text, NULL)
                   ? NULL
                   : mega_options_text(o, "\"%s\" is neither true nor false", text);
    case MEGA_OPTION_INT:
    case MEGA_OPTION_INT3:
        if (!mega_value_int(text, &n)) return mega_options_text(o, "\"%s\" is not a whole number", text);
        x = (double)n;
        break;
    case MEGA_OPTION_FLOAT:
        if (!mega_value_float(text, &x))
            return mega_options_text(o, "\"%s\" is not a number; expected one like 0.1 or 1e-4", text);
        break;
    case MEGA_OPTION_BYTES:
        if (!value_bytes(text, &n))
            return mega_options_text(o, "\"%s\" is not a size in bytes such as 8GB, 512MiB or 1e9", text);
        x = (double)n;
        break;
    case MEGA_OPTION_STRING:
    case MEGA_OPTION_CHOICE:
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND: return text_problem(o, row, text);
    }
    if (row->kind == MEGA_OPTION_FLOAT && fabs(x) > FLT_MAX)
        return mega_options_text(o, "%s is more than a 32-bit float holds (%g), in which the training computes", text,
                                 (double)FLT_MAX);
    const char *range = range_problem(row->range, x);
    if (range != NULL) return mega_options_text(o, "%s %s", text, range);
    if (row->most > 0 && n > row->most)
        return mega_options_text(o, "%s must be at most %lld", text, (long long)row->most);
    return NULL;
}

bool mega_value_is_neutral(const mega_option_row *row, const char *text)
{
    const bool is_switch = row->kind == MEGA_OPTION_BOOL || row->kind == MEGA_OPTION_FLAG;
    double given, neutral;
    if (text == NULL) return false;
    if (row->neutral == NULL) return is_switch && strchr("fF0", text[0]) != NULL;
    if (option_word_in_as(row->neutral, text, row->folds_case, NULL)) return true;
    return mega_value_float(text, &given) && mega_value_float(row->neutral, &neutral) && given == neutral;
}

static mega_status store(mega_options *o, size_t index, const char *text)
{
    const mega_option_row *row = row_at(o, index);
    char *field = mega_value_at(o, index);
    int64_t n = 0;
    double x = 0;
    int choice = 0;
    bool on = true;
    const char *copy = NULL;
    switch (row->kind) {
    case MEGA_OPTION_OFF:
    case MEGA_OPTION_FLAG: /* typed without a value, or set to the destination's value */
        on = text == NULL ? row->kind == MEGA_OPTION_FLAG : strchr("tT1", text[0]) != NULL;
        memcpy(field, &on, sizeof on);
        return MEGA_OK;
    case MEGA_OPTION_INT:
        if (!mega_value_int(text, &n)) break;
        memcpy(field, &n, sizeof n);
        return MEGA_OK;
    case MEGA_OPTION_BYTES:
        if (!value_bytes(text, &n)) break;
        memcpy(field, &n, sizeof n);
        return MEGA_OK;
    case MEGA_OPTION_FLOAT:
        if (!mega_value_float(text, &x)) break;
        memcpy(field, &x, sizeof x);
        return MEGA_OK;
    case MEGA_OPTION_CHOICE:
        if (!option_word_in_as(row->choices, text, row->folds_case, &choice)) break;
        memcpy(field, &choice, sizeof choice);
        return MEGA_OK;
    case MEGA_OPTION_STRING:
        copy = mega_arena_strdup(&o->arena, text);
        if (copy == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--%s: no memory for its value", row->name);
        memcpy(field, &copy, sizeof copy);
        return MEGA_OK;
    case MEGA_OPTION_BOOL:
    case MEGA_OPTION_ANY:
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND:
    case MEGA_OPTION_INT3: break;
    }
    return MEGA_MISTAKE("--%s: \"%s\" is not a value it can take", row->name, text);
}

void *mega_value_at(const mega_options *o, size_t index)
{
    return (char *)o->values + o->table.line[index].at;
}

mega_status mega_value_set(mega_options *o, size_t index, const char *text)
{
    if (row_at(o, index)->field == MEGA_NO_FIELD) return MEGA_OK;
    return store(o, index, text);
}

/* Stores a list; its items are copied to the arena. The first `kept` items of the old list are kept before the new
 * ones. */
static mega_status store_list(mega_options *o, size_t index, const char *const *texts, size_t count, size_t kept)
{
    const mega_option_row *row = row_at(o, index);
    mega_list *list = mega_value_at(o, index);
    const char **items = mega_arena_alloc(&o->arena, (kept + count + 1) * sizeof *items);
    if (items == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--%s: no memory for %zu values", row->name, count);
    for (size_t i = 0; i < kept; i++) items[i] = list->item[i];
    for (size_t i = 0; i < count; i++) {
        items[kept + i] = mega_arena_strdup(&o->arena, texts[i]);
        if (items[kept + i] == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--%s: no memory for its values", row->name);
    }
    *list = (mega_list){items, kept + count};
    return MEGA_OK;
}

mega_status mega_value_set_list(mega_options *o, size_t index, const char *const *texts, size_t count)
{
    const mega_option_row *row = row_at(o, index);
    if (row->field == MEGA_NO_FIELD) return MEGA_OK;
    if (row->kind == MEGA_OPTION_LIST) return store_list(o, index, texts, count, 0);
    if (row->kind == MEGA_OPTION_APPEND) {
        const mega_list *list = mega_value_at(o, index);
        return store_list(o, index, texts, count, list->count);
    }
    if (row->kind != MEGA_OPTION_INT3) return count == 1 ? store(o, index, texts[0]) : MEGA_OK;
    int64_t n[3] = {0, 0, 0};
    for (size_t i = 0; i < 3; i++) {
        if (count != 3 || !mega_value_int(texts[i], &n[i])) {
            return MEGA_MISTAKE("--%s: three whole numbers are needed, %zu values were given", row->name, count);
        }
    }
    memcpy(mega_value_at(o, index), n, sizeof n);
    return MEGA_OK;
}

static bool print_choice(const char *choices, int index, mega_buffer *out)
{
    for (; index > 0 && choices != NULL; index--) {
        choices = strchr(choices, '|');
        if (choices != NULL) choices++;
    }
    if (choices == NULL) return mega_buffer_puts(out, "?");
    const char *bar = strchr(choices, '|');
    return mega_buffer_append(out, choices, bar != NULL ? (size_t)(bar - choices) : strlen(choices));
}

bool mega_value_print_double(double x, mega_buffer *out)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    return mega_buffer_printf(out, "%s%s", text, strpbrk(text, ".eE") == NULL ? ".0" : "");
}

bool mega_value_print(const mega_options *o, size_t index, mega_buffer *out)
{
    const mega_option_row *row = row_at(o, index);
    const option_entry *entry = &o->entry[index];
    if (row->field == MEGA_NO_FIELD) {
        if (row->kind == MEGA_OPTION_FLAG)
            return mega_buffer_puts(out, entry->source != MEGA_SET_BY_DEFAULT ? "True" : "False");
        if (row->kind == MEGA_OPTION_OFF)
            return mega_buffer_puts(out, entry->source == MEGA_SET_BY_DEFAULT ? "True" : "False");
        if (entry->text != NULL) return mega_buffer_puts(out, entry->text);
        if (row->answer == MEGA_ANSWER_NOT_IMPLEMENTED && row->neutral != NULL && row->neutral[0] != '=' &&
            row->kind != MEGA_OPTION_BOOL) {
            return print_choice(row->neutral, 0, out); /* the first neutral value describes what this program does */
        }
        return mega_buffer_puts(out, row->fallback != NULL ? row->fallback : "None");
    }
    const char *field = mega_value_at(o, index);
    int64_t n[3] = {0, 0, 0};
    double x;
    int choice;
    bool on;
    const char *text;
    mega_list list;
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF: memcpy(&on, field, sizeof on); return mega_buffer_puts(out, on ? "True" : "False");
    case MEGA_OPTION_INT:
    case MEGA_OPTION_BYTES:
        memcpy(n, field, sizeof n[0]);
        if (n[0] == 0 && row->fallback == NULL && entry->source == MEGA_SET_BY_DEFAULT)
            return mega_buffer_puts(out, "None");
        return mega_buffer_printf(out, "%lld", (long long)n[0]);
    case MEGA_OPTION_FLOAT:
        memcpy(&x, field, sizeof x);
        return isnan(x) ? mega_buffer_puts(out, "None") : mega_value_print_double(x, out);
    case MEGA_OPTION_CHOICE: memcpy(&choice, field, sizeof choice); return print_choice(row->choices, choice, out);
    case MEGA_OPTION_STRING:
        memcpy(&text, field, sizeof text);
        return mega_buffer_puts(out, text != NULL ? text : "None");
    case MEGA_OPTION_INT3:
        memcpy(n, field, sizeof n);
        if (n[0] == 0) return mega_buffer_puts(out, "None");
        return mega_buffer_printf(out, "%lld %lld %lld", (long long)n[0], (long long)n[1], (long long)n[2]);
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND:
        memcpy(&list, field, sizeof list);
        if (list.count == 0) return mega_buffer_puts(out, "None");
        for (size_t i = 0; i < list.count; i++) {
            if (!mega_buffer_printf(out, "%s%s", i > 0 ? " " : "", list.item[i])) return false;
        }
        return true;
    case MEGA_OPTION_ANY:
    case MEGA_OPTION_BOOL: break;
    }
    return mega_buffer_puts(out, "None");
}

int64_t mega_option_ranks(const mega_options *o, const mega_option_row *row)
{
    int64_t ranks;
    if (row->alone == NULL) return 1;
    const size_t i = mega_option_find(&o->table, row->alone, strlen(row->alone), mega_options_command_bit(o));
    memcpy(&ranks, mega_value_at(o, i), sizeof ranks);
    return ranks;
}
