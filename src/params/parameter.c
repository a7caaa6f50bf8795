/* Records of parameters. How a tensor is distributed over ranks follows from its record alone; this file,
 * parameter_parts.c, parameter_place.c and parameter_init.c derive it. */
#include "megalith/extent.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/name.h"
#include "megalith/parameter_group.h"
#include "parameter_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mega_status mega_params_create(const mega_layout *layout, mega_params **out)
{
    if (out == NULL || layout == NULL)
        return MEGA_MISTAKE("mega_params_create: %s is NULL; give it", out == NULL ? "out" : "the layout");
    mega_params *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_NO_MEMORY("parameters", "their list");
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
    MEGA_FREE(p->bucket, p->param, p->slot);
    mega_arena_fini(&p->text);
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
    case MEGA_AXIS_NONE: break;
    }
    return (mega_axis){0, 1, NULL};
}

mega_param_cut mega_params_cut(const mega_params *p, const mega_param *record)
{
    const mega_axis axis = mega_params_axis(p, record->axis);
    if (axis.size == 1) return (mega_param_cut){0};
    return (mega_param_cut){axis.rank, axis.size};
}

static mega_status check_buffer(const mega_param *r)
{
    const double m = r->buffer_momentum;
    if (r->is_buffer ? m >= 0 && m < 1 && (m <= 0 || r->buffer_samples > 0) : m == 0 && r->buffer_samples == 0)
        return MEGA_OK;
    return MEGA_MISTAKE(
        "parameter %s: buffer_momentum %g of groups of %lld samples; expected 0 or more and below 1, of at least 1 "
        "sample, and 0 of what is no buffer",
        r->name, m, (long long)r->buffer_samples);
}

static mega_status check_buffer_rate(const mega_param *r)
{
    const double rate = r->buffer_rate;
    const bool is_used = rate != 0 || r->buffer_choices != 0;
    if (!is_used || (r->is_buffer && rate > 0 && isfinite(rate) && r->buffer_choices > 0 && r->num_dims == 1 &&
                     r->axis == MEGA_AXIS_NONE && !(r->buffer_momentum > 0)))
        return MEGA_OK;
    return MEGA_MISTAKE(
        "parameter %s: buffer_rate %g of %lld choices; expected 0, or above 0 with 1 choice or more, of a buffer of "
        "one dimension that is not cut and has no buffer_momentum",
        r->name, isnan(rate) ? fabs(rate) : rate, (long long)r->buffer_choices);
}

/* Checks the dimensions in the file. The file holds the elements in memory order, whatever its dimensions are. */
static mega_status parameter_check_file(const mega_param *r)
{
    const int64_t real = mega_extent_mul(r->true_shape[0], r->num_dims == 2 ? r->true_shape[1] : 1);
    int64_t count = 1;
    bool is_right = r->file_dims >= 0 && r->file_dims <= 4 && (r->file_dims == 0 || !r->transposed_in_file);
    for (int d = 0; d < r->file_dims && is_right; d++) {
        is_right = r->file_dim[d] > 0;
        count = mega_extent_mul(count, r->file_dim[d]);
    }
    if (is_right && (r->file_dims == 0 || count == real)) return MEGA_OK;
    return MEGA_MISTAKE(
        "parameter %s: %d file_dims, [%lld, %lld, %lld, %lld]; expected 1 to 4 that hold its %lld elements, "
        "of what is not transposed in the file",
        r->name, r->file_dims, (long long)r->file_dim[0], (long long)r->file_dim[1], (long long)r->file_dim[2],
        (long long)r->file_dim[3], (long long)real);
}

static mega_status parameter_check_options(const mega_param *r)
{
    if ((unsigned)r->init > MEGA_INIT_KAIMING_NORMAL)
        return MEGA_MISTAKE("parameter %s: init %d; expected a kind of mega_init, MEGA_INIT_FAN_IN to "
                            "MEGA_INIT_KAIMING_NORMAL",
                            r->name, (int)r->init);
    if (!(r->init_std >= 0 && isfinite(r->init_std)))
        return MEGA_MISTAKE("parameter %s: init_std %g; expected a finite number, 0 or more", r->name,
                            isnan(r->init_std) ? fabs(r->init_std) : r->init_std);
    return MEGA_OK;
}

static mega_status parameter_check_record(const mega_params *p, const mega_param *r)
{
    MEGA_TRY(parameter_check_options(r));
    MEGA_TRY(check_buffer(r));
    MEGA_TRY(check_buffer_rate(r));
    if (r->in_acc && !r->is_buffer)
        return MEGA_MISTAKE("parameter %s: in_acc of what is no buffer; set is_buffer, or leave in_acc out", r->name);
    if (!(r->lr_scale > 0 && isfinite(r->lr_scale)))
        return MEGA_MISTAKE("parameter %s: lr_scale %g; expected a factor above 0, or 0 for 1", r->name, r->lr_scale);
    if (p->placed)
        return MEGA_MISTAKE("parameter %s: declared after mega_params_place; declare all of them before it", r->name);
    if (r->num_dims < 1 || r->num_dims > 2)
        return MEGA_MISTAKE("parameter %s: %d dimensions; expected 1 or 2", r->name, r->num_dims);
    for (int d = 0; d < r->num_dims; d++)
        if (r->shape[d] < 1 || r->true_shape[d] < 1 || r->true_shape[d] > r->shape[d])
            return MEGA_MISTAKE(
                "parameter %s: dimension %d has %lld elements, %lld of them real; expected 1 <= real <= all", r->name,
                d, (long long)r->shape[d], (long long)r->true_shape[d]);
    if (mega_extent_mul(r->shape[0], r->num_dims == 2 ? r->shape[1] : 1) > MEGA_MOST_ELEMENTS)
        return MEGA_MISTAKE("parameter %s: [%lld, %lld] has more than %lld elements; check its shape", r->name,
                            (long long)r->shape[0], (long long)r->shape[1], (long long)MEGA_MOST_ELEMENTS);
    MEGA_TRY(parameter_check_file(r));
    return mega_param_check_parts(r, mega_params_axis(p, r->axis).size);
}

/* Returns the record as mega_params stores it: a vector has 1 column, lr_scale 0 becomes 1, there is at least one
 * part, and its groups have set what they set. */
static mega_param parameter_complete(const mega_params *p, const mega_param *record)
{
    mega_param r = *record;
    if (r.num_dims == 1) r.shape[1] = r.true_shape[1] = 1;
    if (r.lr_scale == 0) r.lr_scale = 1;
    mega_param_groups_apply(p->groups, &r);
    mega_param_complete_parts(&r);
    return r;
}

/* ---- names ---- */

/* Entries per parameter in the hash table of names: number 0 is its own name, number 1 + f that of its checkpoint
 * tensor f. */
enum { NAMES = 1 + MEGA_PARAM_PARTS };

static const char *name_in_slot(const mega_params *p, int32_t slot)
{
    const mega_param *r = &p->param[(slot - 1) / NAMES];
    const int which = (slot - 1) % NAMES;
    return which == 0 ? r->name : mega_param_file_name(r, which - 1);
}

/* Returns the slot of this name in the hash table, or the free slot where it can be inserted. */
static int parameter_slot_of(const mega_params *p, const char *name)
{
    int at = (int)(mega_hash64(MEGA_HASH_START, name, strlen(name)) & (uint64_t)(p->num_slots - 1));
    while (p->slot[at] != 0 && strcmp(name_in_slot(p, p->slot[at]), name) != 0) at = (at + 1) & (p->num_slots - 1);
    return at;
}

/* Inserts the names of a parameter. A checkpoint tensor with the same name as the parameter gets no entry of its
 * own. */
static void insert_names(mega_params *p, int index)
{
    const mega_param *r = &p->param[index];
    p->slot[parameter_slot_of(p, r->name)] = index * NAMES + 1;
    p->names++;
    for (int f = 0; f < r->num_files; f++) {
        const char *name = mega_param_file_name(r, f);
        const int slot = parameter_slot_of(p, name);
        if (strcmp(name, r->name) == 0 || p->slot[slot] != 0) continue; /* the first that shares a tensor names it */
        p->slot[slot] = index * NAMES + 2 + f;
        p->names++;
    }
}

/* Reserves memory for one more record and its names. */
static mega_status parameter_grow(mega_params *p, const char *name)
{
    const int capacity = p->count < p->capacity ? p->capacity : p->capacity == 0 ? 64 : 2 * p->capacity;
    const int num_slots = 2 * (p->names + NAMES) <= p->num_slots ? p->num_slots
                          : p->num_slots == 0                    ? 128
                                                                 : 2 * p->num_slots;
    if (capacity == p->capacity && num_slots == p->num_slots) return MEGA_OK;
    mega_param *grown = mega_realloc(p->param, (size_t)capacity * sizeof *grown);
    if (grown != NULL) p->param = grown;
    int32_t *slots = mega_calloc((size_t)num_slots, sizeof *slots);
    if (grown == NULL || slots == NULL) {
        mega_free(slots);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "parameter %s: no memory for its record", name);
    }
    mega_free(p->slot);
    p->slot = slots;
    p->num_slots = num_slots;
    p->capacity = capacity;
    p->names = 0;
    for (int i = 0; i < p->count; i++) insert_names(p, i);
    return MEGA_OK;
}

/* Copies the file names in the record to memory that mega_params owns. */
static mega_status keep_names(mega_params *p, mega_param *r)
{
    for (int i = 0; i < r->num_parts; i++) {
        if (r->part[i].file == NULL) continue;
        r->part[i].file = mega_arena_strdup(&p->text, r->part[i].file);
        if (r->part[i].file == NULL)
            return MEGA_FAIL(MEGA_ERR_MEMORY, "parameter %s: no memory for its record", r->name);
    }
    return MEGA_OK;
}

/* Whether an entry of the table is a checkpoint tensor that other parameters share, such as file `file` of r. */
static bool shares_tensor(const mega_params *p, int32_t slot, const mega_param *r, int file)
{
    const int which = (slot - 1) % NAMES;
    const mega_param *first = &p->param[(slot - 1) / NAMES];
    int64_t a[2], b[2];
    if (which == 0 || !mega_param_shares_file(r, file) || r->stack_of != first->stack_of) return false;
    if (r->stack_of == 0) return mega_param_file_rows(first, which - 1) == mega_param_file_rows(r, file);
    mega_param_file_shape(r, file, a);
    mega_param_file_shape(first, which - 1, b);
    return a[0] == b[0] && a[1] == b[1] && r->num_dims == first->num_dims &&
           r->transposed_in_file == first->transposed_in_file;
}

/* Checks that each name is text and unique; otherwise messages and lookups by name would be ambiguous. */
static mega_status check_names(const mega_params *p, const mega_param *r)
{
    char text[4 * MEGA_PARAM_NAME];
    for (int f = -1; f < r->num_files; f++) {
        const char *name = f < 0 ? r->name : mega_param_file_name(r, f);
        if (name[0] == '\0' || !mega_name_is_text(name) || strlen(name) >= MEGA_PARAM_NAME)
            return MEGA_MISTAKE("parameter %s: its tensor of the file is called \"%s\"; expected UTF-8 text of 1 to %d "
                                "bytes, path included, without control characters",
                                r->name, mega_name_escape(text, sizeof text, name), MEGA_PARAM_NAME - 1);
        const int32_t found = p->count == 0 ? 0 : p->slot[parameter_slot_of(p, name)];
        if (found == 0 || (f >= 0 && shares_tensor(p, found, r, f))) continue;
        return MEGA_MISTAKE(
            "parameter %s: the name %s is already used by parameter %s or by its tensor in the file; give each "
            "a name of its own",
            r->name, name, p->param[(found - 1) / NAMES].name);
    }
    return MEGA_OK;
}

/* Appends a record. Its name must not exist yet. */
static mega_status parameter_append(mega_params *p, mega_param r, int *out_index)
{
    MEGA_TRY(parameter_check_record(p, &r));
    MEGA_TRY(check_names(p, &r));
    MEGA_TRY(parameter_grow(p, r.name));
    MEGA_TRY(keep_names(p, &r));
    memcpy(r.local_shape, r.shape, sizeof r.shape);
    if (r.axis != MEGA_AXIS_NONE) r.local_shape[r.cut_dim] /= mega_params_axis(p, r.axis).size;
    r.count = r.local_shape[0] * r.local_shape[1];
    r.program = p->program;
    r.bucket = -1;
    r.offset = -1;
    if (out_index != NULL) *out_index = p->count;
    p->param[p->count] = r;
    insert_names(p, p->count++);
    return MEGA_OK;
}

mega_status mega_params_add(mega_params *p, const mega_param *record, int *out_index)
{
    if (p == NULL || record == NULL)
        return MEGA_MISTAKE("mega_params_add: %s is NULL; give it",
                            p == NULL ? "the list of parameters" : "the record");
    if (record->name[0] == '\0' || mega_params_find(p, record->name) >= 0)
        return MEGA_MISTAKE("parameter \"%s\": expected a name that is not empty and not declared twice", record->name);
    char text[4 * MEGA_PARAM_NAME];
    if (!mega_name_is_text(record->name))
        return MEGA_MISTAKE("parameter \"%s\": its name is not UTF-8 text without control characters; choose another",
                            mega_name_escape(text, sizeof text, record->name));
    return parameter_append(p, parameter_complete(p, record), out_index);
}

/* "[24, 8], rows cut in 3 parts" */
static const char *shape_text(char out[96], const mega_param *r, bool with_cut)
{
    int n = snprintf(out, 96, "[%lld", (long long)r->shape[0]);
    n += r->num_dims == 1 ? snprintf(out + n, (size_t)(96 - n), "]")
                          : snprintf(out + n, (size_t)(96 - n), ", %lld]", (long long)r->shape[1]);
    if (!with_cut) return out;
    if (r->axis == MEGA_AXIS_NONE) snprintf(out + n, (size_t)(96 - n), ", not cut");
    else
        snprintf(out + n, (size_t)(96 - n), ", %s cut in %d part%s", r->cut_dim == 0 ? "rows" : "columns", r->num_parts,
                 r->num_parts == 1 ? "" : "s");
    return out;
}

static bool is_shape_equal(const mega_param *a, const mega_param *b)
{
    return a->num_dims == b->num_dims && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

static bool is_cut_equal(const mega_param *a, const mega_param *b)
{
    return a->axis == b->axis &&
           (a->axis == MEGA_AXIS_NONE || (a->cut_dim == b->cut_dim && a->num_parts == b->num_parts));
}

static bool is_rest_equal(const mega_param *a, const mega_param *b)
{
    return a->true_shape[0] == b->true_shape[0] && a->true_shape[1] == b->true_shape[1] &&
           a->transposed_in_file == b->transposed_in_file && a->init == b->init &&
           !(a->init_std < b->init_std || a->init_std > b->init_std) && a->weight_decay == b->weight_decay &&
           a->lr_scale == b->lr_scale && a->own_decay == b->own_decay && a->file_dims == b->file_dims &&
           memcmp(a->file_dim, b->file_dim, sizeof a->file_dim) == 0 && a->is_buffer == b->is_buffer &&
           a->is_frozen == b->is_frozen && a->joins_next == b->joins_next && a->held_by == b->held_by &&
           a->buffer_samples == b->buffer_samples && a->buffer_momentum == b->buffer_momentum &&
           a->in_acc == b->in_acc && a->buffer_choices == b->buffer_choices && a->buffer_rate == b->buffer_rate &&
           a->stack_at == b->stack_at && a->stack_of == b->stack_of && mega_param_parts_equal(a, b);
}

/* Checks a request against the record that the first request declared. A parameter belongs to one program, because each
 * program exchanges its own buckets as soon as it is done with them. */
static mega_status check_request(const mega_param *r, const mega_param *declared, bool has_options, bool is_other_part)
{
    const bool is_cut_other = has_options && !is_cut_equal(r, declared);
    char asked[96], found[96];
    if (!is_shape_equal(r, declared) || is_cut_other)
        return MEGA_MISTAKE(
            "parameter %s: this request is for %s, but an earlier one declared %s; request one shape and "
            "one cut under a name",
            r->name, shape_text(asked, r, is_cut_other), shape_text(found, declared, is_cut_other));
    if (is_other_part)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "parameter %s: two programs of one pipeline stage request it, which is not implemented yet; give "
            "each its own, or make one program a stage",
            r->name);
    if (has_options && !is_rest_equal(r, declared))
        return MEGA_MISTAKE(
            "parameter %s: this request has other options (initial values, weight decay, padding, parts, kind of "
            "buffer, or names in the file) than the first one, which declared it; give the same options, or none",
            r->name);
    return MEGA_OK;
}

mega_status mega_params_request(mega_params *p, const mega_param *record, bool has_options, int *out_index)
{
    const mega_param r = parameter_complete(p, record);
    const int index = mega_params_find(p, r.name);
    MEGA_TRY(parameter_check_options(&r));
    if (index >= 0) {
        const bool is_other_part = !p->placed && p->param[index].program != p->program;
        MEGA_TRY(check_request(&r, &p->param[index], has_options, is_other_part));
        *out_index = index;
        return MEGA_OK;
    }
    if (p->placed)
        return MEGA_MISTAKE(
            "parameter %s: first requested after mega_params_place; describe every program that uses it "
            "before the parameters are placed",
            r.name);
    return parameter_append(p, r, out_index);
}

mega_status mega_params_check_placed(const mega_params *p, const char *call)
{
    if (p == NULL || p->count == 0 || p->placed) return MEGA_OK;
    return MEGA_MISTAKE("%s: the parameters are not placed; call mega_params_place first", call);
}

void mega_params_next_part(mega_params *p)
{
    p->program++;
}

void mega_params_note_table(mega_params *p, int index)
{
    p->param[index].is_table = true;
}

int mega_params_joined(const mega_params *p, int index)
{
    int count = 1;
    if (p == NULL || index < 0 || index >= p->count) return 0;
    while (index >= count && p->param[index - count].joins_next) count++;
    return count;
}

int64_t mega_params_joined_elements(const mega_params *p, int index)
{
    int64_t elements = 0;
    for (int i = 0; i < mega_params_joined(p, index); i++) elements += p->param[index - i].count;
    return elements;
}

int mega_params_find(const mega_params *p, const char *name)
{
    if (p == NULL || name == NULL || p->count == 0) return -1;
    const int32_t found = p->slot[parameter_slot_of(p, name)];
    return found != 0 && (found - 1) % NAMES == 0 ? (found - 1) / NAMES : -1;
}

int mega_params_find_file(const mega_params *p, const char *name, int *out_file)
{
    if (p == NULL || name == NULL || p->count == 0) return -1;
    const int32_t found = p->slot[parameter_slot_of(p, name)];
    if (found == 0) return -1;
    const mega_param *r = &p->param[(found - 1) / NAMES];
    for (*out_file = 0; *out_file < r->num_files; ++*out_file)
        if (strcmp(mega_param_file_name(r, *out_file), name) == 0) return (found - 1) / NAMES;
    return -1; /* a parameter whose tensors all have other names */
}

int mega_params_num_files(const mega_params *p)
{
    int n = 0;
    for (int i = 0; i < mega_params_count(p); i++) n += p->param[i].num_files;
    return n;
}

int mega_params_count(const mega_params *p)
{
    return p == NULL ? 0 : p->count;
}

size_t mega_params_record_bytes(const mega_params *p)
{
    return p == NULL ? 0
                     : (size_t)p->count * sizeof *p->param + (size_t)p->num_slots * sizeof *p->slot +
                           (size_t)p->num_buckets * sizeof *p->bucket + mega_arena_bytes(&p->text);
}

const mega_param *mega_params_get(const mega_params *p, int index)
{
    if (p != NULL && index >= 0 && index < p->count) return &p->param[index];
    (void)MEGA_MISTAKE("parameter %d: expected a number from 0 to %d; mega_params_find gives that of a name", index,
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
    if (p != NULL && !p->placed) (void)MEGA_MISTAKE("bucket %d: there are no buckets before mega_params_place", index);
    else
        (void)MEGA_MISTAKE("bucket %d: expected a number from 0 to %d", index, (p != NULL ? p->num_buckets : 0) - 1);
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
