/* The optimizer as an object: its row, its moments over this rank's slices of the flat buffers, and the update of a
 * span of elements. The update program (update_run.c) says which spans, when. */
#include "elementwise.h"
#include "megalith/device_memory.h"
#include "megalith/memory.h"
#include "megalith/optim.h"
#include "megalith/optimizer_state.h"
#include "optimizer_impl.h"
#include <stdlib.h>
#include <string.h>

static int moments_of(const mega_optimizer *o)
{
    return mega_optimizer_row_states(o->row);
}

static size_t acc_size(const mega_optimizer *o)
{
    return mega_dtype_size(mega_params_acc_dtype(o->params));
}

void optimizer_run(const mega_optimizer *o, mega_kernel_id id, const void *args)
{
    mega_device_begin();
    mega_kernel_of(o->options.backend, id)->run(&o->options.queue, args);
    mega_device_end();
}

optimizer_scope optimizer_scope_of(const mega_optimizer *o)
{
    return o->builtin != NULL ? o->builtin->scope : SCOPE_ELEMENT;
}

/* Muon has one state of matrices, the first of its row; the others are of the rest. */
static bool is_of_matrices(int moment)
{
    return moment == 0;
}

static size_t moment_bytes(const mega_optimizer *o, int moment)
{
    const bool all = optimizer_scope_of(o) != SCOPE_MATRIX;
    const int64_t count = all                      ? mega_params_state_elements(o->params)
                          : is_of_matrices(moment) ? o->of_matrices
                                                   : o->rest;
    return (size_t)(count > 0 ? count : 1) * acc_size(o);
}

/* Memory of the sums over whole tensors. */
static size_t chunk_sum_bytes(const mega_optimizer *o)
{
    mega_lamb_moments_args longest = {.count = 0};
    const mega_kernel *k = mega_kernel_of(o->options.backend, MEGA_KERNEL_lamb_moments);
    if (optimizer_scope_of(o) != SCOPE_NORM || k->scratch == NULL) return 0;
    for (int i = 0; i < o->num_update; i++)
        if (o->update[i].end - o->update[i].begin > longest.count)
            longest.count = o->update[i].end - o->update[i].begin;
    return k->scratch(&longest, mega_team_size(o->options.queue.team));
}

/* A pair for each tensor, and the trust ratio of that which is updated. */
static size_t tensor_sum_bytes(const mega_optimizer *o)
{
    return optimizer_scope_of(o) != SCOPE_NORM ? 0 : ((size_t)o->num_tensors + 1) * 2 * sizeof(double);
}

static mega_status choose_row(mega_optimizer *o)
{
    o->row = o->options.row;
    if (o->row != NULL) return mega_optimizer_row_check(o->row);
    o->builtin = optimizer_builtin_for(&o->options);
    if (o->builtin == NULL)
        return MEGA_MISTAKE(
            "mega_optimizer_create: optimizer.kind %d; expected a value of mega_optimizer_kind, 0 to %d",
            (int)o->options.kind, MEGA_OPTIMIZER_KINDS - 1);
    o->row = &o->builtin->row;
    return optimizer_builtin_arguments(o->builtin, &o->options, o->option);
}

static mega_status check_held(const mega_optimizer *o)
{
    if (optimizer_scope_of(o) != SCOPE_MATRIX || optimizer_wide_bytes(o) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "optimizer %s: it orthogonalizes matrices in place of their gradients, which 16 bits do not hold; "
                     "hold gradients in f32, or take another optimizer",
                     o->row->name);
}

/* Momenta are exchanged compressed over dp, whose ranks hold other experts. */
static mega_status check_divided_experts(const mega_optimizer *o)
{
    for (int i = 0; i < mega_params_count(o->params) && optimizer_compresses(o); i++)
        if (mega_params_get(o->params, i)->held_by > 0)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "optimizer %s: with experts that are divided over ranks (--expert-model-parallel-size %d) "
                             "it is not implemented yet; take --expert-model-parallel-size 1, or another optimizer",
                             o->row->name, o->layout->ep.size);
    return MEGA_OK;
}

/* Counts of choices are summed with the gradients, which are not summed once momenta are exchanged. */
static mega_status check_choice_biases(const mega_optimizer *o)
{
    for (int i = 0; i < mega_params_count(o->params) && optimizer_compresses(o); i++)
        if (mega_params_get(o->params, i)->buffer_rate > 0)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "optimizer %s: with biases of the choice of experts that each step updates "
                             "(--moe-router-enable-expert-bias) it is not implemented yet; leave that option out, or "
                             "take another optimizer",
                             o->row->name);
    return MEGA_OK;
}

mega_status mega_optimizer_create(mega_params *params, const mega_layout *layout, const mega_optimizer_options *options,
                                  mega_optimizer **out)
{
    if (out == NULL || params == NULL || layout == NULL || options == NULL)
        return MEGA_MISTAKE("mega_optimizer_create: %s is NULL; give it", out == NULL      ? "out"
                                                                          : params == NULL ? "the list of parameters"
                                                                          : layout == NULL ? "the layout"
                                                                                           : "options");
    mega_optimizer chosen = {.options = *options};
    MEGA_TRY(choose_row(&chosen));
    const mega_axis shards = mega_params_shards(params);
    if (optimizer_compresses(&chosen) && mega_axis_has_others(&shards))
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "optimizer %s: each rank updates all weights with momenta that are exchanged compressed, which "
            "ZeRO does not allow; take ZeRO stage 0",
            chosen.row->name);
    const size_t count = (size_t)mega_params_count(params);
    if (count > 0 && mega_params_num_buckets(params) == 0)
        return MEGA_MISTAKE("mega_optimizer_create: the parameters are not placed; call mega_params_place "
                            "first");
    mega_optimizer *o = mega_calloc(1, sizeof *o);
    if (o == NULL) return MEGA_NO_MEMORY("optimizer", "its record");
    *o = chosen;
    o->params = params;
    o->layout = layout;
    mega_status st = check_held(o);
    if (st == MEGA_OK) st = check_divided_experts(o);
    if (st == MEGA_OK) st = check_choice_biases(o);
    if (st == MEGA_OK) st = optimizer_cut_spans(o);
    if (st != MEGA_OK) {
        mega_optimizer_destroy(o);
        return st;
    }
    o->norm_scratch_bytes = optimizer_norm_scratch(o);
    *out = o;
    return MEGA_OK;
}

/* ---- memory ---- */

enum { MOST_MEMORY = MEGA_OPTIMIZER_STATES + 8 };

typedef struct device_memory {
    void **at;
    size_t bytes;
    const char *what;
} device_memory;

static int num_formulas(const mega_optimizer *o)
{
    int n = 0;
    while (o->builtin != NULL && n < OPTIMIZER_FORMULAS && o->builtin->formula[n] != MEGA_KERNEL_NONE) n++;
    return n;
}

static size_t groups_bytes(const mega_optimizer *o)
{
    return (size_t)o->groups * sizeof *o->group;
}

static size_t numbers_bytes(const mega_optimizer *o)
{
    return (size_t)(num_formulas(o) * o->groups) * MEGA_FORMULA_NUMBERS * sizeof(double);
}

/* Where the numbers of a group are that formula i of the row takes. */
static double *numbers_of(const mega_optimizer *o, int i, int group)
{
    return (double *)o->number + ((int64_t)i * o->groups + group) * MEGA_FORMULA_NUMBERS;
}

/* Lists what the optimizer needs of the device, and returns its length. */
static int memory_of_device(mega_optimizer *o, device_memory list[MOST_MEMORY])
{
    int n = 0;
    for (int i = 0; o->row != NULL && i < moments_of(o); i++)
        list[n++] = (device_memory){&o->moment[i], moment_bytes(o, i), mega_optimizer_moment_name(o, i)};
    if (o->norm_scratch_bytes > 0)
        list[n++] = (device_memory){&o->norm_scratch, o->norm_scratch_bytes, "sums of a norm"};
    if (optimizer_wide_bytes(o) > 0)
        list[n++] = (device_memory){&o->wide, optimizer_wide_bytes(o), "widened gradients"};
    if (chunk_sum_bytes(o) > 0) list[n++] = (device_memory){&o->chunk_sum, chunk_sum_bytes(o), "sums of chunks"};
    if (tensor_sum_bytes(o) > 0) list[n++] = (device_memory){&o->tensor_sum, tensor_sum_bytes(o), "norms of tensors"};
    list[n++] = (device_memory){&o->block, sizeof(mega_update_block), "the check of a step"};
    if (groups_bytes(o) > 0) list[n++] = (device_memory){&o->groups_there, groups_bytes(o), "groups of parameters"};
    if (numbers_bytes(o) > 0) list[n++] = (device_memory){&o->number, numbers_bytes(o), "numbers of a step"};
    list[n++] = (device_memory){&o->state_sum, optimizer_states_bytes(o), "norms of states"};
    return n;
}

void mega_optimizer_destroy(mega_optimizer *o)
{
    if (o == NULL) return;
    device_memory memory[MOST_MEMORY];
    const int count = memory_of_device(o, memory);
    for (int i = 0; i < count && !o->is_lent; i++)
        if (*memory[i].at != NULL) mega_pages_free(*memory[i].at, memory[i].bytes);
    mega_free(o->copies);
    mega_free(o->tensor);
    mega_free(o->group);
    mega_free(o->work);
    mega_free(o->update);
    mega_free(o->counted);
    mega_free(o);
}

size_t mega_optimizer_bytes(const mega_optimizer *o)
{
    size_t bytes = o->norm_scratch_bytes + optimizer_wide_bytes(o) + chunk_sum_bytes(o) + tensor_sum_bytes(o) +
                   sizeof(mega_update_block) + groups_bytes(o) + numbers_bytes(o) + optimizer_states_bytes(o) +
                   optimizer_copies_bytes(o);
    for (int i = 0; i < moments_of(o); i++) bytes += moment_bytes(o, i);
    return bytes;
}

/* The element is in the span of Muon's that holds it. */
static void *moment_in_span(const mega_optimizer *o, int moment, int bucket, int64_t element)
{
    int64_t at = 0;
    for (int i = 0; i < o->num_update; i++) {
        const optimizer_span *r = &o->update[i];
        if (r->bucket == bucket && element >= r->begin && element < r->end) at = r->state_at + element - r->begin;
    }
    return (char *)o->moment[moment] + at * (int64_t)acc_size(o);
}

void *optimizer_state_at(const mega_optimizer *o, int moment, int bucket, int64_t element)
{
    if (optimizer_scope_of(o) == SCOPE_MATRIX) return moment_in_span(o, moment, bucket, element);
    const int64_t at = mega_params_shard_index(o->params, bucket, element);
    return (char *)o->moment[moment] + at * (int64_t)acc_size(o);
}

/* Prepares everything of an update that stays the same from step to step. */
static void bind_span(mega_optimizer *o, int i)
{
    const optimizer_span *r = &o->update[i];
    optimizer_work *w = &o->work[i];
    const mega_dtype compute = mega_params_compute_dtype(o->params);
    const bool is_rounded = compute != mega_params_acc_dtype(o->params);
    *w = (optimizer_work){.compute = compute,
                          .backend = o->options.backend,
                          .block = o->block,
                          .formula = o->builtin != NULL ? o->builtin->formula : NULL,
                          .weight = is_rounded ? mega_params_weight_at(o->params, r->bucket, r->begin) : NULL};
    int states = 0;
    for (int k = 0; k < moments_of(o); k++) {
        const bool has = optimizer_scope_of(o) != SCOPE_MATRIX || is_of_matrices(k) == (r->tensor >= 0);
        if (has) w->state[states++] = optimizer_state_at(o, k, r->bucket, r->begin);
    }
    for (int k = 0; k < num_formulas(o); k++) w->number[k] = numbers_of(o, k, r->group);
    w->call = (mega_optimizer_call){.option = o->builtin != NULL ? o->option : o->row->option_default,
                                    .count = r->end - r->begin,
                                    .param = mega_params_master_at(o->params, r->bucket, r->begin),
                                    .state = w->state,
                                    /* in the type that holds it: see optimizer_each_piece */
                                    .grad = mega_params_grad_at(o->params, r->bucket, r->begin)};
}

/* The spans point into both flat buffers, so both must be allocated. */
mega_status optimizer_check_params(const mega_optimizer *o, const char *call)
{
    const bool has_weights = mega_params_flat_master(o->params) != NULL;
    if (mega_params_count(o->params) == 0 || (has_weights && mega_params_flat_grad(o->params) != NULL)) return MEGA_OK;
    return MEGA_MISTAKE("%s: the %s have no memory yet; call mega_params_allocate first", call,
                        has_weights ? "gradients" : "weights");
}

mega_status mega_optimizer_allocate(mega_optimizer *o)
{
    return mega_optimizer_allocate_in(o, NULL);
}

size_t mega_optimizer_region_bytes(mega_optimizer *o)
{
    size_t bytes = 0;
    device_memory memory[MOST_MEMORY];
    const int count = memory_of_device(o, memory);
    for (int i = 0; i < count; i++) bytes += mega_region_round(memory[i].bytes);
    return bytes;
}

mega_status mega_optimizer_allocate_in(mega_optimizer *o, mega_region *region)
{
    if (o == NULL) return MEGA_MISTAKE("mega_optimizer_allocate: the optimizer is NULL; create one first");
    if (o->is_allocated)
        return MEGA_MISTAKE("optimizer: it was allocated before; mega_optimizer_allocate is called once");
    MEGA_TRY(optimizer_check_params(o, "mega_optimizer_allocate"));
    o->is_allocated = true;
    o->is_lent = region != NULL;
    if (region != NULL) o->options.queue.device = mega_device_of(region->base);
    device_memory memory[MOST_MEMORY];
    const int count = memory_of_device(o, memory);
    for (int i = 0; i < count; i++) MEGA_TRY(mega_region_take(region, memory[i].at, memory[i].bytes, memory[i].what));
    if (optimizer_copies_bytes(o) > 0) o->copies = mega_malloc(optimizer_copies_bytes(o));
    if (optimizer_copies_bytes(o) > 0 && o->copies == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for copies of what %s updates", o->row->name);
    o->work = mega_calloc((size_t)o->num_update + 1, sizeof *o->work);
    if (o->work == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for %d spans", o->num_update);
    for (int i = 0; i < o->num_update; i++) bind_span(o, i);
    if (o->groups_there != NULL) mega_device_write(o->groups_there, o->group, groups_bytes(o));
    optimizer_write_counts(o);
    return optimizer_load(o);
}

int mega_optimizer_num_moments(const mega_optimizer *o)
{
    return moments_of(o);
}

const char *mega_optimizer_moment_name(const mega_optimizer *o, int moment)
{
    return o->row->state[moment];
}

bool mega_optimizer_has_moment(const mega_optimizer *o, int moment, const mega_param *p)
{
    if (p->is_frozen || moment < 0 || moment >= moments_of(o)) return false;
    return optimizer_scope_of(o) != SCOPE_MATRIX ||
           (!p->is_buffer && is_of_matrices(moment) == whole_tensors_is_matrix(p));
}

void *mega_optimizer_moment(const mega_optimizer *o, int moment, int param)
{
    const mega_param *p = o == NULL ? NULL : mega_params_get(o->params, param);
    if (p == NULL || !mega_optimizer_has_moment(o, moment, p) || o->moment[moment] == NULL) return NULL;
    if (moment == 0 && optimizer_trains_apart(o)) return mega_params_master(o->params, param);
    return optimizer_state_at(o, moment, p->bucket, p->offset + mega_params_owned(o->params, param).first);
}

int64_t mega_optimizer_updates(const mega_optimizer *o)
{
    return o->updates;
}

void mega_optimizer_set_updates(mega_optimizer *o, int64_t updates)
{
    o->updates = updates;
    if (updates == 0) {
        o->shows_average = false;
        memset(o->carried, 0, sizeof o->carried);
    }
    optimizer_write_counts(o);
}

void optimizer_write_counts(const mega_optimizer *o)
{
    mega_update_block *b = o->block;
    const double updates = (double)o->updates;
    if (b == NULL) return; /* written when there is memory */
    mega_device_write(&b->updates, &updates, sizeof updates);
    mega_device_write(b->carried, o->carried, sizeof o->carried);
}

static void optimizer_zero(const mega_optimizer *o, void *x, mega_dtype dtype, int64_t count)
{
    const mega_zero_args a = {.head = {.dtype = dtype}, .x = x, .count = count};
    optimizer_run(o, MEGA_KERNEL_zero, &a);
}

void mega_optimizer_zero_gradients(mega_optimizer *o)
{
    if (o == NULL || mega_params_flat_grad(o->params) == NULL) return;    /* no gradients exist yet */
    const size_t bytes = mega_params_bytes(o->params, MEGA_PARAMS_GRADS); /* buckets may differ in their type */
    optimizer_zero(o, mega_params_flat_grad(o->params), MEGA_BF16, (int64_t)(bytes / sizeof(uint16_t)));
}

void mega_optimizer_zero_gradients_but(mega_optimizer *o, const bool *skip)
{
    for (int i = 0; i < mega_params_count(o->params); i++) {
        void *gradient = mega_params_grad(o->params, i); /* NULL: the program overwrites slices with its first write */
        if (gradient == NULL || skip[i]) continue;
        const mega_param *p = mega_params_get(o->params, i);
        optimizer_zero(o, gradient, mega_params_grad_dtype(o->params, p->bucket), p->count);
    }
}

mega_status mega_optimizer_set_betas(mega_optimizer *o, double beta1, double beta2)
{
    o->options.beta1 = beta1;
    o->options.beta2 = beta2;
    return o->builtin != NULL ? optimizer_builtin_arguments(o->builtin, &o->options, o->option) : MEGA_OK;
}

void optimizer_make_numbers(mega_optimizer *o, double lr, double weight_decay)
{
#define MEMBER(name) .name = ARGUMENT(o, name),
    mega_numbers_args a = {.head = {.dtype = mega_params_acc_dtype(o->params)},
                           .block = o->block,
                           .group = o->groups_there,
                           .groups = o->groups,
                           .lr = lr,
                           .weight_decay = weight_decay,
                           MEGA_NUMBERS_OPTIONS(MEMBER)};
#undef MEMBER
    if (optimizer_compresses(o)) a.no_bias_correction = 1;
    for (int i = 0; i < num_formulas(o); i++) {
        a.formula = o->builtin->formula[i];
        a.number = numbers_of(o, i, 0);
        optimizer_run(o, MEGA_KERNEL_numbers, &a);
    }
}

bool optimizer_compresses(const mega_optimizer *o)
{
    return o->builtin != NULL && o->builtin->momentum != MEGA_KERNEL_NONE;
}

bool optimizer_is_compressed(const mega_optimizer *o, int64_t update)
{
    return optimizer_compresses(o) && (double)update > ARGUMENT(o, freeze_step);
}

int mega_optimizer_num_errors(const mega_optimizer *o)
{
    return optimizer_compresses(o) ? moments_of(o) - o->builtin->first_residual : 0;
}

bool mega_optimizer_has_errors(const mega_optimizer *o)
{
    return mega_axis_has_others(&o->layout->dp) && optimizer_is_compressed(o, o->updates);
}

/* Sets the numbers of the step in the call of span i. */
static void span_numbers(mega_optimizer *o, int i, const mega_optimizer_call *call)
{
    const mega_update_group *g = &o->group[o->update[i].group];
    optimizer_work *w = &o->work[i];
    w->call.update = call->update;
    w->call.lr = call->lr * g->lr_scale;
    const double common = g->decay != 0 ? call->weight_decay : 0;
    w->call.weight_decay = g->has_own_decay != 0 ? g->decay : common;
    w->call.grad_factor = o->options.maximize ? -call->grad_factor : call->grad_factor;
    w->factor = o->options.maximize ? -1 : 1;
}

void optimizer_span_prepare(mega_optimizer *o, int i, const mega_optimizer_call *call)
{
    span_numbers(o, i, call);
    mega_device_begin();
    o->builtin->prepare(o, i);
    mega_device_end();
}

static void momentum_of(mega_optimizer *o, int i, const optimizer_work *w)
{
    (void)i;
    elementwise_run(&o->options.queue, w, o->builtin->momentum);
}

void optimizer_span_momentum(mega_optimizer *o, int i, const mega_optimizer_call *call)
{
    span_numbers(o, i, call);
    o->work[i].factor *= o->layout->dp.size;
    mega_device_begin();
    optimizer_each_piece(o, i, momentum_of);
    mega_device_end();
}

static void update_elements(mega_optimizer *o, int i, const optimizer_work *w)
{
    (void)i;
    if (o->builtin == NULL) {
        optimizer_run_on_host(o, w);
        return;
    }
    mega_device_begin();
    if (o->builtin->run != NULL) o->builtin->run(&o->options.queue, w);
    else
        elementwise_run(&o->options.queue, w, o->builtin->formula[0]);
    mega_device_end();
}

void optimizer_span_update(mega_optimizer *o, int i, const mega_optimizer_call *call)
{
    span_numbers(o, i, call);
    if (o->update[i].tensor < 0) {
        optimizer_each_piece(o, i, update_elements);
        return;
    }
    mega_device_begin();
    o->builtin->update_whole(o, i);
    mega_device_end();
}

void optimizer_update_buffer(mega_optimizer *o, int param, double kept, double added)
{
    const mega_param *p = mega_params_get(o->params, param);
    const mega_range owned = mega_params_owned(o->params, param);
    const bool is_master = mega_params_compute_dtype(o->params) == mega_params_acc_dtype(o->params);
    const int64_t first = p->offset + owned.first;
    if (owned.count == 0) return;
    const mega_running_args a = {.head = {.dtype = mega_params_weight_dtype(o->params, p->bucket)},
                                 .y = mega_params_master_at(o->params, p->bucket, first),
                                 .weight = is_master ? NULL : mega_params_weight_at(o->params, p->bucket, first),
                                 .x = mega_params_grad_at(o->params, p->bucket, first),
                                 .count = owned.count,
                                 .kept = kept,
                                 .added = added,
                                 .block = o->block};
    optimizer_run(o, MEGA_KERNEL_running, &a);
}

void optimizer_update_choice_bias(mega_optimizer *o, int param, double mean)
{
    const mega_param *p = mega_params_get(o->params, param);
    const mega_range owned = mega_params_owned(o->params, param);
    const bool is_master = mega_params_compute_dtype(o->params) == mega_params_acc_dtype(o->params);
    const int64_t first = p->offset + owned.first;
    if (owned.count == 0) return;
    const mega_choice_bias_args a = {.head = {.dtype = mega_params_weight_dtype(o->params, p->bucket)},
                                     .y = mega_params_master_at(o->params, p->bucket, first),
                                     .weight = is_master ? NULL : mega_params_weight_at(o->params, p->bucket, first),
                                     .x = mega_params_grad_at(o->params, p->bucket, first),
                                     .count = owned.count,
                                     .rate = p->buffer_rate,
                                     .mean = mean,
                                     .block = o->block};
    optimizer_run(o, MEGA_KERNEL_choice_bias, &a);
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
