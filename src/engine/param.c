/* Whole parameters, gradients and optimizer states by name. A get gathers the parts of all ranks to every rank; a set
 * writes this rank's part of the values that all ranks pass. */
#include "engine_calls.h"
#include "megalith/device_memory.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/optimizer_state.h"
#include <stdio.h>
#include <string.h>

typedef enum param_kind { PARAM_WEIGHT, PARAM_GRADIENT, PARAM_STATE } param_kind;

/* A parameter of the model, or one of its checkpoint tensors, and the part of it that this rank holds: elements first
 * to first + count - 1 of its slice of the parameter. */
typedef struct param_tensor {
    const mega_param *param;
    int file; /* number of the checkpoint tensor; -1: the whole parameter */
    param_kind kind;
    void *data; /* of type `dtype`; NULL: this rank holds none of it */
    mega_dtype dtype;
    int64_t first, count;
    int64_t real[2], local[2]; /* rows and columns of the caller's tensor; of this rank's slice */
    mega_param_cut cut;
    mega_param_stretch stretch[MEGA_PARAM_PARTS];
    int cut_dim, num_stretches;
    bool is_counted; /* this rank contributes its part to a get */
} param_tensor;

static void param_extent(const mega_param *p, const int64_t shape[2], int64_t out[2])
{
    out[0] = p->num_dims == 1 ? 1 : shape[0];
    out[1] = p->num_dims == 1 ? shape[0] : shape[1];
}

mega_status mega_engine_param_info(const mega_engine *e, int index, const char **out_name, int64_t *out_rows,
                                   int64_t *out_columns)
{
    static const char call[] = "mega_engine_param_info";
    MEGA_TRY(engine_check_given(e, call, "out_name", out_name));
    MEGA_TRY(engine_check_given(e, call, "out_rows", out_rows));
    MEGA_TRY(engine_check_given(e, call, "out_columns", out_columns));
    const mega_params *whole = mega_engine_whole(e);
    if (index < 0 || index >= mega_params_count(whole))
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: parameter %d; the model has parameters 0 to %d", call, index,
                         mega_params_count(whole) - 1);
    const mega_param *p = mega_params_get(whole, index);
    *out_name = p->name;
    *out_rows = p->true_shape[0];
    *out_columns = p->num_dims == 1 ? 0 : p->true_shape[1];
    return MEGA_OK;
}

/* ---- finding a tensor ---- */

static mega_status no_such_param(const mega_engine *e, const char *call, const char *name)
{
    const mega_params *whole = mega_engine_whole(e);
    const size_t params = (size_t)mega_params_count(whole), most = params + (size_t)mega_params_num_files(whole);
    const char **names = mega_calloc(most + 1, sizeof *names);
    if (names == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a list of %zu names", call, most);
    size_t count = params;
    for (size_t i = 0; i < params; i++) {
        const mega_param *p = mega_params_get(whole, (int)i);
        names[i] = p->name;
        for (int f = 0; f < mega_param_num_files(p); f++) names[count++] = mega_param_file_name(p, f);
    }
    const char *near = mega_options_nearest(name, names, count);
    mega_free(names);
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                     "%s: the model has no parameter \"%s\"%s%s%s; mega_engine_param_info lists them", call, name,
                     near != NULL ? " (did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?)" : "");
}

/* Converts the argument `what` to a kind. For an optimizer state, *moment receives its number. */
static mega_status param_find_kind(const mega_engine *e, const char *call, const char *what, param_kind *kind,
                                   int *moment)
{
    const int states =
        e->optimizer != NULL ? mega_optimizer_num_moments(e->optimizer) - mega_optimizer_num_errors(e->optimizer) : 0;
    *kind = PARAM_WEIGHT;
    if (what == NULL) return MEGA_OK;
    *kind = PARAM_GRADIENT;
    if (strcmp(what, "grad") == 0 && e->gradients.are_summed) return MEGA_OK;
    if (strcmp(what, "grad") == 0)
        return MEGA_MISTAKE(
            "%s: there is no gradient now; it is there from the mega_engine_backward of an accumulation "
            "boundary (or mega_engine_train_batch) to the next forward",
            call);
    *kind = PARAM_STATE;
    for (*moment = 0; *moment < states; ++*moment)
        if (strcmp(what, mega_optimizer_moment_name(e->optimizer, *moment)) == 0) return MEGA_OK;
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < states; i++) {
        const int n =
            snprintf(names + used, sizeof names - used, ", \"%s\"", mega_optimizer_moment_name(e->optimizer, i));
        used += n > 0 && used + (size_t)n < sizeof names ? (size_t)n : 0;
    }
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: \"%s\" of a parameter; expected NULL for the weight, \"grad\"%s", call,
                     what, names);
}

static void *param_weight(const mega_engine *e, int own)
{
    return e->optimizer != NULL ? mega_optimizer_weight(e->optimizer, own) : mega_params_master(e->params, own);
}

/* Fills in which part of the tensor this rank holds. If several ranks hold the same numbers, is_counted is true on
 * one. */
static void param_bind(const mega_engine *e, int moment, param_tensor *t)
{
    const mega_layout *at = e->layout;
    const mega_param *p = t->param;
    const int own = mega_params_find(e->params, p->name);
    int64_t shape[2] = {p->true_shape[0], p->true_shape[1]};
    if (t->file >= 0) mega_param_file_shape(p, t->file, shape);
    param_extent(p, shape, t->real);
    param_extent(p, p->shape, t->local);
    t->cut_dim = p->num_dims == 1 ? 1 : p->cut_dim;
    t->cut = mega_params_cut(e->params, p);
    t->num_stretches = mega_param_stretches(p, t->cut, t->stretch);
    if (t->cut.size > 0) t->local[t->cut_dim] /= t->cut.size;
    if (own < 0) return; /* another stage holds it */
    const mega_param *mine = mega_params_get(e->params, own);
    const mega_range owned = mega_params_owned(e->params, own);
    t->first = owned.first;
    t->count = owned.count;
    t->dtype =
        t->kind == PARAM_GRADIENT ? mega_params_grad_dtype(e->params, mine->bucket) : mega_params_acc_dtype(e->params);
    t->data = t->kind == PARAM_WEIGHT  ? param_weight(e, own)
              : t->kind == PARAM_STATE ? mega_optimizer_moment(e->optimizer, moment, own)
                                       : mega_params_grad_at(e->params, mine->bucket, mine->offset + owned.first);
    if (t->data == NULL) t->count = 0; /* gradient or optimizer state of a frozen parameter: zeros */
    t->is_counted =
        mine->tie != MEGA_TIE_COPY && (t->cut.size > 0 || at->tp.rank == 0) &&
        mega_params_group(e->params, mine->bucket).rank == mega_params_bucket_shards(e->params, mine->bucket).rank;
}

static mega_status param_find(const mega_engine *e, const char *call, const char *name, const char *what, int64_t count,
                              param_tensor *out)
{
    int moment = 0;
    param_tensor t = {.data = NULL};
    MEGA_TRY(engine_check_given(e, call, "name", name));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_weights(e, call));
    int index = mega_params_find(mega_engine_whole(e), name);
    t.file = -1;
    if (index < 0) index = mega_params_find_file(mega_engine_whole(e), name, &t.file);
    if (index < 0) return no_such_param(e, call, name);
    t.param = mega_params_get(mega_engine_whole(e), index);
    if (t.file >= 0 && mega_param_shares_file(t.param, t.file))
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: the numbers of \"%s\" are in several parameters, %s; ask for those by their names, such "
                         "as \"%s\"",
                         call, name,
                         t.param->stack_of > 0 ? "one an expert" : "as tp does not divide the key/value heads",
                         t.param->name);
    MEGA_TRY(param_find_kind(e, call, what, &t.kind, &moment));
    param_bind(e, moment, &t);
    if (count != t.real[0] * t.real[1])
        return MEGA_MISTAKE("%s: %s has %lld elements (%lld x %lld), count is %lld", call, name,
                            (long long)(t.real[0] * t.real[1]), (long long)t.real[0], (long long)t.real[1],
                            (long long)count);
    *out = t;
    return MEGA_OK;
}

/* Collective over the world. Checks that all ranks pass the same arguments: otherwise their tensors or values would be
 * mixed up. */
static mega_status param_compare(const mega_engine *e, const char *call, const char *name, const char *what,
                                 const float *values, int64_t count)
{
    uint64_t hash = mega_hash64(MEGA_HASH_START, name, strlen(name) + 1);
    if (what != NULL) hash = mega_hash64(hash, what, strlen(what) + 1);
    if (values != NULL) hash = mega_hash64(hash, values, (size_t)count * sizeof *values);
    const int64_t number = (int64_t)(hash >> 2);
    int64_t most[2] = {number, -number};
    mega_comm *world = e->layout->world.comm;
    MEGA_TRY(mega_comm_all_reduce(world, "a parameter by name", most, 2, MEGA_I64, MEGA_REDUCE_MAX));
    mega_status st = MEGA_OK;
    if (most[0] != -most[1])
        st = MEGA_MISTAKE("%s: the ranks %s (rank %d: %s%s%s); call it with the same on all", call,
                          values != NULL ? "pass different values or names" : "ask for different tensors",
                          e->layout->world.rank, name, what != NULL ? ", " : "", what != NULL ? what : "");
    return mega_comm_agree(world, st);
}

/* ---- copying ---- */

/* Returns the element of the caller's tensor that corresponds to element i of this rank's part; -1: element i is
 * padding, or belongs to another tensor. */
static int64_t param_element(const param_tensor *t, int64_t i)
{
    const int64_t at = t->first + i;
    int64_t place[2] = {at / t->local[1], at % t->local[1]}, *cut = &place[t->cut_dim];
    int k = t->num_stretches - 1;
    while (t->stretch[k].local > *cut) k--;
    const mega_param_stretch *s = &t->stretch[k];
    const int64_t within = *cut - s->local;
    if (t->file >= 0 && s->tensor != t->file) return -1;
    *cut = t->file < 0 ? s->whole + within : s->file + within / s->rows * s->stride + within % s->rows;
    return place[0] < t->real[0] && place[1] < t->real[1] ? place[0] * t->real[1] + place[1] : -1;
}

/* Elements of a tensor are read and written by windows of this many. */
enum { PARAM_WINDOW = 8192 };
typedef union param_window {
    float of_32[PARAM_WINDOW];
    double of_64[PARAM_WINDOW];
    uint16_t of_16[PARAM_WINDOW];
} param_window;

static double window_get(const param_window *w, mega_dtype dtype, int64_t i)
{
    if (dtype == MEGA_F64) return w->of_64[i];
    return mega_dtype_is_half(dtype) ? mega_half_to_f32(w->of_16[i], dtype) : w->of_32[i];
}

static void window_set(param_window *w, mega_dtype dtype, int64_t i, double value)
{
    if (dtype == MEGA_F64) w->of_64[i] = value;
    else if (mega_dtype_is_half(dtype))
        w->of_16[i] = mega_f32_to_half((float)value, dtype);
    else
        w->of_32[i] = (float)value;
}

/* Returns the elements of the window that begins with element `first` of this rank's part, and where they are. */
static int64_t window_at(const param_tensor *t, int64_t first, char **at, size_t *bytes)
{
    const int64_t left = t->count - first, n = left < PARAM_WINDOW ? left : PARAM_WINDOW;
    *at = (char *)t->data + first * (int64_t)mega_dtype_size(t->dtype);
    *bytes = (size_t)n * mega_dtype_size(t->dtype);
    return n;
}

static void param_read_all(const mega_engine *e, const param_tensor *t, float *out)
{
    const double factor = t->kind == PARAM_GRADIENT ? e->gradients.correction : 1.0;
    param_window w;
    char *part;
    size_t bytes;
    for (int64_t first = 0; first < t->count; first += PARAM_WINDOW) {
        const int64_t n = window_at(t, first, &part, &bytes);
        mega_device_read(&w, part, bytes);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = param_element(t, first + i);
            if (at >= 0) out[at] = (float)(window_get(&w, t->dtype, i) * factor);
        }
    }
}

static void param_write_all(const mega_engine *e, const param_tensor *t, const float *values)
{
    const double factor = t->kind == PARAM_GRADIENT ? e->gradients.correction : 1.0;
    param_window w;
    char *part;
    size_t bytes;
    for (int64_t first = 0; first < t->count; first += PARAM_WINDOW) {
        const int64_t n = window_at(t, first, &part, &bytes);
        mega_device_read(&w, part, bytes); /* what is not the caller's stays */
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = param_element(t, first + i);
            if (at >= 0) window_set(&w, t->dtype, i, factor != 0 ? (double)values[at] / factor : 0);
        }
        mega_device_write(part, &w, bytes);
    }
}

/* A schedule-free optimizer goes on from new weights with all of its points there. */
static void param_write_average(const mega_engine *e, const param_tensor *t, const float *values)
{
    param_tensor point = *t;
    const int own = mega_params_find(e->params, t->param->name);
    if (e->optimizer == NULL || !mega_optimizer_averages(e->optimizer) || own < 0) return;
    for (int m = 0; m < 2; m++) { /* y and z */
        point.data = mega_optimizer_moment(e->optimizer, m, own);
        if (point.data != NULL) param_write_all(e, &point, values);
    }
}

static mega_status get_whole(mega_engine *e, const char *name, const char *what, int64_t count, float *out)
{
    static const char call[] = "mega_engine_get_param";
    param_tensor t = {.data = NULL};
    mega_status st = engine_check_given(e, call, "out", out);
    if (st == MEGA_OK) st = param_find(e, call, name, what, count, &t);
    MEGA_TRY(engine_begin_call(e, st));
    MEGA_TRY(param_compare(e, call, name, what, NULL, 0));
    memset(out, 0, (size_t)count * sizeof *out);
    if (t.is_counted) param_read_all(e, &t, out);
    MEGA_TRY(engine_agree_read(e));
    /* exactly one rank contributes each element; the others add 0 */
    return mega_comm_all_reduce(e->layout->world.comm, "a whole parameter", out, count, MEGA_F32, MEGA_REDUCE_SUM);
}

mega_status mega_engine_get_param(mega_engine *e, const char *name, const char *what, int64_t count, float *out)
{
    MEGA_TRY(engine_enter(e, "mega_engine_get_param"));
    return engine_leave(e, get_whole(e, name, what, count, out));
}

static mega_status set_whole(mega_engine *e, const char *name, const char *what, int64_t count, const float *values)
{
    static const char call[] = "mega_engine_set_param";
    param_tensor t = {.data = NULL};
    mega_status st = engine_check_given(e, call, "values", values);
    if (st == MEGA_OK) st = param_find(e, call, name, what, count, &t);
    if (st == MEGA_OK && t.kind == PARAM_WEIGHT && e->micro.phase == ENGINE_FORWARDED)
        st = MEGA_MISTAKE("%s: the backward pass still reads the weights of its forward; call "
                          "mega_engine_backward first",
                          call);
    MEGA_TRY(engine_begin_call(e, st));
    MEGA_TRY(param_compare(e, call, name, what, values, count));
    param_write_all(e, &t, values);
    if (t.kind != PARAM_WEIGHT) return engine_agree_read(e);
    param_write_average(e, &t, values);
    for (int c = 0; c < e->programs.chunks && e->programs.train != NULL;
         c++) /* weights packed earlier in this step are outdated */
        mega_program_step_block(e->programs.chunk[c].train)->keeps_packed = false;
    return engine_agree(e, mega_params_publish(e->params));
}

mega_status mega_engine_set_param(mega_engine *e, const char *name, const char *what, int64_t count,
                                  const float *values)
{
    MEGA_TRY(engine_enter(e, "mega_engine_set_param"));
    return engine_leave(e, set_whole(e, name, what, count, values));
}
