/* The keys of a DeepSpeed JSON: those of options (column json of their rows), those that are not options here, and the
 * block with the options under their own names. */
#include "config_impl.h"
#include <stdio.h>
#include <string.h>

enum { OF_OPTIONS, OF_NO_OPTION, OF_ENGINE, NO_MORE };

/* Moves to the next row of the walk's current part; w->rest receives its paths. */
static bool next_row(json_key_walk *w)
{
    if (w->part == OF_NO_OPTION) {
        const mega_composition *of = w->options.of->of;
        if (of->key == NULL || w->at == of->key->count) return false;
        w->row = &of->key->rows[w->at++];
        w->index = SIZE_MAX;
        w->rest = w->row->json;
        return true;
    }
    while (mega_option_next(&w->options)) {
        const mega_option_row *row = w->options.row;
        if (w->command != 0 && (w->options.commands & w->command) == 0) continue;
        if (w->part == OF_OPTIONS ? row->json == NULL : row->is_of_argv || row->answer != MEGA_ANSWER_WORKS) continue;
        w->row = row;
        w->index = w->options.index;
        w->rest = w->part == OF_OPTIONS ? row->json : row->name;
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
        w->options = (option_walk){.of = w->options.of};
    }
    const size_t n = strcspn(w->rest, "|");
    char dest[80];
    if (w->part == OF_ENGINE) snprintf(w->path, sizeof w->path, JSON_OWN ".%s", mega_option_dest(w->row, dest));
    else
        snprintf(w->path, sizeof w->path, "%.*s", (int)n, w->rest);
    w->rest += n + (w->rest[n] == '|');
    return true;
}

bool mega_json_key_find(const option_table *t, uint32_t command, const char *path, json_key_walk *out)
{
    *out = (json_key_walk){.options = {.of = t}, .command = command};
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

bool mega_json_key_has_below(const option_table *t, uint32_t command, const char *path)
{
    for (json_key_walk w = {.options = {.of = t}, .command = command}; mega_json_key_next(&w);)
        if (rest_below(w.path, path, strlen(path)) != NULL) return true;
    return false;
}

/* Finds a known key with the same last word on another level: "stage" at the top belongs in "zero_optimization". */
static const char *same_elsewhere(mega_options *o, const char *last)
{
    json_key_walk w = {.options = {.of = &o->table}, .command = mega_options_command_bit(o)};
    while (mega_json_key_next(&w)) {
        const char *dot = strrchr(w.path, '.');
        if (dot != NULL && strcmp(dot + 1, last) == 0) return mega_options_text(o, "%s", w.path);
    }
    return NULL;
}

const char *mega_json_key_near(mega_options *o, const char *path)
{
    enum { MOST = 1024 };
    const char *dot = strrchr(path, '.'), *last = dot != NULL ? dot + 1 : path;
    const size_t above = dot != NULL ? (size_t)(dot - path) : 0;
    const char **names = mega_arena_alloc(&o->arena, MOST * sizeof *names);
    const char *beside = NULL; /* a key in the same object that begins with the given name: "train_micro_batch_size" */
    size_t n = 0;
    json_key_walk w = {.options = {.of = &o->table}, .command = mega_options_command_bit(o)};
    while (names != NULL && n < MOST && mega_json_key_next(&w)) {
        const char *rest = rest_below(w.path, path, above);
        if (rest == NULL) continue;
        names[n] = mega_options_text(o, "%.*s", (int)strcspn(rest, ".["), rest);
        if (n > 0 && strcmp(names[n - 1], names[n]) == 0) continue; /* a block, whose keys follow one another */
        if (beside == NULL && strlen(last) > 3 && strncmp(names[n], last, strlen(last)) == 0) beside = names[n];
        n++;
    }
    if (beside == NULL && names != NULL) beside = mega_options_nearest(last, names, n);
    const char *elsewhere = same_elsewhere(o, last), *near = elsewhere;
    if (names == NULL) o->out_of_memory = true;
    else if (beside != NULL)
        near = mega_options_text(o, "%.*s%s", (int)(last - path), path, beside);
    return near != NULL ? mega_options_text(o, "; did you mean \"%s\"?", near) : "";
}
