/* The plan of an attention layer: its options are checked and completed (attention_plan.h). */
#include "attention_plan.h"

#include <math.h>
#include <stdio.h>

/* Returns a message of its own for each wrong number of heads. */
static mega_status check_heads(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *name = p->name;
    if (o->num_heads == 0)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "%s without num_heads; give the number of heads of the whole model in its "
                          "options",
                          p->is_cross ? "mega_cross_attention" : "mega_self_attention");
    if (o->head_dim < 0)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "head_dim %lld; expected 1 or more, or 0 for the channels over the heads",
                          (long long)o->head_dim);
    if (o->num_heads < 1 || o->num_heads % b->layout->tp.size != 0)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "%lld attention heads over %d ranks of tp; expected a multiple of the ranks, at "
                          "least 1",
                          (long long)o->num_heads, b->layout->tp.size);
    if (o->num_kv_heads < 0 || (o->num_kv_heads > 0 && o->num_heads % o->num_kv_heads != 0))
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "%lld key/value heads for %lld attention heads; expected a divisor of the "
                          "attention heads, or 0 for as many",
                          (long long)o->num_kv_heads, (long long)o->num_heads);
    if (o->head_dim == 0 && p->channels % o->num_heads != 0)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "%lld channels in %lld attention heads; expected a multiple of the heads, or "
                          "give head_dim",
                          (long long)p->channels, (long long)o->num_heads);
    return MEGA_OK;
}

static mega_status check_norms(const mega_builder *b, const attention_plan *p)
{
    const mega_norm_options *n = &p->o->qk_norm_options;
    const char *name = p->name;
    if (p->o->qk_norm == MEGA_QK_NORM_NONE) return MEGA_OK;
    if ((unsigned)p->o->qk_norm > MEGA_QK_NORM_ALL || (unsigned)n->kind > MEGA_RMS_NORM)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "norm %d of queries and keys, of kind %d; expected one of mega_qk_norm and one "
                          "of mega_norm_kind",
                          (int)p->o->qk_norm, (int)n->kind);
    return MEGA_OK;
}

static mega_status plan_check_source(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *what = o->is_causal                            ? "a causal mask"
                       : o->has_window                         ? "a window"
                       : o->alibi                              ? "ALiBi"
                       : o->bias.id != 0                       ? "biases of relative positions"
                       : o->rope != NULL && o->rope->theta > 0 ? "rotary position embedding"
                                                               : NULL;
    if (!p->is_cross) return MEGA_OK;
    if (what != NULL)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, p->name,
                          "mega_cross_attention with %s, which compares positions of one sequence; "
                          "leave it out",
                          what);
    if (p->source_positions < 1)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, p->name,
                          "mega_cross_attention to %lld positions of each sample; expected 1 or more",
                          (long long)p->source_positions);
    return MEGA_OK;
}

static mega_status check_scores(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *name = p->name;
    if (!(o->dropout >= 0.0 && o->dropout < 1.0))
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name, "dropout %g of attention; expected 0 <= p < 1",
                          layer_shown(o->dropout));
    if (!(o->scale >= 0.0 && isfinite(o->scale)))
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "scale %g of attention; expected a finite number above 0, or 0 for "
                          "1 / sqrt(head_dim)",
                          layer_shown(o->scale));
    if (!(o->softcap >= 0.0 && isfinite(o->softcap)))
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "soft-cap %g of attention; expected a finite number above 0, or 0 for none",
                          layer_shown(o->softcap));
    if (o->has_window && (o->window_left < -1 || o->window_right < -1))
        return LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                          "a window of %lld positions to the left and %lld to the right; expected 0 or "
                          "more, or -1 for no limit",
                          (long long)o->window_left, (long long)o->window_right);
    MEGA_TRY(plan_check_source(b, p));
    return check_norms(b, p);
}

static mega_status check_latent(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const mega_latent_options *l = o->latent;
    if (l == NULL) return MEGA_OK;
    const bool has_names = l->q_up != NULL && l->kv_down != NULL && l->kv_norm != NULL && l->kv_up != NULL &&
                           (l->q_rank == 0 || (l->q_down != NULL && l->q_norm != NULL));
    if (p->is_cross || o->qk_norm != MEGA_QK_NORM_NONE || o->num_kv_heads % o->num_heads != 0)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, p->name, "latent attention with %s; leave it out",
                          p->is_cross                       ? "keys and values of another source"
                          : o->qk_norm != MEGA_QK_NORM_NONE ? "norms of queries and keys"
                                                            : "heads of keys that several heads read");
    if (l->q_rank < 0 || l->kv_rank < 1 || l->own_dim < 1 || l->rope_dim < 1 || l->value_dim < 1 ||
        l->value_dim > l->own_dim + l->rope_dim || o->head_dim != l->own_dim + l->rope_dim || !has_names)
        return LAYER_FAIL(
            MEGA_ERR_USAGE, b, p->name,
            "latent attention of %lld and %lld channels, keys of %lld + %lld and values of %lld, heads of "
            "%lld, names %s; expected 1 or more channels, heads as wide as keys, values that are not "
            "wider, and all names",
            (long long)l->q_rank, (long long)l->kv_rank, (long long)l->own_dim, (long long)l->rope_dim,
            (long long)l->value_dim, (long long)o->head_dim, has_names ? "given" : "missing");
    return MEGA_OK;
}

/* Checks the parts by which the caller names the tensors of Q, K and V in the file. */
static mega_status check_parts(const mega_builder *b, const attention_plan *p)
{
    const mega_param_options *w = &p->qkv.weight;
    const int64_t rows[3] = {p->heads * p->head_dim, p->kv_heads * p->head_dim, p->kv_heads * p->head_dim};
    bool is_right = w->num_parts == 0 || w->num_parts == 3;
    for (int i = 0; i < 3 && is_right && w->num_parts == 3; i++) is_right = w->part[i].rows == rows[i];
    if (!is_right)
        return LAYER_FAIL(MEGA_ERR_USAGE, b, p->name,
                          "the weight of qkv has %d parts; expected 3, Q of %lld rows, K and V of "
                          "%lld each",
                          w->num_parts, (long long)rows[0], (long long)rows[1]);
    return MEGA_OK;
}

/* If Q, K and V have to be parameters of their own, each needs a tensor of its own in the file. Without parts, that is
 * so where they are apart in every layout. */
static mega_status check_apart(const mega_builder *b, const attention_plan *p)
{
    const mega_param_options *w = &p->qkv.weight;
    const bool is_always = p->is_cross || p->o->latent != NULL || p->o->qk_norm != MEGA_QK_NORM_NONE;
    bool is_right = !p->is_apart || w->num_parts == 3 || (is_always && w->blocks <= 1);
    for (int i = 0; i < 3 && is_right && p->is_apart && w->num_parts == 3; i++)
        is_right =
            w->part[i].file != NULL && (w->part[i].first == 0 || w->part[i].of_rows > 0) && w->part[i].block == 0;
    if (is_right) return MEGA_OK;
    if (is_always)
        return LAYER_FAIL(MEGA_ERR_UNSUPPORTED, b, p->name,
                          "%s, and Q, K and V share a tensor of the file, which is "
                          "not implemented yet; name a tensor for each in the parts of qkv",
                          p->is_cross ? "keys and values of another source" : "norms of queries and keys");
    return LAYER_FAIL(
        MEGA_ERR_UNSUPPORTED, b, p->name,
        "%lld key/value heads over %d ranks of tp, and Q, K and V share a tensor of the "
        "file in parts; tp must then divide the key/value heads (of Q, K and V one after the other, without parts, it "
        "need not)",
        (long long)p->kv_heads, b->layout->tp.size);
}

static mega_attention_rules plan_rules(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    mega_attention_rules r = {.has_window = o->has_window,
                              .window_left = o->has_window ? o->window_left : 0,
                              .window_right = o->has_window ? o->window_right : 0,
                              .softcap = o->softcap,
                              .alibi_heads = o->alibi ? p->heads : 0};
    if (o->bias.id != 0) {
        r.bias_buckets = mega_tensor_rows(b, o->bias);
        r.bias_distance = o->bias_distance > 0 ? o->bias_distance : 128;
        r.bias_one_side = o->is_causal;
    }
    if (!p->holds_all_kv) return r;
    r.group = p->heads / p->kv_heads;
    r.group_begin = p->heads / b->layout->tp.size * b->layout->tp.rank;
    return r;
}

/* Returns the shape of attention over the heads of this rank. */
mega_attention_shape attention_plan_shape(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const double dropout = b->mode == MEGA_TRAIN ? o->dropout : 0.0;
    const int64_t heads = p->heads / b->layout->tp.size;
    return (mega_attention_shape){.batch = b->samples,
                                  .seq = b->positions,
                                  .heads = heads,
                                  .kv_heads = p->holds_all_kv ? p->kv_heads : p->kv_heads / b->layout->tp.size,
                                  .head_dim = p->head_dim,
                                  .head_begin = heads * b->layout->tp.rank,
                                  .scale = o->scale > 0.0 ? o->scale : 1.0 / sqrt((double)p->head_dim),
                                  .dropout = dropout,
                                  .site = dropout > 0.0 ? mega_builder_dropout_site(b, p->name) : 0,
                                  .causal = o->is_causal,
                                  .keys = p->source_positions,
                                  .rules = plan_rules(b, p)};
}

/* Names the tensor in which the file has Q, K and V one after the other, for the three parameters that hold its
 * rows. */
static void share_tensor(attention_plan *p)
{
    mega_param_options *w = &p->qkv.weight;
    const int64_t q = p->heads * p->head_dim, kv = p->kv_heads * p->head_dim, all = q + 2 * kv;
    snprintf(p->qkv_file, sizeof p->qkv_file, "%s.weight", p->qkv_name);
    w->blocks = 0;
    w->num_parts = 3;
    w->part[0] = (mega_param_part){.file = p->qkv_file, .rows = q, .of_rows = all};
    w->part[1] = (mega_param_part){.file = p->qkv_file, .rows = kv, .first = q, .of_rows = all};
    w->part[2] = (mega_param_part){.file = p->qkv_file, .rows = kv, .first = q + kv, .of_rows = all};
}

mega_status attention_plan_make(const mega_builder *b, const char *name, const mega_attention_options *o,
                                int64_t channels, attention_plan *p)
{
    p->o = o;
    p->name = name;
    p->channels = channels;
    if (name == NULL || name[0] == '\0')
        return MEGA_MISTAKE("layer \"%s\": a layer %s has no name; give it one", b->path,
                            p->is_cross ? "mega_cross_attention" : "mega_self_attention");
    MEGA_TRY(check_heads(b, p));
    MEGA_TRY(check_scores(b, p));
    MEGA_TRY(check_latent(b, p));
    p->heads = o->num_heads;
    p->kv_heads = o->num_kv_heads > 0 ? o->num_kv_heads : o->num_heads;
    p->head_dim = o->head_dim > 0 ? o->head_dim : channels / o->num_heads;
    p->holds_all_kv = p->kv_heads % b->layout->tp.size != 0;
    p->is_apart = p->is_cross || p->holds_all_kv || o->latent != NULL || o->qk_norm != MEGA_QK_NORM_NONE;
    if (o->qkv != NULL) p->qkv = *o->qkv;
    if (o->qkv_name != NULL) snprintf(p->qkv_name, sizeof p->qkv_name, "%s", o->qkv_name);
    else
        snprintf(p->qkv_name, sizeof p->qkv_name, "%s.c_attn", name);
    const bool is_shared = p->holds_all_kv && !p->is_cross && o->qk_norm == MEGA_QK_NORM_NONE;
    if (is_shared && p->qkv.weight.num_parts == 0 && p->qkv.weight.blocks <= 1) share_tensor(p);
    MEGA_TRY(check_parts(b, p));
    MEGA_TRY(check_apart(b, p));
    if (o->out_name != NULL) snprintf(p->out_name, sizeof p->out_name, "%s", o->out_name);
    else
        snprintf(p->out_name, sizeof p->out_name, "%s.c_proj", name);
    return MEGA_OK;
}
