/* The optimizer over flat buffers, with ZeRO over this rank's slices of them. optim.h explains runs. */
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/optim.h"
#include "optimizer_row.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters are placed with small alignment gaps between them. A run includes gaps of up to this many elements: they
 * are zero in every buffer and stay zero under both updates. Parameters that are not trained are not gaps: they end a
 * run. */
enum { GAP_ELEMENTS = 64 };

typedef struct run {
    int64_t begin, end; /* elements of the flat buffers, inside one bucket */
    int bucket;
    bool decay;
    double lr_scale;
} run;

struct mega_optimizer {
    mega_optimizer_options options;
    mega_params *params;
    const mega_layout *layout;
    int *order; /* indices of parameters, ordered by offset */
    run *update, *counted;
    int num_update, num_counted;
    int64_t walked; /* elements of the counted runs of all ranks of dp */
    void *moment[MEGA_OPTIMIZER_STATES];
    bool is_allocated;
    bool is_lent; /* the moments are in a region of the caller's */
    const mega_optimizer_row *row;
    const optimizer_builtin *builtin; /* whose row this is; NULL: it is the caller's */
    double option[OPTIMIZER_OPTIONS]; /* of a built-in row */
    optimizer_work *work;             /* [num_update] */
    void *norm_scratch;
    size_t norm_scratch_bytes;
    int64_t updates;
};

static int moments_of(const mega_optimizer *o)
{
    return mega_optimizer_row_states(o->row);
}

static const mega_kernel *norm_kernel(const mega_optimizer *o)
{
    return o->options.plain ? &mega_plain_norm : &mega_cpu_norm;
}

static size_t acc_size(const mega_optimizer *o)
{
    return mega_dtype_size(mega_params_acc_dtype(o->params));
}

static size_t moment_bytes(const mega_optimizer *o)
{
    return (size_t)mega_params_state_elements(o->params) * acc_size(o);
}

/* Returns whether this rank counts the parameter in norms, so that each counts once over the whole model: a tied table
 * on the stage that owns it, a replicated parameter on the first rank of the axis. */
static bool is_counted(const mega_optimizer *o, const mega_param *p)
{
    return mega_param_is_trained(p) && p->tie != MEGA_TIE_COPY && (p->axis == MEGA_AXIS_TP || o->layout->tp.rank == 0);
}

static int order_by_offset(const void *a, const void *b, void *user)
{
    const mega_params *params = user;
    const int64_t x = mega_params_get(params, *(const int *)a)->offset;
    const int64_t y = mega_params_get(params, *(const int *)b)->offset;
    return (x > y) - (x < y);
}

/* Cuts the flat buffers into runs. */
static int cut_runs(const mega_optimizer *o, bool for_norm, run *runs)
{
    int n = 0, last_bucket = -1;
    run last = {0};
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, o->order[i]);
        if (!mega_param_is_trained(p) || (for_norm && !is_counted(o, p))) {
            last_bucket = -1;
            continue;
        }
        const bool is_alike = p->weight_decay == last.decay && p->lr_scale == last.lr_scale;
        const bool joins = p->bucket == last_bucket && (for_norm || is_alike) && p->offset - last.end <= GAP_ELEMENTS;
        if (!joins) {
            last = (run){.begin = p->offset, .bucket = p->bucket, .decay = p->weight_decay, .lr_scale = p->lr_scale};
            n++;
        }
        last.end = p->offset + p->count;
        last_bucket = p->bucket;
        runs[n - 1] = last;
    }
    return n;
}

static int64_t optimizer_elements_of(const run *runs, int count)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += runs[i].end - runs[i].begin;
    return n;
}

/* Restricts the runs to this rank's slices. */
static int keep_own(const mega_optimizer *o, run *runs, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        const mega_range slice = mega_params_slice(o->params, runs[i].bucket);
        run r = runs[i];
        if (r.begin < slice.first) r.begin = slice.first;
        if (r.end > slice.first + slice.count) r.end = slice.first + slice.count;
        if (r.begin < r.end) runs[n++] = r;
    }
    return n;
}

/* Returns the address of an element of a bucket in the buffer whose norm is computed. */
typedef void *numbers_at(const mega_params *params, int bucket, int64_t element);

static mega_norm_args norm_args(const mega_optimizer *o, const run *r, numbers_at *at, double *out)
{
    return (mega_norm_args){.head = {.dtype = mega_params_acc_dtype(o->params), .scratch = o->norm_scratch},
                            .out = out,
                            .x = at == NULL ? NULL : at(o->params, r->bucket, r->begin),
                            .count = r->end - r->begin};
}

/* Scratch for the longest range that the kernel ever gets: a counted run, or a single tensor. */
static size_t norm_scratch(const mega_optimizer *o)
{
    const mega_kernel *k = norm_kernel(o);
    run longest = {0};
    double out[3];
    if (k->scratch == NULL) return 0;
    for (int i = 0; i < o->num_counted; i++)
        if (o->counted[i].end - o->counted[i].begin > longest.end)
            longest.end = o->counted[i].end - o->counted[i].begin;
    for (int i = 0; i < mega_params_count(o->params); i++)
        if (mega_params_owned(o->params, i).count > longest.end) longest.end = mega_params_owned(o->params, i).count;
    const mega_norm_args a = norm_args(o, &longest, NULL, out);
    return k->scratch(&a, mega_team_size(o->options.team));
}

static mega_status choose_row(mega_optimizer *o)
{
    o->row = o->options.row;
    if (o->row != NULL) return mega_optimizer_row_check(o->row);
    o->builtin = optimizer_builtin_of(o->options.kind);
    if (o->builtin == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: optimizer.kind %d; expected %d (Adam) or %d (SGD)",
                         (int)o->options.kind, MEGA_OPTIMIZER_ADAM, MEGA_OPTIMIZER_SGD);
    o->row = &o->builtin->row;
    return optimizer_builtin_options(o->builtin, &o->options, o->option);
}

mega_status mega_optimizer_create(mega_optimizer **out, mega_params *params, const mega_layout *layout,
                                  const mega_optimizer_options *options)
{
    if (out == NULL || params == NULL || layout == NULL || options == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: %s is NULL; give it",
                         out == NULL      ? "out"
                         : params == NULL ? "the list of parameters"
                         : layout == NULL ? "the layout"
                                          : "options");
    mega_optimizer chosen = {.options = *options};
    MEGA_TRY(choose_row(&chosen));
    const size_t count = (size_t)mega_params_count(params);
    if (count > 0 && mega_params_num_buckets(params) == 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: the parameters are not placed; call mega_params_place "
                                         "first");
    mega_optimizer *o = mega_calloc(1, sizeof *o);
    if (o == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for its record");
    *o = chosen;
    if (mega_params_acc_dtype(params) == MEGA_F64) o->options.plain = true;
    o->params = params;
    o->layout = layout;
    o->order = mega_calloc(count + 1, sizeof *o->order);
    if (o->order == NULL) goto err_memory;
    for (int i = 0; i < (int)count; i++) o->order[i] = i;
    qsort_r(o->order, count, sizeof *o->order, order_by_offset, params);
    o->update = mega_calloc(count + 1, sizeof *o->update); /* at most one run per parameter */
    o->counted = mega_calloc(count + 1, sizeof *o->counted);
    if (o->update == NULL || o->counted == NULL) goto err_memory;
    o->num_update = cut_runs(o, false, o->update);
    o->num_counted = cut_runs(o, true, o->counted);
    o->walked = optimizer_elements_of(o->counted, o->num_counted);
    o->num_update = keep_own(o, o->update, o->num_update);
    o->num_counted = keep_own(o, o->counted, o->num_counted);
    o->norm_scratch_bytes = norm_scratch(o);
    *out = o;
    return MEGA_OK;

err_memory:
    mega_optimizer_destroy(o);
    return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for the runs of %zu parameters", count);
}

void mega_optimizer_destroy(mega_optimizer *o)
{
    if (o == NULL) return;
    const size_t bytes = moment_bytes(o);
    for (int i = 0; i < MEGA_OPTIMIZER_STATES && !o->is_lent; i++)
        if (o->moment[i] != NULL) mega_pages_free(o->moment[i], bytes);
    mega_free(o->norm_scratch);
    mega_free(o->work);
    mega_free(o->update);
    mega_free(o->counted);
    mega_free(o->order);
    mega_free(o);
}

size_t mega_optimizer_bytes(const mega_optimizer *o)
{
    return (size_t)moments_of(o) * moment_bytes(o) + o->norm_scratch_bytes;
}

static void *moment_at(const mega_optimizer *o, int moment, int bucket, int64_t element)
{
    const int64_t at = mega_params_shard_index(o->params, bucket, element);
    return (char *)o->moment[moment] + at * (int64_t)acc_size(o);
}

/* Prepares everything of an update that stays the same from step to step. */
static void bind_run(mega_optimizer *o, int i)
{
    const run *r = &o->update[i];
    optimizer_work *w = &o->work[i];
    const mega_dtype compute = mega_params_compute_dtype(o->params);
    const bool is_rounded = compute != mega_params_acc_dtype(o->params);
    *w = (optimizer_work){.compute = compute,
                          .plain = o->options.plain,
                          .weight = is_rounded ? mega_params_weight_at(o->params, r->bucket, r->begin) : NULL};
    for (int k = 0; k < moments_of(o); k++) w->state[k] = moment_at(o, k, r->bucket, r->begin);
    w->call = (mega_optimizer_call){.option = o->builtin != NULL ? o->option : o->row->option_default,
                                    .count = r->end - r->begin,
                                    .param = mega_params_master_at(o->params, r->bucket, r->begin),
                                    .state = w->state,
                                    .grad = mega_params_grad_at(o->params, r->bucket, r->begin)};
}

/* The runs point into both flat buffers, so both must be allocated. */
static mega_status check_params(const mega_optimizer *o, const char *call)
{
    const bool has_weights = mega_params_flat_master(o->params) != NULL;
    if (mega_params_count(o->params) == 0 || (has_weights && mega_params_flat_grad(o->params) != NULL)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the %s have no memory yet; call mega_params_allocate first", call,
                     has_weights ? "gradients" : "weights");
}

mega_status mega_optimizer_allocate(mega_optimizer *o)
{
    return mega_optimizer_allocate_in(o, NULL);
}

size_t mega_optimizer_region_bytes(const mega_optimizer *o)
{
    return (size_t)moments_of(o) * mega_region_round(moment_bytes(o));
}

mega_status mega_optimizer_allocate_in(mega_optimizer *o, mega_region *region)
{
    if (o == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_allocate: the optimizer is NULL; create one first");
    const size_t bytes = moment_bytes(o);
    if (o->is_allocated)
        return MEGA_FAIL(MEGA_ERR_USAGE, "optimizer: it was allocated before; mega_optimizer_allocate is called once");
    MEGA_TRY(check_params(o, "mega_optimizer_allocate"));
    o->is_allocated = true;
    o->is_lent = region != NULL;
    for (int i = 0; i < moments_of(o); i++)
        MEGA_TRY(mega_region_take(region, &o->moment[i], bytes, mega_optimizer_moment_name(o, i)));
    if (o->norm_scratch_bytes > 0) o->norm_scratch = mega_malloc(o->norm_scratch_bytes);
    if (o->norm_scratch_bytes > 0 && o->norm_scratch == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for a norm");
    o->work = mega_calloc((size_t)o->num_update + 1, sizeof *o->work);
    if (o->work == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for %d runs", o->num_update);
    for (int i = 0; i < o->num_update; i++) bind_run(o, i);
    return MEGA_OK;
}

int mega_optimizer_num_moments(const mega_optimizer *o)
{
    return moments_of(o);
}

const char *mega_optimizer_moment_name(const mega_optimizer *o, int moment)
{
    return o->row->state[moment];
}

void *mega_optimizer_moment(const mega_optimizer *o, int moment, int param)
{
    const mega_param *p = o == NULL ? NULL : mega_params_get(o->params, param);
    if (p == NULL || p->is_frozen || moment < 0 || moment >= moments_of(o) || o->moment[moment] == NULL) return NULL;
    return moment_at(o, moment, p->bucket, p->offset + mega_params_owned(o->params, param).first);
}

int64_t mega_optimizer_updates(const mega_optimizer *o)
{
    return o->updates;
}

void mega_optimizer_set_updates(mega_optimizer *o, int64_t updates)
{
    o->updates = updates;
}

/* Returns the number of elements that are always zero, over all ranks of dp: gaps inside runs, and padding rows of the
 * vocabulary. This rank's padding is the part of its slice beyond the true extent. */
static int64_t padding_elements(const mega_optimizer *o)
{
    int64_t real = 0;
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        if (!is_counted(o, p)) continue;
        int64_t rows = p->local_shape[0];
        const int64_t others = p->count / (rows > 0 ? rows : 1);
        if (p->axis == MEGA_AXIS_TP && p->cut_dim == 0 && p->num_parts <= 1) {
            const int64_t left = p->true_shape[0] - rows * o->layout->tp.rank;
            rows = left < 0 ? 0 : left < rows ? left : rows;
        } else if (p->axis != MEGA_AXIS_TP || p->cut_dim != 0) {
            rows = p->true_shape[0] < rows ? p->true_shape[0] : rows;
        }
        real += rows * others;
    }
    return o->walked - real;
}

static mega_status norm_of(mega_optimizer *o, const char *what, numbers_at *at, mega_norm_result *out)
{
    MEGA_TRY(check_params(o, what));
    if (o->norm_scratch == NULL && o->norm_scratch_bytes > 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the optimizer has no memory yet; call mega_optimizer_allocate first",
                         what);
    const mega_kernel *k = norm_kernel(o);
    double sum[3] = {0, 0, 0};
    for (int i = 0; i < o->num_counted; i++) {
        double part[3];
        const mega_norm_args a = norm_args(o, &o->counted[i], at, part);
        k->run(o->options.team, &a);
        for (int j = 0; j < 3; j++) sum[j] += part[j];
    }
    if (mega_params_shards(o->params).rank == 0) sum[1] -= (double)padding_elements(o);
    MEGA_TRY(mega_params_sum_shards(o->params, what, sum, 3));
    MEGA_TRY(mega_comm_all_reduce(o->layout->tp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    MEGA_TRY(mega_comm_all_reduce(o->layout->pp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    *out = (mega_norm_result){.norm = sqrt(sum[0]), .zeros = (int64_t)sum[1], .finite = sum[2] == 0};
    return MEGA_OK;
}

static mega_status check_norm(const mega_optimizer *o, const mega_norm_result *out)
{
    if (o != NULL && out != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "norm: %s is NULL; give it", o == NULL ? "the optimizer" : "out");
}

mega_status mega_optimizer_gradient_norm(mega_optimizer *o, mega_norm_result *out)
{
    MEGA_TRY(check_norm(o, out));
    return norm_of(o, "gradient norm", mega_params_grad_at, out);
}

mega_status mega_optimizer_params_norm(mega_optimizer *o, mega_norm_result *out)
{
    MEGA_TRY(check_norm(o, out));
    return norm_of(o, "parameter norm", mega_params_master_at, out);
}

mega_norm_result mega_optimizer_look(mega_optimizer *o, const void *x, int64_t count)
{
    double part[3] = {0, 0, 0};
    mega_norm_args a = norm_args(o, &(run){.end = count}, NULL, part);
    a.x = x;
    if (count > 0) norm_kernel(o)->run(o->options.team, &a);
    return (mega_norm_result){.norm = sqrt(part[0]), .zeros = (int64_t)part[1], .finite = part[2] == 0};
}

int mega_optimizer_find_nonfinite(mega_optimizer *o)
{
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        const mega_range owned = mega_params_owned(o->params, i);
        if (owned.count == 0 || !mega_param_is_trained(p)) continue;
        const void *gradient = mega_params_grad_at(o->params, p->bucket, p->offset + owned.first);
        if (!mega_optimizer_look(o, gradient, owned.count).finite) return i;
    }
    return -1;
}

double mega_clip_factor(double norm, double clip)
{
    if (clip <= 0) return 1;
    const double factor = clip / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

void mega_optimizer_zero_gradients(mega_optimizer *o)
{
    if (o == NULL || mega_params_flat_grad(o->params) == NULL) return; /* no gradients exist yet */
    mega_team_zero(o->options.team, mega_params_flat_grad(o->params), mega_params_bytes(o->params, MEGA_PARAMS_GRADS));
}

void mega_optimizer_zero_gradients_but(mega_optimizer *o, const bool *skip)
{
    for (int i = 0; i < mega_params_count(o->params); i++) {
        void *gradient = mega_params_grad(o->params, i); /* NULL: the program overwrites slices with its first write */
        if (gradient == NULL || skip[i]) continue;
        mega_team_zero(o->options.team, gradient, (size_t)mega_params_get(o->params, i)->count * acc_size(o));
    }
}

mega_status mega_optimizer_update(mega_optimizer *o, double lr, double weight_decay, double grad_factor)
{
    if (o == NULL || !o->is_allocated)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_update: the optimizer %s",
                         o == NULL ? "is NULL; create one first"
                                   : "has no memory yet; call mega_optimizer_allocate first");
    if (!(lr >= 0 && isfinite(lr)) || !isfinite(weight_decay) || !isfinite(grad_factor))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_optimizer_update: learning rate %g, weight decay %g, factor of gradients %g; expected "
                         "finite numbers, and a learning rate of at least 0",
                         lr, weight_decay, grad_factor);
    o->updates++;
    for (int i = 0; i < o->num_update; i++) {
        optimizer_work *w = &o->work[i];
        w->call.update = o->updates;
        w->call.lr = lr * o->update[i].lr_scale;
        w->call.weight_decay = o->update[i].decay ? weight_decay : 0;
        w->call.grad_factor = grad_factor;
        if (o->builtin != NULL && o->builtin->run != NULL) o->builtin->run(o->options.team, w);
        else
            mega_optimizer_row_run(o->row, o->options.team, w);
    }
    return MEGA_OK;
}

/* Updates what this rank owns of one buffer: few numbers, so on one thread. */
static void update_buffer(mega_optimizer *o, int param, double kept, double added)
{
    const mega_param *p = mega_params_get(o->params, param);
    const mega_range owned = mega_params_owned(o->params, param);
    const mega_dtype acc = mega_params_acc_dtype(o->params);
    const bool is_rounded = mega_params_compute_dtype(o->params) != acc;
    const int64_t first = p->offset + owned.first;
    if (owned.count == 0) return;
    void *master = mega_params_master_at(o->params, p->bucket, first);
    const void *sum = mega_params_grad_at(o->params, p->bucket, first);
    uint16_t *weight = is_rounded ? mega_params_weight_at(o->params, p->bucket, first) : NULL;
    for (int64_t i = 0; i < owned.count; i++) {
        if (acc == MEGA_F64) {
            double *m = master;
            m[i] = kept * m[i] + added * ((const double *)sum)[i];
            continue;
        }
        float *m = master;
        m[i] = (float)(kept * (double)m[i] + added * (double)((const float *)sum)[i]);
        if (is_rounded) weight[i] = mega_f32_to_bf16(m[i]);
    }
}

mega_status mega_optimizer_update_buffers(mega_optimizer *o, int64_t samples, int64_t expected)
{
    if (o == NULL || samples < 0 || expected < 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_update_buffers: %s",
                         o == NULL ? "the optimizer is NULL; create one first" : "fewer than 0 samples; expected some");
    MEGA_TRY(check_params(o, "mega_optimizer_update_buffers"));
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        if (!p->is_buffer || p->buffer_momentum <= 0) continue;
        const double groups = (double)(samples / p->buffer_samples), weighed = (double)(expected / p->buffer_samples);
        update_buffer(o, i, pow(1.0 - p->buffer_momentum, groups), pow(1.0 - p->buffer_momentum, groups - weighed));
    }
    return MEGA_OK;
}

void mega_optimizer_groups_get(const mega_optimizer *o, mega_optimizer_groups *out)
{
    *out = (mega_optimizer_groups){0};
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        if (!mega_param_is_trained(p)) continue;
        *(p->weight_decay ? &out->decayed : &out->not_decayed) += 1;
        *(p->weight_decay ? &out->decayed_elements : &out->not_decayed_elements) += p->count;
    }
}
