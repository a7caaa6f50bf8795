/* Rules about what data-parallel ranks share out (ZeRO). */
#include "program_impl.h"

void mega_rule_zero(mega_config *cfg)
{
    if (cfg->zero_stage > 3)
        mega_config_problem(cfg, MEGA_ERR_USAGE, "%s: expected 0, 1, 2 or 3", mega_config_origin(cfg, "zero_stage"));
    if (cfg->ddp_impl == MEGA_DDP_FSDP && cfg->zero_stage != 3)
        mega_config_problem(cfg, MEGA_ERR_USAGE, "%s and %s: FSDP is ZeRO stage 3; give one of them",
                            mega_config_origin(cfg, "ddp_impl"), mega_config_origin(cfg, "zero_stage"));
    else if (cfg->use_distributed_optimizer && cfg->zero_stage != 1 && cfg->ddp_impl != MEGA_DDP_FSDP)
        mega_config_problem(
            cfg, MEGA_ERR_USAGE, "%s and %s: the distributed optimizer is ZeRO stage 1; give one of them",
            mega_config_origin(cfg, "use_distributed_optimizer"), mega_config_origin(cfg, "zero_stage"));
}
