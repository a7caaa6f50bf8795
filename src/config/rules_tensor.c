/* Rules of what tensor parallelism brings with it. */
#include "megalith/log.h"
#include "program_impl.h"

static void check_tokens(mega_config *cfg, const char *option)
{
    const int64_t tp = cfg->tensor_model_parallel_size, tokens = cfg->micro_batch_size * cfg->seq_length;
    if (tokens <= 0 || tokens % tp == 0) return;
    mega_config_problem(cfg, MEGA_ERR_USAGE,
                        "--%s cuts the %lld tokens of a micro-batch (%s x %s) over %s; expected a multiple of %lld",
                        option, (long long)tokens, mega_config_origin(cfg, "micro_batch_size"),
                        mega_config_origin(cfg, "seq_length"), mega_config_origin(cfg, "tensor_model_parallel_size"),
                        (long long)tp);
}

/* As in Megatron, one rank of tensor parallelism turns it off; here that is said. */
void mega_rule_sequence_parallel(mega_config *cfg)
{
    const int64_t tp = cfg->tensor_model_parallel_size;
    if (!cfg->sequence_parallel || tp < 1) return;
    if (tp == 1) {
        mega_warn("--sequence-parallel is off: with --tensor-model-parallel-size 1 no other rank could take a share of "
                  "the tokens");
        cfg->sequence_parallel = false;
        return;
    }
    check_tokens(cfg, "sequence-parallel");
}

/* Megatron's conditions; but for one rank of tensor parallelism, which turns it off like the rule above. */
void mega_rule_distribute_saved(mega_config *cfg)
{
    if (!cfg->distribute_saved_activations || cfg->tensor_model_parallel_size < 1) return;
    if (cfg->tensor_model_parallel_size == 1) {
        mega_warn("--distribute-saved-activations is off: with --tensor-model-parallel-size 1 no other rank could keep "
                  "a share");
        cfg->distribute_saved_activations = false;
        return;
    }
    if (cfg->recompute_granularity != MEGA_RECOMPUTE_FULL)
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "--distribute-saved-activations shares the inputs of recomputed layers; add "
                            "--recompute-granularity full, or leave it out");
    if (cfg->sequence_parallel)
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "--distribute-saved-activations and --sequence-parallel: what is kept is a share of the "
                            "tokens already; leave --distribute-saved-activations out");
    else
        check_tokens(cfg, "distribute-saved-activations");
}
