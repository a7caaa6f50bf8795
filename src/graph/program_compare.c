/* The collectives of a program over a group: how large they are, and whether all ranks will make the same ones. They
 * are compared before the program runs, so that different programs cause an error with names instead of a deadlock. */
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "program_impl.h"

#include <stdio.h>

/* Returns whether the instruction starts a collective or the exchange of a bucket. */
static bool starts_exchange(const instruction *op)
{
    return mega_op_is_collective(op->kind) || op->kind == OP_REDUCE_START || op->kind == OP_GATHER_START;
}

/* Over `comm`, or over a group of a higher level. */
static bool is_compared_in(const mega_program *p, const instruction *op, const mega_comm *comm)
{
    const mega_layout *l = p->g->layout;
    return starts_exchange(op) && mega_layout_level(l, op->attr.axis.comm) >= mega_layout_level(l, comm);
}

typedef struct moved {
    int64_t count;
    mega_dtype dtype;
} moved;

static moved moved_by(const mega_program *p, const instruction *op)
{
    const mega_graph *g = p->g;
    if (mega_op_is_bucket(op->kind))
        return (moved){mega_params_bucket(g->params, op->attr.bucket)->count,
                       op->kind == OP_REDUCE_START ? mega_params_sum_dtype(g->params, op->attr.bucket) : g->dtype};
    const tensor_shape *s = &g->tensor[op->kind == OP_ALL_GATHER ? op->in[0] : op->out[0]].shape;
    return (moved){mega_shape_count(s), s->dtype};
}

size_t mega_program_largest_collective(const mega_program *p, const mega_comm *comm)
{
    size_t most = 0;
    for (int i = 0; i < p->g->num_ops; i++) {
        const instruction *op = &p->g->op[i];
        if (!starts_exchange(op) || op->attr.axis.comm != comm) continue;
        const moved m = moved_by(p, op);
        const bool is_part = op->kind == OP_ALL_GATHER || op->kind == OP_REDUCE_SCATTER;
        const size_t bytes = (size_t)m.count * mega_dtype_size(m.dtype) * (is_part ? (size_t)mega_comm_size(comm) : 1);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Returns the i-th such instruction, or NULL after the last. */
static const instruction *collectives_find(const mega_program *p, const mega_comm *comm, int64_t i)
{
    for (int k = 0; k < p->g->num_ops; k++)
        if (is_compared_in(p, &p->g->op[k], comm) && i-- == 0) return &p->g->op[k];
    return NULL;
}

static uint64_t collectives_hash(const mega_program *p, const mega_comm *comm, int64_t most, int64_t *out_count)
{
    uint64_t hash = MEGA_HASH_START;
    int64_t count = 0;
    for (int k = 0; k < p->g->num_ops && count < most; k++) {
        const instruction *op = &p->g->op[k];
        if (!is_compared_in(p, op, comm)) continue;
        const moved m = moved_by(p, op);
        const bool is_own = op->attr.axis.comm == comm; /* ranks may have other sizes in other groups */
        const int64_t row[] = {op->kind, op->backward,    is_own ? m.count : 0,
                               m.dtype,  op->attr.reduce, mega_layout_level(p->g->layout, op->attr.axis.comm)};
        hash = mega_hash64(hash, row, sizeof row);
        count++;
    }
    if (out_count != NULL) *out_count = count;
    return hash;
}

typedef struct calls {
    const mega_program *p;
    const mega_comm *comm;
} calls;

static uint64_t hash_calls(const void *list, int64_t begin, int64_t end)
{
    const calls *c = list;
    (void)begin; /* 0: a call that differs shifts all later ones */
    return collectives_hash(c->p, c->comm, end, NULL);
}

static void describe_call(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const calls *c = list;
    const instruction *op = collectives_find(c->p, c->comm, i);
    const moved m = moved_by(c->p, op);
    const char *way = op->backward ? "backward" : "forward", *name = mega_op_table[op->kind]->name;
    const char *group = mega_comm_name(op->attr.axis.comm);
    if (mega_op_is_bucket(op->kind))
        snprintf(out, MEGA_COMPARED_TEXT, "%s over %s (bucket %d) of %lld %s, %s", name, group, op->attr.bucket,
                 (long long)m.count, mega_dtype_name(m.dtype), way);
    else
        snprintf(out, MEGA_COMPARED_TEXT, "%s over %s (%s) of %lld %s in \"%s\", %s", name, group, op->attr.what,
                 (long long)m.count, mega_dtype_name(m.dtype), op->scope, way);
}

mega_status mega_program_compare_collectives(const mega_program *p, mega_comm *comm)
{
    char what[64];
    const calls c = {p, comm};
    mega_compared l = {.what = what, .item = "collective", .list = &c, .hash = hash_calls, .describe = describe_call};
    snprintf(what, sizeof what, "%s programs", p->name);
    collectives_hash(p, comm, INT64_MAX, &l.count);
    return mega_comm_compare(comm, &l);
}
