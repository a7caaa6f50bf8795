/* The option table as one list: the sections in the order of --help, rows by index, and search by name. */
#include "config_impl.h"
#include <string.h>
#include <strings.h>

static const option_section *const sections[] = {
    &mega_option_preprocess_section,
    &mega_option_train_tokenizer_section,
    &mega_option_tokenize_section,
    &mega_option_generate_section,
    &mega_option_tasks_section,
    &mega_option_data_tool_section,
    &mega_option_plot_section,
    &mega_option_model_section,
    &mega_option_regularization_section,
    &mega_option_training_section,
    &mega_option_initialization_section,
    &mega_option_learning_section,
    &mega_option_checkpoint_section,
    &mega_option_precision_section,
    &mega_option_machine_section,
    &mega_option_distributed_section,
    &mega_option_validation_section,
    &mega_option_data_section,
    &mega_option_logging_section,
    &mega_option_fp8_section,
    &mega_option_moe_section,
    &mega_option_inference_section,
    &mega_option_zero_section,
    &mega_option_other_models_section, /* the first of the foreign ones */
    &mega_option_megatron_section,
    &mega_option_transformers_section,
    &mega_option_nanogpt_section,
    &mega_option_foreign_data_section,
    &mega_option_foreign_generation_section,
};

size_t mega_option_sections(void)
{
    return ROW_COUNT(sections);
}

const option_section *mega_option_section(size_t i)
{
    return sections[i];
}

size_t mega_option_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < ROW_COUNT(sections); i++) n += sections[i]->count;
    return n;
}

const option_section *mega_option_row_section(size_t i)
{
    for (size_t s = 0; s < ROW_COUNT(sections); s++) {
        if (i < sections[s]->count) return sections[s];
        i -= sections[s]->count;
    }
    return NULL;
}

/* Rows in front of the foreign ones. */
static size_t own_count(void)
{
    size_t n = 0;
    for (size_t s = 0; sections[s] != &mega_option_other_models_section; s++) n += sections[s]->count;
    return n;
}

bool mega_option_is_foreign(size_t i)
{
    return i >= own_count();
}

const option_row *mega_option_row(size_t i)
{
    for (size_t s = 0; s < ROW_COUNT(sections); s++) {
        if (i < sections[s]->count) return &sections[s]->rows[i];
        i -= sections[s]->count;
    }
    return NULL;
}

uint32_t mega_option_commands(size_t i)
{
    const option_row *row = mega_option_row(i);
    return row->commands != 0 ? row->commands : mega_option_row_section(i)->commands;
}

/* Fields of sub-structs are known by their last name. */
static const char *own_name(const option_row *row)
{
    const char *from = row->dest != NULL ? row->dest : row->name;
    const char *dot = strrchr(from, '.');
    return dot != NULL ? dot + 1 : from;
}

const char *mega_option_dest(const option_row *row, char out[80])
{
    const char *from = own_name(row);
    size_t n = 0;
    for (; from[n] != '\0' && n < 79; n++) out[n] = from[n] == '-' ? '_' : from[n];
    out[n] = '\0';
    return out;
}

bool mega_option_next(option_walk *w)
{
    while (w->section < ROW_COUNT(sections) && w->at == sections[w->section]->count) {
        w->section++;
        w->at = 0;
    }
    if (w->section == ROW_COUNT(sections)) return false;
    const option_section *section = sections[w->section];
    w->is_foreign = w->is_foreign || section == &mega_option_other_models_section;
    if (w->row != NULL) w->index++;
    w->row = &section->rows[w->at++];
    w->commands = w->row->commands != 0 ? w->row->commands : section->commands;
    return true;
}

static char folded(char c)
{
    return c == '_' ? '-' : c;
}

static bool begin_alike(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (folded(a[i]) != folded(b[i])) return false;
    }
    return true;
}

bool mega_option_name_equal(const char *a, const char *b, size_t b_length)
{
    return folded(a[0]) == folded(b[0]) && strlen(a) == b_length && begin_alike(a, b, b_length);
}

bool mega_option_is_of_family(const char *family, const char *name, size_t length)
{
    const size_t n = strlen(family);
    return n > 0 && family[n - 1] == '*' && length >= n && begin_alike(family, name, n - 1);
}

size_t mega_option_find(const char *name, size_t length, uint32_t command)
{
    size_t family = SIZE_MAX;
    for (option_walk w = {0}; mega_option_next(&w);) {
        if ((w.commands & command) == 0) continue;
        if (mega_option_name_equal(w.row->name, name, length)) return w.index;
        if (mega_option_is_of_family(w.row->name, name, length)) family = w.index;
    }
    return family;
}

size_t mega_option_find_dest(const char *dest, uint32_t command)
{
    const size_t length = strlen(dest);
    size_t negative = SIZE_MAX;
    for (option_walk w = {0}; mega_option_next(&w) && !w.is_foreign;) { /* foreign ones have no field */
        if ((w.commands & command) == 0 || !mega_option_name_equal(own_name(w.row), dest, length)) continue;
        if (w.row->answer == ANSWER_WORKS) return w.index;
        if (negative == SIZE_MAX) negative = w.index;
    }
    return negative;
}

int64_t mega_option_ranks(const mega_config *cfg, const option_row *row)
{
    if (row->alone == NULL) return 1;
    const size_t i = mega_option_find(row->alone, strlen(row->alone), FOR_TRAINING);
    return *(const int64_t *)((const char *)cfg + mega_option_row(i)->field);
}

bool mega_option_is_alike(size_t i)
{
    const option_row *row = mega_option_row(i);
    return row->answer == ANSWER_WORKS && row->alike == ALIKE_REQUIRED && (mega_option_commands(i) & FOR_PRETRAIN) != 0;
}

bool mega_option_word_in(const char *words, const char *text, int *out_index)
{
    const size_t length = strlen(text);
    int index = 0;
    while (words != NULL && length > 0) {
        const char *bar = strchr(words, '|');
        const size_t n = bar != NULL ? (size_t)(bar - words) : strlen(words);
        if (n == length && memcmp(words, text, n) == 0) {
            if (out_index != NULL) *out_index = index;
            return true;
        }
        words = bar != NULL ? bar + 1 : NULL;
        index++;
    }
    return false;
}
