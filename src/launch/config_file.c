/* Accelerate's YAML as megalith launch reads it: ranks and hosts, and for a program of the user's own the settings that
 * become its arguments. A command reads the rest itself (--config_file). */
#include "launch_impl.h"
#include "megalith/accelerate.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include "megalith/yaml.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The file while it is read: as JSON, whose lines are those of the YAML. */
typedef struct config_file {
    launch_plan *p;
    const char *text;
    json_t *tree;
} config_file;

/* Keys at the top of the file. */
static const char *const top_keys[] = {"compute_environment",
                                       "distributed_type",
                                       "num_processes",
                                       "num_machines",
                                       "machine_rank",
                                       "main_process_ip",
                                       "main_process_port",
                                       "mixed_precision",
                                       "gpu_ids",
                                       "use_cpu",
                                       "debug",
                                       "same_network",
                                       "rdzv_backend",
                                       "enable_cpu_affinity",
                                       "deepspeed_config",
                                       "fsdp_config",
                                       "megatron_lm_config",
                                       "fp8_config",
                                       "mpirun_config",
                                       "dynamo_config",
                                       "parallelism_config",
                                       "main_training_function",
                                       "downcast_bf16",
                                       "command_file",
                                       "commands",
                                       "fp16"};

static void config_add_mistake(void *user, const char *text)
{
    launch_mistake(user, "%s", text);
}

static int config_line(const config_file *c, const char *key)
{
    char quoted[128];
    int line = 1;
    snprintf(quoted, sizeof quoted, "\"%.100s\": ", key);
    const char *at = strstr(c->text, quoted);
    for (const char *b = c->text; at != NULL && b < at; b++) line += *b == '\n';
    return line;
}

/* Returns a value as the user would type it, in the plan's arena; NULL if it is not given. */
static const char *accelerate_config_text(const config_file *c, const json_t *value)
{
    const char *text = json_string_value(value);
    mega_arena *a = &c->p->arena;
    mega_buffer number = {0};
    if (text != NULL) return strcmp(text, "auto") == 0 || strcmp(text, "none") == 0 ? NULL : mega_arena_strdup(a, text);
    if (json_is_integer(value)) return mega_arena_format(a, "%lld", (long long)json_integer_value(value));
    if (json_is_boolean(value)) return json_is_true(value) ? "true" : "false";
    if (!json_is_real(value)) return NULL;
    mega_buffer_json_double(&number, json_real_value(value));
    text = number.data != NULL ? mega_arena_strdup(a, number.data) : NULL;
    mega_buffer_fini(&number);
    return text;
}

static void accelerate_take_number(const config_file *c, const char *key, int64_t least, int64_t *field,
                                   int64_t not_given)
{
    const json_t *value = json_object_get(c->tree, key);
    if (*field != not_given || value == NULL || json_is_null(value)) return;
    if (json_is_integer(value) && json_integer_value(value) >= least &&
        json_integer_value(value) <= MEGA_LAUNCH_MOST_RANKS)
        *field = json_integer_value(value);
    else if (json_is_integer(value) && json_integer_value(value) == -1 && strcmp(key, "num_processes") == 0)
        launch_mistake(
            c->p, "%s, line %d: num_processes is -1, which leaves the number of ranks open: give --num_processes N",
            c->p->config_file, config_line(c, key));
    else
        launch_mistake(c->p, "%s, line %d: \"%s\": expected a whole number, at least %lld and at most %d",
                       c->p->config_file, config_line(c, key), key, (long long)least, MEGA_LAUNCH_MOST_RANKS);
}

static void take_word(const config_file *c, const char *block, const char *key, const char **field)
{
    const json_t *value = json_object_get(block != NULL ? json_object_get(c->tree, block) : c->tree, key);
    if (*field != NULL || value == NULL || json_is_null(value)) return;
    *field = accelerate_config_text(c, value);
    const char *home = getenv("HOME");
    if (*field != NULL && strncmp(*field, "~/", 2) == 0 && home != NULL)
        *field = mega_arena_format(&c->p->arena, "%s%s", home, *field + 1);
}

/* Keys at the top; those of blocks are checked by the command, or by launch_config_pass. */
static void config_check_top(const config_file *c)
{
    const char *key;
    json_t *value;
    json_object_foreach(c->tree, key, value)
    {
        bool is_known = mega_launch_knows(key, strlen(key));
        for (size_t i = 0; i < sizeof top_keys / sizeof *top_keys; i++)
            is_known = is_known || strcmp(key, top_keys[i]) == 0;
        if (is_known) continue;
        const char *near = mega_options_nearest(key, top_keys, sizeof top_keys / sizeof *top_keys);
        launch_mistake(c->p, "%s, line %d: \"%s\" is not a key of a configuration%s%s%s", c->p->config_file,
                       config_line(c, key), key, near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                       near != NULL ? "\"?" : "");
    }
}

/* Loads the file; false after a mistake. */
static bool config_open(config_file *c, const char *path)
{
    char *bytes = NULL;
    size_t size = 0;
    const size_t n = strlen(path);
    mega_buffer json = {0};
    json_error_t error;
    mega_status st = mega_file_read_kind(path, "a configuration in YAML or JSON", 0, &bytes, &size);
    if (st != MEGA_OK) launch_mistake(c->p, "%s", mega_error_message());
    if (st == MEGA_OK && n > 5 && strcmp(path + n - 5, ".json") == 0) mega_buffer_append(&json, bytes, size);
    else if (st == MEGA_OK)
        st = mega_yaml_to_json(bytes, size, path, &json, config_add_mistake, c->p);
    mega_free(bytes);
    c->text = st == MEGA_OK && json.data != NULL ? mega_arena_strdup(&c->p->arena, json.data) : NULL;
    mega_buffer_fini(&json);
    if (c->text == NULL) {
        if (st == MEGA_OK) launch_mistake(c->p, "%s: it is empty; megalith config writes one", path);
        return false;
    }
    c->tree = mega_json_load(c->text, strlen(c->text), JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(c->tree)) return true;
    launch_mistake(c->p, "%s, line %d: %s", path, c->tree == NULL ? error.line : 1,
                   c->tree == NULL ? error.text : "expected keys and values");
    return false;
}

/* accelerate launch reads the file that accelerate config writes, if there is one. */
static void find_default(launch_plan *p)
{
    char *path = mega_accelerate_default_file();
    if (path != NULL && mega_file_is_regular(path)) {
        p->config_file = mega_arena_strdup(&p->arena, path);
        fprintf(stderr, "megalith launch: settings of %s\n", path);
    }
    mega_free(path);
}

/* Whether a ZeRO stage follows from the file, or from a DeepSpeed JSON that it names. */
static bool says_zero_stage(const config_file *c)
{
    const char *wrong = NULL;
    const json_t *deepspeed = json_object_get(c->tree, "deepspeed_config");
    return mega_accelerate_zero_stage(c->tree, &wrong) >= 0 || json_object_get(deepspeed, "zero_stage") != NULL ||
           json_object_get(deepspeed, "deepspeed_config_file") != NULL;
}

void launch_config_read(launch_plan *p)
{
    config_file c = {.p = p};
    if (p->config_file == NULL && p->is_accelerate) find_default(p);
    if (p->config_file != NULL && config_open(&c, p->config_file)) {
        config_check_top(&c);
        p->says_zero_stage = says_zero_stage(&c);
        if (p->nproc == 0) accelerate_take_number(&c, "num_processes", 1, &p->processes, 0);
        accelerate_take_number(&c, "num_machines", 1, &p->nodes, 0);
        accelerate_take_number(&c, "machine_rank", 0, &p->node_rank, -1);
        accelerate_take_number(&c, "main_process_port", 0, &p->master_port, 0);
        take_word(&c, NULL, "main_process_ip", &p->master_addr);
        take_word(&c, "deepspeed_config", "deepspeed_hostfile", &p->hostfile);
        take_word(&c, "mpirun_config", "mpirun_hostfile", &p->hostfile);
        take_word(&c, "deepspeed_config", "deepspeed_inclusion_filter", &p->include);
        take_word(&c, "deepspeed_config", "deepspeed_exclusion_filter", &p->exclude);
    }
    if (p->node_rank < 0) p->node_rank = 0;
    json_decref(c.tree);
}

/* ---- a program of the user's own ---- */

static void check_block(const config_file *c, const char *block)
{
    const char *key;
    json_t *value, *object = json_object_get(c->tree, block);
    json_object_foreach(object, key, value)
    {
        if (!mega_launch_knows(key, strlen(key)) && strcmp(key, "other_megatron_args") != 0)
            launch_mistake(c->p, "%s, line %d: \"%s\" is not a key of %s", c->p->config_file, config_line(c, key), key,
                           block);
    }
}

/* accelerate folds these words; options take them in lower case. */
static const char *config_folded(const config_file *c, const char *key, const char *text)
{
    static const char *const folded[] = {"mixed_precision", "offload_optimizer_device", "offload_param_device"};
    bool folds = false;
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++) folds = folds || strcmp(key, folded[i]) == 0;
    char *lower = folds && text != NULL ? mega_arena_strdup(&c->p->arena, text) : NULL;
    for (char *at = lower; at != NULL && *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
    return lower != NULL ? lower : text;
}

static void pass_block(const config_file *c, const char *block, const char *const *keys, size_t count)
{
    const json_t *object = json_object_get(c->tree, block);
    for (size_t i = 0; i < count; i++) {
        const char *value = config_folded(c, keys[i], accelerate_config_text(c, json_object_get(object, keys[i])));
        if (value != NULL) launch_option_pass(c->p, keys[i], value);
    }
}

/* The stage that follows from the type, whose words accelerate compares exactly. */
static void pass_type(const config_file *c)
{
    static const char *const types[] = {"DEEPSPEED", "FSDP", "MEGATRON_LM"};
    const char *wrong = NULL, *type = json_string_value(json_object_get(c->tree, "distributed_type"));
    for (size_t i = 0; type != NULL && i < sizeof types / sizeof *types; i++)
        if (strcasecmp(type, types[i]) == 0 && strcmp(type, types[i]) != 0)
            launch_mistake(c->p, "%s, line %d: distributed_type: found \"%s\", expected \"%s\" in these letters",
                           c->p->config_file, config_line(c, "distributed_type"), type, types[i]);
    const int64_t stage = mega_accelerate_zero_stage(c->tree, &wrong);
    if (stage >= 0) launch_option_pass(c->p, "zero_stage", mega_arena_format(&c->p->arena, "%lld", (long long)stage));
    if (wrong != NULL)
        launch_mistake(c->p,
                       "%s, line %d: the strategy %s is not implemented; FULL_SHARD, SHARD_GRAD_OP and NO_SHARD are",
                       c->p->config_file, config_line(c, "fsdp_config"), wrong);
}

/* Of Megatron's settings an engine reads these; the others are a matter of the program's model and data. */
static void pass_megatron(const config_file *c)
{
    static const char *const read[] = {"tp_degree",
                                       "pp_degree",
                                       "num_micro_batches",
                                       "gradient_clipping",
                                       "use_distributed_optimizer",
                                       "calculate_per_token_loss"};
    static const char head[] = "megatron_lm_";
    const char *key, *left = NULL;
    json_t *value;
    json_object_foreach(json_object_get(c->tree, "megatron_lm_config"), key, value)
    {
        const char *text = accelerate_config_text(c, value);
        bool is_read = false;
        if ((text == NULL && !json_is_object(value)) || json_is_false(value)) continue;
        for (size_t i = 0; i < sizeof read / sizeof *read; i++)
            is_read =
                is_read || (strncmp(key, head, sizeof head - 1) == 0 && strcmp(key + sizeof head - 1, read[i]) == 0);
        if (is_read && text != NULL) launch_option_pass(c->p, key, text);
        else
            left = mega_arena_format(&c->p->arena, "%s%s%s", left != NULL ? left : "", left != NULL ? ", " : "", key);
    }
    if (left != NULL)
        fprintf(stderr, "megalith launch: no effect here: %s (%s): the model and the data of a program are its own\n",
                left, c->p->config_file);
}

void launch_config_pass(launch_plan *p)
{
    static const char *const deepspeed[] = {"zero_stage",           "gradient_accumulation_steps",
                                            "gradient_clipping",    "offload_optimizer_device",
                                            "offload_param_device", "deepspeed_config_file"};
    config_file c = {.p = p};
    if (!config_open(&c, p->config_file)) {
        json_decref(c.tree);
        return;
    }
    check_block(&c, "deepspeed_config");
    check_block(&c, "megatron_lm_config");
    const json_t *precision = json_object_get(c.tree, "mixed_precision");
    const char *given = json_is_false(precision) ? "no" : accelerate_config_text(&c, precision);
    if (given != NULL) launch_option_pass(p, "mixed_precision", config_folded(&c, "mixed_precision", given));
    pass_block(&c, "deepspeed_config", deepspeed, sizeof deepspeed / sizeof *deepspeed);
    pass_megatron(&c);
    pass_type(&c);
    json_decref(c.tree);
}

/* ---- a command that the user starts without launch ---- */

const char *mega_launch_config_of(int argc, char **argv)
{
    for (int i = argc - 1; i > 0; i--) {
        const char *word = argv[i];
        if (strncmp(word, "--config", 8) != 0 || (word[8] != '_' && word[8] != '-') ||
            strncmp(word + 9, "file", 4) != 0)
            continue;
        if (word[13] == '=') return word + 14;
        if (word[13] == '\0' && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

int64_t mega_launch_config_ranks(const char *path)
{
    launch_plan p = {0};
    config_file c = {.p = &p};
    const bool is_open = config_open(&c, path);
    const json_int_t said = is_open ? json_integer_value(json_object_get(c.tree, "num_processes")) : 0;
    const int64_t ranks = said > 0 && said <= MEGA_LAUNCH_MOST_RANKS ? said : 0;
    json_decref(c.tree);
    mega_buffer_fini(&p.mistakes);
    mega_arena_fini(&p.arena);
    mega_error_clear();
    return ranks;
}
