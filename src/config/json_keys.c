/* The keys of a DeepSpeed JSON: those of options (column json of their rows), those that are not options here, and the
 * block with the options under their own names. The same for Accelerate's YAML (column yaml), where the options are in
 * the block of Megatron-LM. */
#include "config_impl.h"
#include <stdio.h>
#include <string.h>

/* The blocks of the YAML in which Megatron's options may stand. */
#define YAML_BLOCKS                                                            \
    "megatron_lm_config.megatron_lm_|megatron_lm_config.other_megatron_args.|" \
    "megatron_lm_config.megatron_lm_other_megatron_args."
/* A switch --disable-x also by Megatron's name of the setting, add_x, for which true means x. */
#define YAML_SETTINGS YAML_BLOCKS "|=megatron_lm_config.other_megatron_args."

enum { OF_OPTIONS, OF_NO_OPTION, OF_ENGINE, NO_MORE };

static const char *paths_of(const json_key_walk *w, const mega_option_row *row)
{
    return w->is_yaml ? row->yaml : row->json;
}

/* Whether an option may stand under its own name. In the YAML also names that have another name here: Megatron's. */
static bool is_key_named(const json_key_walk *w, const mega_option_row *row)
{
    if (w->is_yaml) return !row->is_of_argv && strchr(row->name, '*') == NULL;
    return !row->is_of_argv && row->answer == MEGA_ANSWER_WORKS;
}

/* Moves to the next row of the walk's current part; w->rest receives its paths. */
static bool next_row(json_key_walk *w)
{
    if (w->part == OF_NO_OPTION) {
        const mega_composition *composition = w->options.table->composition;
        if (w->is_yaml && (composition->yaml_key == NULL || w->at == composition->yaml_key->count)) return false;
        if (w->is_yaml) w->row = &composition->yaml_key->rows[w->at++];
        else {
            while (w->section < composition->keys && w->at == composition->key[w->section]->count)
                w->section++, w->at = 0;
            if (w->section == composition->keys) return false;
            w->row = &composition->key[w->section]->rows[w->at++];
        }
        w->index = SIZE_MAX;
        w->rest = paths_of(w, w->row);
        return true;
    }
    while (mega_option_next(&w->options)) {
        const mega_option_row *row = w->options.row;
        if (w->command != 0 && (w->options.commands & w->command) == 0) continue;
        if (w->part == OF_OPTIONS ? paths_of(w, row) == NULL : !is_key_named(w, row)) continue;
        w->row = row;
        w->index = w->options.index;
        const bool is_off = row->kind == MEGA_OPTION_OFF && row->answer == MEGA_ANSWER_WORKS;
        w->rest = w->part == OF_OPTIONS ? paths_of(w, row)
                  : !w->is_yaml         ? row->name
                  : is_off              ? YAML_SETTINGS
                                        : YAML_BLOCKS;
        return true;
    }
    return false;
}

bool mega_json_key_next(json_key_walk *w)
{
    while (w->rest == NULL || w->rest[0] == '\0') {
        if (w->part == NO_MORE) return false;
        if (next_row(w)) continue;
        w->part++;
        w->options = (option_walk){.table = w->options.table};
    }
    const size_t n = strcspn(w->rest, "|");
    char dest[80];
    w->is_named = w->part == OF_ENGINE;
    w->is_setting = w->rest[0] == '=';
    if (w->part == OF_ENGINE && w->is_yaml) {
        const int used = snprintf(w->path, sizeof w->path, "%.*s%.40s", (int)n - w->is_setting, w->rest + w->is_setting,
                                  w->is_setting ? mega_option_dest(w->row, dest) : w->row->name);
        for (char *c = w->path; c < w->path + used; c++)
            if (*c == '-') *c = '_';
    } else if (w->part == OF_ENGINE) {
        snprintf(w->path, sizeof w->path, JSON_OWN ".%s", mega_option_dest(w->row, dest));
    } else {
        snprintf(w->path, sizeof w->path, "%.*s", (int)n, w->rest);
    }
    w->rest += n + (w->rest[n] == '|');
    return true;
}

bool mega_key_find(const json_key_walk *of, const char *path, json_key_walk *out)
{
    *out = *of;
    while (mega_json_key_next(out))
        if (strcmp(out->path, path) == 0) return true;
    return false;
}

/* If key is below path, returns the part of key after path; else NULL. */
static const char *rest_below(const char *key, const char *path, size_t length)
{
    if (length == 0) return key;
    if (strncmp(key, path, length) != 0 || (key[length] != '.' && key[length] != '[')) return NULL;
    return key + length + (key[length] == '.');
}

bool mega_key_has_below(const json_key_walk *of, const char *path)
{
    for (json_key_walk w = *of; mega_json_key_next(&w);)
        if (rest_below(w.path, path, strlen(path)) != NULL) return true;
    return false;
}

/* Finds a known key with the same last word on another level: "stage" at the top belongs in "zero_optimization". */
static const char *same_elsewhere(mega_options *o, const json_key_walk *of, const char *last)
{
    json_key_walk w = *of;
    while (mega_json_key_next(&w)) {
        const char *dot = strrchr(w.path, '.');
        if (dot != NULL && strcmp(dot + 1, last) == 0) return mega_options_text(o, "%s", w.path);
    }
    return NULL;
}

const char *mega_key_near(mega_options *o, const json_key_walk *of, const char *path)
{
    enum { MOST = 4096 };
    const char *dot = strrchr(path, '.'), *last = dot != NULL ? dot + 1 : path;
    const size_t above = dot != NULL ? (size_t)(dot - path) : 0;
    const char **names = mega_arena_alloc(&o->arena, MOST * sizeof *names);
    const char *beside = NULL; /* a key in the same object that begins with the given name: "train_micro_batch_size" */
    size_t n = 0;
    json_key_walk w = *of;
    while (names != NULL && n < MOST && mega_json_key_next(&w)) {
        const char *rest = rest_below(w.path, path, above);
        if (rest == NULL) continue;
        names[n] = mega_options_text(o, "%.*s", (int)strcspn(rest, ".["), rest);
        if (n > 0 && strcmp(names[n - 1], names[n]) == 0) continue; /* a block, whose keys follow one another */
        if (beside == NULL && strlen(last) > 3 && strncmp(names[n], last, strlen(last)) == 0) beside = names[n];
        n++;
    }
    if (beside == NULL && names != NULL) beside = mega_options_nearest(last, names, n);
    const char *elsewhere = same_elsewhere(o, of, last), *near = elsewhere;
    if (names == NULL) o->out_of_memory = true;
    else if (beside != NULL)
        near = mega_options_text(o, "%.*s%s", (int)(last - path), path, beside);
    return near != NULL ? mega_options_text(o, "; did you mean \"%s\"?", near) : "";
}

bool mega_json_key_find(const option_table *t, uint32_t command, const char *path, json_key_walk *out)
{
    return mega_key_find(&(json_key_walk){.options = {.table = t}, .command = command}, path, out);
}

bool mega_json_key_has_below(const option_table *t, uint32_t command, const char *path)
{
    return mega_key_has_below(&(json_key_walk){.options = {.table = t}, .command = command}, path);
}
