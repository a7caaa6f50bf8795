/* Rules about what data-parallel ranks share out (ZeRO). */
#include "config_impl.h"

void mega_rule_zero(mega_config *cfg)
{
    static const char *const folder[] = {"save", "load"};
    if (cfg->zero_stage > 3)
        mega_config_problem(cfg, MEGA_ERR_USAGE, "%s: expected 0, 1, 2 or 3", mega_config_origin(cfg, "zero_stage"));
    else if (cfg->zero_stage > 1)
        mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED, "%s is not built yet; use --zero-stage 1",
                            mega_config_origin(cfg, "zero_stage"));
    if (cfg->use_distributed_optimizer && cfg->zero_stage != 1)
        mega_config_problem(
            cfg, MEGA_ERR_USAGE, "%s and %s: the distributed optimizer is ZeRO stage 1; give one of them",
            mega_config_origin(cfg, "use_distributed_optimizer"), mega_config_origin(cfg, "zero_stage"));
    for (size_t i = 0; i < ROW_COUNT(folder) && cfg->zero_stage > 0 && cfg->data_parallel_size > 1; i++)
        if (mega_config_set_by(cfg, folder[i]) == MEGA_SET_BY_COMMAND_LINE)
            mega_config_problem(
                cfg, MEGA_ERR_UNSUPPORTED,
                "%s: checkpoints of what ZeRO shares out over ranks are not built yet; leave it out, or "
                "use --zero-stage 0",
                mega_config_origin(cfg, folder[i]));
}
