/* A batch: one column for each named input of the model, filled sample by sample. */
#include "megalith/batch.h"
#include "megalith/device_memory.h"
#include "megalith/memory.h"
#include "megalith/model_parts.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 4 }; /* I32 and F32 both have this size */

typedef struct column {
    mega_batch_input input;
    bool is_read;
    char *values; /* [capacity, per_sample]; NULL: this rank does not read them */
} column;

struct mega_sample {
    mega_batch *batch;
    int64_t row, index;
    uint32_t filled; /* one bit per column */
};
_Static_assert(MEGA_INPUTS <= 32, "mega_sample.filled needs a bit for each column");

struct mega_batch {
    column column[MEGA_INPUTS];
    int columns;
    int64_t capacity, samples;
    int64_t part; /* samples whose weights a loss is divided by; 0: all */
    uint32_t seed;
    mega_sample *sample;
    void *memory; /* of the columns */
};

/* ---- the inputs that a program reads ---- */

/* Returns whether this is the input of the engine that is called `of`, or that for samples of another length. */
static bool is_rows_of(const char *name, const char *of)
{
    const size_t n = strlen(of);
    if (strncmp(name, of, n) != 0) return false;
    return name[n] == '\0' ||
           (name[n] == '.' && name[n + 1] != '\0' && strspn(name + n + 1, "0123456789") == strlen(name + n + 1));
}

static bool is_of_engine(const char *name)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++)
        if (strcmp(name, mega_border_name(MEGA_BORDER_INPUT, v)) == 0 ||
            strcmp(name, mega_border_name(MEGA_BORDER_OUTPUT_GRADIENT, v)) == 0)
            return true;
    return is_rows_of(name, "sample_id") || is_rows_of(name, "seq_position");
}

static mega_status read_input(const mega_program_named *t, int64_t samples, mega_batch_input *out)
{
    int64_t count = 1;
    for (int d = 0; d < t->num_dims; d++) count *= t->dim[d];
    if (strlen(t->name) >= sizeof out->name)
        return MEGA_MISTAKE("input \"%.20s…\": its name has %zu characters; expected at most %zu", t->name,
                            strlen(t->name), sizeof out->name - 1);
    if (t->dim[0] % samples != 0)
        return MEGA_MISTAKE("input \"%s\" has %lld rows; expected a multiple of the %lld samples of a micro-batch",
                            t->name, (long long)t->dim[0], (long long)samples);
    *out = (mega_batch_input){.dtype = t->dtype == MEGA_I32 ? MEGA_I32 : MEGA_F32,
                              .per_sample = count / samples,
                              .below = t->below,
                              .classes = t->is_checked_by_op ? 0 : t->classes,
                              .ignored = t->ignored};
    if (t->weights != NULL) snprintf(out->weights, sizeof out->weights, "%s", t->weights);
    snprintf(out->name, sizeof out->name, "%s", t->name);
    return MEGA_OK;
}

mega_status mega_batch_inputs_of(const mega_program *p, int64_t samples, mega_batch_input out[MEGA_INPUTS],
                                 int *out_count)
{
    mega_program_named t;
    int count = 0;
    for (int i = 0; mega_program_named_get(p, i, &t); i++) {
        if (t.role != MEGA_PROGRAM_INPUT || is_of_engine(t.name)) continue;
        if (count == MEGA_INPUTS)
            return MEGA_MISTAKE("input \"%s\": too many inputs; a program may have at most %d", t.name, MEGA_INPUTS);
        MEGA_TRY(read_input(&t, samples, &out[count]));
        count++;
    }
    *out_count = count;
    return MEGA_OK;
}

/* ---- columns ---- */

mega_status mega_batch_create(int64_t capacity, mega_batch **out)
{
    mega_batch *b = mega_calloc(1, sizeof *b);
    if (b != NULL) b->sample = mega_calloc((size_t)capacity, sizeof *b->sample);
    if (b == NULL || b->sample == NULL) {
        mega_free(b);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "batch: no memory for %lld samples", (long long)capacity);
    }
    b->capacity = capacity;
    for (int64_t i = 0; i < capacity; i++) b->sample[i] = (mega_sample){.batch = b, .row = i};
    *out = b;
    return MEGA_OK;
}

mega_status mega_batch_create_like(const mega_batch *other, mega_batch **out)
{
    MEGA_TRY(mega_batch_create(other->capacity, out));
    (*out)->columns = other->columns;
    (*out)->part = other->part;
    for (int i = 0; i < other->columns; i++)
        (*out)->column[i] = (column){.input = other->column[i].input, .is_read = other->column[i].is_read};
    return MEGA_OK;
}

void mega_batch_set_part(mega_batch *b, int64_t samples)
{
    b->part = samples;
}

void mega_batch_destroy(mega_batch *b)
{
    if (b == NULL) return;
    mega_free(b->memory);
    mega_free(b->sample);
    mega_free(b);
}

static int batch_find(const mega_batch *b, const char *name)
{
    for (int i = 0; i < b->columns; i++)
        if (strcmp(b->column[i].input.name, name) == 0) return i;
    return -1;
}

/* Joins what programs say about the labels of an input. */
static void join_labels(mega_batch_input *in, const mega_batch_input *more)
{
    if (more->classes == 0) return;
    if (in->classes == 0 || in->ignored == MEGA_IGNORED_LABEL) in->ignored = more->ignored;
    if (in->classes == 0 || more->classes < in->classes) in->classes = more->classes;
    if (in->weights[0] == '\0') memcpy(in->weights, more->weights, sizeof in->weights);
}

mega_status mega_batch_add(mega_batch *b, const mega_batch_input *input, bool is_read)
{
    const int at = batch_find(b, input->name);
    if (at < 0 && b->columns == MEGA_INPUTS)
        return MEGA_MISTAKE("input \"%s\": too many inputs; a model may have at most %d", input->name, MEGA_INPUTS);
    column *c = &b->column[at < 0 ? b->columns++ : at];
    if (at < 0) c->input = *input;
    if (c->input.dtype != input->dtype || c->input.per_sample != input->per_sample)
        return MEGA_MISTAKE(
            "input \"%s\" is requested as %lld numbers per sample of type %s, but elsewhere in the model "
            "as %lld of type %s; request the same size and type under one name",
            input->name, (long long)input->per_sample, mega_dtype_name((mega_dtype)input->dtype),
            (long long)c->input.per_sample, mega_dtype_name((mega_dtype)c->input.dtype));
    if (c->input.below == 0 || (input->below > 0 && input->below < c->input.below)) c->input.below = input->below;
    join_labels(&c->input, input);
    c->is_read = c->is_read || is_read;
    return MEGA_OK;
}

int mega_batch_num_inputs(const mega_batch *b)
{
    return b->columns;
}

const mega_batch_input *mega_batch_input_get(const mega_batch *b, int number)
{
    return number >= 0 && number < b->columns ? &b->column[number].input : NULL;
}

static size_t column_bytes(const mega_batch *b, const column *c)
{
    return c->is_read ? (size_t)b->capacity * (size_t)c->input.per_sample * NUMBER_BYTES : 0;
}

size_t mega_batch_bytes(const mega_batch *b)
{
    size_t bytes = 0;
    for (int i = 0; i < b->columns; i++) bytes += column_bytes(b, &b->column[i]);
    return bytes;
}

mega_status mega_batch_allocate(mega_batch *b)
{
    const size_t bytes = mega_batch_bytes(b);
    char *at = b->memory = mega_calloc(1, bytes + 1);
    if (at == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "batch: no memory for %zu bytes of samples", bytes);
    for (int i = 0; i < b->columns; i++) {
        column *c = &b->column[i];
        if (c->is_read) c->values = at;
        at += column_bytes(b, c);
    }
    return MEGA_OK;
}

/* ---- samples ---- */

void mega_batch_begin(mega_batch *b, int64_t samples)
{
    b->samples = samples < b->capacity ? samples : b->capacity;
    for (int64_t i = 0; i < b->samples; i++) {
        b->sample[i].index = 0;
        b->sample[i].filled = 0;
    }
}

void mega_batch_set_index(mega_batch *b, int64_t i, int64_t index)
{
    b->sample[i].index = index;
}

bool mega_batch_is_of_same_samples(const mega_batch *a, const mega_batch *b)
{
    if (a->samples != b->samples) return false;
    for (int64_t i = 0; i < a->samples; i++)
        if (a->sample[i].index != b->sample[i].index) return false;
    return true;
}

void mega_batch_set_seed(mega_batch *b, uint32_t seed)
{
    b->seed = seed;
}

int64_t mega_batch_num_samples(const mega_batch *b)
{
    return b != NULL ? b->samples : 0;
}

mega_sample *mega_batch_sample(mega_batch *b, int64_t i)
{
    return b != NULL && i >= 0 && i < b->samples ? &b->sample[i] : NULL;
}

static bool is_sample(const mega_sample *s, const char *call)
{
    if (s == NULL) (void)MEGA_MISTAKE("%s: sample is NULL; expected a sample of a batch", call);
    return s != NULL;
}

int64_t mega_sample_index(const mega_sample *s)
{
    return is_sample(s, "mega_sample_index") ? s->index : -1;
}

uint32_t mega_sample_seed(const mega_sample *s)
{
    return is_sample(s, "mega_sample_seed") ? s->batch->seed : 0;
}

static bool batch_fits(const column *c, mega_dtype dtype, int64_t count)
{
    return c->input.dtype == (int64_t)dtype && c->input.per_sample == count;
}

/* Returns where the values go; NULL if this rank does not keep them. */
static void *batch_take(mega_sample *s, int at)
{
    const column *c = &s->batch->column[at];
    s->filled |= 1U << at;
    return c->values == NULL ? NULL : c->values + (size_t)(s->row * c->input.per_sample) * NUMBER_BYTES;
}

static mega_status batch_refuse(const mega_batch *b, const char *name, mega_dtype dtype, int64_t count)
{
    mega_buffer all = {0};
    for (int i = 0; i < b->columns; i++)
        mega_buffer_printf(&all, "%s\"%s\" (%lld, %s)", i > 0 ? ", " : "", b->column[i].input.name,
                           (long long)b->column[i].input.per_sample,
                           mega_dtype_name((mega_dtype)b->column[i].input.dtype));
    mega_status st = mega_buffer_check(&all, "the names of inputs");
    if (st == MEGA_OK)
        st = MEGA_MISTAKE("sample: \"%s\" is filled with %lld numbers of type %s, but the model has no input of that "
                          "name, number and type; its inputs, with their numbers per sample, are %s",
                          name, (long long)count, mega_dtype_name(dtype), b->columns > 0 ? all.data : "none");
    mega_buffer_fini(&all);
    return st;
}

static mega_status batch_set(mega_sample *s, const char *name, mega_dtype dtype, const void *values, int64_t count)
{
    if (s == NULL || name == NULL || values == NULL)
        return MEGA_MISTAKE("sample: %s", s == NULL
                                              ? "the sample is NULL; a batch has as many as mega_batch_num_samples says"
                                          : name == NULL ? "the name of the input is NULL; give it"
                                                         : "the array of values is NULL; give it");
    const int at = batch_find(s->batch, name);
    if (at < 0 || !batch_fits(&s->batch->column[at], dtype, count)) return batch_refuse(s->batch, name, dtype, count);
    void *to = batch_take(s, at);
    if (to != NULL) memcpy(to, values, (size_t)count * NUMBER_BYTES);
    return MEGA_OK;
}

mega_status mega_sample_set_f32(mega_sample *s, const char *input, const float *values, int64_t count)
{
    return batch_set(s, input, MEGA_F32, values, count);
}

mega_status mega_sample_set_i32(mega_sample *s, const char *input, const int32_t *values, int64_t count)
{
    return batch_set(s, input, MEGA_I32, values, count);
}

static void *batch_place(mega_sample *s, const char *name, mega_dtype dtype, int64_t count)
{
    if (s == NULL) return NULL;
    const int at = batch_find(s->batch, name);
    return at >= 0 && batch_fits(&s->batch->column[at], dtype, count) ? batch_take(s, at) : NULL;
}

int32_t *mega_sample_i32(mega_sample *s, const char *input, int64_t count)
{
    return batch_place(s, input, MEGA_I32, count);
}

float *mega_sample_f32(mega_sample *s, const char *input, int64_t count)
{
    return batch_place(s, input, MEGA_F32, count);
}

/* ---- checks ---- */

static mega_status check_range(const column *c, const mega_sample *s)
{
    const int64_t n = c->input.per_sample;
    const int32_t *value = (const int32_t *)(const void *)c->values + s->row * n;
    for (int64_t i = 0; i < n; i++)
        if (value[i] < 0 || value[i] >= c->input.below)
            return MEGA_MISTAKE("input \"%s\": number %lld of sample %lld (row %lld of the batch) is %d; expected 0 to "
                                "%lld",
                                c->input.name, (long long)i, (long long)s->index, (long long)s->row, value[i],
                                (long long)c->input.below - 1);
    return MEGA_OK;
}

/* The weights of the rows of labels; NULL: they have none. */
static const float *weights_of(const mega_batch *b, const column *labels)
{
    const int at = labels->input.weights[0] != '\0' ? batch_find(b, labels->input.weights) : -1;
    if (at < 0 || b->column[at].values == NULL || b->column[at].input.dtype != MEGA_F32) return NULL;
    const bool are_alike = b->column[at].input.per_sample == labels->input.per_sample;
    return are_alike ? (const float *)(const void *)b->column[at].values : NULL;
}

/* A loss is divided by the weights of the rows whose label is not ignored; if they sum to 0, no row counts. */
static mega_status check_weights(const mega_batch *b, const column *labels, const float *weight)
{
    const int32_t *label = (const int32_t *)(const void *)labels->values;
    const int64_t n = labels->input.per_sample, part = b->part > 0 ? b->part : b->samples;
    for (int64_t first = 0; weight != NULL && first < b->samples; first += part) {
        const int64_t end = first + part < b->samples ? first + part : b->samples;
        double sum = 0;
        for (int64_t i = first * n; i < end * n; i++) sum += label[i] == labels->input.ignored ? 0 : (double)weight[i];
        if (!(sum < 0)) continue;
        return MEGA_MISTAKE(
            "input \"%s\": weights sum to %g in micro-batch %lld (samples %lld to %lld, rows %lld to %lld "
            "of the batch); expected 0 or more, because its loss is divided by them",
            labels->input.weights, sum, (long long)(first / part), (long long)b->sample[first].index,
            (long long)b->sample[end - 1].index, (long long)first, (long long)end - 1);
    }
    return MEGA_OK;
}

static mega_status check_labels(const mega_batch *b, const column *c, const mega_sample *s)
{
    const int64_t n = c->input.per_sample, first = s->row * n;
    const int32_t *label = (const int32_t *)(const void *)c->values + first;
    const float *weight = weights_of(b, c);
    if (s->row == 0) MEGA_TRY(check_weights(b, c, weight));
    for (int64_t i = 0; i < n; i++) {
        if ((label[i] >= 0 && label[i] < c->input.classes) || label[i] == c->input.ignored) continue;
        if (weight != NULL && weight[first + i] == 0) continue;
        return MEGA_MISTAKE(
            "input \"%s\": label %d (number %lld of sample %lld, row %lld of the batch); expected 0 to "
            "%lld, one of %lld classes, or %lld, which is ignored; number labels from 0, or give the row "
            "weight 0",
            c->input.name, label[i], (long long)i, (long long)s->index, (long long)s->row,
            (long long)c->input.classes - 1, (long long)c->input.classes, (long long)c->input.ignored);
    }
    return MEGA_OK;
}

mega_status mega_batch_check(const mega_batch *b)
{
    for (int64_t r = 0; r < b->samples; r++)
        for (int i = 0; i < b->columns; i++) {
            const column *c = &b->column[i];
            if (c->values == NULL) continue;
            if ((b->sample[r].filled >> i & 1U) == 0)
                return MEGA_MISTAKE("input \"%s\" of sample %lld (row %lld of the batch) is not filled; fill it with "
                                    "mega_sample_set_%s",
                                    c->input.name, (long long)b->sample[r].index, (long long)r,
                                    c->input.dtype == MEGA_I32 ? "i32" : "f32");
            if (c->input.below > 0) MEGA_TRY(check_range(c, &b->sample[r]));
        }
    for (int i = 0; i < b->columns; i++) /* when all weights are known to be filled */
        for (int64_t r = 0; r < b->samples && b->column[i].values != NULL && b->column[i].input.classes > 0; r++)
            MEGA_TRY(check_labels(b, &b->column[i], &b->sample[r]));
    return MEGA_OK;
}

/* ---- writing into a program ---- */

enum { PIECE = 512 }; /* numbers that are made on the host before they are written */

/* An input of a program, and what its numbers come from. */
typedef struct source {
    mega_program_named named;
    const mega_batch *batch;
    const column *column; /* NULL: the engine numbers the samples (is_index) or the positions of each */
    bool is_index;
    int64_t first, samples, per_sample; /* samples of the batch; numbers that the program reads of each */
} source;

/* Numbers [at, at + count) of a sample of a source. */
typedef struct part {
    int64_t sample, at, count;
} part;

/* Returns how many numbers of a sample a program reads. */
static int64_t read_per_sample(const mega_program_named *t, int64_t samples)
{
    int64_t count = 1;
    for (int d = 0; d < t->num_dims; d++) count *= t->dim[d];
    return count / samples;
}

/* Returns false if nothing fills this tensor of the program. */
static bool find_source(const mega_batch *b, int64_t first, int64_t samples, const mega_program_named *t, source *out)
{
    const int at = batch_find(b, t->name);
    *out = (source){.named = *t,
                    .batch = b,
                    .column = at >= 0 && b->column[at].values != NULL ? &b->column[at] : NULL,
                    .is_index = is_rows_of(t->name, "sample_id"),
                    .first = first,
                    .samples = samples,
                    .per_sample = read_per_sample(t, samples)};
    if (t->role != MEGA_PROGRAM_INPUT) return false;
    return out->column != NULL || out->is_index || is_rows_of(t->name, "seq_position");
}

/* Returns the numbers of a sample from `at` on, as the batch holds them. */
static const void *source_values(const source *s, int64_t sample, int64_t at)
{
    return s->column->values + (size_t)((s->first + sample) * s->column->input.per_sample + at) * NUMBER_BYTES;
}

static void source_read_whole(const source *s, part of, int32_t *out)
{
    const int32_t index = (int32_t)(uint32_t)s->batch->sample[s->first + of.sample].index;
    if (s->column != NULL) memcpy(out, source_values(s, of.sample, of.at), (size_t)of.count * sizeof *out);
    for (int64_t i = 0; i < of.count && s->column == NULL; i++) out[i] = s->is_index ? index : (int32_t)(of.at + i);
}

/* Converts F32 to the compute type of the program. */
static void batch_convert(void *out, mega_dtype dtype, const float *in, int64_t count)
{
    if (dtype == MEGA_F64)
        for (int64_t i = 0; i < count; i++) ((double *)out)[i] = in[i];
    else
        mega_half_narrow(out, in, count, dtype);
}

/* Whether these labels say of the rows of the program's input t which of them count. */
static bool leaves_out(const mega_program_named *labels, const mega_program *p, const mega_program_named *t)
{
    return labels->leaves_out && labels->weights != NULL && strcmp(labels->weights, t->name) == 0 &&
           mega_program_tensor_bytes(p, labels->name) == mega_program_tensor_bytes(p, t->name);
}

/* Rows with the ignored label get the weight 0: where labels are those of a vocabulary, kernels look at the weight
 * alone. */
static void leave_out_ignored(const source *weights, const mega_program *p, part of, float *weight)
{
    mega_program_named t;
    source labels;
    int32_t label[PIECE];
    for (int i = 0; mega_program_named_get(p, i, &t); i++) {
        if (!leaves_out(&t, p, &weights->named)) continue;
        if (!find_source(weights->batch, weights->first, weights->samples, &t, &labels)) continue;
        source_read_whole(&labels, of, label);
        for (int64_t k = 0; k < of.count; k++)
            if (label[k] == t.ignored) weight[k] = 0;
    }
}

/* Makes numbers of an input as the program reads them. */
static void source_make(const source *s, const mega_program *p, part of, void *out)
{
    if (s->named.dtype == MEGA_I32) {
        source_read_whole(s, of, out);
        return;
    }
    const float *from = source_values(s, of.sample, of.at);
    if (s->named.dtype != MEGA_F32) batch_convert(out, s->named.dtype, from, of.count);
    else {
        memcpy(out, from, (size_t)of.count * sizeof *from);
        leave_out_ignored(s, p, of, out);
    }
}

/* Whether a program reads these numbers as the batch holds them. */
static bool is_read_as_held(const source *s, const mega_program *p)
{
    mega_program_named t;
    if (s->column == NULL || (s->named.dtype != MEGA_I32 && s->named.dtype != MEGA_F32)) return false;
    for (int i = 0; mega_program_named_get(p, i, &t); i++)
        if (leaves_out(&t, p, &s->named)) return false;
    return true;
}

/* Writes numbers that are made on the host, as many at a time as there is room for. */
static void source_write_made(const source *s, const mega_program *p, char *to)
{
    double made[16 * PIECE]; /* of any type */
    const size_t size = mega_dtype_size(s->named.dtype);
    size_t held = 0;
    for (int64_t i = 0; i < s->samples; i++)
        for (int64_t at = 0; at < s->per_sample; at += PIECE) {
            const part of = {i, at, s->per_sample - at < PIECE ? s->per_sample - at : PIECE};
            if (held + (size_t)of.count * size > sizeof made) {
                mega_device_write(to, made, held);
                to += held;
                held = 0;
            }
            source_make(s, p, of, (char *)made + held);
            held += (size_t)of.count * size;
        }
    mega_device_write(to, made, held);
}

static void source_write(const source *s, const mega_program *p, char *to)
{
    const size_t bytes = (size_t)s->per_sample * mega_dtype_size(s->named.dtype);
    if (!is_read_as_held(s, p)) source_write_made(s, p, to);
    else if (s->column->input.per_sample == s->per_sample) /* one after the other in the batch, too */
        mega_device_write(to, source_values(s, 0, 0), (size_t)s->samples * bytes);
    else
        for (int64_t i = 0; i < s->samples; i++)
            mega_device_write(to + (size_t)i * bytes, source_values(s, i, 0), bytes);
}

void mega_batch_load(const mega_batch *b, int64_t first, int64_t samples, mega_program *p, int slot)
{
    mega_program_named t;
    source s;
    for (int i = 0; mega_program_named_get(p, i, &t); i++) {
        char *to = find_source(b, first, samples, &t, &s) ? mega_program_tensor(p, t.name, slot) : NULL;
        if (to != NULL) source_write(&s, p, to);
    }
}

mega_status mega_batch_check_shorter(const mega_batch *b, const mega_program *p, int64_t samples, int64_t positions,
                                     int64_t whole)
{
    mega_program_named t;
    for (int i = 0; mega_program_named_get(p, i, &t); i++) {
        const int at = t.role == MEGA_PROGRAM_INPUT ? batch_find(b, t.name) : -1;
        if (at < 0) continue;
        const mega_batch_input *in = &b->column[at].input;
        const int64_t n = in->per_sample, count = read_per_sample(&t, samples);
        if (t.below > 0 && t.below < in->below)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "input \"%s\" is below %lld in samples of %lld positions, and below %lld in samples of "
                             "%lld; a curriculum takes numbers as they are, so that the bound must not depend on the "
                             "length",
                             t.name, (long long)in->below, (long long)whole, (long long)t.below, (long long)positions);
        if (count == n || count * whole == n * positions) continue;
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "input \"%s\": a sample of %lld positions has %lld numbers, one of %lld has %lld; a curriculum "
            "takes the first numbers of each sample, so that every position must have as many",
            t.name, (long long)whole, (long long)n, (long long)positions, (long long)count);
    }
    return MEGA_OK;
}
