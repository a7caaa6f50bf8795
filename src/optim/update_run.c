/* Creates and runs the update program: a loop over its instructions, without allocation. */
#include "megalith/memory.h"
#include "update_impl.h"

#include <math.h>
#include <stdio.h>

static mega_status list_buckets(mega_update *u)
{
    const int buckets = mega_params_num_buckets(u->params);
    size_t requests = 0;
    for (int i = 0; i < u->options.ties; i++) {
        const size_t bytes = mega_comm_members_lists(&u->options.tie[i].stages);
        requests = bytes > requests ? bytes : requests;
    }
    if (requests > 0) u->requests = mega_malloc(requests);
    u->scope = mega_calloc((size_t)buckets + 1, sizeof *u->scope);
    u->gather = mega_calloc((size_t)buckets + 1, sizeof *u->gather);
    u->piece = mega_calloc(2 * (size_t)u->layout->dp.size, sizeof *u->piece);
    u->moving = mega_calloc(2 * (size_t)u->layout->dp.size, sizeof *u->moving);
    u->compressed = mega_calloc((size_t)mega_params_count(u->params) + 1, sizeof *u->compressed);
    if (u->scope == NULL || u->gather == NULL || u->piece == NULL || u->moving == NULL || u->compressed == NULL ||
        (requests > 0 && u->requests == NULL))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "update program: no memory for %d buckets", buckets);
    for (int b = 0; b < buckets; b++) snprintf(u->scope[b], sizeof *u->scope, "bucket %d", b);
    return MEGA_OK;
}

/* Gathers that may be in progress; the table of requests (MEGA_COMM_REQUESTS) has room for others. */
enum { MOST_GATHERS = 512 };

mega_status mega_update_create(mega_optimizer *optimizer, const mega_update_options *options, mega_update **out)
{
    if (optimizer == NULL || options == NULL || out == NULL)
        return MEGA_MISTAKE("mega_update_create: %s is NULL; give it", optimizer == NULL ? "the optimizer"
                                                                       : options == NULL ? "options"
                                                                                         : "out");
    if (options->num_sums < 0 || options->num_sums > MEGA_UPDATE_NUMBERS)
        return MEGA_MISTAKE("mega_update_create: num_sums %d; expected 0 to %d", options->num_sums,
                            MEGA_UPDATE_NUMBERS);
    mega_update *u = mega_calloc(1, sizeof *u);
    if (u == NULL) return MEGA_NO_MEMORY("update program", "its record");
    u->optimizer = optimizer;
    u->params = optimizer->params;
    u->layout = optimizer->layout;
    u->options = *options;
    u->count = update_make(u, NULL, &u->first_applied);
    u->list = mega_calloc((size_t)u->count, sizeof *u->list);
    const mega_status st = u->list == NULL
                               ? MEGA_FAIL(MEGA_ERR_MEMORY, "update program: no memory for %d instructions", u->count)
                               : list_buckets(u);
    if (st != MEGA_OK) {
        mega_update_destroy(u);
        return st;
    }
    update_make(u, u->list, &u->first_applied);
    u->options.is_reduced = NULL; /* read at creation only */
    update_look_for_recordings(u);
    *out = u;
    return MEGA_OK;
}

void mega_update_destroy(mega_update *u)
{
    if (u == NULL) return;
    update_forget_recordings(u);
    mega_free(u->list);
    mega_free(u->scope);
    mega_free(u->requests);
    mega_free(u->gather);
    mega_free(u->piece);
    mega_free(u->moving);
    mega_free(u->compressed);
    mega_free(u);
}

mega_update_step *mega_update_step_block(mega_update *u)
{
    return &u->step;
}

bool mega_update_can_defer_check(const mega_update *u)
{
    return u->optimizer->builtin != NULL && !optimizer_compresses(u->optimizer);
}

int mega_update_num_instructions(const mega_update *u)
{
    return u->count;
}

/* ---- memory ---- */

static size_t scratch_of(const mega_update *u, const update_instruction *x)
{
    const mega_dtype acc = mega_params_acc_dtype(u->params);
    if (x->kind == UPDATE_SUM_TIED)
        return mega_comm_members_scratch(&u->options.tie[x->number].stages,
                                         mega_params_get(u->params, x->first_param)->count,
                                         mega_params_grad_dtype(u->params, x->bucket));
    if (x->kind >= UPDATE_PREPARE && x->kind <= UPDATE_SPREAD) return update_whole_scratch(u, x);
    if (x->kind == UPDATE_COMPRESS) return update_compressed_scratch(u, x->bucket);
    return x->is_packed ? (size_t)x->count * mega_dtype_size(acc) : 0;
}

/* Instructions use it one after the other. */
size_t mega_update_scratch_bytes(const mega_update *u)
{
    size_t most = 0;
    for (int i = 0; u != NULL && i < u->count; i++) {
        const size_t bytes = scratch_of(u, &u->list[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void mega_update_allocate(mega_update *u, void *scratch)
{
    u->scratch = scratch;
}

/* ---- instructions ---- */

typedef mega_status run_instruction(mega_update *u, const update_instruction *x);

/* Returns the address of the part of parameter i's gradient that this rank owns. */
static void *owned_gradient(const mega_update *u, int i)
{
    const mega_param *p = mega_params_get(u->params, i);
    return mega_params_grad_at(u->params, p->bucket, p->offset + mega_params_owned(u->params, i).first);
}

static mega_status run_sum_tied(mega_update *u, const update_instruction *x)
{
    const mega_param *p = mega_params_get(u->params, x->first_param);
    const mega_range part = update_tied_range(u, x->first_param);
    return mega_comm_members_sum(&u->options.tie[x->number].stages, "gradient of a tied parameter",
                                 mega_params_grad_at(u->params, p->bucket, p->offset + part.first), part.count,
                                 mega_params_grad_dtype(u->params, p->bucket), u->requests, u->scratch);
}

static mega_status run_reduce(mega_update *u, const update_instruction *x)
{
    mega_params *p = u->params;
    const int64_t first = mega_params_bucket(p, x->bucket)->offset, own = mega_params_slice(p, x->bucket).first;
    void *whole = mega_params_grad_at(p, x->bucket, first), *slice = mega_params_grad_at(p, x->bucket, own);
    mega_request r;
    MEGA_TRY(mega_params_reduce_start(p, x->bucket, whole, slice, &r));
    MEGA_TRY(mega_comm_wait(&r));
    mega_params_reduce_finish(p, x->bucket, whole, slice);
    return MEGA_OK;
}

/* The small partial gradients of an instruction are summed in one buffer, the scratch, which is of the acc type. */
typedef void convert_gradient(const mega_update *u, void *packed, void *gradient, mega_dtype held, int64_t elements);

static void pack_gradient(const mega_update *u, void *packed, void *gradient, mega_dtype held, int64_t elements)
{
    mega_params_convert(u->params, packed, mega_params_acc_dtype(u->params), gradient, held, elements);
}

static void unpack_gradient(const mega_update *u, void *packed, void *gradient, mega_dtype held, int64_t elements)
{
    mega_params_convert(u->params, gradient, held, packed, mega_params_acc_dtype(u->params), elements);
}

static void for_each_packed(const mega_update *u, const update_instruction *x, convert_gradient *convert)
{
    char *at = u->scratch;
    for (int i = x->first_param; i < x->end_param; i++) {
        const int64_t elements = update_partial_elements(u, i);
        if (elements == 0 || elements > update_packed_elements(u)) continue;
        const int bucket = mega_params_get(u->params, i)->bucket;
        convert(u, at, owned_gradient(u, i), mega_params_grad_dtype(u->params, bucket), elements);
        at += (size_t)elements * mega_dtype_size(mega_params_acc_dtype(u->params));
    }
}

static mega_status run_sum_partial(mega_update *u, const update_instruction *x)
{
    const mega_dtype acc = mega_params_acc_dtype(u->params);
    if (!x->is_packed)
        return mega_comm_all_reduce(x->axis->comm, mega_params_get(u->params, x->first_param)->name,
                                    owned_gradient(u, x->first_param), x->count,
                                    mega_params_grad_dtype(u->params, x->bucket), MEGA_REDUCE_SUM);
    for_each_packed(u, x, pack_gradient);
    MEGA_TRY(mega_comm_all_reduce(x->axis->comm, "gradients of norms and biases", u->scratch, x->count, acc,
                                  MEGA_REDUCE_SUM));
    for_each_packed(u, x, unpack_gradient);
    return MEGA_OK;
}

static mega_status run_sum_losses(mega_update *u, const update_instruction *x)
{
    return mega_comm_all_reduce(x->axis->comm, "loss", u->step.sum, x->count, MEGA_F64, MEGA_REDUCE_SUM);
}

static mega_status run_update_norm(mega_update *u, const update_instruction *x)
{
    optimizer_norm_add_gradients(u->optimizer, x->number);
    return MEGA_OK;
}

static mega_status run_sum_norm(mega_update *u, const update_instruction *x)
{
    MEGA_TRY(
        mega_comm_all_reduce(x->axis->comm, "gradient norm", u->optimizer->block, x->count, MEGA_F64, MEGA_REDUCE_SUM));
    if (x->when == UPDATE_WITH_MOMENTA) update_norm_of_ranks(u);
    return MEGA_OK;
}

static mega_status run_check(mega_update *u, const update_instruction *x)
{
    (void)x;
    return update_check(u);
}

static mega_status run_update_of_span(mega_update *u, const update_instruction *x)
{
    const mega_update_step *s = &u->step;
    const mega_optimizer_call call = {
        .lr = s->lr, .weight_decay = s->weight_decay, .grad_factor = s->grad_factor, .update = s->update};
    optimizer_span_update(u->optimizer, x->number, &call);
    return MEGA_OK;
}

static mega_status run_buffer(mega_update *u, const update_instruction *x)
{
    const mega_param *p = mega_params_get(u->params, x->first_param);
    if (p->buffer_rate > 0) {
        const double choices = (double)u->step.tokens * (double)p->buffer_choices;
        optimizer_update_choice_bias(u->optimizer, x->first_param, choices / (double)p->true_shape[0]);
        return MEGA_OK;
    }
    const double groups = (double)(u->step.samples / p->buffer_samples);
    const double weighed = (double)(u->step.expected_samples / p->buffer_samples);
    optimizer_update_buffer(u->optimizer, x->first_param, pow(1.0 - p->buffer_momentum, groups),
                            pow(1.0 - p->buffer_momentum, groups - weighed));
    return MEGA_OK;
}

/* Starts the gather only. The forward of the next step waits for it when it reads these weights, and the exchange
 * advances while the other buckets are updated and while that forward runs. */
static mega_status run_publish(mega_update *u, const update_instruction *x)
{
    for (int b = mega_params_num_buckets(u->params) - 1; u->pending >= MOST_GATHERS; b--) /* the oldest first */
        MEGA_TRY(mega_update_wait_bucket(u, b));
    MEGA_TRY(mega_params_gather_start(u->params, x->bucket, &u->gather[x->bucket]));
    if (u->gather[x->bucket].world != NULL) u->pending++;
    return MEGA_OK;
}

static run_instruction *const run_of[UPDATE_KINDS] = {
    [UPDATE_SUM_TIED] = run_sum_tied,
    [UPDATE_REDUCE] = run_reduce,
    [UPDATE_SUM_PARTIAL] = run_sum_partial,
    [UPDATE_SUM_LOSSES] = run_sum_losses,
    [UPDATE_NORM] = run_update_norm,
    [UPDATE_SUM_NORM] = run_sum_norm,
    [UPDATE_CHECK] = run_check,
    [UPDATE_MOMENTUM] = update_run_momentum,
    [UPDATE_COMPRESS] = update_run_compressed,
    [UPDATE_SPAN] = run_update_of_span,
    [UPDATE_BUFFER] = run_buffer,
    [UPDATE_PUBLISH] = run_publish,
    [UPDATE_PREPARE] = update_run_prepare,
    [UPDATE_SUM_TENSORS] = update_run_sum_tensors,
    [UPDATE_COLLECT] = update_run_collect,
    [UPDATE_ORTHOGONALIZE] = update_run_orthogonalize,
    [UPDATE_SPREAD] = update_run_spread,
};

static mega_status update_check_ready(const mega_update *u)
{
    if (u == NULL) return MEGA_MISTAKE("mega_update_run: the program is NULL; create one first");
    MEGA_TRY(optimizer_check_params(u->optimizer, "mega_update_run"));
    if (!u->optimizer->is_allocated)
        return MEGA_MISTAKE("mega_update_run: the optimizer has no memory yet; call "
                            "mega_optimizer_allocate first");
    if (u->scratch == NULL && mega_update_scratch_bytes(u) > 0)
        return MEGA_MISTAKE("mega_update_run: the program has no scratch memory yet; call "
                            "mega_update_allocate first");
    if (u->step.samples >= 0 && u->step.expected_samples >= 0) return MEGA_OK;
    return MEGA_MISTAKE("mega_update_run: fewer than 0 samples; expected some");
}

void mega_update_profile(mega_update *u, mega_profile *profile)
{
    u->profile = profile;
}

static void profile_update(mega_update *u, const mega_profile_event *e, mega_profile_moment began)
{
    mega_profile_work(u->profile, e, began, mega_profile_queued(u->profile, &u->optimizer->options.queue));
}

int mega_update_pending(const mega_update *u)
{
    return u == NULL ? 0 : u->pending;
}

mega_status mega_update_wait_bucket(mega_update *u, int bucket)
{
    mega_request *r = &u->gather[bucket];
    if (r->world == NULL) return MEGA_OK;
    const mega_queue *queue = &u->optimizer->options.queue;
    const bool is_profiled = u->profile != NULL;
    const mega_profile_moment began =
        is_profiled ? mega_profile_queued(u->profile, queue) : (mega_profile_moment){.at = 0};
    u->pending--;
    const mega_status st = mega_comm_wait(r);
    *r = (mega_request){.world = NULL};
    if (is_profiled)
        mega_profile_work(u->profile,
                          &(mega_profile_event){.name = update_kind_name(UPDATE_PUBLISH),
                                                .scope = u->scope[bucket],
                                                .phase = "update",
                                                .is_wait = true,
                                                .is_exchange = true},
                          began, mega_profile_queued(u->profile, queue));
    return st;
}

/* Also after a failed wait, so that none is left. */
mega_status mega_update_wait(mega_update *u)
{
    mega_status st = MEGA_OK;
    for (int b = u != NULL ? mega_params_num_buckets(u->params) : 0; mega_update_pending(u) > 0 && --b >= 0;) {
        const mega_status now = mega_update_wait_bucket(u, b);
        if (st == MEGA_OK) st = now;
    }
    return st;
}

mega_status update_run_one(mega_update *u, int i)
{
    return run_of[u->list[i].kind](u, &u->list[i]);
}

static mega_status run_profiled(mega_update *u, int i)
{
    const update_instruction *x = &u->list[i];
    const mega_profile_moment began = mega_profile_queued(u->profile, &u->optimizer->options.queue);
    MEGA_TRY(run_of[x->kind](u, x));
    profile_update(u,
                   &(mega_profile_event){.name = update_kind_name(x->kind),
                                         .scope = x->bucket >= 0 ? u->scope[x->bucket] : "",
                                         .phase = "update",
                                         .bytes = update_cost(u, x).bytes,
                                         .number = i,
                                         .is_exchange = x->axis != NULL && mega_axis_has_others(x->axis)},
                   began);
    return MEGA_OK;
}

/* Runs instructions one by one, up to a verdict that is bad. */
static mega_status run_list(mega_update *u, int begin, int end, bool applies)
{
    const bool with_momenta = optimizer_is_compressed(u->optimizer, u->optimizer->updates + 1);
    for (int i = begin; i < end && u->step.verdict == MEGA_UPDATE_IS_FINITE; i++) {
        if (!update_has_turn(&u->list[i], with_momenta)) continue;
        if (u->pending > 0) MEGA_TRY(mega_comm_poll(u->options.world));
        u->step.is_cut = applies && u->list[i].kind != UPDATE_CHECK; /* if it fails */
        MEGA_TRY(u->profile != NULL ? run_profiled(u, i) : update_run_one(u, i));
        u->step.is_cut = false;
    }
    return MEGA_OK;
}

mega_status mega_update_run(mega_update *u, mega_update_part part)
{
    MEGA_TRY(update_check_ready(u));
    u->step.verdict = MEGA_UPDATE_IS_FINITE;
    u->step.is_cut = false;
    if (part != MEGA_UPDATE_APPLY) return run_list(u, 0, u->first_applied, false);
    MEGA_TRY(mega_update_wait(u)); /* for gathers of the update before that no forward waited for */
    optimizer_norm_begin(u->optimizer);
    if (u->optimizer->tensor_sum != NULL) lamb_begin(u->optimizer);
    if (u->records && u->profile == NULL) MEGA_TRY(update_run_recorded(u));
    else
        MEGA_TRY(run_list(u, u->first_applied, u->count, true));
    if (u->step.verdict != MEGA_UPDATE_IS_FINITE) return MEGA_OK;
    return update_defers_check(u) && !u->step.is_late ? update_read_verdict(u) : MEGA_OK;
}
