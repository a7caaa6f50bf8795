/* What the instructions on buckets do. A sum or a gathering that is under way has a request, one a bucket and kind. */
#include "megalith/assert.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <string.h>

static mega_request *request_of(const mega_program *p, op_kind kind, int bucket)
{
    const bool is_gather = kind == OP_WEIGHTS_GATHER || kind == OP_WEIGHTS_GATHERED;
    return &p->request[(is_gather ? mega_params_num_buckets(p->g->params) : 0) + bucket];
}

static bool begins_anew(const mega_program *p, int32_t gradient)
{
    for (int i = 0; i < p->g->num_ops; i++)
        if (p->g->op[i].attr.anew && p->g->op[i].out[0] == gradient) return true;
    return false;
}

/* What of a bucket of gradients must be set to zero: all that the first instruction on it does not overwrite. */
static mega_status find_gaps(mega_program *p, bucket_args *a)
{
    const mega_params *params = p->g->params;
    const mega_bucket *b = mega_params_bucket(params, a->bucket);
    int64_t from = 0;
    a->gap = mega_arena_alloc(&p->args, (size_t)(b->num_params + 1) * sizeof *a->gap);
    if (a->gap == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its calls", p->name);
    for (int i = b->first_param + b->num_params - 1; i >= b->first_param; i--) { /* by offset */
        const mega_param *r = mega_params_get(params, i);
        if (p->g->gradient_tensor[i] == 0 || !begins_anew(p, p->g->gradient_tensor[i])) continue;
        if (r->offset - b->offset > from)
            a->gap[a->num_gaps++] = (struct bucket_gap){from, r->offset - b->offset - from};
        from = r->offset - b->offset + r->count;
    }
    if (b->count > from) a->gap[a->num_gaps++] = (struct bucket_gap){from, b->count - from};
    return MEGA_OK;
}

mega_status mega_bucket_bind(mega_program *p, const op_binder *b, const instruction *op, bucket_args *a)
{
    mega_params *params = p->g->params;
    const int buckets = mega_params_num_buckets(params), bucket = op->attr.bucket;
    const int64_t begin = mega_params_bucket(params, bucket)->offset;
    const mega_range slice = mega_params_slice(params, bucket);
    const bool weights = op->kind == OP_WEIGHTS_GATHER || op->kind == OP_WEIGHTS_GATHERED;
    if (p->request == NULL) p->request = mega_calloc(2 * (size_t)buckets, sizeof *p->request);
    if (p->request == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its requests", p->name);
    a->bucket = bucket;
    a->first = slice.first - begin;
    a->whole = b->address(b, op->in[0] != 0 ? op->in[0] : op->out[0]);
    a->slice =
        weights ? mega_params_weight_at(params, bucket, slice.first) : mega_params_grad_at(params, bucket, slice.first);
    if (op->in[0] == 0 && op->out[0] == 0) a->whole = mega_params_grad_at(params, bucket, begin);
    return op->kind == OP_GRADS_BEGIN ? find_gaps(p, a) : MEGA_OK;
}

static void *at(void *numbers, int64_t element, mega_dtype dtype)
{
    return (char *)numbers + element * (int64_t)mega_dtype_size(dtype);
}

/* ---- work of the team ---- */

typedef struct shared_work {
    const bucket_args *a;
    mega_dtype dtype;
    int64_t count; /* of the slice */
} shared_work;

static void add_slice(void *user, int thread, int64_t begin, int64_t end)
{
    const shared_work *w = user;
    const void *from = at(w->a->whole, w->a->first, w->dtype);
    (void)thread;
    if (w->dtype == MEGA_F64)
        for (int64_t i = begin; i < end; i++) ((double *)w->a->slice)[i] += ((const double *)from)[i];
    else
        for (int64_t i = begin; i < end; i++) ((float *)w->a->slice)[i] += ((const float *)from)[i];
}

/* ---- instructions ---- */

static mega_status started(mega_program *p, const mega_request *r, mega_status st)
{
    p->under_way += st == MEGA_OK && r->world != NULL;
    return st;
}

static mega_status wait_for(mega_program *p, mega_request *r)
{
    p->under_way -= r->world != NULL;
    return mega_comm_wait(r);
}

/* With ZeRO 2 and 3 a step's first sum goes straight to the slice that is kept, the others are added to it. */
static mega_status reduce(mega_program *p, const bucket_args *a, mega_request *r)
{
    const mega_graph *g = p->g;
    mega_comm *dp = g->layout->dp.comm;
    const int stage = mega_params_zero_stage(g->params);
    const int64_t slice = mega_params_slice(g->params, a->bucket).count;
    if (stage < 2 && !p->step.last_micro_batch) return MEGA_OK;
    if (p->under_way >= p->most_under_way) MEGA_TRY(mega_program_wait_reductions(p)); /* many small buckets */
    if (stage < 1)
        return started(p, r, mega_comm_all_reduce_start(dp, "gradients", a->whole, slice, g->acc, MEGA_REDUCE_SUM, r));
    void *out = stage >= 2 && p->step.first_micro_batch ? a->slice : at(a->whole, a->first, g->acc);
    return started(p, r, mega_comm_reduce_scatter_start(dp, "gradients", out, a->whole, slice, g->acc, r));
}

mega_status mega_bucket_run(mega_program *p, op_kind kind, const bucket_args *a)
{
    const mega_graph *g = p->g;
    mega_request *r = request_of(p, kind, a->bucket);
    shared_work w = {a, g->acc, mega_params_slice(g->params, a->bucket).count};
    switch (kind) {
    case OP_GRADS_BEGIN:
        for (int i = 0; i < a->num_gaps; i++)
            mega_team_zero(p->team, at(a->whole, a->gap[i].first, g->acc),
                           (size_t)a->gap[i].count * mega_dtype_size(g->acc));
        return MEGA_OK;
    case OP_GRADS_REDUCE: return reduce(p, a, r);
    case OP_GRADS_REDUCED:
        MEGA_TRY(wait_for(p, r));
        if (!p->step.first_micro_batch) mega_team_for(p->team, w.count, 1024, add_slice, &w);
        return MEGA_OK;
    case OP_WEIGHTS_GATHER:
        return started(
            p, r, mega_comm_all_gather_start(g->layout->dp.comm, "weights", a->whole, a->slice, w.count, g->dtype, r));
    case OP_WEIGHTS_GATHERED: return wait_for(p, r);
    default: break;
    }
    MEGA_ASSERT(false, "op %d is no op on a bucket", (int)kind);
    return MEGA_OK;
}

bool mega_program_reduces(const mega_program *p, int bucket)
{
    return p->g->reduces != NULL && p->g->reduces[bucket];
}

mega_status mega_program_wait_reductions(mega_program *p)
{
    const int buckets = mega_params_num_buckets(p->g->params);
    for (int b = 0; b < buckets && p->under_way > 0; b++) {
        p->under_way -= p->request[b].world != NULL;
        MEGA_TRY(mega_comm_wait(&p->request[b]));
    }
    return MEGA_OK;
}
