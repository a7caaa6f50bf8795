/* megalith config: asks the questions of `accelerate config` and writes its YAML. */
#include "cli.h"
#include "commands.h"
#include "config_questions.h"
#include "megalith/accelerate.h"
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "megalith/yaml.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns where the file goes, in a new block. */
static char *config_path(const mega_command_options *cfg)
{
    return cfg->config.config_file != NULL ? mega_strdup(cfg->config.config_file) : mega_accelerate_default_file();
}

static bool config_is_default(const mega_command_options *cfg)
{
    return cfg->config.is_default || mega_options_positional(cfg->train.engine.options)->count > 0;
}

static void config_check(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    const mega_list *words = mega_options_positional(o);
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->item[i], "default") != 0)
            mega_options_add_mistake(
                o, MEGA_MISTAKE("\"%s\": expected no word, for the questions, or default, for a file without them",
                                words->item[i]));
    if (config_is_default(cfg) && cfg->config.full)
        mega_options_add_mistake(o, MEGA_MISTAKE("--full asks all questions, --default asks none; give one of them"));
    if (!config_is_default(cfg) && mega_options_was_set(o, "mixed_precision"))
        mega_options_add_mistake(
            o, MEGA_MISTAKE("--mixed-precision belongs to --default; otherwise a question asks for it"));
}

static bool config_is_json(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static mega_status config_text(const char *path, const json_t *tree, mega_buffer *out)
{
    if (!config_is_json(path)) return mega_yaml_write(tree, out);
    char *text = mega_json_dump(tree, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    if (text == NULL) return MEGA_NO_MEMORY("config", "the file");
    mega_buffer_printf(out, "%s\n", text);
    free(text);
    return mega_buffer_check(out, "the configuration");
}

static mega_status config_write(const mega_command_options *cfg, const char *path, const json_t *tree)
{
    mega_buffer text = {0};
    mega_status st = config_text(path, tree, &text);
    if (st == MEGA_OK && cfg->config.config_file == NULL) st = mega_folder_create_for(path);
    if (st == MEGA_OK) st = mega_file_write_atomic(path, text.data, text.size);
    if (st == MEGA_OK) printf("accelerate configuration saved at %s\n", path);
    mega_buffer_fini(&text);
    return st;
}

static mega_status config_run(const mega_command_options *cfg, const char *path)
{
    dialog d = {.in = stdin, .has_menus = cfg->config.full, .is_terminal = isatty(STDIN_FILENO) == 1};
    if (cfg->train.dry_run) {
        mega_cli_dry_run("a configuration would be written to %s", path);
        return MEGA_OK;
    }
    json_t *tree =
        config_is_default(cfg) ? config_default(cfg->config.mixed_precision) : config_ask(&d, cfg->config.full);
    mega_status st = d.st;
    if (tree == NULL && st == MEGA_OK) st = MEGA_NO_MEMORY("config", "the configuration");
    if (st == MEGA_OK) st = config_write(cfg, path, tree);
    json_decref(tree);
    return st;
}

int mega_command_config(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, "config", argc, argv, config_check, &exit_status)) return exit_status;
    char *path = config_path(&cfg);
    const mega_status st = path != NULL ? config_run(&cfg, path) : MEGA_NO_MEMORY("config", "the name of the file");
    mega_free(path);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail("config", st);
}
