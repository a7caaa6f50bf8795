/* Rules for a mixture of experts that options make: names of other systems that ask for another one, and options of a
 * mixture without one. */
#include "train_rules.h"

#include "megalith/checkpoint.h"
#include <string.h>

/* Names that change nothing where there are no experts, and what to do where there are. */
static void experts_refuse_others(mega_options *o)
{
    const struct {
        const char *dest, *remedy;
    } other[] = {{"topk", "give --moe-router-topk"},
                 {"moe_loss_coeff", "give --moe-aux-loss-coeff"},
                 {"moe_train_capacity_factor",
                  "give --moe-expert-capacity-factor, and with --moe-token-drop-policy which choices are dropped"},
                 {"moe_eval_capacity_factor", "an evaluation drops no choice; leave it out"},
                 {"moe_*", "leave it out"}};
    for (size_t i = 0; i < MEGA_COUNT(other); i++)
        if (mega_options_is_given(o, other[i].dest))
            mega_options_problem(o, MEGA_ERR_UNSUPPORTED, "%s is not implemented yet with --num-experts above 1: %s",
                                 mega_options_origin(o, other[i].dest), other[i].remedy);
}

/* A run that was cut off goes on from --load; before its first checkpoint it begins again from the dense model. */
void mega_train_apply_init_from(mega_train_options *cfg)
{
    const char *from = cfg->model.moe_init_from;
    const bool trains = train_is(cfg, "pretrain_gpt") || train_is(cfg, "run_clm") || train_is(cfg, "plan");
    if (from == NULL || !trains || (cfg->load != NULL && mega_checkpoint_is_in(cfg->load))) return;
    cfg->load = from;
    cfg->begins_mixture = cfg->finetune = true;
}

static void experts_check_init_from(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const char *option = mega_options_origin(o, "moe_init_from");
    if (mega_model_num_experts(&cfg->model) <= 0)
        mega_options_mistake(o, "%s makes a mixture of experts, and their number is missing: give --num-experts N",
                             option);
    if (cfg->clm.config_name != NULL)
        mega_options_mistake(o,
                             "%s and %s both say the network; leave --config_name out, and give --num-experts and "
                             "its relatives for what the dense model does not say",
                             option, mega_options_origin(o, "config_name"));
    if (cfg->skip_train)
        mega_options_mistake(o,
                             "%s begins a training, and --skip-train trains nothing; evaluate the dense model with "
                             "--load instead",
                             option);
}

/* Choices are counted in fp32, which holds whole numbers up to this one. */
static void experts_check_counts(const mega_train_options *cfg)
{
    const int64_t most = 1 << 24, samples = cfg->engine.optim.global_batch_size, length = cfg->seq_length;
    if (samples > 0 && length > most / samples)
        mega_options_problem(cfg->engine.options, MEGA_ERR_UNSUPPORTED,
                             "--moe-router-enable-expert-bias: choices of %lld samples of %lld tokens a step are not "
                             "counted exactly in fp32; expected at most %lld tokens a step",
                             (long long)samples, (long long)length, (long long)most);
}

/* As in Megatron-core Sinkhorn's iterations have no loss beside them, and fix the weights of what they choose. */
static void experts_check_sinkhorn(mega_train_options *cfg)
{
    const mega_model_options *m = &cfg->model;
    mega_options *o = cfg->engine.options;
    const char *type = mega_options_origin(o, "moe_router_load_balancing_type");
    const char *wanted = m->moe_router_topk == 1 ? "sigmoid" : "softmax";
    if (m->moe_aux_loss_coeff > 0.0)
        mega_options_mistake(o, "%s and %s: the first balances without a loss; give one of them", type,
                             mega_options_origin(o, "moe_aux_loss_coeff"));
    if (m->moe_router_enable_expert_bias)
        mega_options_mistake(o,
                             "%s and --moe-router-enable-expert-bias: both decide which experts a token chooses; give "
                             "one of them",
                             type);
    if (m->moe_router_num_groups > 1)
        mega_options_mistake(
            o, "%s and --moe-router-num-groups %lld: a token chooses from all experts; leave the groups out", type,
            (long long)m->moe_router_num_groups);
    if (mega_model_num_experts(m) <= 0) return; /* a folder says the weights */
    if (mega_options_is_given(o, "moe_router_score_function") && strcmp(m->moe_router_score_function, wanted) != 0)
        mega_options_mistake(
            o, "%s with %s: the weights of --moe-router-topk %lld are those of a %s; leave the second out", type,
            mega_options_origin(o, "moe_router_score_function"), (long long)m->moe_router_topk, wanted);
    if (m->moe_router_pre_softmax && m->moe_router_topk == 1)
        mega_options_mistake(o, "%s with %s: the weight of --moe-router-topk 1 is a sigmoid; leave the second out",
                             type, mega_options_origin(o, "moe_router_pre_softmax"));
}

/* A folder of --load or --config_name says itself whether it has experts. */
void mega_train_rule_experts(mega_train_options *cfg)
{
    static const char *const of_experts[] = {"mlp_type",
                                             "expert_interval",
                                             "moe_ffn_hidden_size",
                                             "moe_layer_freq",
                                             "moe_router_topk",
                                             "moe_router_score_function",
                                             "moe_router_pre_softmax",
                                             "moe_router_topk_scaling_factor",
                                             "moe_router_num_groups",
                                             "moe_router_group_topk",
                                             "moe_router_load_balancing_type",
                                             "moe_aux_loss_coeff",
                                             "moe_z_loss_coeff",
                                             "moe_input_jitter_eps",
                                             "moe_router_enable_expert_bias",
                                             "moe_router_bias_update_rate",
                                             "moe_buffer_factor",
                                             "moe_expert_capacity_factor"};
    static const char *const of_capacities[] = {"moe_token_drop_policy", "moe_min_capacity"};
    mega_options *o = cfg->engine.options;
    const bool is_of_folder = cfg->load != NULL || cfg->clm.config_name != NULL;
    if (mega_model_num_experts(&cfg->model) < 0)
        mega_options_mistake(o, "%s: expected whole numbers from 1 to %d", mega_options_origin(o, "num_experts"),
                             MEGA_ROUTE_EXPERTS);
    if (mega_model_num_experts(&cfg->model) > 0) experts_refuse_others(o);
    if (cfg->begins_mixture) experts_check_init_from(cfg);
    if (cfg->model.moe_router_enable_expert_bias) experts_check_counts(cfg);
    const char *type = cfg->model.moe_router_load_balancing_type;
    if (type != NULL && strcmp(type, "sinkhorn") == 0) experts_check_sinkhorn(cfg);
    for (size_t i = 0; i < MEGA_COUNT(of_experts) && mega_model_num_experts(&cfg->model) == 0 && !is_of_folder; i++)
        if (mega_options_is_given(o, of_experts[i]))
            mega_options_warn(o, "%s has no effect without --num-experts", mega_options_origin(o, of_experts[i]));
    for (size_t i = 0; i < MEGA_COUNT(of_capacities); i++)
        if (mega_options_is_given(o, of_capacities[i]) && !mega_options_is_given(o, "moe_expert_capacity_factor"))
            mega_options_warn(o, "%s has no effect without --moe-expert-capacity-factor",
                              mega_options_origin(o, of_capacities[i]));
}
