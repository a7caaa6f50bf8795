/* Records of parameters, their placement in flat buckets, and the buffers. Everything about how a tensor is spread over
 * ranks is read from its record, here and in parameter_init.c. */
#include "megalith/assert.h"
#include "megalith/memory.h"
#include "parameter_impl.h"

#include <string.h>

/* Every parameter starts on a multiple of this many elements: a cache line of bf16 weights, two of float masters. */
#define ALIGN_ELEMENTS 32

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

mega_status mega_params_create(mega_params **out, const mega_layout *layout)
{
    mega_params *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameters: no memory for their list");
    p->layout = layout;
    *out = p;
    return MEGA_OK;
}

void mega_params_destroy(mega_params *p)
{
    if (p == NULL) return;
    if (!p->is_lent && p->weight != p->master) mega_pages_free(p->weight, p->weight_bytes);
    if (!p->is_lent) mega_pages_free(p->master, p->master_bytes);
    if (!p->is_lent) mega_pages_free(p->grad, p->grad_bytes);
    mega_free(p->bucket);
    mega_free(p->param);
    mega_free(p);
}

mega_axis mega_params_axis(const mega_params *p, mega_axis_name name)
{
    switch (name) {
    case MEGA_AXIS_TP: return p->layout->tp;
    case MEGA_AXIS_PP: return p->layout->pp;
    case MEGA_AXIS_DP: return p->layout->dp;
    case MEGA_AXIS_CP: return p->layout->cp;
    case MEGA_AXIS_EP: return p->layout->ep;
    case MEGA_AXIS_NONE: break;
    }
    return (mega_axis){0, 1, NULL};
}

int64_t mega_param_logical_index(const mega_param *r, mega_axis axis, int64_t local)
{
    const int64_t block = r->shape[r->cut_dim] / r->blocks, slice = block / axis.size;
    return local / slice * block + axis.rank * slice + local % slice;
}

static mega_status check_record(const mega_params *p, const mega_param *r)
{
    if (p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s: declared after mega_params_place; declare all of them before it", r->name);
    if (r->name[0] == '\0' || mega_params_find(p, r->name) >= 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter \"%s\": expected a name that is not empty and not declared twice",
                         r->name);
    if (r->num_dims < 1 || r->num_dims > 2)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: %d dimensions; expected 1 or 2", r->name, r->num_dims);
    for (int d = 0; d < r->num_dims; d++)
        if (r->shape[d] < 1 || r->true_shape[d] < 1 || r->true_shape[d] > r->shape[d])
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "parameter %s: dimension %d has %lld elements, %lld of them real; expected 1 <= real <= all", r->name,
                d, (long long)r->shape[d], (long long)r->true_shape[d]);
    if (r->axis != MEGA_AXIS_NONE) {
        const mega_axis a = mega_params_axis(p, r->axis);
        if (r->cut_dim < 0 || r->cut_dim >= r->num_dims || r->shape[r->cut_dim] % ((int64_t)r->blocks * a.size) != 0)
            return MEGA_FAIL(MEGA_ERR_USAGE,
                             "parameter %s: dimension %d of %lld elements cannot be cut into %d blocks over %d ranks; "
                             "expected a multiple of %d",
                             r->name, r->cut_dim, (long long)r->shape[r->cut_dim], r->blocks, a.size,
                             r->blocks * a.size);
    }
    return MEGA_OK;
}

mega_status mega_params_add(mega_params *p, const mega_param *record, int *out_index)
{
    mega_param r = *record;
    if (r.num_dims == 1) r.shape[1] = r.true_shape[1] = 1; /* rows of one element */
    if (r.blocks < 1) r.blocks = 1;
    MEGA_TRY(check_record(p, &r));
    if (p->count == p->capacity) {
        const int capacity = p->capacity == 0 ? 64 : 2 * p->capacity;
        mega_param *grown = mega_realloc(p->param, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameter %s: no memory for its record", r.name);
        p->param = grown;
        p->capacity = capacity;
    }
    memcpy(r.local_shape, r.shape, sizeof r.shape);
    if (r.axis != MEGA_AXIS_NONE) r.local_shape[r.cut_dim] /= mega_params_axis(p, r.axis).size;
    r.count = r.local_shape[0] * r.local_shape[1];
    r.bucket = -1;
    r.offset = -1;
    if (out_index != NULL) *out_index = p->count;
    p->param[p->count++] = r;
    return MEGA_OK;
}

int mega_params_find(const mega_params *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->param[i].name, name) == 0) return i;
    return -1;
}

int mega_params_count(const mega_params *p)
{
    return p->count;
}

const mega_param *mega_params_get(const mega_params *p, int index)
{
    MEGA_ASSERT(index >= 0 && index < p->count, "parameter %d of %d", index, p->count);
    return &p->param[index];
}

int mega_params_num_buckets(const mega_params *p)
{
    return p->num_buckets;
}

const mega_bucket *mega_params_bucket(const mega_params *p, int index)
{
    MEGA_ASSERT(index >= 0 && index < p->num_buckets, "bucket %d of %d", index, p->num_buckets);
    return &p->bucket[index];
}

int64_t mega_params_elements(const mega_params *p)
{
    return p->elements;
}

int64_t mega_params_logical_count(const mega_params *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->count; i++) n += p->param[i].true_shape[0] * p->param[i].true_shape[1];
    return n;
}

int64_t mega_params_local_count(const mega_params *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->count; i++) n += p->param[i].count;
    return n;
}

/* A bucket holds one reduction group (experts reduce over fewer ranks), and a tied parameter alone, since it waits for
 * the sum over its other stage. */
static bool may_share_bucket(const mega_param *a, const mega_param *b)
{
    return (a->axis == MEGA_AXIS_EP) == (b->axis == MEGA_AXIS_EP) && a->tie == MEGA_TIE_NONE && b->tie == MEGA_TIE_NONE;
}

/* Ends the bucket that starts at `offset`; `used` elements of it hold parameters and the gaps between them. */
static void close_bucket(mega_params *p, mega_bucket *b)
{
    b->count = round_up(b->used, (int64_t)ALIGN_ELEMENTS * p->layout->dp.size);
    p->elements = b->offset + b->count;
}

mega_status mega_params_place(mega_params *p, mega_dtype compute, int64_t bucket_elements)
{
    if (p->placed) return MEGA_FAIL(MEGA_ERR_USAGE, "parameters: placed twice; mega_params_place is called once");
    if (compute != MEGA_F32 && compute != MEGA_BF16 && compute != MEGA_F64)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "parameters of type %s are not built yet; expected f32, bf16 or f64",
                         mega_dtype_name(compute));
    p->bucket = mega_calloc((size_t)p->count + 1, sizeof *p->bucket);
    if (p->bucket == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameters: no memory for %d buckets", p->count);
    p->compute = compute;
    p->acc = compute == MEGA_F64 ? MEGA_F64 : MEGA_F32;
    mega_bucket *b = NULL;
    for (int i = p->count - 1; i >= 0; i--) { /* the gradient of what was declared last is ready first */
        mega_param *r = &p->param[i];
        const bool fits = b != NULL && (bucket_elements <= 0 || b->used + r->count <= bucket_elements) &&
                          may_share_bucket(r, &p->param[i + 1]);
        if (!fits) {
            if (b != NULL) close_bucket(p, b);
            b = &p->bucket[p->num_buckets++];
            *b = (mega_bucket){.offset = p->elements, .first_param = i};
        }
        r->bucket = p->num_buckets - 1;
        r->offset = b->offset + b->used;
        b->used += round_up(r->count, ALIGN_ELEMENTS);
        b->first_param = i; /* the lowest number: parameters first_param … first_param + num_params - 1 are in here */
        b->num_params++;
    }
    if (b != NULL) close_bucket(p, b);
    p->placed = true;
    return MEGA_OK;
}

size_t mega_params_bytes(const mega_params *p, int buffers)
{
    size_t bytes = 0;
    if (buffers & MEGA_PARAMS_WEIGHTS) {
        bytes += (size_t)p->elements * mega_dtype_size(p->acc);
        if (p->compute != p->acc) bytes += (size_t)p->elements * mega_dtype_size(p->compute);
    }
    if (buffers & MEGA_PARAMS_GRADS) bytes += (size_t)p->elements * mega_dtype_size(p->acc);
    return bytes;
}

mega_status mega_params_allocate(mega_params *p, int buffers)
{
    return mega_params_allocate_in(p, buffers, NULL);
}

size_t mega_params_region_bytes(const mega_params *p, int buffers)
{
    const size_t acc = mega_region_round((size_t)p->elements * mega_dtype_size(p->acc));
    size_t bytes = 0;
    if (buffers & MEGA_PARAMS_WEIGHTS) bytes += acc;
    if ((buffers & MEGA_PARAMS_WEIGHTS) && p->compute != p->acc)
        bytes += mega_region_round((size_t)p->elements * mega_dtype_size(p->compute));
    if (buffers & MEGA_PARAMS_GRADS) bytes += acc;
    return bytes;
}

mega_status mega_params_allocate_in(mega_params *p, int buffers, mega_region *region)
{
    if (!p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameters: buffers asked for before mega_params_place laid them out");
    p->is_lent = region != NULL;
    const size_t acc_bytes = (size_t)p->elements * mega_dtype_size(p->acc);
    if ((buffers & MEGA_PARAMS_WEIGHTS) && p->master == NULL) {
        p->master_bytes = acc_bytes;
        MEGA_TRY(mega_region_take(region, &p->master, p->master_bytes, "master weights"));
        if (p->compute == p->acc) p->weight = p->master;
    }
    if ((buffers & MEGA_PARAMS_WEIGHTS) && p->weight == NULL) {
        p->weight_bytes = (size_t)p->elements * mega_dtype_size(p->compute);
        MEGA_TRY(mega_region_take(region, &p->weight, p->weight_bytes, "weights"));
    }
    if ((buffers & MEGA_PARAMS_GRADS) && p->grad == NULL) {
        p->grad_bytes = acc_bytes;
        MEGA_TRY(mega_region_take(region, &p->grad, p->grad_bytes, "gradients"));
    }
    return MEGA_OK;
}

mega_dtype mega_params_compute_dtype(const mega_params *p)
{
    return p->compute;
}

mega_dtype mega_params_acc_dtype(const mega_params *p)
{
    return p->acc;
}

mega_range mega_params_owned(const mega_params *p, int index)
{
    return (mega_range){0, mega_params_get(p, index)->count};
}

static void *element(void *flat, mega_dtype dtype, const mega_param *r)
{
    return flat == NULL ? NULL : (char *)flat + (size_t)r->offset * mega_dtype_size(dtype);
}

void *mega_params_weight(const mega_params *p, int index)
{
    return element(p->weight, p->compute, mega_params_get(p, index));
}

void *mega_params_master(const mega_params *p, int index)
{
    return element(p->master, p->acc, mega_params_get(p, index));
}

void *mega_params_grad(const mega_params *p, int index)
{
    return element(p->grad, p->acc, mega_params_get(p, index));
}

void *mega_params_flat_weight(const mega_params *p)
{
    return p->weight;
}

void *mega_params_flat_master(const mega_params *p)
{
    return p->master;
}

void *mega_params_flat_grad(const mega_params *p)
{
    return p->grad;
}
