/* Rules for tensor parallelism and the options that depend on it. */
#include "train_rules.h"

static void check_tokens(mega_train_options *cfg, const char *option)
{
    const int64_t tp = cfg->engine.comm.tensor_model_parallel_size,
                  tokens = cfg->engine.optim.micro_batch_size * cfg->seq_length;
    if (tokens <= 0 || tokens % tp == 0) return;
    mega_options_mistake(cfg->engine.options,
                         "--%s cuts the %lld tokens of a micro-batch (%s x %s) over %s; expected a multiple of %lld",
                         option, (long long)tokens, mega_options_origin(cfg->engine.options, "micro_batch_size"),
                         mega_options_origin(cfg->engine.options, "seq_length"),
                         mega_options_origin(cfg->engine.options, "tensor_model_parallel_size"), (long long)tp);
}

/* As in Megatron, a tensor-parallel size of 1 turns --sequence-parallel off; here a warning says so. */
void mega_train_rule_sequence_parallel(mega_train_options *cfg)
{
    const int64_t tp = cfg->engine.comm.tensor_model_parallel_size;
    if (!cfg->model.sequence_parallel || tp < 1) return;
    if (tp == 1) {
        mega_options_warn(
            cfg->engine.options,
            "--sequence-parallel is off: with --tensor-model-parallel-size 1 no other rank could take a share of "
            "the tokens");
        cfg->model.sequence_parallel = false;
        return;
    }
    check_tokens(cfg, "sequence-parallel");
}

/* Megatron's conditions, except that a tensor-parallel size of 1 turns the option off, as in the rule above. */
void mega_train_rule_distribute_saved(mega_train_options *cfg)
{
    if (!cfg->engine.graph.distribute_saved_activations || cfg->engine.comm.tensor_model_parallel_size < 1) return;
    if (cfg->engine.comm.tensor_model_parallel_size == 1) {
        mega_options_warn(
            cfg->engine.options,
            "--distribute-saved-activations is off: with --tensor-model-parallel-size 1 no other rank could keep "
            "a share");
        cfg->engine.graph.distribute_saved_activations = false;
        return;
    }
    const bool recomputes =
        cfg->engine.graph.recompute_granularity == MEGA_RECOMPUTE_FULL || cfg->engine.graph.activation_budget > 0;
    const bool is_json = mega_options_says(cfg->engine.options, "distribute_saved_activations", MEGA_SET_BY_JSON);
    if (is_json && (!recomputes || cfg->model.sequence_parallel)) {
        mega_options_warn(cfg->engine.options, "%s changes nothing: %s",
                          mega_options_origin(cfg->engine.options, "distribute_saved_activations"),
                          recomputes ? "with --sequence-parallel a rank keeps a share of the tokens already"
                                     : "no layer is recomputed (--recompute-granularity full, --activation-budget)");
        cfg->engine.graph.distribute_saved_activations = false;
        return;
    }
    if (!recomputes)
        mega_options_mistake(cfg->engine.options,
                             "--distribute-saved-activations shares the inputs of recomputed layers; add "
                             "--recompute-granularity full or --activation-budget, or leave it out");
    if (cfg->model.sequence_parallel)
        mega_options_mistake(cfg->engine.options,
                             "--distribute-saved-activations and --sequence-parallel: what is kept is a share of the "
                             "tokens already; leave --distribute-saved-activations out");
    else
        check_tokens(cfg, "distribute-saved-activations");
}
