/* The kind of network that options describe (Megatron's names), and the family whose folders can hold it. */
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_one_of(const char *text, const char *a, const char *b)
{
    return text != NULL && (strcmp(text, a) == 0 || strcmp(text, b) == 0);
}

static mega_position_kind network_positions(const mega_model_options *o)
{
    const char *type = o->position_embedding_type;
    if (o->use_rotary_position_embeddings || is_one_of(type, "rope", "rotary")) return MEGA_POSITIONS_ROPE;
    if (is_one_of(type, "alibi", "alibi")) return MEGA_POSITIONS_ALIBI;
    return is_one_of(type, "none", "none") || !o->add_position_embedding ? MEGA_POSITIONS_NONE : MEGA_POSITIONS_TABLE;
}

static double megatron_yarn_mscale(double factor, double mscale)
{
    return factor > 1.0 ? 0.1 * mscale * log(factor) + 1.0 : 1.0;
}

/* YaRN as Megatron computes it. What transformers computes without being told is not said, as in its folders. */
static void set_yarn(const mega_model_options *o, mega_rope_settings *r)
{
    r->scaling = MEGA_ROPE_YARN;
    r->factor = o->rotary_scaling_factor;
    r->original_positions = o->yarn_original_max_position_embeddings;
    if (o->yarn_beta_fast != 32.0) r->beta_fast = o->yarn_beta_fast;
    if (o->yarn_beta_slow != 1.0) r->beta_slow = o->yarn_beta_slow;
    r->no_truncate = !o->yarn_correction_range_round_to_int;
    if (o->mscale != 1.0 || o->mscale_all_dim != 0.0)
        r->attention_factor =
            megatron_yarn_mscale(r->factor, o->mscale) / megatron_yarn_mscale(r->factor, o->mscale_all_dim);
}

/* Llama 3.1's numbers, as Megatron has them. */
static mega_rope_settings rotation_of(const mega_model_options *o)
{
    mega_rope_settings r = {.theta = o->rotary_base,
                            .fraction = o->rotary_percent == 1.0 ? 0.0 : o->rotary_percent,
                            .interleaved = o->rotary_interleaved};
    if (is_one_of(o->rope_type, "yarn", "yarn")) {
        set_yarn(o, &r);
    } else if (o->use_rope_scaling) {
        r.scaling = MEGA_ROPE_LLAMA3;
        r.factor = o->rope_scaling_factor;
        r.low_freq_factor = 1.0;
        r.high_freq_factor = 4.0;
        r.original_positions = 8192;
    } else if (o->rotary_seq_len_interpolation_factor > 0.0 && o->rotary_seq_len_interpolation_factor != 1.0) {
        r.scaling = MEGA_ROPE_LINEAR;
        r.factor = o->rotary_seq_len_interpolation_factor;
    }
    return r;
}

static int64_t kv_heads_of(const mega_model_options *o)
{
    if (is_one_of(o->attention_head_type, "multiquery", "multiquery")) return 1;
    if (o->group_query_attention) return o->num_query_groups;
    return o->num_key_value_heads;
}

static void set_activation(const mega_model_options *o, mega_network_shape *net)
{
    const char *glu = o->glu_activation;
    if (o->squared_relu) net->activation = MEGA_ACT_RELU_SQUARED;
    net->gated = o->swiglu || glu != NULL;
    if (!net->gated) return;
    net->gate_second = !o->swiglu; /* --swiglu gates by the first half, --glu-activation by the second */
    net->activation = o->swiglu || is_one_of(glu, "swiglu", "swiglu") ? MEGA_ACT_SILU
                      : is_one_of(glu, "geglu", "geglu")              ? MEGA_ACT_GELU
                      : is_one_of(glu, "reglu", "reglu")              ? MEGA_ACT_RELU
                                                                      : MEGA_ACT_IDENTITY;
}

/* "L,R" or "(L,R)". Attention is causal, so that what a position might see after it does not count. */
static mega_status set_window(const mega_model_options *o, mega_network_shape *net)
{
    long long left = 0, right = 0;
    char rest = '\0';
    const char *text = o->window_size;
    if (text == NULL) return MEGA_OK;
    const int count = text[0] == '(' ? sscanf(text, "(%lld,%lld)%c", &left, &right, &rest)
                                     : sscanf(text, "%lld,%lld%c", &left, &right, &rest);
    if (count != 2 || left < -1 || right < -1)
        return MEGA_MISTAKE("--window-size %s: expected L,R: numbers of positions before and after, -1 for all of them",
                            text);
    if (left > INT32_MAX)
        return MEGA_MISTAKE("--window-size %s: expected at most %d positions, or -1 for all of them", text, INT32_MAX);
    net->has_window = left >= 0;
    net->window_left = left >= 0 ? left : 0;
    return MEGA_OK;
}

mega_status mega_network_from_options(const mega_model_options *o, mega_network_shape *out)
{
    mega_network_shape net = {.positions = network_positions(o)};
    if (net.positions == MEGA_POSITIONS_ROPE) net.rope = rotation_of(o);
    for (int64_t i = o->no_rope_freq; i > 0 && i <= o->num_layers; i += o->no_rope_freq)
        mega_shape_set_bit(net.no_rope, i - 1);
    net.kv_heads = kv_heads_of(o);
    if (net.kv_heads == o->num_attention_heads) net.kv_heads = 0;
    if (net.kv_heads > 0 && o->num_attention_heads % net.kv_heads != 0)
        return MEGA_MISTAKE("%lld heads of keys and values with --num-attention-heads %lld: expected a divisor of it",
                            (long long)net.kv_heads, (long long)o->num_attention_heads);
    if (o->num_attention_heads * o->kv_channels != o->hidden_size) net.head_dim = o->kv_channels;
    net.rms = is_one_of(o->normalization, "RMSNorm", "rmsnorm");
    net.norm_plus_one = o->apply_layernorm_1p;
    set_activation(o, &net);
    MEGA_TRY(set_window(o, &net));
    net.untied = o->untie_embeddings_and_output_weights;
    net.no_qkv_bias = !o->add_bias_linear && !o->add_qkv_bias;
    net.no_out_bias = net.no_mlp_bias = !o->add_bias_linear;
    net.query_norm = o->qk_layernorm ? MEGA_QUERY_NORM_HEAD : MEGA_QUERY_NORM_NONE;
    net.embedding_norm = o->embed_layernorm;
    MEGA_TRY(network_set_experts(o, &net));
    *out = net;
    return MEGA_OK;
}

void mega_network_make_encoder(mega_network_shape *net, bool original, bool sentence_head, int64_t pad)
{
    net->is_encoder = net->transform = net->head_bias = true;
    net->transform_activation = net->activation;
    net->sentence_head = sentence_head;
    net->token_types = 2;
    net->has_ids = true;
    net->bos = -1;
    net->pad = pad;
    if (!original) return;
    net->norm_place = MEGA_NORM_AFTER_SUM;
    net->embedding_norm = net->no_final_norm = true;
}

void mega_network_make_t5(mega_network_shape *net, bool original, bool gated_untied, int64_t decoder_layers,
                          int64_t hidden)
{
    net->t5 = original ? MEGA_T5_ORIGINAL : MEGA_T5_MEGATRON;
    net->decoder_layers = decoder_layers;
    net->has_ids = true;
    net->bos = net->decoder_start = -1;
    net->head_bias = !original;
    if (!original) return;
    if (net->positions == MEGA_POSITIONS_TABLE) net->positions = MEGA_POSITIONS_NONE;
    if (!net->gated && net->activation == MEGA_ACT_GELU_TANH && !gated_untied) net->activation = MEGA_ACT_RELU;
    net->gated = net->gated || gated_untied;
    net->untied = net->untied || gated_untied;
    if (!net->untied) net->logit_scale = 1.0 / sqrt((double)hidden);
    net->relative_buckets = 32;
    net->relative_distance = 128;
}

void mega_network_make_classifier(mega_network_shape *net, int64_t classes, int64_t choices)
{
    net->sentence_head = false;
    net->classes = choices > 0 ? 0 : classes;
    net->choices = choices;
}

static bool is_gpt2(const mega_network_shape *n)
{
    return !n->is_encoder && n->t5 == MEGA_T5_NONE && n->positions == MEGA_POSITIONS_TABLE && n->kv_heads == 0 &&
           n->head_dim == 0 && !n->rms && !n->norm_plus_one && !n->gated && n->activation == MEGA_ACT_GELU_TANH &&
           !n->has_window && !n->untied && !n->no_qkv_bias && !n->no_mlp_bias &&
           n->query_norm == MEGA_QUERY_NORM_NONE && !n->embedding_norm && n->experts.count == 0;
}

mega_status mega_network_find_family(const mega_transformer *m, mega_network_shape *net)
{
    mega_model_shape shape;
    net->family = NULL;
    if (is_gpt2(net)) return MEGA_OK;
    mega_transformer_to_shape(m, -1, &shape);
    shape.net = *net;
    const mega_family *f = mega_family_for(&shape);
    if (f == NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "no config.json can say this combination of options of the network: docs/families.md lists "
                         "the options of each family");
    net->family = strcmp(f->model_type, "gpt2") == 0 ? NULL : f;
    return MEGA_OK;
}
