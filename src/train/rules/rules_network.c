/* Rules for the kind of network: options that contradict each other, change nothing, or that no network can have. */
#include "train_rules.h"

#include <stdlib.h>
#include <string.h>

static bool network_is_text(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

static void network_refuse_both(mega_options *o, const char *a, const char *b, const char *what)
{
    mega_options_mistake(o, "%s and %s both say %s; give one", mega_options_origin(o, a), mega_options_origin(o, b),
                         what);
}

static void network_check_activation(mega_train_options *cfg)
{
    static const char what[] = "the activation of the MLP";
    const mega_model_options *m = &cfg->model;
    mega_options *o = cfg->engine.options;
    if (m->swiglu && m->squared_relu) network_refuse_both(o, "swiglu", "squared_relu", what);
    if (m->glu_activation != NULL && m->squared_relu) network_refuse_both(o, "glu_activation", "squared_relu", what);
    if (m->swiglu && m->glu_activation != NULL && !network_is_text(m->glu_activation, "swiglu"))
        network_refuse_both(o, "swiglu", "glu_activation", what);
}

/* Three options say how many heads of keys and values there are. */
static void network_check_groups(mega_train_options *cfg)
{
    static const char what[] = "how many heads of keys and values there are";
    const mega_model_options *m = &cfg->model;
    mega_options *o = cfg->engine.options;
    const bool is_multiquery = network_is_text(m->attention_head_type, "multiquery");
    const bool has_heads = mega_options_is_given(o, "num_key_value_heads") && m->num_key_value_heads > 0;
    const bool has_groups = mega_options_is_given(o, "num_query_groups");
    if (is_multiquery && m->group_query_attention && m->num_query_groups != 1)
        network_refuse_both(o, "attention_head_type", "num_query_groups", what);
    if (is_multiquery && has_heads && m->num_key_value_heads != 1)
        network_refuse_both(o, "attention_head_type", "num_key_value_heads", what);
    if (m->group_query_attention && has_heads && m->num_key_value_heads != m->num_query_groups)
        network_refuse_both(o, has_groups ? "num_query_groups" : "group_query_attention", "num_key_value_heads", what);
    if (has_groups && m->num_query_groups != 1 && !m->group_query_attention && cfg->load == NULL)
        mega_options_warn(o, "%s has no effect without --group-query-attention",
                          mega_options_origin(o, "num_query_groups"));
}

/* The rotation turns pairs of channels. */
static void check_rotated(mega_train_options *cfg)
{
    const mega_model_options *m = &cfg->model;
    mega_options *o = cfg->engine.options;
    const bool has_width = m->kv_channels > 0 && mega_options_was_set(o, "kv_channels");
    const int64_t heads = m->num_attention_heads, width = has_width ? m->kv_channels
                                                          : heads > 0 && m->hidden_size % heads == 0
                                                              ? m->hidden_size / heads
                                                              : 0;
    if (width < 1 || cfg->load != NULL) return;
    const int64_t rotated = (int64_t)((double)width * m->rotary_percent);
    if (m->rotary_percent == 1.0 && width % 2 != 0)
        mega_options_mistake(
            o, "%s: heads of %lld channels; expected an even number, of which the rotation turns pairs",
            mega_options_origin(o, has_width ? "kv_channels" : "num_attention_heads"), (long long)width);
    else if (m->rotary_percent > 1.0 || rotated < 2 || rotated % 2 != 0)
        mega_options_mistake(o,
                             "%s rotates %lld of the %lld channels of a head; expected an even number from 2 to %lld",
                             mega_options_origin(o, "rotary_percent"), (long long)rotated, (long long)width,
                             (long long)(width - width % 2));
}

static void check_factors(mega_train_options *cfg)
{
    enum { MOST = 1 << 20 };
    const mega_model_options *m = &cfg->model;
    mega_options *o = cfg->engine.options;
    const struct {
        const char *dest;
        double value;
    } factor[] = {{"rotary_scaling_factor", m->rotary_scaling_factor},
                  {"rope_scaling_factor", m->rope_scaling_factor},
                  {"rotary_seq_len_interpolation_factor", m->rotary_seq_len_interpolation_factor}};
    for (size_t i = 0; i < MEGA_COUNT(factor); i++)
        if (factor[i].value > MOST)
            mega_options_mistake(o, "%s: expected at most %d times longer", mega_options_origin(o, factor[i].dest),
                                 MOST);
    if (network_is_text(m->rope_type, "yarn") && m->rotary_scaling_factor == 1.0 && cfg->load == NULL)
        mega_options_warn(o,
                          "%s changes nothing with a --rotary-scaling-factor of 1: give how many times longer the "
                          "sequences are",
                          mega_options_origin(o, "rope_type"));
}

/* Another form than L,R is refused where the network is made. */
static void check_window(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const char *text = cfg->model.window_size, *comma = text == NULL ? NULL : strchr(text, ',');
    if (comma == NULL || strtoll(comma + 1, NULL, 10) == 0) return;
    mega_options_warn(o, "%s: attention is causal, so that the positions after one do not count: it is as L,0",
                      mega_options_origin(o, "window_size"));
}

void mega_train_rule_network(mega_train_options *cfg)
{
    const mega_model_options *m = &cfg->model;
    const bool rotates = m->use_rotary_position_embeddings || strncmp(m->position_embedding_type, "ro", 2) == 0;
    network_check_activation(cfg);
    network_check_groups(cfg);
    check_window(cfg);
    if (!rotates) return;
    check_rotated(cfg);
    check_factors(cfg);
}
