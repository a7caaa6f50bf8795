/* The options of an engine, one row for each member: the setting that it is taken from, its range, and whether ranks
 * are compared. A member without a row does not compile. Options of other modules (layout, optimizer, schedule, batch)
 * are checked by those modules. */
#include "engine_calls.h"
#include "megalith/compare.h"
#include "megalith/hash.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum option_range {
    ANY,
    NOT_NEGATIVE,
    POSITIVE,
    STAGE_OF_ZERO,
    OWN /* each rank's own: not compared */
} option_range;
typedef enum option_kind { IS_BOOL, IS_INT, IS_INT64, IS_UINT32, IS_DOUBLE, IS_POINTER } option_kind;

typedef struct option_row {
    const char *group, *name; /* name of the nested struct, or ""; name of the member */
    size_t offset;
    option_kind kind;
    option_range range;
    const char *(*text)(int64_t value); /* name of a choice; NULL: the option is a number */
} option_row;

/* ---- the rows ----
 * X(struct, group, member, range, text): a member that no setting gives
 * S(…, value): one that has this value of the settings `s`
 * N(type, member, rows of its type): a struct whose rows say where its values are from
 * W(type, member, rows of its type, value): a struct that has this value */

// clang-format off
#define LAYOUT_ROWS(X, S, T, group) \
    S(T, group, tp, ANY, NULL, (int)s->comm.tensor_model_parallel_size) \
    S(T, group, pp, ANY, NULL, (int)s->comm.pipeline_model_parallel_size) X(T, group, cp, ANY, NULL) X(T, group, ep, ANY, NULL) \
    X(T, group, planned_ranks, NOT_NEGATIVE, NULL) X(T, group, planned_rank, OWN, NULL)
#define BATCH_ROWS(X, S, T, group) \
    X(T, group, start, ANY, NULL) X(T, group, increment, ANY, NULL) X(T, group, samples, ANY, NULL) \
    X(T, group, global_batch, POSITIVE, NULL) X(T, group, micro_step, POSITIVE, NULL)
#define CURRICULUM_ROWS(X, S, T, group) \
    X(T, group, is_on, ANY, NULL) X(T, group, kind, ANY, curriculum_text) X(T, group, least, NOT_NEGATIVE, NULL) \
    X(T, group, most, NOT_NEGATIVE, NULL) X(T, group, steps, NOT_NEGATIVE, NULL) X(T, group, unit, NOT_NEGATIVE, NULL) \
    X(T, group, degree, NOT_NEGATIVE, NULL) X(T, group, difficulty, OWN, NULL) X(T, group, max_step, OWN, NULL) \
    X(T, group, stairs, NOT_NEGATIVE, NULL)
#define SCALE_ROWS(X, S, T, group) \
    X(T, group, rules, ANY, scale_rules_text) X(T, group, fixed, NOT_NEGATIVE, NULL) X(T, group, initial, NOT_NEGATIVE, NULL) \
    X(T, group, least, NOT_NEGATIVE, NULL) X(T, group, window, NOT_NEGATIVE, NULL) X(T, group, hysteresis, NOT_NEGATIVE, NULL) \
    X(T, group, consecutive_hysteresis, ANY, NULL)
#define SCHEDULE_ROWS(X, S, T, group) \
    X(T, group, style, ANY, style_text) X(T, group, max_lr, ANY, NULL) X(T, group, min_lr, ANY, NULL) \
    X(T, group, warmup_init, ANY, NULL) X(T, group, warmup, ANY, NULL) X(T, group, decay, ANY, NULL) \
    X(T, group, wsd_style, ANY, wsd_style_text) X(T, group, wsd_decay, ANY, NULL) \
    X(T, group, warmup_tokens, ANY, NULL) X(T, group, decay_tokens, ANY, NULL) \
    X(T, group, decay_style, ANY, decay_style_text) X(T, group, start_weight_decay, ANY, NULL) \
    X(T, group, end_weight_decay, ANY, NULL) X(T, group, weight_decay_samples, ANY, NULL)
#define STEP_ROWS(X, S, T, group) \
    X(T, group, kind, ANY, scheduler_text) X(T, group, lr, ANY, NULL) X(T, group, warmup_min_lr, ANY, NULL) \
    X(T, group, warmup_max_lr, ANY, NULL) X(T, group, warmup_min_ratio, ANY, NULL) X(T, group, cos_min_ratio, ANY, NULL) \
    X(T, group, warmup_num_steps, ANY, NULL) X(T, group, total_num_steps, ANY, NULL) X(T, group, warmup_type, ANY, warmup_text) \
    X(T, group, cycle_min_lr, ANY, NULL) X(T, group, cycle_max_lr, ANY, NULL) X(T, group, decay_lr_rate, ANY, NULL) \
    X(T, group, cycle_min_mom, ANY, NULL) X(T, group, cycle_max_mom, ANY, NULL) X(T, group, decay_mom_rate, ANY, NULL) \
    X(T, group, cycle_first_step_size, ANY, NULL) X(T, group, cycle_second_step_size, ANY, NULL) \
    X(T, group, decay_step_size, ANY, NULL) X(T, group, cycle_first_stair_count, ANY, NULL) \
    X(T, group, cycle_second_stair_count, ANY, NULL) X(T, group, cycle_momentum, ANY, NULL) \
    X(T, group, lr_range_test_min_lr, ANY, NULL) X(T, group, lr_range_test_step_rate, ANY, NULL) \
    X(T, group, lr_range_test_step_size, ANY, NULL) X(T, group, lr_range_test_staircase, ANY, NULL)
#define PLACE_ROWS(X, S, T, group) \
    S(T, group, overlap_reduce, ANY, NULL, s->graph.overlap_grad_reduce || s->graph.ddp_impl == MEGA_DDP_TORCH) \
    S(T, group, prefetch_elements, NOT_NEGATIVE, NULL, s->graph.stage3_prefetch_bucket_size) \
    S(T, group, reuse_elements, NOT_NEGATIVE, NULL, s->graph.stage3_max_reuse_distance) \
    S(T, group, live_elements, NOT_NEGATIVE, NULL, s->graph.stage3_max_live_parameters)
#define RECOMPUTE_ROWS(X, S, T, group) \
    X(T, group, replaces, ANY, NULL) X(T, group, interval, NOT_NEGATIVE, NULL) X(T, group, regions, NOT_NEGATIVE, NULL) \
    X(T, group, distribute, ANY, NULL) X(T, group, budget, NOT_NEGATIVE, NULL)
#define SUMS_ROWS(X, S, T, group) X(T, group, dtype, ANY, options_dtype_text) X(T, group, predivide, NOT_NEGATIVE, NULL)
#define ENGINE_ROWS(X, S, N, W, OPTIMIZER, T) \
    S(T, , compute, ANY, options_dtype_text, s->backend.params_dtype) \
    S(T, , backend, ANY, NULL, s->backend.backend) \
    X(T, , team, OWN, NULL) X(T, , world, OWN, NULL) \
    N(mega_layout_sizes, layout, LAYOUT_ROWS) X(T, , stage_programs, NOT_NEGATIVE, NULL) \
    S(T, , micro_batch, POSITIVE, NULL, s->optim.micro_batch_size) X(T, , seq, POSITIVE, NULL) \
    W(mega_batch_ramp, batch, BATCH_ROWS, batch) W(mega_curriculum, curriculum, CURRICULUM_ROWS, curriculum) \
    X(T, , no_train, ANY, NULL) X(T, , no_evaluate, ANY, NULL) X(T, , generate, ANY, NULL) \
    X(T, , prefill, NOT_NEGATIVE, NULL) X(T, , micro_batches, NOT_NEGATIVE, NULL) \
    S(T, , drop_last, ANY, NULL, s->dataloader_drop_last) S(T, , no_pack_weights, ANY, NULL, s->backend.no_pack_weights) \
    S(T, , per_token_loss, ANY, NULL, s->calculate_per_token_loss) S(T, , clip_grad, NOT_NEGATIVE, NULL, s->optim.clip_grad) \
    W(mega_loss_scale_options, loss_scale, SCALE_ROWS, mega_loss_scale_from_options(&s->optim)) \
    S(T, , dropout_seed, ANY, NULL, (uint32_t)s->seed) OPTIMIZER \
    S(T, , group, OWN, NULL, s->optim.parameter_group.item) S(T, , num_groups, OWN, NULL, s->optim.parameter_group.count) \
    W(mega_lr_schedule, schedule, SCHEDULE_ROWS, schedule) W(mega_step_schedule, step_schedule, STEP_ROWS, steps) \
    S(T, , bucket_elements, NOT_NEGATIVE, NULL, s->graph.ddp_bucket_size) X(T, , tp_sum_elements, NOT_NEGATIVE, NULL) \
    S(T, , zero_stage, STAGE_OF_ZERO, NULL, (int)s->graph.zero_stage) \
    S(T, , zero_persistence, NOT_NEGATIVE, NULL, s->graph.stage3_param_persistence_threshold) \
    N(mega_place_options, place, PLACE_ROWS) S(T, , monitor, OWN, NULL, &s->monitor) S(T, , given, OWN, NULL, s->options) \
    W(mega_recompute_options, recompute, RECOMPUTE_ROWS, recompute_of(s)) \
    W(mega_gradient_sums, sums, SUMS_ROWS, sums_of(s)) \
    S(T, , grad_accum_dtype, ANY, options_dtype_text, gradient_dtype[s->graph.grad_accum_dtype])
// clang-format on

/* An initializer without member names must have a value for every member (-Wmissing-field-initializers), so a member
 * that has no row above does not compile. The message names the last member of the struct, whichever has no row. */
#define ZERO(...)                   0,
#define ZEROS(T, member, ROWS, ...) {ROWS(ZERO, ZERO, T, member)},
/* After kind and row; before backend and queue, which the engine sets, as each rank does its row. */
#define OPTIMIZER_ZEROS {0, 0, MEGA_OPTIMIZER_ARGUMENTS(ZERO) 0, {0, 0}},
static_assert(sizeof((mega_engine_options){
                  ENGINE_ROWS(ZERO, ZERO, ZEROS, ZEROS, OPTIMIZER_ZEROS, mega_engine_options)}) > 0,
              "a row for each member");

static const char *options_dtype_text(int64_t value)
{
    return mega_dtype_name((mega_dtype)value);
}

static const char *options_optimizer_text(int64_t value)
{
    return mega_optimizer_kind_name((mega_optimizer_kind)value);
}

static const char *scale_rules_text(int64_t value)
{
    return value == MEGA_SCALE_DEEPSPEED ? "deepspeed" : "megatron";
}

static const char *style_text(int64_t value)
{
    return mega_lr_style_name((mega_lr_style)value);
}

static const char *wsd_style_text(int64_t value)
{
    return mega_lr_wsd_style_name((mega_lr_wsd_style)value);
}

static const char *decay_style_text(int64_t value)
{
    return mega_weight_decay_style_name((mega_weight_decay_style)value);
}

static const char *scheduler_text(int64_t value)
{
    return mega_scheduler_name((mega_scheduler_kind)value);
}

static const char *curriculum_text(int64_t value)
{
    return mega_curriculum_name((mega_curriculum_kind)value);
}

static const char *warmup_text(int64_t value)
{
    return mega_warmup_type_name((mega_warmup_type)value);
}

#define KIND_OF(x)                          \
    _Generic((x), bool                      \
             : IS_BOOL, int                 \
             : IS_INT, int64_t              \
             : IS_INT64, unsigned           \
             : IS_UINT32, /* and choices */ \
               double                       \
             : IS_DOUBLE, default           \
             : IS_POINTER)
#define OUTER_ROW(T, group, member, range, text, ...) \
    {"", #member, offsetof(T, member), KIND_OF(((T *)NULL)->member), range, text},
#define INNER_ROW(T, group, member, range, text, ...)                                                               \
    {#group ".", #member, offsetof(mega_engine_options, group) + offsetof(T, member), KIND_OF(((T *)NULL)->member), \
     range,      text},
#define INNER_ROWS(T, member, ROWS, ...) ROWS(INNER_ROW, INNER_ROW, T, member)
#define ARGUMENT_ROW(kind, type, taken, name, setting, member, ...) \
    INNER_ROW(mega_optimizer_options, optimizer, member, ANY, NULL)
#define OPTIMIZER_ROWS                                                              \
    INNER_ROW(mega_optimizer_options, optimizer, kind, ANY, options_optimizer_text) \
    MEGA_OPTIMIZER_ARGUMENTS(ARGUMENT_ROW)

static const option_row rows[] = {
    ENGINE_ROWS(OUTER_ROW, OUTER_ROW, INNER_ROWS, INNER_ROWS, OPTIMIZER_ROWS, mega_engine_options)};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

static int64_t integer_of(const option_row *r, const mega_engine_options *o)
{
    const void *at = (const char *)o + r->offset;
    switch (r->kind) {
    case IS_BOOL: return *(const bool *)at;
    case IS_INT: return *(const int *)at;
    case IS_UINT32: return *(const uint32_t *)at;
    default: return *(const int64_t *)at;
    }
}

static double real_of(const option_row *r, const mega_engine_options *o)
{
    return *(const double *)(const void *)((const char *)o + r->offset);
}

static const char *text_of(const option_row *r, const mega_engine_options *o, char out[64])
{
    if (r->text != NULL) snprintf(out, 64, "%s", r->text(integer_of(r, o)));
    else if (r->kind == IS_DOUBLE)
        snprintf(out, 64, "%.17g", real_of(r, o));
    else if (r->kind == IS_BOOL)
        snprintf(out, 64, "%s", integer_of(r, o) != 0 ? "true" : "false");
    else
        snprintf(out, 64, "%lld", (long long)integer_of(r, o));
    return out;
}

/* ---- options from settings ---- */

/* Full recomputation by groups (uniform) or of the first layers of each stage (block). Selective recomputation is a
 * choice of the layers of a model. */
static mega_recompute_options recompute_of(const mega_engine_settings *s)
{
    const mega_graph_options *g = &s->graph;
    const bool is_full = g->recompute_granularity == MEGA_RECOMPUTE_FULL;
    const bool is_block = is_full && g->recompute_method == MEGA_RECOMPUTE_BLOCK;
    const bool is_off = g->recompute_granularity == MEGA_RECOMPUTE_NONE && s->options != NULL &&
                        mega_options_is_given(s->options, "recompute_granularity");
    const int layers = (int)g->recompute_num_layers;
    return (mega_recompute_options){.replaces = is_full || is_off,
                                    .interval = !is_full   ? 0
                                                : is_block ? 1
                                                           : layers,
                                    .regions = is_block ? layers : 0,
                                    .distribute = s->graph.distribute_saved_activations,
                                    .budget = g->activation_budget};
}

static const mega_dtype gradient_dtype[] = {MEGA_F32, MEGA_F16, MEGA_BF16}; /* by mega_communication */

/* DeepSpeed ignores the factor if gradients are divided before the sum. */
static mega_gradient_sums sums_of(const mega_engine_settings *s)
{
    const bool has_factor = !s->graph.prescale_gradients && !isnan(s->graph.gradient_predivide_factor);
    return (mega_gradient_sums){.dtype = gradient_dtype[s->graph.communication_data_type],
                                .predivide = has_factor ? s->graph.gradient_predivide_factor : 0};
}

#define NOT_TAKEN(...)
#define TAKE(T, group, member, range, text, value) .member = (value),
#define TAKE_ROWS(T, member, ROWS)                 .member = {ROWS(NOT_TAKEN, TAKE, T, member)},
#define TAKE_WHOLE(T, member, ROWS, value)         .member = (value),
#define TAKE_OPTIMIZER                             .optimizer = mega_optimizer_from_options(&s->optim),
mega_status mega_engine_options_from_settings(const mega_engine_settings *s, mega_engine_options *out)
{
    mega_batch_ramp batch = {0};
    mega_curriculum curriculum = {0};
    mega_lr_schedule schedule = {0};
    mega_step_schedule steps = {0};
    MEGA_TRY(mega_batch_ramp_from_options(&s->optim, s->data_parallel_size, &batch));
    mega_curriculum_from_options(&s->optim, &curriculum);
    /* Plans and evaluations need no schedule; their options may leave open the length of the training, and --lr. */
    const bool has_lr = s->needs_lr || !isnan(s->optim.lr);
    if (has_lr && (s->optim.train_iters > 0 || s->optim.train_samples > 0))
        MEGA_TRY(mega_lr_schedule_from_options(&s->optim, &schedule));
    mega_step_schedule_from_options(&s->optim, &steps);
    *out =
        (mega_engine_options){ENGINE_ROWS(NOT_TAKEN, TAKE, TAKE_ROWS, TAKE_WHOLE, TAKE_OPTIMIZER, mega_engine_options)};
    return MEGA_OK;
}

/* ---- checking ranges ---- */

static bool options_in_range(const option_row *r, const mega_engine_options *o)
{
    if (r->range == ANY || r->range == OWN) return true;
    if (r->kind == IS_DOUBLE) return real_of(r, o) >= 0 && real_of(r, o) <= DBL_MAX;
    const int64_t value = integer_of(r, o);
    return value >= (r->range == POSITIVE) && (r->range != STAGE_OF_ZERO || value <= 3);
}

mega_status engine_check_ranges(const mega_engine_options *o)
{
    char found[64];
    for (int i = 0; i < NUM_ROWS; i++) {
        const option_row *r = &rows[i];
        if (options_in_range(r, o)) continue;
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_create: %s%s %s; expected %s", r->group, r->name,
                         text_of(r, o, found),
                         r->range == STAGE_OF_ZERO ? "0, 1, 2 or 3"
                         : r->kind == IS_DOUBLE    ? "a finite number of at least 0"
                         : r->range == POSITIVE    ? "at least 1"
                                                   : "at least 0");
    }
    return MEGA_OK;
}

/* ---- comparing ranks ---- */

static uint64_t hash_options(const void *of, int64_t begin, int64_t end)
{
    uint64_t hash = MEGA_HASH_START;
    char text[64];
    for (int64_t i = begin; i < end; i++)
        if (rows[i].range != OWN) hash = mega_hash64(hash, text, strlen(text_of(&rows[i], of, text)) + 1);
    return hash;
}

static void describe_option(const void *of, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    char text[64];
    snprintf(out, MEGA_COMPARED_TEXT, "%s%s %s", rows[i].group, rows[i].name, text_of(&rows[i], of, text));
}

/* The lists of a curriculum, as long on all ranks. Other lengths would be other programs, which wait for each other. */
static mega_status compare_stairs(mega_comm *world, const mega_engine_options *o)
{
    const mega_curriculum *c = &o->curriculum;
    if (!c->is_on || o->no_train || c->kind != MEGA_CURRICULUM_DISCRETE) return MEGA_OK; /* not read, nor checked */
    const mega_list difficulty = {c->difficulty, (size_t)c->stairs}, steps = {c->max_step, (size_t)c->stairs - 1};
    MEGA_TRY(mega_comm_compare_lines(world, "curriculum.difficulty in mega_engine_create", NULL, &difficulty));
    return mega_comm_compare_lines(world, "curriculum.max_step in mega_engine_create", NULL, &steps);
}

mega_status engine_compare_options(const mega_engine_options *o)
{
    const mega_compared l = {.what = "options in mega_engine_create",
                             .item = "option",
                             .is_independent = true,
                             .of = o,
                             .count = NUM_ROWS,
                             .hash = hash_options,
                             .describe = describe_option};
    MEGA_TRY(mega_comm_compare(mega_world_comm(o->world), &l));
    return compare_stairs(mega_world_comm(o->world), o);
}
