/* Rules between options of a training: shape of the network, layout. Each message names the options,
 * their values, and valid values. Ranges of single values are in the rows. */
#include "train_rules.h"

void mega_train_rule_shape_is_given(mega_train_options *cfg)
{
    const struct {
        const char *name, *dest;
        int64_t value;
    } needed[] = {{"--num-layers", "num_layers", cfg->model.num_layers},
                  {"--hidden-size", "hidden_size", cfg->model.hidden_size},
                  {"--num-attention-heads", "num_attention_heads", cfg->model.num_attention_heads},
                  {"--seq-length", "seq_length", cfg->seq_length}};
    const char *missing = "";
    if (cfg->clm.config_name != NULL) return; /* it says all, or a mistake says why it could not */
    for (size_t i = 0; i < MEGA_COUNT(needed); i++) {
        if (needed[i].value > 0 || mega_options_is_given(cfg->engine.options, needed[i].dest))
            continue; /* an invalid value is reported elsewhere */
        missing =
            mega_options_text(cfg->engine.options, "%s%s%s", missing, missing[0] != '\0' ? ", " : "", needed[i].name);
    }
    if (missing[0] == '\0') return;
    if (cfg->load != NULL)
        mega_options_mistake(cfg->engine.options,
                             "missing: %s; give them, or none of the sizes of the network: a checkpoint in --load says "
                             "all of them then",
                             missing);
    else
        mega_options_mistake(cfg->engine.options, "missing: %s; give them, or a known shape with --%s gpt2", missing,
                             train_is(cfg, "run_clm") ? "config_name" : "preset");
}

void mega_train_rule_heads_divide_hidden(mega_train_options *cfg)
{
    const int64_t h = cfg->model.hidden_size, heads = cfg->model.num_attention_heads;
    if (h <= 0 || heads <= 0) return;
    if (cfg->model.kv_channels <= 0 || !mega_options_was_set(cfg->engine.options, "kv_channels")) {
        if (h % heads == 0) return;
        char valid[160];
        mega_options_divisors(h, heads, valid, sizeof valid);
        const int64_t next = (h / heads + 1) * heads;
        mega_options_mistake(cfg->engine.options, "%s does not divide %s; heads that do: %s; or a hidden size of %lld",
                             mega_options_origin(cfg->engine.options, "num_attention_heads"),
                             mega_options_origin(cfg->engine.options, "hidden_size"), valid, (long long)next);
    }
}

typedef struct without_effect {
    const char *dest;
    bool is_on; /* its value is not that which changes nothing */
} without_effect;

static void warn_without(mega_options *o, const without_effect *list, size_t count, const char *option)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].is_on && mega_options_is_given(o, list[i].dest))
            mega_options_warn(o, "%s has no effect without %s", mega_options_origin(o, list[i].dest), option);
}

/* Scripts carry these options along, so that they are warnings. A folder of --load says itself what it rotates. */
void mega_train_rule_rotation(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const mega_model_options *m = &cfg->model;
    const double interpolation = m->rotary_seq_len_interpolation_factor;
    const bool rotates = m->use_rotary_position_embeddings || strncmp(m->position_embedding_type, "ro", 2) == 0;
    const bool is_yarn = m->rope_type != NULL && strcmp(m->rope_type, "yarn") == 0;
    const without_effect of_rotation[] = {
        {"rotary_percent", m->rotary_percent != 1.0},
        {"rotary_base", m->rotary_base != 10000.0},
        {"rotary_interleaved", m->rotary_interleaved},
        {"use_rope_scaling", m->use_rope_scaling},
        {"rope_type", is_yarn},
        {"no_rope_freq", m->no_rope_freq > 0},
        {"rotary_seq_len_interpolation_factor", interpolation != 0.0 && interpolation != 1.0}};
    const without_effect of_yarn[] = {
        {"rotary_scaling_factor", m->rotary_scaling_factor != 1.0},
        {"yarn_original_max_position_embeddings", m->yarn_original_max_position_embeddings != 4096},
        {"yarn_beta_fast", m->yarn_beta_fast != 32.0},
        {"yarn_beta_slow", m->yarn_beta_slow != 1.0},
        {"yarn_correction_range_round_to_int", !m->yarn_correction_range_round_to_int},
        {"mscale", m->mscale != 1.0},
        {"mscale_all_dim", m->mscale_all_dim != 0.0}};
    if (cfg->load == NULL && !rotates)
        warn_without(o, of_rotation, MEGA_COUNT(of_rotation), "--position-embedding-type rope");
    if (cfg->load == NULL && !is_yarn) warn_without(o, of_yarn, MEGA_COUNT(of_yarn), "--rope-type yarn");
    if (is_yarn && m->use_rope_scaling)
        mega_options_mistake(o, "%s and %s both lengthen the wavelengths of the rotation; give one",
                             mega_options_origin(o, "rope_type"), mega_options_origin(o, "use_rope_scaling"));
}

void mega_train_rule_positions_reach(mega_train_options *cfg)
{
    if (cfg->seq_length <= 0 || cfg->model.max_position_embeddings <= 0 ||
        cfg->model.max_position_embeddings >= cfg->seq_length)
        return;
    const char *have = mega_options_origin(cfg->engine.options, "max_position_embeddings"),
               *need = mega_options_origin(cfg->engine.options, "seq_length");
    if (cfg->positions_are_fixed)
        mega_options_mistake(cfg->engine.options,
                             "%s is shorter than %s; shorten the sequence: this model has no more positions", have,
                             need);
    else if (train_is(cfg, "pretrain_t5") && cfg->t5.t5_form != MEGA_T5_FORM_MEGATRON && cfg->load == NULL)
        mega_options_mistake(cfg->engine.options,
                             "%s is shorter than %s: the positions of this --t5-form are relative, but its folder says "
                             "how long texts may be, and those of the training are longer; leave it out",
                             have, need);
    else
        mega_options_mistake(cfg->engine.options,
                             "%s is shorter than %s; make it %lld or more, or shorten the sequence", have, need,
                             (long long)cfg->seq_length);
}

/* Limits the number of values that a micro-batch stores, about 64 per channel of each token and layer: later code
 * multiplies these in 64 bits. */
void mega_train_rule_sizes_fit(mega_train_options *cfg)
{
    const double kept = (double)cfg->engine.optim.micro_batch_size * (double)cfg->seq_length *
                        (double)(cfg->model.hidden_size + cfg->model.ffn_hidden_size) * (double)cfg->model.num_layers *
                        64.0;
    if (kept > 1e18) {
        mega_options_mistake(cfg->engine.options,
                             "%s, %s, %s, %s: a micro-batch would keep %.1g bytes; make one of them smaller",
                             mega_options_origin(cfg->engine.options, "micro_batch_size"),
                             mega_options_origin(cfg->engine.options, "seq_length"),
                             mega_options_origin(cfg->engine.options, "hidden_size"),
                             mega_options_origin(cfg->engine.options, "num_layers"), kept);
    }
}

/* Returns the greatest common divisor. */
static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

const char *train_advise_ranks(const mega_train_options *cfg)
{
    return train_is(cfg, "plan") ? "--world-size N plans N" : "megalith launch --nproc_per_node N starts N";
}

void mega_train_rule_layout(mega_train_options *cfg)
{
    const int64_t tp = cfg->engine.comm.tensor_model_parallel_size, world = cfg->engine.world_size,
                  heads = cfg->model.num_attention_heads;
    char valid[160];
    if (tp <= 0) return; /* its range check reports this */
    if (world % tp != 0) {
        mega_options_divisors(heads > 0 ? common_divisor(heads, world) : world, tp, valid, sizeof valid);
        mega_options_mistake(cfg->engine.options, "%s does not divide the world of %lld rank%s; sizes that do: %s (%s)",
                             mega_options_origin(cfg->engine.options, "tensor_model_parallel_size"), (long long)world,
                             world == 1 ? "" : "s", valid, train_advise_ranks(cfg));
        return;
    }
    if (tp > 1 && heads > 0 && heads % tp != 0) {
        mega_options_divisors(common_divisor(heads, world), tp, valid, sizeof valid);
        mega_options_mistake(
            cfg->engine.options,
            "%s is not a multiple of %s: attention is cut by heads; sizes that divide heads and ranks: %s",
            mega_options_origin(cfg->engine.options, "num_attention_heads"),
            mega_options_origin(cfg->engine.options, "tensor_model_parallel_size"), valid);
    }
    if (tp > 1 && cfg->model.ffn_hidden_size > 0 && cfg->model.ffn_hidden_size % tp != 0)
        mega_options_mistake(cfg->engine.options, "%s is not a multiple of %s",
                             mega_options_origin(cfg->engine.options, "ffn_hidden_size"),
                             mega_options_origin(cfg->engine.options, "tensor_model_parallel_size"));
}

void mega_train_rule_expert_ranks(mega_train_options *cfg)
{
    const int64_t ep = cfg->engine.comm.expert_model_parallel_size, dp = cfg->engine.data_parallel_size;
    char valid[160];
    if (ep <= 1) return; /* its range check reports 0 */
    if (dp % ep == 0) return;
    mega_options_divisors(dp, ep, valid, sizeof valid);
    mega_options_mistake(cfg->engine.options,
                         "%s does not divide the %lld data-parallel rank%s, which divide the experts among them; sizes "
                         "that do: %s",
                         mega_options_origin(cfg->engine.options, "expert_model_parallel_size"), (long long)dp,
                         dp == 1 ? "" : "s", valid);
}
