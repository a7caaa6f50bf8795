/* Records of parameters. Everything about how a tensor is spread over ranks is read from its record, here, in
 * parameter_place.c and in parameter_init.c. */
#include "megalith/extent.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/name.h"
#include "parameter_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mega_status mega_params_create(mega_params **out, const mega_layout *layout)
{
    if (out == NULL || layout == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_params_create: %s is NULL; give it", out == NULL ? "out" : "the layout");
    mega_params *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "parameters: no memory for their list");
    p->layout = layout;
    *out = p;
    return MEGA_OK;
}

void mega_params_destroy(mega_params *p)
{
    if (p == NULL) return;
    if (p->weight.is_owned) mega_pages_free(p->weight.data, p->weight.bytes);
    if (p->master.is_owned) mega_pages_free(p->master.data, p->master.bytes);
    if (p->grad.is_owned) mega_pages_free(p->grad.data, p->grad.bytes);
    if (p->kept.is_owned) mega_pages_free(p->kept.data, p->kept.bytes);
    mega_free(p->bucket);
    mega_free(p->param);
    mega_free(p->slot);
    mega_free(p);
}

const mega_layout *mega_params_layout(const mega_params *p)
{
    return p->layout;
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

mega_param_cut mega_params_cut(const mega_params *p, const mega_param *record)
{
    const mega_axis axis = mega_params_axis(p, record->axis);
    if (axis.size == 1) return (mega_param_cut){0};
    return (mega_param_cut){axis.rank, axis.size, record->blocks > 1 ? record->blocks : 1};
}

int64_t mega_param_logical_index(const mega_param *r, mega_axis axis, int64_t local)
{
    const int64_t block = r->shape[r->cut_dim] / r->blocks, slice = block / axis.size;
    return local / slice * block + axis.rank * slice + local % slice;
}

static mega_status check_buffer(const mega_param *r)
{
    const double m = r->buffer_momentum;
    if (r->is_buffer ? m >= 0 && m < 1 && (m <= 0 || r->buffer_samples > 0) : m == 0 && r->buffer_samples == 0)
        return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "parameter %s: buffer_momentum %g of groups of %lld samples; expected 0 or more and below 1, of at least 1 "
        "sample, and 0 of what is no buffer",
        r->name, m, (long long)r->buffer_samples);
}

/* A file holds the elements in their order in memory, whatever its dimensions are. */
static mega_status check_file(const mega_param *r)
{
    const int64_t real = mega_extent_mul(r->true_shape[0], r->num_dims == 2 ? r->true_shape[1] : 1);
    int64_t count = 1;
    bool is_right = r->file_dims >= 0 && r->file_dims <= 4 && (r->file_dims == 0 || !r->transposed_in_file);
    for (int d = 0; d < r->file_dims && is_right; d++) {
        is_right = r->file_dim[d] > 0;
        count = mega_extent_mul(count, r->file_dim[d]);
    }
    if (is_right && (r->file_dims == 0 || count == real)) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "parameter %s: %d file_dims, [%lld, %lld, %lld, %lld]; expected 1 to 4 that hold its %lld elements, "
        "of what is not transposed in the file",
        r->name, r->file_dims, (long long)r->file_dim[0], (long long)r->file_dim[1], (long long)r->file_dim[2],
        (long long)r->file_dim[3], (long long)real);
}

static mega_status check_options(const mega_param *r)
{
    if (r->blocks < 0) /* 0 stands for 1 */
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: %d blocks; expected 1 or more, or 0 for 1", r->name, r->blocks);
    if ((unsigned)r->init > MEGA_INIT_KAIMING_NORMAL)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s: init %d; expected a kind of mega_init, MEGA_INIT_FAN_IN to "
                         "MEGA_INIT_KAIMING_NORMAL",
                         r->name, (int)r->init);
    if (!(r->init_std >= 0 && isfinite(r->init_std)))
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: init_std %g; expected a finite number, 0 or more", r->name,
                         isnan(r->init_std) ? fabs(r->init_std) : r->init_std);
    return MEGA_OK;
}

static mega_status check_record(const mega_params *p, const mega_param *r)
{
    MEGA_TRY(check_options(r));
    MEGA_TRY(check_buffer(r));
    if (!(r->lr_scale > 0 && isfinite(r->lr_scale)))
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: lr_scale %g; expected a factor above 0, or 0 for 1", r->name,
                         r->lr_scale);
    if (p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s: declared after mega_params_place; declare all of them before it", r->name);
    if (r->num_dims < 1 || r->num_dims > 2)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: %d dimensions; expected 1 or 2", r->name, r->num_dims);
    for (int d = 0; d < r->num_dims; d++)
        if (r->shape[d] < 1 || r->true_shape[d] < 1 || r->true_shape[d] > r->shape[d])
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "parameter %s: dimension %d has %lld elements, %lld of them real; expected 1 <= real <= all", r->name,
                d, (long long)r->shape[d], (long long)r->true_shape[d]);
    if (mega_extent_mul(r->shape[0], r->num_dims == 2 ? r->shape[1] : 1) > MEGA_MOST_ELEMENTS)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter %s: [%lld, %lld] has more than %lld elements; check its shape",
                         r->name, (long long)r->shape[0], (long long)r->shape[1], (long long)MEGA_MOST_ELEMENTS);
    MEGA_TRY(check_file(r));
    if (r->axis != MEGA_AXIS_NONE) {
        const mega_axis a = mega_params_axis(p, r->axis);
        if (r->cut_dim < 0 || r->cut_dim >= r->num_dims || r->shape[r->cut_dim] % ((int64_t)r->blocks * a.size) != 0)
            return MEGA_FAIL(MEGA_ERR_USAGE,
                             "parameter %s: dimension %d of %lld elements cannot be cut into %d blocks over %d ranks; "
                             "expected a multiple of %lld",
                             r->name, r->cut_dim, (long long)r->shape[r->cut_dim], r->blocks, a.size,
                             (long long)r->blocks * a.size);
    }
    return MEGA_OK;
}

/* A record as the list keeps it: a vector has rows of one element, and each cut at least one block. */
static mega_param complete(const mega_param *record)
{
    mega_param r = *record;
    if (r.num_dims == 1) r.shape[1] = r.true_shape[1] = 1;
    if (r.blocks == 0) r.blocks = 1;
    if (r.lr_scale == 0) r.lr_scale = 1;
    return r;
}

/* Returns the slot of this name in the hash table, or the free slot where it can be inserted. */
static int slot_of(const mega_params *p, const char *name)
{
    int at = (int)(mega_hash64(MEGA_HASH_START, name, strlen(name)) & (uint64_t)(p->num_slots - 1));
    while (p->slot[at] != 0 && strcmp(p->param[p->slot[at] - 1].name, name) != 0) at = (at + 1) & (p->num_slots - 1);
    return at;
}

static mega_status grow(mega_params *p, const char *name)
{
    const int capacity = p->capacity == 0 ? 64 : 2 * p->capacity;
    mega_param *grown = mega_realloc(p->param, (size_t)capacity * sizeof *grown);
    if (grown != NULL) p->param = grown;
    int32_t *slots = mega_calloc(2 * (size_t)capacity, sizeof *slots);
    if (grown == NULL || slots == NULL) {
        mega_free(slots);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "parameter %s: no memory for its record", name);
    }
    mega_free(p->slot);
    p->slot = slots;
    p->num_slots = 2 * capacity;
    p->capacity = capacity;
    for (int i = 0; i < p->count; i++) p->slot[slot_of(p, p->param[i].name)] = i + 1;
    return MEGA_OK;
}

/* Appends a record whose name is new. */
static mega_status append(mega_params *p, mega_param r, int *out_index)
{
    MEGA_TRY(check_record(p, &r));
    if (p->count == p->capacity) MEGA_TRY(grow(p, r.name));
    memcpy(r.local_shape, r.shape, sizeof r.shape);
    if (r.axis != MEGA_AXIS_NONE) r.local_shape[r.cut_dim] /= mega_params_axis(p, r.axis).size;
    r.count = r.local_shape[0] * r.local_shape[1];
    r.part = p->part;
    r.bucket = -1;
    r.offset = -1;
    if (out_index != NULL) *out_index = p->count;
    p->slot[slot_of(p, r.name)] = p->count + 1;
    p->param[p->count++] = r;
    return MEGA_OK;
}

mega_status mega_params_add(mega_params *p, const mega_param *record, int *out_index)
{
    if (p == NULL || record == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_params_add: %s is NULL; give it",
                         p == NULL ? "the list of parameters" : "the record");
    if (record->name[0] == '\0' || mega_params_find(p, record->name) >= 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "parameter \"%s\": expected a name that is not empty and not declared twice",
                         record->name);
    char text[4 * MEGA_PARAM_NAME];
    if (!mega_name_is_text(record->name))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter \"%s\": its name is not UTF-8 text without control characters; choose another",
                         mega_name_escape(text, sizeof text, record->name));
    return append(p, complete(record), out_index);
}

/* "[24, 8], rows cut over tp in 3 blocks" */
static const char *shape_text(char out[96], const mega_param *r, bool with_cut)
{
    int n = snprintf(out, 96, "[%lld", (long long)r->shape[0]);
    n += r->num_dims == 1 ? snprintf(out + n, (size_t)(96 - n), "]")
                          : snprintf(out + n, (size_t)(96 - n), ", %lld]", (long long)r->shape[1]);
    if (!with_cut) return out;
    if (r->axis == MEGA_AXIS_NONE) snprintf(out + n, (size_t)(96 - n), ", not cut");
    else
        snprintf(out + n, (size_t)(96 - n), ", %s cut in %d block%s", r->cut_dim == 0 ? "rows" : "columns", r->blocks,
                 r->blocks == 1 ? "" : "s");
    return out;
}

static bool is_shape_equal(const mega_param *a, const mega_param *b)
{
    return a->num_dims == b->num_dims && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

static bool is_cut_equal(const mega_param *a, const mega_param *b)
{
    return a->axis == b->axis && a->blocks == b->blocks && (a->axis == MEGA_AXIS_NONE || a->cut_dim == b->cut_dim);
}

static bool is_rest_equal(const mega_param *a, const mega_param *b)
{
    return a->true_shape[0] == b->true_shape[0] && a->true_shape[1] == b->true_shape[1] &&
           a->transposed_in_file == b->transposed_in_file && a->init == b->init &&
           !(a->init_std < b->init_std || a->init_std > b->init_std) && a->weight_decay == b->weight_decay &&
           a->lr_scale == b->lr_scale && a->file_dims == b->file_dims &&
           memcmp(a->file_dim, b->file_dim, sizeof a->file_dim) == 0 && a->is_buffer == b->is_buffer &&
           a->is_frozen == b->is_frozen && a->buffer_samples == b->buffer_samples &&
           a->buffer_momentum == b->buffer_momentum;
}

/* A request must fit what the first one declared. Programs exchange their own buckets when they are done with them, so
 * a parameter belongs to one of them. */
static mega_status check_request(const mega_param *r, const mega_param *declared, bool has_options, bool is_other_part)
{
    const bool is_cut_other = has_options && !is_cut_equal(r, declared);
    char asked[96], found[96];
    if (!is_shape_equal(r, declared) || is_cut_other)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s: this request is for %s, but an earlier one declared %s; request one shape and "
                         "one cut under a name",
                         r->name, shape_text(asked, r, is_cut_other), shape_text(found, declared, is_cut_other));
    if (is_other_part)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "parameter %s: two programs of one pipeline stage request it, which is not built yet; give "
                         "each its own, or make one program a stage",
                         r->name);
    if (has_options && !is_rest_equal(r, declared))
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "parameter %s: this request has other options (initial values, weight decay, padding, what a "
            "buffer is, or place in the file) than the one that declared it; give the same options, or none",
            r->name);
    return MEGA_OK;
}

mega_status mega_params_request(mega_params *p, const mega_param *record, bool has_options, int *out_index)
{
    const mega_param r = complete(record);
    const int index = mega_params_find(p, r.name);
    MEGA_TRY(check_options(&r));
    if (index >= 0) {
        const bool is_other_part = !p->placed && p->param[index].part != p->part;
        MEGA_TRY(check_request(&r, &p->param[index], has_options, is_other_part));
        *out_index = index;
        return MEGA_OK;
    }
    if (p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s: first requested after mega_params_place; describe every program that uses it "
                         "before the parameters are placed",
                         r.name);
    return append(p, r, out_index);
}

mega_status mega_params_check_placed(const mega_params *p, const char *call)
{
    if (p == NULL || p->count == 0 || p->placed) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the parameters are not placed; call mega_params_place first", call);
}

void mega_params_next_part(mega_params *p)
{
    p->part++;
}

int mega_params_find(const mega_params *p, const char *name)
{
    return p == NULL || name == NULL || p->count == 0 ? -1 : p->slot[slot_of(p, name)] - 1;
}

int mega_params_count(const mega_params *p)
{
    return p == NULL ? 0 : p->count;
}

size_t mega_params_record_bytes(const mega_params *p)
{
    return p == NULL ? 0
                     : (size_t)p->count * sizeof *p->param + (size_t)p->num_slots * sizeof *p->slot +
                           (size_t)p->num_buckets * sizeof *p->bucket;
}

const mega_param *mega_params_get(const mega_params *p, int index)
{
    if (p != NULL && index >= 0 && index < p->count) return &p->param[index];
    (void)MEGA_FAIL(MEGA_ERR_USAGE,
                    "parameter %d: expected a number from 0 to %d; mega_params_find gives that of a name", index,
                    (p != NULL ? p->count : 0) - 1);
    return NULL;
}

int mega_params_num_buckets(const mega_params *p)
{
    return p == NULL ? 0 : p->num_buckets;
}

const mega_bucket *mega_params_bucket(const mega_params *p, int index)
{
    if (p != NULL && index >= 0 && index < p->num_buckets) return &p->bucket[index];
    if (p != NULL && !p->placed)
        (void)MEGA_FAIL(MEGA_ERR_USAGE, "bucket %d: there are no buckets before mega_params_place", index);
    else
        (void)MEGA_FAIL(MEGA_ERR_USAGE, "bucket %d: expected a number from 0 to %d", index,
                        (p != NULL ? p->num_buckets : 0) - 1);
    return NULL;
}

int64_t mega_params_elements(const mega_params *p)
{
    return p == NULL ? 0 : p->elements;
}

int64_t mega_params_logical_count(const mega_params *p)
{
    int64_t n = 0;
    for (int i = 0; i < mega_params_count(p); i++)
        if (!p->param[i].is_buffer) n += p->param[i].true_shape[0] * p->param[i].true_shape[1];
    return n;
}

int64_t mega_params_local_count(const mega_params *p)
{
    int64_t n = 0;
    for (int i = 0; i < mega_params_count(p); i++) n += p->param[i].count;
    return n;
}
