/* Instructions on buckets: one starts a reduction or an all-gather, another waits for it. And those on gradients that
 * are held in 16 bits: what a program computes in float is added to them and rounded once. */
#include "megalith/assert.h"
#include "megalith/threads.h"
#include "program_impl.h"

static bool is_overwritten(const mega_program *p, int32_t gradient)
{
    for (int i = 0; i < p->g->num_ops; i++)
        if (p->g->op[i].attr.overwrites && p->g->op[i].out[0] == gradient) return true;
    return false;
}

/* Finds the ranges of a gradient bucket that must be zeroed: all that no instruction overwrites first. */
static mega_status bucket_find_gaps(mega_program *p, bucket_args *a)
{
    const mega_params *params = p->g->params;
    const mega_bucket *b = mega_params_bucket(params, a->bucket);
    int64_t from = 0;
    a->gap = mega_arena_alloc(&p->args, (size_t)(b->num_params + 1) * sizeof *a->gap);
    if (a->gap == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its calls", p->name);
    for (int i = b->first_param + b->num_params - 1; i >= b->first_param; i--) { /* by offset */
        const mega_param *r = mega_params_get(params, i);
        if (p->g->weights.gradient[i] == 0 || !is_overwritten(p, p->g->weights.gradient[i])) continue;
        if (r->offset - b->offset > from)
            a->gap[a->num_gaps++] = (struct bucket_gap){from, r->offset - b->offset - from};
        from = r->offset - b->offset + r->count;
    }
    if (b->count > from) a->gap[a->num_gaps++] = (struct bucket_gap){from, b->count - from};
    return MEGA_OK;
}

/* One gradient: it is zeroed unless an instruction overwrites it first. */
static mega_status bind_gradient(mega_program *p, const op_binder *b, const instruction *op, bucket_args *a)
{
    a->bucket = op->attr.bucket;
    a->count = mega_params_joined_elements(p->g->params, op->attr.param);
    a->held = mega_params_grad_dtype(p->g->params, a->bucket);
    a->slice = mega_params_grad(p->g->params, op->attr.param);
    a->whole = b->address(b, op->kind == OP_HELD_GRAD_ZERO ? op->out[0] : op->in[0]);
    if (op->kind == OP_HELD_GRAD_ADD || is_overwritten(p, p->g->weights.gradient[op->attr.param])) return MEGA_OK;
    a->gap = mega_arena_alloc(&p->args, sizeof *a->gap);
    if (a->gap == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its calls", p->name);
    a->gap[a->num_gaps++] = (struct bucket_gap){0, a->count};
    return MEGA_OK;
}

mega_status mega_bucket_bind(mega_program *p, const op_binder *b, const instruction *op, bucket_args *a)
{
    mega_params *params = p->g->params;
    const int bucket = op->attr.bucket;
    if (op->kind == OP_HELD_GRAD_ZERO || op->kind == OP_HELD_GRAD_ADD) return bind_gradient(p, b, op, a);
    const int64_t begin = mega_params_bucket(params, bucket)->offset;
    const mega_range slice = mega_params_slice(params, bucket);
    const bool weights = op->kind == OP_GATHER_START || op->kind == OP_GATHER_WAIT;
    a->bucket = bucket;
    a->first = slice.first - begin;
    a->count = slice.count;
    a->held = mega_params_grad_dtype(params, bucket);
    a->whole = b->address(b, op->in[0] != 0 ? op->in[0] : op->out[0]);
    a->slice =
        weights ? mega_params_weight_at(params, bucket, slice.first) : mega_params_grad_at(params, bucket, slice.first);
    if (op->in[0] == 0 && op->out[0] == 0) a->whole = mega_params_grad_at(params, bucket, begin);
    return op->kind == OP_GRADS_ZERO ? bucket_find_gaps(p, a) : MEGA_OK;
}

static void *bucket_element(void *numbers, int64_t element, mega_dtype dtype)
{
    return (char *)numbers + element * (int64_t)mega_dtype_size(dtype);
}

/* ---- kernels ---- */

static void bucket_kernel(const mega_program *p, mega_kernel_id id, const void *args)
{
    mega_kernel_of(p->backend, id)->run(&p->queue, args);
}

/* Zeroes what no instruction overwrites. */
static void bucket_zero(const mega_program *p, const bucket_args *a)
{
    for (int k = 0; k < a->num_gaps; k++) {
        const mega_zero_args zero = {.head = {.dtype = p->g->acc},
                                     .x = bucket_element(a->whole, a->gap[k].first, p->g->acc),
                                     .count = a->gap[k].count};
        bucket_kernel(p, MEGA_KERNEL_zero, &zero);
    }
}

/* Adds to the held gradient; in the first micro-batch of a step it overwrites what is held of an earlier step. */
static void bucket_keep(const mega_program *p, const bucket_args *a, const void *from)
{
    const mega_accumulate_args sum = {.head = {.dtype = p->g->dtype},
                                      .y = a->slice,
                                      .x = from,
                                      .count = a->count,
                                      .y_dtype = a->held,
                                      .overwrites = p->step.first_micro_batch};
    bucket_kernel(p, MEGA_KERNEL_accumulate, &sum);
}

/* ---- instructions ---- */

/* Returns the memory for this rank's slice of a sum: with ZeRO 0 and 1 a part of the held gradients. With 2 and 3, that
 * of the first micro-batch of a step is the persistent slice, if it is held in the type of the sum; later ones are
 * added to it. */
static void *slice_of_sum(const mega_program *p, const bucket_args *a)
{
    const mega_dtype acc = p->g->acc;
    if (!mega_params_are_cut(p->g->params, MEGA_PARAMS_GRADS)) return bucket_element(a->whole, a->first, a->held);
    return p->step.first_micro_batch && a->held == acc ? a->slice : bucket_element(a->whole, a->first, acc);
}

static mega_status bucket_reduce(mega_program *p, int i, const bucket_args *a)
{
    const mega_params *params = p->g->params;
    const bool is_cut = mega_params_are_cut(params, MEGA_PARAMS_GRADS);
    mega_request r;
    if (!is_cut && !p->step.last_micro_batch) return MEGA_OK;
    if (mega_exchanges(p) >= p->most_exchanges) MEGA_TRY(mega_program_wait_reductions(p)); /* too many in progress */
    MEGA_TRY(mega_params_reduce_start(params, a->bucket, a->whole, slice_of_sum(p, a), &r));
    return mega_exchange_note_start(p, i, &r);
}

static mega_status bucket_gather(mega_program *p, int i, const bucket_args *a)
{
    const mega_graph *g = p->g;
    const int64_t count = mega_params_slice(g->params, a->bucket).count;
    mega_request r;
    MEGA_TRY(mega_comm_all_gather_start(mega_params_group(g->params, a->bucket).comm, "weights", a->whole, a->slice,
                                        count, g->dtype, &r));
    return mega_exchange_note_start(p, i, &r);
}

static mega_status bucket_reduced(mega_program *p, const bucket_args *a)
{
    void *sum = slice_of_sum(p, a);
    MEGA_TRY(mega_exchange_wait(p, OP_REDUCE_START, a->bucket));
    mega_params_reduce_finish(p->g->params, a->bucket, a->whole, sum);
    if (sum != a->slice) bucket_keep(p, a, sum);
    return MEGA_OK;
}

/* Also counts the time of the sum, which is no part of the pass where times are shown. */
static mega_status bucket_sum(mega_program *p, int i, const bucket_args *a)
{
    const double began = mega_time_now();
    const mega_status st = p->g->op[i].kind == OP_REDUCE_START ? bucket_reduce(p, i, a) : bucket_reduced(p, a);
    p->reduce_s += mega_time_now() - began;
    return st;
}

mega_status mega_bucket_run(mega_program *p, int i, const bucket_args *a)
{
    const mega_graph *g = p->g;
    const op_kind kind = g->op[i].kind;
    switch (kind) {
    case OP_GRADS_ZERO:
    case OP_HELD_GRAD_ZERO: bucket_zero(p, a); return MEGA_OK;
    case OP_REDUCE_START:
    case OP_REDUCE_WAIT: return bucket_sum(p, i, a);
    case OP_HELD_GRAD_ADD: bucket_keep(p, a, a->whole); return MEGA_OK;
    case OP_GATHER_START: return bucket_gather(p, i, a);
    case OP_GATHER_WAIT: return mega_exchange_wait(p, OP_GATHER_START, a->bucket);
    default: break;
    }
    MEGA_ASSERT(false, "op %d is no op on a bucket", (int)kind);
    return MEGA_OK;
}

void mega_bucket_finish_sum(const mega_program *p, int bucket)
{
    const mega_params *params = p->g->params;
    mega_params_reduce_finish(params, bucket,
                              mega_params_grad_at(params, bucket, mega_params_bucket(params, bucket)->offset),
                              mega_params_grad_at(params, bucket, mega_params_slice(params, bucket).first));
}

bool mega_program_reduces(const mega_program *p, int bucket)
{
    return p->g->buckets.reduces != NULL && p->g->buckets.reduces[bucket];
}

mega_status mega_program_wait_reductions(mega_program *p)
{
    return mega_exchange_wait(p, OP_REDUCE_START, -1);
}

double mega_program_reduce_seconds(const mega_program *p)
{
    return p->reduce_s;
}
