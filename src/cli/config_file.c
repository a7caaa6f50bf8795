/* --config_file of commands: Accelerate's YAML, read as JSON, and what follows from its distributed_type. */
#include "megalith/accelerate.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include "megalith/launch.h"
#include "megalith/log.h"
#include "megalith/yaml.h"
#include "options_impl.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

// clang-format off
static const mega_option_row file_rows[] = {
    {MEGA_OPTION(mega_command_options, "config-file", config_file, MEGA_OPTION_STRING), .is_of_argv = true, .alike = MEGA_ALIKE_NOT_NEEDED, .value = "FILE", .help = "a YAML or JSON of accelerate config: ranks, precision, layout and more, where no option says otherwise (docs/accelerate.md)"},
};
const mega_option_section cli_config_file_section = MEGA_SECTION("distributed", file_rows);
// clang-format on

static void add_mistake(void *o, const char *text)
{
    mega_options_problem((mega_options *)o, MEGA_ERR_FORMAT, "%s", text);
}

/* Returns the file as a JSON text that lives as long as the options; "": it cannot be read, and the mistakes say
 * why. */
static const char *read_yaml_as_json(mega_options *o, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    const size_t n = strlen(path);
    const bool is_json = n > 5 && strcmp(path + n - 5, ".json") == 0;
    mega_buffer json = {0};
    mega_status st = mega_file_read_kind(path, "a configuration in YAML or JSON", 0, &text, &size);
    if (st != MEGA_OK) mega_options_add_mistake(o, st);
    else if (!is_json)
        st = mega_yaml_to_json(text, size, path, &json, add_mistake, o);
    if (st == MEGA_ERR_MEMORY) mega_options_add_mistake(o, st);
    const char *kept = st == MEGA_OK ? mega_options_text(o, "%s", is_json ? text : json.data) : "";
    mega_buffer_fini(&json);
    mega_free(text);
    return kept;
}

/* Notes what follows from several keys together. */
static void note_type(mega_options *o, mega_command_options *cfg, const json_t *tree, const char *file)
{
    const char *wrong = NULL;
    if (json_object_get(tree, "distributed_type") == NULL)
        mega_options_mistake(
            o,
            "%s: the key distributed_type is missing; expected NO, MULTI_CPU, MULTI_GPU, DEEPSPEED, FSDP "
            "or MEGATRON_LM",
            file);
    const char *type = json_string_value(json_object_get(tree, "distributed_type"));
    cfg->train.engine.yaml_scaler = type != NULL && strcmp(type, "MEGATRON_LM") == 0 ? MEGA_YAML_MEGATRON
                                    : type != NULL && strcmp(type, "DEEPSPEED") == 0 ? MEGA_YAML_DEEPSPEED
                                                                                     : MEGA_YAML_TORCH;
    cfg->yaml_zero_stage = mega_accelerate_zero_stage(tree, &wrong);
    if (wrong != NULL)
        mega_options_problem(o, MEGA_ERR_UNSUPPORTED,
                             "\"fsdp_config\" (%s): the strategy %s is not implemented: FULL_SHARD is --zero-stage 3, "
                             "SHARD_GRAD_OP 2, NO_SHARD 0; weights are not sharded over a part of the ranks",
                             file, wrong);
}

/* Returns the line of a key at the top; the text of a YAML has been converted to JSON with the same lines. */
static int line_of(const char *text, const char *key)
{
    char quoted[64];
    int line = 1;
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(text, quoted);
    for (const char *c = text; at != NULL && c < at; c++) line += *c == '\n';
    return line;
}

/* Checks num_processes, which is -1 where the launcher is to say it. */
static bool check_ranks(mega_options *o, const mega_command_options *cfg, const json_t *value, const char *file,
                        int line)
{
    const json_int_t ranks = json_integer_value(value);
    const bool is_said = mega_launch_was_used() || cfg->train.engine.world_size > 1 ||
                         (mega_options_command_bit(o) == FOR_PLAN && mega_options_was_set(o, "planned_world_size"));
    if (!json_is_integer(value)) return false; /* null, or another mistake, which config/ reports */
    if (ranks > 0 && ranks <= MEGA_LAUNCH_MOST_RANKS) return true;
    if (ranks == -1 && is_said) return false;
    mega_options_mistake(o, "\"num_processes\" (%s, line %d): found %lld, expected 1 to %d%s", file, line,
                         (long long)ranks, MEGA_LAUNCH_MOST_RANKS,
                         ranks != -1 ? ""
                         : mega_options_command_bit(o) == FOR_PLAN
                             ? "; -1 leaves the number of ranks open: give --world-size N"
                             : "; -1 leaves the number of ranks open: megalith launch --num_processes N says it");
    return false;
}

/* The number of ranks is what the launcher has started; plan alone takes it from the file. */
static void note_ranks(mega_options *o, mega_command_options *cfg, const json_t *tree, const char *file,
                       const char *text)
{
    const json_t *value = json_object_get(tree, "num_processes");
    const json_int_t ranks =
        check_ranks(o, cfg, value, file, line_of(text, "num_processes")) ? json_integer_value(value) : 0;
    cfg->yaml_ranks = ranks;
    if (mega_options_command_bit(o) == FOR_PLAN || ranks <= 0 || ranks == cfg->train.engine.world_size) return;
    mega_warn("no effect here: \"num_processes\" %lld (%s): this run was started with %lld rank%s", (long long)ranks,
              file, (long long)cfg->train.engine.world_size, cfg->train.engine.world_size == 1 ? "" : "s");
}

const char *cli_read_yaml(mega_options *o, const char **out_name)
{
    mega_command_options *cfg = mega_options_values(o);
    json_error_t error;
    cfg->yaml_zero_stage = -1;
    if (cfg->config_file == NULL || (mega_options_command_bit(o) & FOR_TRAINING) == 0) return NULL;
    *out_name = cfg->config_file;
    const char *text = read_yaml_as_json(o, cfg->config_file);
    json_t *tree = text[0] != '\0' ? mega_json_load(text, strlen(text), 0, &error) : NULL;
    if (json_is_object(tree)) { /* otherwise config/ says what is wrong */
        note_type(o, cfg, tree, cfg->config_file);
        note_ranks(o, cfg, tree, cfg->config_file, text);
    }
    json_decref(tree);
    return text;
}

void cli_complete_yaml(mega_options *o)
{
    const mega_command_options *cfg = mega_options_values(o);
    static const char *const stages[] = {"zero_stage", "use_distributed_optimizer", "ddp_impl"};
    bool is_said = cfg->yaml_zero_stage < 0;
    if (cfg->config_file == NULL || (mega_options_command_bit(o) & FOR_TRAINING) == 0) return;
    for (size_t i = 0; i < MEGA_COUNT(stages); i++) is_said = is_said || mega_options_was_set(o, stages[i]);
    if (!is_said)
        mega_options_add_mistake(o, mega_options_set_int(o, "zero_stage", cfg->yaml_zero_stage, MEGA_SET_BY_YAML));
    if (mega_options_command_bit(o) == FOR_PLAN && cfg->yaml_ranks > 0 &&
        !mega_options_was_set(o, "planned_world_size"))
        mega_options_add_mistake(o, mega_options_set_int(o, "planned_world_size", cfg->yaml_ranks, MEGA_SET_BY_YAML));
}
