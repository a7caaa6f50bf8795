/* Rules of what tensor parallelism brings with it. */
#include "config_impl.h"
#include "megalith/log.h"

/* As in Megatron, one rank of tensor parallelism turns it off; here that is said. */
void mega_rule_sequence_parallel(mega_config *cfg)
{
    const int64_t tp = cfg->tensor_model_parallel_size, tokens = cfg->micro_batch_size * cfg->seq_length;
    if (!cfg->sequence_parallel || tp < 1) return;
    if (tp == 1) {
        mega_warn("--sequence-parallel is off: with --tensor-model-parallel-size 1 no other rank could take a share of "
                  "the tokens");
        cfg->sequence_parallel = false;
        return;
    }
    if (tokens > 0 && tokens % tp != 0)
        mega_config_problem(
            cfg, MEGA_ERR_USAGE,
            "--sequence-parallel cuts the %lld tokens of a micro-batch (%s x %s) over %s; expected a multiple of %lld",
            (long long)tokens, mega_config_origin(cfg, "micro_batch_size"), mega_config_origin(cfg, "seq_length"),
            mega_config_origin(cfg, "tensor_model_parallel_size"), (long long)tp);
}
