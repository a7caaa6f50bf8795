/* Latent attention (DeepSeek-AI 2024, section 2.1): keys and values of all heads are computed from a few channels of a
 * token, and all heads share the rotated channels of keys. Heads are cut over tp; the linear layers down to these
 * channels are whole on each rank. */
#include "attention_plan.h"

/* Takes channels of heads; see mega_head_channels. */
static mega_tensor latent_take(const mega_builder *b, mega_tensor x, mega_head_channels part)
{
    return mega_op_head_channels(b->graph, x, &part);
}

static mega_tensor latent_norm(const mega_builder *b, const attention_plan *p, const char *name, mega_tensor x)
{
    return mega_norm_with(b, name, x,
                          &(mega_norm_options){.kind = MEGA_RMS_NORM, .epsilon = p->o->latent->norm_epsilon});
}

/* Queries of this rank's heads, whose last channels are rotated. */
static mega_tensor latent_queries(const mega_builder *b, const attention_plan *p, mega_tensor x,
                                  const mega_linear_options *up)
{
    const mega_latent_options *l = p->o->latent;
    const int64_t heads = p->shape.heads, all = p->head_dim, own = l->own_dim, turned = l->rope_dim;
    if (l->q_rank > 0) x = latent_norm(b, p, l->q_norm, mega_linear(b, l->q_down, x, l->q_rank, &p->qkv));
    const mega_tensor q = mega_column_linear(b, l->q_up, x, p->heads * all, up);
    const mega_scope s = mega_scope_enter(b->graph, "%s.q", p->name);
    mega_tensor last = latent_take(b, q, (mega_head_channels){heads, all, own, heads, turned, 0, turned});
    last = attention_rope(b, p, last, heads, turned);
    const mega_tensor first = latent_take(b, q, (mega_head_channels){heads, all, 0, heads, all, 0, own});
    last = latent_take(b, last, (mega_head_channels){heads, turned, 0, heads, all, own, turned});
    const mega_tensor joined = mega_op_add(b->graph, first, last);
    mega_scope_leave(b->graph, s);
    return joined;
}

mega_attention_qkv attention_latent_qkv(const mega_builder *b, const attention_plan *p, mega_tensor x)
{
    const mega_latent_options *l = p->o->latent;
    const int64_t heads = p->shape.heads, all = p->head_dim, own = l->own_dim, turned = l->rope_dim,
                  down = l->kv_rank + turned, pair = own + l->value_dim;
    mega_linear_options up = p->qkv;
    up.no_bias = true;
    mega_attention_qkv qkv = {.q = latent_queries(b, p, x, &up)};
    const mega_tensor both = mega_linear(b, l->kv_down, x, down, &p->qkv);
    const mega_tensor few = latent_take(b, both, (mega_head_channels){1, down, 0, 1, l->kv_rank, 0, l->kv_rank});
    const mega_tensor kv = mega_column_linear(b, l->kv_up, latent_norm(b, p, l->kv_norm, few), p->heads * pair, &up);
    const mega_scope s = mega_scope_enter(b->graph, "%s.k", p->name);
    mega_tensor shared = latent_take(b, both, (mega_head_channels){1, down, l->kv_rank, 1, turned, 0, turned});
    shared = attention_rope(b, p, layer_to_cut_weights(b, shared), 1, turned);
    shared = latent_take(b, shared, (mega_head_channels){1, turned, 0, heads, all, own, turned});
    qkv.k = latent_take(b, kv, (mega_head_channels){heads, pair, 0, heads, all, 0, own});
    qkv.k = mega_op_add(b->graph, qkv.k, shared);
    qkv.v = latent_take(b, kv, (mega_head_channels){heads, pair, own, heads, all, 0, l->value_dim});
    mega_scope_leave(b->graph, s);
    return qkv;
}

mega_tensor attention_latent_context(const mega_builder *b, const attention_plan *p, mega_tensor context)
{
    const int64_t heads = p->shape.heads, width = p->o->latent->value_dim;
    if (width == p->head_dim) return context;
    return latent_take(b, context, (mega_head_channels){heads, p->head_dim, 0, heads, width, 0, width});
}
