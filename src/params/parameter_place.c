/* Placement of parameters in buckets, the slices of buckets that each dp rank holds, and the flat buffers. */
#include "megalith/device_memory.h"
#include "megalith/memory.h"
#include "parameter_impl.h"

#include <string.h>

/* Every parameter starts on a multiple of this many elements: a cache line of 16-bit weights, two of float masters. */
#define ALIGN_ELEMENTS 32

static int64_t params_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Fails if the parameters are placed already; sizes of buckets depend on what these calls set. */
static mega_status params_check_open(const mega_params *p, const char *call)
{
    if (p == NULL) return MEGA_MISTAKE("%s: the list of parameters is NULL; give it", call);
    if (!p->placed) return MEGA_OK;
    return MEGA_MISTAKE("%s: called after mega_params_place; call it before", call);
}

mega_status mega_params_shard(mega_params *p, int zero_stage)
{
    MEGA_TRY(params_check_open(p, "mega_params_shard"));
    if (zero_stage < 0 || zero_stage > 3)
        return MEGA_MISTAKE("mega_params_shard: stage %d of ZeRO; expected 0, 1, 2 or 3", zero_stage);
    p->zero_stage = p->layout->dp.size > 1 ? zero_stage : 0;
    return MEGA_OK;
}

mega_status mega_params_persist(mega_params *p, int64_t elements)
{
    MEGA_TRY(params_check_open(p, "mega_params_persist"));
    if (elements < 0)
        return MEGA_MISTAKE("mega_params_persist: %lld elements; expected 0 or more", (long long)elements);
    p->persistence = elements;
    return MEGA_OK;
}

int mega_params_zero_stage(const mega_params *p)
{
    return p == NULL ? 0 : p->zero_stage;
}

/* Sets the dtype of every buffer and whether it is sharded. If compute == acc, one buffer is both weights and
 * masters. */
static void set_buffers(mega_params *p, mega_dtype compute)
{
    const int stage = p->zero_stage;
    p->compute = compute;
    p->acc = compute == MEGA_F64 ? MEGA_F64 : MEGA_F32;
    const bool is_rounded = p->compute != p->acc;
    p->weight = (flat_buffer){.dtype = compute, .is_shard = stage >= 3};
    p->master = (flat_buffer){.dtype = p->acc, .is_shard = is_rounded ? stage >= 1 : stage >= 3};
    p->grad = (flat_buffer){.dtype = p->acc, .is_shard = stage >= 2};
    p->kept = (flat_buffer){.dtype = compute}; /* or acc: see mega_params_weight_dtype */
}

/* Sets where the gradients of each bucket begin. Buckets of 16-bit gradients are half as long. If this rank trains
 * nothing, the buffer has a few bytes, so that it exists. */
static void place_gradients(mega_params *p)
{
    p->grad_bytes = 0;
    for (int b = 0; b < p->num_buckets; b++) {
        if (!p->bucket[b].has_grads) continue;
        const int64_t count = p->grad.is_shard ? mega_params_slice(p, b).count : p->bucket[b].count;
        p->bucket[b].grads_at = p->grad_bytes;
        p->grad_bytes += (size_t)count * mega_dtype_size(mega_params_grad_dtype(p, b));
    }
    if (p->grad_bytes == 0 && p->elements > 0) p->grad_bytes = ALIGN_ELEMENTS * mega_dtype_size(p->acc);
}

/* Returns whether weights of the parameter are of another type than the others. */
static bool is_in_acc(const mega_params *p, const mega_param *r)
{
    return r->in_acc && p->compute != p->acc;
}

/* Returns whether two parameters may share a bucket: they must have the same reduction group (experts reduce over fewer
 * ranks), the same program and the same type of weights, and neither may be tied, because a tied parameter waits for
 * the sum over its stages. */
static bool may_share_bucket(const mega_params *p, const mega_param *a, const mega_param *b)
{
    return (a->held_by > 0) == (b->held_by > 0) && a->program == b->program && a->tie == MEGA_TIE_NONE &&
           b->tie == MEGA_TIE_NONE && is_in_acc(p, a) == is_in_acc(p, b);
}

/* Returns whether ZeRO 3 gathers two parameters together: one layer declares both, and no other layer uses them at
 * another time. */
static bool in_one_layer(const mega_param *a, const mega_param *b)
{
    return a->layer == b->layer && !a->is_shared && !b->is_shared;
}

/* Completes the bucket that starts at `offset`; its first `used` elements hold parameters and the gaps between them. */
static void close_bucket(mega_params *p, mega_bucket *b)
{
    const int ranks = b->is_of_experts ? p->layout->edp.size : p->layout->dp.size;
    b->count = params_round_up(b->used, (int64_t)ALIGN_ELEMENTS * ranks);
    p->elements = b->offset + b->count;
    b->shard_at = p->shard_elements;
    p->shard_elements += p->zero_stage >= 1 ? b->count / ranks : b->count;
    b->in_acc = is_in_acc(p, &p->param[b->first_param]);
    b->kept_at = -1;
    if (!b->in_acc && (p->zero_stage < 3 || b->count > p->persistence)) return;
    b->kept_at = (int64_t)p->kept_bytes;
    p->kept_bytes += (size_t)b->count * mega_dtype_size(b->in_acc ? p->acc : p->compute);
}

/* Returns whether parameter i, which is placed after i + 1, goes into the same bucket. Those that join it must too. */
static bool fits_bucket(const mega_params *p, const mega_bucket *b, int i, int64_t bucket_elements)
{
    const mega_param *r = &p->param[i], *before = r + 1;
    if (b == NULL || b->first_param != i + 1) return false;
    if (r->joins_next) return true;
    if (!may_share_bucket(p, r, before)) return false;
    if (p->zero_stage >= 3) return in_one_layer(r, before);
    return bucket_elements <= 0 || b->used + mega_params_joined_elements(p, i) <= bucket_elements;
}

/* Parameters that are joined go where the first of them goes. */
static mega_status check_joined(const mega_params *p)
{
    for (int i = 0; i < p->count; i++) {
        const mega_param *r = &p->param[i], *to = r + 1;
        if (!r->joins_next) continue;
        if (i + 1 == p->count || to->program != r->program)
            return MEGA_MISTAKE("parameter %s: it joins the next one, but none follows it in its program", r->name);
        if (mega_param_has_gradient(r) != mega_param_has_gradient(to) || r->axis != to->axis || r->tie != to->tie)
            return MEGA_MISTAKE(
                "parameters %s and %s: one of them alone is %s; they lie side by side in memory and are "
                "used as one tensor, expected all of them alike",
                r->name, to->name,
                r->axis != to->axis ? "cut"
                : r->tie != to->tie ? "tied"
                                    : "frozen");
    }
    return MEGA_OK;
}

/* Places all frozen parameters, which have no gradients, or all others. The parameters of a bucket have consecutive
 * numbers. */
static void params_place_all(mega_params *p, bool frozen, int64_t bucket_elements)
{
    mega_bucket *b = NULL;
    for (int i = p->count - 1; i >= 0; i--) { /* the gradient of the parameter declared last is ready first */
        mega_param *r = &p->param[i];
        if (mega_param_has_gradient(r) == frozen) continue;
        if (!fits_bucket(p, b, i, bucket_elements)) {
            if (b != NULL) close_bucket(p, b);
            b = &p->bucket[p->num_buckets++];
            *b = (mega_bucket){.offset = p->elements, .is_of_experts = r->held_by > 0, .has_grads = !frozen};
        }
        r->bucket = p->num_buckets - 1;
        r->offset = b->offset + b->used;
        b->used += r->count;
        if (i == 0 || !p->param[i - 1].joins_next) b->used = params_round_up(b->used, ALIGN_ELEMENTS);
        b->first_param = i; /* the lowest number: the bucket holds parameters first_param … first_param + num_params -
                               1 */
        b->num_params++;
    }
    if (b != NULL) close_bucket(p, b);
}

/* Checks that the parameters which share a tensor of the file hold all of its rows, and each once. */
static mega_status check_shared_tensor(const mega_params *p, int first, int file)
{
    const int64_t rows = mega_param_file_rows(&p->param[first], file);
    const char *name = mega_param_file_name(&p->param[first], file);
    int64_t held = 0, last = 0; /* rows, and the sum of their numbers */
    for (int i = first; i < p->count; i++)
        for (int k = 0; k < p->param[i].num_parts; k++) {
            const mega_param_part *part = &p->param[i].part[k];
            if (part->of_rows == 0 || strcmp(part->file, name) != 0) continue;
            const int64_t block = part->block > 0 ? part->block : part->rows, runs = part->rows / block;
            held += part->rows;
            last += part->rows * part->first + runs * (block * (block - 1) / 2) +
                    block * (part->block > 0 ? part->stride : 0) * (runs * (runs - 1) / 2);
        }
    if (held == rows && last == rows * (rows - 1) / 2) return MEGA_OK;
    return MEGA_MISTAKE("tensor %s of the file has %lld rows, of which parameter %s and those that share it hold %lld; "
                        "expected each once: give rows and first of their parts so",
                        name, (long long)rows, p->param[first].name, (long long)held);
}

/* Checks that each place of a stack in the file has one parameter: of those that a rank of ep holds. */
static mega_status check_stack(const mega_params *p, int first, int file)
{
    const char *name = mega_param_file_name(&p->param[first], file);
    const mega_param *r = &p->param[first];
    const int64_t of = r->held_by > 0 ? r->stack_of / p->layout->ep.size : r->stack_of;
    const int64_t begin = r->held_by > 0 ? of * (r->held_by - 1) : 0;
    int64_t held = 0, last = 0; /* how many places have one, and the sum of their numbers */
    for (int i = first; i < p->count; i++)
        for (int f = 0; f < p->param[i].num_files; f++) {
            if (p->param[i].stack_of == 0 || strcmp(mega_param_file_name(&p->param[i], f), name) != 0) continue;
            held++;
            last += p->param[i].stack_at - begin;
        }
    if (held == of && last == of * (of - 1) / 2) return MEGA_OK;
    return MEGA_MISTAKE("tensor %s of the file has %lld places, of which parameter %s and those that share it fill "
                        "%lld; expected each once",
                        name, (long long)of, p->param[first].name, (long long)held);
}

static mega_status check_shared_tensors(const mega_params *p)
{
    for (int i = 0; i < p->count; i++)
        for (int f = 0, file; f < p->param[i].num_files; f++)
            if (mega_param_shares_file(&p->param[i], f) &&
                mega_params_find_file(p, mega_param_file_name(&p->param[i], f), &file) == i)
                MEGA_TRY(p->param[i].stack_of > 0 ? check_stack(p, i, f) : check_shared_tensor(p, i, f));
    return MEGA_OK;
}

mega_status mega_params_place(mega_params *p, mega_dtype compute, int64_t bucket_elements)
{
    if (p == NULL) return MEGA_MISTAKE("mega_params_place: the list of parameters is NULL; give it");
    if (p->placed) return MEGA_MISTAKE("parameters: placed twice; mega_params_place is called once");
    if (compute != MEGA_F32 && !mega_dtype_is_half(compute) && compute != MEGA_F64)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "parameters of type %s are not implemented yet; expected f32, bf16, f16 or f64",
                         mega_dtype_name(compute));
    MEGA_TRY(check_shared_tensors(p));
    MEGA_TRY(check_joined(p));
    MEGA_TRY(mega_params_check_types(p, compute));
    p->bucket = mega_calloc((size_t)p->count + 1, sizeof *p->bucket);
    if (p->bucket == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameters: no memory for %d buckets", p->count);
    set_buffers(p, compute);
    params_place_all(p, false, bucket_elements);
    p->state_elements = p->elements;
    p->shard_state_elements = p->shard_elements;
    params_place_all(p, true, bucket_elements);
    if (p->state_elements == 0) { /* nothing is trained: avoid empty buffers */
        p->state_elements = p->elements;
        p->shard_state_elements = p->shard_elements;
    }
    place_gradients(p);
    p->placed = true;
    return MEGA_OK;
}

/* ---- slices ---- */

mega_axis mega_params_shards(const mega_params *p)
{
    return p != NULL && p->zero_stage >= 1 ? p->layout->dp : (mega_axis){.size = 1};
}

mega_axis mega_params_group_of(const mega_params *p, const mega_param *record)
{
    return record->held_by > 0 ? p->layout->edp : p->layout->dp;
}

mega_axis mega_params_group(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    return b != NULL && b->is_of_experts ? p->layout->edp : p->layout->dp;
}

mega_axis mega_params_bucket_shards(const mega_params *p, int bucket)
{
    return p != NULL && p->zero_stage >= 1 ? mega_params_group(p, bucket) : (mega_axis){.size = 1};
}

const mega_axis *mega_params_counting(const mega_params *p)
{
    return p->zero_stage >= 1 ? &p->layout->dp : &p->layout->ep;
}

bool mega_params_counts(const mega_params *p, const mega_param *record)
{
    return p->zero_stage >= 1 || record->held_by > 0 || p->layout->ep.rank == 0;
}

mega_status mega_params_sum_counts(const mega_params *p, const char *what, double *sums, int64_t count)
{
    return mega_comm_all_reduce(mega_params_counting(p)->comm, what, sums, count, MEGA_F64, MEGA_REDUCE_SUM);
}

int64_t mega_params_shard_elements(const mega_params *p)
{
    return p->shard_elements;
}

int64_t mega_params_state_elements(const mega_params *p)
{
    return p->shard_state_elements;
}

mega_range mega_params_slice(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    if (b == NULL) return (mega_range){0, 0};
    const mega_axis shards = mega_params_bucket_shards(p, bucket);
    const int64_t count = b->count / shards.size;
    return (mega_range){b->offset + shards.rank * count, count};
}

int64_t mega_params_shard_index(const mega_params *p, int bucket, int64_t element)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    return b == NULL ? -1 : element - mega_params_slice(p, bucket).first + b->shard_at;
}

mega_range mega_params_owned(const mega_params *p, int index)
{
    const mega_param *r = mega_params_get(p, index);
    if (r == NULL || mega_params_bucket(p, r->bucket) == NULL) return (mega_range){0, 0};
    const mega_range slice = mega_params_slice(p, r->bucket);
    int64_t begin = slice.first - r->offset, end = begin + slice.count;
    begin = begin < 0 ? 0 : begin > r->count ? r->count : begin;
    end = end < begin ? begin : end > r->count ? r->count : end;
    return (mega_range){begin, end - begin};
}

/* ---- buffers ---- */

static size_t params_buffer_bytes(const mega_params *p, const flat_buffer *f)
{
    if (f == &p->kept) return p->kept_bytes;
    if (f == &p->grad) return p->grad_bytes;
    return (size_t)(f->is_shard ? mega_params_shard_elements(p) : p->elements) * mega_dtype_size(f->dtype);
}

static size_t sum_bytes(const mega_params *p, int buffers, size_t (*round)(size_t))
{
    size_t bytes = 0;
    if (buffers & MEGA_PARAMS_WEIGHTS) bytes += round(params_buffer_bytes(p, &p->master));
    if ((buffers & MEGA_PARAMS_WEIGHTS) && p->compute != p->acc) bytes += round(params_buffer_bytes(p, &p->weight));
    if (buffers & MEGA_PARAMS_WEIGHTS) bytes += round(params_buffer_bytes(p, &p->kept));
    if (buffers & MEGA_PARAMS_GRADS) bytes += round(params_buffer_bytes(p, &p->grad));
    return bytes;
}

static size_t as_it_is(size_t bytes)
{
    return bytes;
}

size_t mega_params_bytes(const mega_params *p, int buffers)
{
    return sum_bytes(p, buffers, as_it_is);
}

size_t mega_params_region_bytes(const mega_params *p, int buffers)
{
    return sum_bytes(p, buffers, mega_region_round);
}

bool mega_params_are_cut(const mega_params *p, mega_params_buffers buffer)
{
    return p != NULL && (buffer == MEGA_PARAMS_GRADS ? p->grad.is_shard : p->weight.is_shard);
}

size_t mega_params_master_bytes(const mega_params *p)
{
    return params_buffer_bytes(p, &p->master);
}

mega_status mega_params_allocate(mega_params *p, int buffers)
{
    return mega_params_allocate_in(p, buffers, NULL);
}

static mega_status params_take(const mega_params *p, flat_buffer *f, mega_region *region, const char *what)
{
    if (f->data != NULL) return MEGA_OK;
    f->bytes = params_buffer_bytes(p, f);
    MEGA_TRY(mega_region_take(region, &f->data, f->bytes, what));
    f->is_owned = region == NULL;
    return MEGA_OK;
}

mega_status mega_params_allocate_in(mega_params *p, int buffers, mega_region *region)
{
    if (p == NULL) return MEGA_MISTAKE("mega_params_allocate: the list of parameters is NULL; give it");
    if (!p->placed) return MEGA_MISTAKE("parameters: buffers asked for before mega_params_place laid them out");
    if (region != NULL) p->queue.device = mega_device_of(region->base);
    if (buffers & MEGA_PARAMS_WEIGHTS) {
        MEGA_TRY(params_take(p, &p->master, region, "master weights"));
        if (p->compute == p->acc) p->weight.data = p->master.data;
        MEGA_TRY(params_take(p, &p->weight, region, "weights"));
        if (p->kept_bytes > 0) MEGA_TRY(params_take(p, &p->kept, region, "weights that stay whole"));
    }
    if (buffers & MEGA_PARAMS_GRADS) MEGA_TRY(params_take(p, &p->grad, region, "gradients"));
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

mega_dtype mega_params_weight_dtype(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    return b != NULL && b->in_acc ? p->acc : p->compute;
}

/* Returns an element of the whole weights of a bucket that has them in a buffer of their own. */
static void *kept_element(const mega_params *p, int bucket, int64_t element)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    if (p->kept.data == NULL) return NULL;
    return (char *)p->kept.data + b->kept_at +
           (element - b->offset) * (int64_t)mega_dtype_size(mega_params_weight_dtype(p, bucket));
}

static void *element_of(const mega_params *p, const flat_buffer *f, int bucket, int64_t element)
{
    if (f->data == NULL || mega_params_bucket(p, bucket) == NULL) return NULL;
    const int64_t at = f->is_shard ? mega_params_shard_index(p, bucket, element) : element;
    return (char *)f->data + at * (int64_t)mega_dtype_size(f->dtype);
}

void *mega_params_weight_at(const mega_params *p, int bucket, int64_t element)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    return b != NULL && b->in_acc ? kept_element(p, bucket, element) : element_of(p, &p->weight, bucket, element);
}

void *mega_params_master_at(const mega_params *p, int bucket, int64_t element)
{
    return element_of(p, &p->master, bucket, element);
}

void *mega_params_grad_at(const mega_params *p, int bucket, int64_t element)
{
    const mega_bucket *b = p->grad.data == NULL ? NULL : mega_params_bucket(p, bucket);
    if (b == NULL || !b->has_grads) return NULL;
    const int64_t first = p->grad.is_shard ? mega_params_slice(p, bucket).first : b->offset;
    return (char *)p->grad.data + b->grads_at +
           (element - first) * (int64_t)mega_dtype_size(mega_params_grad_dtype(p, bucket));
}

void *mega_params_weight(const mega_params *p, int index)
{
    const mega_param *r = mega_params_get(p, index);
    const mega_bucket *b = r != NULL ? mega_params_bucket(p, r->bucket) : NULL;
    if (b == NULL) return NULL;
    if (b->kept_at >= 0) return kept_element(p, r->bucket, r->offset);
    return p->weight.is_shard ? NULL : element_of(p, &p->weight, r->bucket, r->offset);
}

void *mega_params_master(const mega_params *p, int index)
{
    const mega_param *r = mega_params_get(p, index);
    if (r == NULL) return NULL;
    return element_of(p, &p->master, r->bucket, r->offset + mega_params_owned(p, index).first);
}

void *mega_params_grad(const mega_params *p, int index)
{
    const mega_param *r = mega_params_get(p, index);
    return r == NULL || p->grad.is_shard ? NULL : mega_params_grad_at(p, r->bucket, r->offset);
}

void *mega_params_flat_weight(const mega_params *p)
{
    return p == NULL ? NULL : p->weight.data;
}

void *mega_params_flat_master(const mega_params *p)
{
    return p == NULL ? NULL : p->master.data;
}

void *mega_params_flat_grad(const mega_params *p)
{
    return p == NULL ? NULL : p->grad.data;
}

/* ---- collectives ---- */

mega_status mega_params_check_buffer(const mega_params *p, const char *call, mega_params_buffers buffer)
{
    if (p == NULL) return MEGA_MISTAKE("%s: the list of parameters is NULL; give it", call);
    const flat_buffer *f = buffer == MEGA_PARAMS_GRADS ? &p->grad : &p->weight;
    if (f->data != NULL || p->count == 0) return MEGA_OK;
    return MEGA_MISTAKE("%s: the %s have no memory yet; call mega_params_allocate first", call,
                        buffer == MEGA_PARAMS_GRADS ? "gradients" : "weights");
}

bool mega_params_is_gathered(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    /* weights that are cut are gathered where they are used, except for small ones */
    return b != NULL && p->zero_stage >= 1 && (!p->weight.is_shard || b->kept_at >= 0);
}

mega_status mega_params_gather_start(const mega_params *p, int bucket, mega_request *out)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    const mega_range slice = mega_params_slice(p, bucket);
    /* the parameter with the highest number is the first in the bucket */
    return mega_comm_all_gather_start(
        mega_params_group(p, bucket).comm, "weights", mega_params_weight(p, b->first_param + b->num_params - 1),
        mega_params_weight_at(p, bucket, slice.first), slice.count, mega_params_weight_dtype(p, bucket), out);
}

mega_status mega_params_gather(mega_params *p)
{
    MEGA_TRY(mega_params_check_buffer(p, "mega_params_gather", MEGA_PARAMS_WEIGHTS));
    for (int b = 0; b < p->num_buckets; b++) {
        mega_request r;
        if (!mega_params_is_gathered(p, b)) continue;
        MEGA_TRY(mega_params_gather_start(p, b, &r));
        MEGA_TRY(mega_comm_wait(&r));
    }
    return MEGA_OK;
}

bool mega_params_sums_gradients(const mega_params *p)
{
    return mega_axis_has_others(&p->layout->dp) && !p->grad.is_shard;
}
