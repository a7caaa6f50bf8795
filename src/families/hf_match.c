/* Which family can hold a model that options describe: the first whose config.json, written and read again, gives the
 * same shape. */
#include "hf_impl.h"

static bool is_same_rope(const mega_rope_settings *a, const mega_rope_settings *b)
{
    const double x = a->fraction == 0.0 ? 1.0 : a->fraction, y = b->fraction == 0.0 ? 1.0 : b->fraction;
    bool same = a->theta == b->theta && x == y && a->interleaved == b->interleaved && a->scaling == b->scaling &&
                a->factor == b->factor && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
                a->attention_factor == b->attention_factor && a->mscale == b->mscale &&
                a->mscale_all_dim == b->mscale_all_dim && a->low_freq_factor == b->low_freq_factor &&
                a->high_freq_factor == b->high_freq_factor && a->no_truncate == b->no_truncate &&
                a->original_positions == b->original_positions && a->num_factors == b->num_factors;
    for (int i = 0; i < a->num_factors && same; i++)
        same = a->short_factor[i] == b->short_factor[i] && a->long_factor[i] == b->long_factor[i];
    return same;
}

static bool hf_match_has_window(const mega_network_shape *n, int64_t layer)
{
    return n->has_window && (!n->window_by_layer || mega_shape_bit(n->windowed, layer));
}

static bool is_same_by_layer(const mega_network_shape *a, const mega_network_shape *b, int64_t layers)
{
    bool windows = false, rotates = a->positions == MEGA_POSITIONS_ROPE;
    for (int64_t i = 0; i < layers; i++) {
        if (hf_match_has_window(a, i) != hf_match_has_window(b, i)) return false;
        if (rotates && mega_shape_bit(a->no_rope, i) != mega_shape_bit(b->no_rope, i)) return false;
        windows = windows || hf_match_has_window(a, i);
    }
    return !windows || (a->window_left == b->window_left && a->window_right == b->window_right);
}

static double or_one(double x)
{
    return x == 0.0 ? 1.0 : x;
}

static int64_t one_or_more(int64_t n)
{
    return n < 1 ? 1 : n;
}

static bool is_same_experts(const mega_experts_shape *a, const mega_experts_shape *b, int64_t layers)
{
    if (a->count == 0 || b->count == 0) return a->count == b->count;
    for (int64_t i = 0; i < layers; i++)
        if (mega_shape_experts(a, i) != mega_shape_experts(b, i)) return false;
    return a->balance == b->balance && a->count == b->count && a->choices == b->choices && a->hidden == b->hidden &&
           a->normalized == b->normalized && a->shared == b->shared && a->shared_gate == b->shared_gate &&
           a->blended == b->blended && a->has_biases == b->has_biases && a->gate_limit == b->gate_limit &&
           a->gate_alpha == b->gate_alpha && a->score == b->score && a->choice_bias == b->choice_bias &&
           a->epsilon == b->epsilon && a->margin == b->margin && or_one(a->scale) == or_one(b->scale) &&
           one_or_more(a->groups) == one_or_more(b->groups) &&
           one_or_more(a->chosen_groups) == one_or_more(b->chosen_groups) && a->group_best == b->group_best &&
           a->jitter == b->jitter;
}

static bool is_same_latent(const mega_latent_shape *a, const mega_latent_shape *b)
{
    return a->q_rank == b->q_rank && a->kv_rank == b->kv_rank && a->own_dim == b->own_dim &&
           a->rope_dim == b->rope_dim && a->value_dim == b->value_dim;
}

static bool is_same_network(const mega_model_shape *s, const mega_model_shape *t)
{
    const mega_network_shape *a = &s->net, *b = &t->net;
    const int64_t heads = s->heads, width = s->hidden / heads;
#define SAME(member) (a->member == b->member)
    return SAME(positions) && SAME(skipped_positions) && SAME(attention_scale) && SAME(attention_softcap) &&
           SAME(sinks) && SAME(logit_softcap) && SAME(query_norm) && SAME(no_qkv_bias) && SAME(no_out_bias) &&
           SAME(no_mlp_bias) && SAME(rms) && SAME(norm_plus_one) && (a->rms || SAME(norm_no_bias)) &&
           SAME(norm_no_weight) && SAME(norm_place) && SAME(embedding_norm) && SAME(no_final_norm) &&
           SAME(kept_attention) && SAME(parallel) && SAME(shared_norm) && SAME(activation) && SAME(gated) &&
           SAME(is_encoder) && SAME(token_types) && SAME(transform) && SAME(transform_activation) &&
           SAME(transform_no_bias) && SAME(first_unnormed) && SAME(no_head) && SAME(sentence_head) && SAME(classes) &&
           SAME(choices) && SAME(untied) && SAME(head_bias) && SAME(window_theta) && SAME(t5) && SAME(decoder_layers) &&
           SAME(relative_buckets) && SAME(relative_distance) && SAME(biases_by_layer) &&
#undef SAME
           or_one(a->embedding_scale) == or_one(b->embedding_scale) &&
           or_one(a->residual_scale) == or_one(b->residual_scale) && or_one(a->logit_scale) == or_one(b->logit_scale) &&
           (a->kv_heads > 0 ? a->kv_heads : heads) == (b->kv_heads > 0 ? b->kv_heads : heads) &&
           (a->head_dim > 0 ? a->head_dim : width) == (b->head_dim > 0 ? b->head_dim : width) &&
           (a->positions != MEGA_POSITIONS_ROPE || is_same_rope(&a->rope, &b->rope)) &&
           is_same_latent(&a->latent, &b->latent) && is_same_by_layer(a, b, s->num_layers) &&
           is_same_experts(&a->experts, &b->experts, s->num_layers);
}

bool mega_family_can_hold(const mega_family *f, const mega_model_shape *shape)
{
    mega_model_shape written = *shape, got;
    mega_buffer text = {0};
    written.net.family = f;
    bool holds = mega_hf_config_text(&text, &written, MEGA_F32) == MEGA_OK &&
                 mega_hf_config_parse("config.json", text.data, text.size, &got) == MEGA_OK;
    mega_buffer_fini(&text);
    holds = holds && got.num_layers == shape->num_layers && got.hidden == shape->hidden &&
            got.ffn_hidden == shape->ffn_hidden && got.heads == shape->heads && got.positions == shape->positions &&
            got.vocab == shape->vocab && got.norm_epsilon == shape->norm_epsilon && is_same_network(shape, &got);
    mega_error_clear();
    return holds;
}

const mega_family *mega_family_for(const mega_model_shape *shape)
{
    for (int i = 0; mega_families[i] != NULL; i++)
        if (mega_family_can_hold(mega_families[i], shape)) return mega_families[i];
    return NULL;
}
