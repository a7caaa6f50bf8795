/* Accelerate's configuration file: where it lies, and the ZeRO stage that its type means. */
#include "megalith/accelerate.h"
#include "megalith/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char *mega_accelerate_default_file(void)
{
    const char *hub = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (home == NULL) home = "";
    if (hub != NULL && hub[0] == '~') return mega_format("%s%s/accelerate/default_config.yaml", home, hub + 1);
    if (hub != NULL && hub[0] != '\0') return mega_format("%s/accelerate/default_config.yaml", hub);
    if (cache != NULL && cache[0] != '\0') return mega_format("%s/huggingface/accelerate/default_config.yaml", cache);
    return mega_format("%s/.cache/huggingface/accelerate/default_config.yaml", home);
}

static int64_t stage_of_strategy(const json_t *given, const char **out_wrong)
{
    static const struct {
        const char *strategy;
        int number, stage;
    } of[] = {{"FULL_SHARD", 1, 3}, {"SHARD_GRAD_OP", 2, 2}, {"NO_SHARD", 3, 0}};
    const char *name = json_string_value(given);
    if (json_is_boolean(given)) return json_is_true(given) ? 3 : 2; /* whether weights are sharded again */
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char digit[2] = {(char)('0' + of[i].number), '\0'};
        if (json_integer_value(given) == of[i].number ||
            (name != NULL && (strcasecmp(name, of[i].strategy) == 0 || strcmp(name, digit) == 0)))
            return of[i].stage;
    }
    if (name != NULL && (strcasecmp(name, "true") == 0 || strcasecmp(name, "false") == 0))
        return strcasecmp(name, "true") == 0 ? 3 : 2;
    *out_wrong = name != NULL ? name : "of this value";
    return -1;
}

int64_t mega_accelerate_zero_stage(const json_t *tree, const char **out_wrong)
{
    const char *type = json_string_value(json_object_get(tree, "distributed_type"));
    const json_t *fsdp = json_object_get(tree, "fsdp_config"), *deepspeed = json_object_get(tree, "deepspeed_config");
    const json_t *strategy = json_object_get(fsdp, "fsdp_reshard_after_forward");
    if (strategy == NULL || json_is_null(strategy)) strategy = json_object_get(fsdp, "fsdp_sharding_strategy");
    if (type != NULL && strcmp(type, "FSDP") == 0)
        return strategy == NULL || json_is_null(strategy) ? 3 : stage_of_strategy(strategy, out_wrong);
    const json_t *stage = json_object_get(deepspeed, "zero_stage"),
                 *file = json_object_get(deepspeed, "deepspeed_config_file");
    const bool is_said = (stage != NULL && !json_is_null(stage)) || json_is_string(file);
    return type != NULL && strcmp(type, "DEEPSPEED") == 0 && !is_said ? 2 : -1;
}
