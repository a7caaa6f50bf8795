/* Writes docs/deepspeed-json.md: every known key of a DeepSpeed JSON, from the rows. */
#include "config_impl.h"
#include <string.h>

static void json_page_write_cell(const char *text, mega_buffer *out)
{
    for (; *text != '\0'; text++) mega_buffer_append(out, *text == '|' ? "\\|" : text, *text == '|' ? 2 : 1);
}

static const char *kind_name(const mega_option_row *row)
{
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF:
    case MEGA_OPTION_BOOL: return "true, false";
    case MEGA_OPTION_INT: return "whole number";
    case MEGA_OPTION_FLOAT: return "number";
    case MEGA_OPTION_INT3: return "three whole numbers in brackets";
    case MEGA_OPTION_ANY: return "any";
    default: return "string";
    }
}

/* Writes the values that a by-value row accepts: "Adam, AdamW, SGD". */
static void write_cases(const char *cases, mega_buffer *out)
{
    for (const char *at = cases; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        mega_buffer_printf(out, "%s`%.*s`", at == cases ? "" : ", ", (int)strcspn(at, ":"), at);
    }
}

static void json_page_write_answer(const mega_option_row *row, mega_buffer *out)
{
    switch (row->answer) {
    case MEGA_ANSWER_WORKS:
        mega_buffer_printf(out, "works: `--%s`", row->name);
        if (row->kind == MEGA_OPTION_OFF) mega_buffer_puts(out, " is false");
        break;
    case MEGA_ANSWER_NO_EFFECT: mega_buffer_puts(out, "no effect here: "); break;
    case MEGA_ANSWER_RENAMED:
        mega_buffer_puts(out, "works with ");
        write_cases(row->cases, out);
        mega_buffer_puts(out, "; ");
        break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
        mega_buffer_puts(out, "not implemented yet");
        if (row->neutral != NULL) {
            mega_buffer_puts(out, ", only `");
            json_page_write_cell(row->neutral, out);
            mega_buffer_puts(out, "`");
        }
        mega_buffer_puts(out, ": ");
        break;
    }
    if (row->answer != MEGA_ANSWER_WORKS) json_page_write_cell(row->remark, out);
}

static bool is_of_block(const char *path, const char *block)
{
    const size_t n = strlen(block);
    return n == 0 ? strchr(path, '.') == NULL : strncmp(path, block, n) == 0 && path[n] == '.';
}

static void write_block(const option_table *t, const char *block, mega_buffer *out)
{
    mega_buffer_printf(out, "\n## %s%s%s\n\n| key | value | answer |\n|---|---|---|\n", block[0] != '\0' ? "`" : "",
                       block[0] != '\0' ? block : "At the top", block[0] != '\0' ? "`" : "");
    for (json_key_walk w = {.options = {.of = t}}; mega_json_key_next(&w);) {
        if (!is_of_block(w.path, block)) continue;
        mega_buffer_printf(out, "| `%s` | %s | ", block[0] != '\0' ? w.path + strlen(block) + 1 : w.path,
                           kind_name(w.row));
        json_page_write_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
}

/* Returns whether row `at` is the first that names its block: blocks are listed in this order. */
static bool is_first_of_block(const option_table *t, size_t at, const char *block)
{
    size_t i = 0;
    for (json_key_walk w = {.options = {.of = t}}; mega_json_key_next(&w) && i < at; i++)
        if (is_of_block(w.path, block)) return false;
    return true;
}

mega_status mega_options_json_page(const mega_composition *of, mega_buffer *out)
{
    mega_arena arena = {0};
    option_table t;
    MEGA_TRY(mega_option_table_make(&t, of, &arena));
    mega_buffer_puts(
        out, "# Keys of a DeepSpeed JSON\n\n"
             "Written by `megalith help --json-page` from the rows of the engine and the rooms below; do not edit by "
             "hand.\n\n"
             "`--deepspeed_config FILE` names a JSON, for a command that trains or uses a trained model (pretrain_gpt, "
             "plan, generate_samples_gpt, tasks) and in `mega_setup.argv` of a C program; `mega_setup.config` takes it "
             "as text too. What the command line says counts before what the JSON says, and a warning names both "
             "where they differ. `\"auto\"` and `null` mean \"not given\". Defaults are those of the "
             "[options](options.md), not DeepSpeed's. A key that is not here is an error, and so is a key that "
             "stands twice.\n");
    write_block(&t, "", out);
    size_t i = 0;
    for (json_key_walk w = {.options = {.of = &t}}; mega_json_key_next(&w); i++) {
        char block[sizeof w.path];
        const size_t n = strcspn(w.path, ".");
        if (w.path[n] == '\0') continue;
        memcpy(block, w.path, n);
        block[n] = '\0';
        if (strcmp(block, JSON_OWN) == 0 || !is_first_of_block(&t, i, block)) continue;
        write_block(&t, block, out);
    }
    mega_buffer_puts(out,
                     "\n## `" JSON_OWN "`\n\nEvery option of an engine may be in this block under its own name, "
                     "which DeepSpeed passes over; for a command, every option of that command.\n\n| key | value | "
                     "answer |\n|---|---|---|\n");
    for (json_key_walk w = {.options = {.of = &t}}; mega_json_key_next(&w);) {
        if (!is_of_block(w.path, JSON_OWN)) continue;
        mega_buffer_printf(out, "| `%s` | %s | ", w.path + sizeof JSON_OWN, kind_name(w.row));
        json_page_write_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the page of JSON keys");
}
