/* Writes docs/accelerate-yaml.md: every key of Accelerate's YAML, from the rows. */
#include "config_impl.h"
#include <string.h>

static void yaml_page_put_answer(const mega_option_row *row, mega_buffer *out)
{
    switch (row->answer) {
    case MEGA_ANSWER_WORKS: mega_buffer_printf(out, "`--%s`", row->name); break;
    case MEGA_ANSWER_NO_EFFECT:
        if (row->remark == NULL) mega_buffer_puts(out, "works");
        else
            mega_buffer_printf(out, "no effect here: %s", row->remark);
        break;
    case MEGA_ANSWER_RENAMED: mega_buffer_puts(out, row->remark); break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
    case MEGA_ANSWER_REFUSED:
        mega_buffer_puts(out, row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet");
        if (row->neutral != NULL) mega_buffer_printf(out, ", only `%s`", row->neutral);
        mega_buffer_printf(out, ": %s", row->remark);
        break;
    }
}

static bool yaml_page_has(const json_key_walk *w, const char *block)
{
    const size_t n = strlen(block);
    if (w->is_named) return false; /* said at the head of the page */
    return n == 0 ? strchr(w->path, '.') == NULL : strncmp(w->path, block, n) == 0 && w->path[n] == '.';
}

/* Whether the walk meets a path that it has met before: rows of several commands have the same. */
static bool is_met(const option_table *t, const json_key_walk *at)
{
    json_key_walk w = {.is_yaml = true, .options = {.table = t}};
    while (mega_json_key_next(&w) && (w.row != at->row || w.rest != at->rest))
        if (strcmp(w.path, at->path) == 0) return true;
    return false;
}

static void yaml_page_put_block(const option_table *t, const char *block, mega_buffer *out)
{
    mega_buffer_printf(out, "\n## %s%s%s\n\n| key | here |\n|---|---|\n", block[0] != '\0' ? "`" : "",
                       block[0] != '\0' ? block : "At the top", block[0] != '\0' ? "`" : "");
    for (json_key_walk w = {.is_yaml = true, .options = {.table = t}}; mega_json_key_next(&w);) {
        if (!yaml_page_has(&w, block) || is_met(t, &w)) continue;
        mega_buffer_printf(out, "| `%s` | ", block[0] != '\0' ? w.path + strlen(block) + 1 : w.path);
        yaml_page_put_answer(w.row, out);
        mega_buffer_puts(out, " |\n");
    }
}

mega_status mega_options_yaml_page(const mega_composition *composition, mega_buffer *out)
{
    static const char *const blocks[] = {"",           "deepspeed_config", "megatron_lm_config", "fsdp_config",
                                         "fp8_config", "dynamo_config",    "mpirun_config",      "parallelism_config"};
    mega_arena arena = {0};
    option_table t;
    MEGA_TRY(mega_option_table_make(&t, composition, &arena));
    mega_buffer_puts(
        out,
        "# Keys of Accelerate's YAML\n\n"
        "Written by `megalith help --yaml-page` from the rows of the options; do not edit by hand. [Accelerate's "
        "YAML](accelerate.md) shows how such a file is made and used.\n\n"
        "`null`, `auto`, `{}`, `[]`, and `none` where a file is expected, mean \"not given\". A key that is not here "
        "is "
        "an error, and so is a key that stands twice. In `megatron_lm_config`, every option of the command may stand "
        "as `megatron_lm_NAME`, also under a name that Megatron-LM or Accelerate has for it "
        "([options of other systems](options-of-other-systems.md)), and as `NAME` in `other_megatron_args`.\n");
    for (size_t i = 0; i < ROW_COUNT(blocks); i++) yaml_page_put_block(&t, blocks[i], out);
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the page of YAML keys");
}
