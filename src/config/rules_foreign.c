/* Rules of options that other programs have, where their meaning depends on another option. */
#include "program_impl.h"
#include <string.h>

static size_t given_index(const mega_config *cfg, const char *name)
{
    const size_t i = mega_option_find(&cfg->state->table, name, strlen(name), cfg->state->command->bit);
    return i != SIZE_MAX && cfg->state->entry[i].source == MEGA_SET_BY_COMMAND_LINE ? i : SIZE_MAX;
}

/* What is not built but for the value that another option has: `neutral` is "=num-attention-heads". */
void mega_rule_equal_values(mega_config *cfg)
{
    for (option_walk w = {.of = &cfg->state->table}; mega_option_next(&w);) {
        const mega_option_row *row = w.row;
        const option_entry *entry = &cfg->state->entry[w.index];
        if (row->neutral == NULL || row->neutral[0] != '=' || entry->text == NULL) continue;
        const size_t other =
            mega_option_find(&cfg->state->table, row->neutral + 1, strlen(row->neutral + 1), cfg->state->command->bit);
        if (other == SIZE_MAX) continue;
        char dest[80];
        int64_t wanted, given = 0;
        memcpy(&wanted, mega_value_at(cfg, other), sizeof wanted);
        if (mega_value_int(entry->text, &given) && given == wanted) continue;
        mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED, "%s %s is not built yet (only %s is accepted): %s", entry->typed,
                            entry->text, mega_config_origin(cfg, mega_option_dest(row_at(cfg, other), dest)),
                            row->remark);
    }
}

/* --global-batch-size follows from --gradient-accumulation-steps; where both are given they say the same. */
void mega_rule_accumulation(mega_config *cfg)
{
    const int64_t steps = cfg->gradient_accumulation_steps, dp = cfg->data_parallel_size;
    const bool both = is_given(cfg, "global_batch_size");
    if (steps <= 0 || cfg->micro_batch_size <= 0 || !both) return;
    if ((double)cfg->micro_batch_size * (double)steps * (double)dp == (double)cfg->global_batch_size) return;
    mega_config_problem(
        cfg, MEGA_ERR_USAGE,
        "%s and %s contradict each other: a step has %s x %lld data-parallel rank%s x the accumulation; "
        "give one of them",
        mega_config_origin(cfg, "gradient_accumulation_steps"), mega_config_origin(cfg, "global_batch_size"),
        mega_config_origin(cfg, "micro_batch_size"), (long long)dp, dp == 1 ? "" : "s");
}

/* transformers trains with --do_train alone. */
void mega_rule_evaluation_alone(mega_config *cfg)
{
    const size_t eval = given_index(cfg, "do_eval"), train = given_index(cfg, "do_train");
    if (eval == SIZE_MAX || train != SIZE_MAX || cfg->skip_train) return;
    mega_config_problem(cfg, MEGA_ERR_USAGE,
                        "%s without --do_train evaluates and does not train elsewhere; here that is --skip-train",
                        cfg->state->entry[eval].typed);
}
