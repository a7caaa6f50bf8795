/* A hash of what an op computes; ranks compare their models with it. */
#include "graph_impl.h"
#include "megalith/builder.h"
#include "megalith/hash.h"

#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return text == NULL ? mega_hash64(hash, "", 1) : mega_hash64(hash, text, strlen(text) + 1);
}

/* Hashes the name and the form of a custom op, because what its function computes is unknown. */
static uint64_t hash_custom(uint64_t hash, const mega_custom_op *c)
{
    const int64_t number[] = {c->num_in, c->num_out, c->backward != NULL, c->is_row_wise};
    hash = hash_text(hash, c->name);
    hash = mega_hash64(hash, number, sizeof number);
    return mega_hash64(hash, &c->flops_per_row, sizeof c->flops_per_row);
}

/* Hashes each member separately, because padding bytes are undefined. Members that depend on the rank are left out:
 * begin and valid (of a slice of a vocabulary), attention.head_begin and .rules.group_begin, rank, axis.rank
 * and axis.comm. */
static uint64_t hash_attributes(uint64_t hash, const op_attr *a)
{
    const mega_windows *w = &a->windows;
    const mega_attention_shape *s = &a->attention;
    const mega_attention_rules *u = &s->rules;
    const mega_rope_shape *r = &a->rope;
    const mega_route_options *o = &a->route;
    const mega_head_channels *h = &a->head_channels;
    const int64_t number[] = {
        a->site,          a->tanh_form,   a->activation, a->wide,        a->rows,         a->group,
        w->height,        w->width,       w->size,       w->stride,      w->padding,      s->batch,
        s->seq,           s->heads,       s->kv_heads,   s->head_dim,    s->site,         s->causal,
        a->axis.size,     a->reduce,      u->has_window, u->window_left, u->window_right, u->alibi_heads,
        u->group,         r->heads,       r->head_dim,   r->rotated,     r->interleaved,  r->inverse,
        a->plus_one,      a->gate_second, s->keys,       s->is_ring,     u->bias_buckets, u->bias_distance,
        u->bias_one_side, o->score,       o->choices,    o->normalized,  o->groups,       o->chosen_groups,
        o->group_best,    a->experts,     a->ranks,      a->round,       a->capacity,     a->by_position,
        h->from,          h->from_dim,    h->from_first, h->to,          h->to_dim,       h->to_first,
        h->count};
    const double real[] = {a->eps,     a->p,     a->factor, s->scale, s->dropout, u->softcap, (double)r->factor,
                           o->epsilon, o->scale, a->limit,  a->alpha};
    if (r->frequency != NULL) hash = mega_hash64(hash, r->frequency, (size_t)(r->rotated / 2) * sizeof *r->frequency);
    hash = mega_hash64(hash, number, sizeof number);
    return mega_hash64(hash, real, sizeof real);
}

uint64_t mega_op_hash(uint64_t hash, const mega_graph *g, const instruction *op)
{
    const int64_t kind[] = {op->kind, op->region != 0};
    hash = mega_hash64(hash, kind, sizeof kind);
    hash = mega_hash64(hash, op->in, sizeof op->in);
    hash = mega_hash64(hash, op->out, sizeof op->out);
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const tensor_shape *s = &g->tensor[op->out[k]].shape;
        const int64_t number[] = {s->dtype, s->num_dims, s->dim[0], s->dim[1], s->dim[2], s->dim[3]};
        if (op->out[k] != 0) hash = mega_hash64(hash, number, sizeof number);
    }
    if (op->kind == OP_CUSTOM) hash = hash_custom(hash, op->attr.custom);
    return hash_attributes(hash, &op->attr);
}
