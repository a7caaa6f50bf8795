/* What follows from the rows of an engine's options (option_rows.h): their values from settings, the check of their
 * ranges, and the comparison between ranks. Options of other modules (layout, optimizer, schedule, batch) are checked
 * by those modules. */
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
    ANY = 0,
    NOT_NEGATIVE,
    POSITIVE,
    STAGE_OF_ZERO,
    OWN /* each rank's own: not compared */
} option_range;
typedef enum option_kind { IS_BOOL, IS_INT, IS_INT64, IS_UINT32, IS_DOUBLE, IS_POINTER } option_kind;

typedef struct option_row {
    const char *name; /* "clip_grad", "layout.tp" */
    size_t offset;
    option_kind kind;
    option_range range;
    const char *(*text)(int64_t value); /* name of a choice; NULL: the option is a number */
} option_row;

/* A member without a row does not compile: an initializer without member names must have a value for every member
 * (-Wmissing-field-initializers). The message always names the last member of the struct, not the one without a row. */
// clang-format off
#define ZERO(...)         0,
#define OPTION(...)       0,
#define SETTING(...)      0,
#define PART(...)         {
#define PART_SETTING(...) {
#define END_PART          },
// clang-format on
/* After kind and row; before backend and queue, which the engine sets, as each rank does its row. */
#define OPTIMIZER {0, 0, MEGA_OPTIMIZER_ARGUMENTS(ZERO) 0, {0, 0, 0}},
static_assert(sizeof((mega_engine_options){
#include "option_rows.h"
              }) > 0,
              "a row for each member");
#undef OPTION
#undef SETTING
#undef PART
#undef PART_SETTING
#undef END_PART
#undef OPTIMIZER

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

// clang-format off
#define KIND_OF(x) _Generic((x), bool: IS_BOOL, int: IS_INT, int64_t: IS_INT64, unsigned: IS_UINT32 /* and choices */, \
                            double: IS_DOUBLE, default: IS_POINTER)
// clang-format on
#define OPTION(member, ...)                               \
    {.name = #member,                                     \
     .offset = offsetof(mega_engine_options, member),     \
     .kind = KIND_OF(((mega_engine_options *)0)->member), \
     __VA_ARGS__},
#define SETTING(member, value, ...) OPTION(member, __VA_ARGS__)
#define PART(...)
#define PART_SETTING(...)
#define END_PART
#define ARGUMENT_ROW(kind, type, taken, name, setting, member, ...) OPTION(optimizer.member)
#define OPTIMIZER                                                   OPTION(optimizer.kind, .text = options_optimizer_text) MEGA_OPTIMIZER_ARGUMENTS(ARGUMENT_ROW)
static const option_row rows[] = {
#include "option_rows.h"
};
#undef OPTION
#undef SETTING
#undef PART_SETTING
#undef OPTIMIZER
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

#define OPTION(...)
#define SETTING(member, value, ...) .member = (value),
#define PART_SETTING(member, value) .member = (value),
#define OPTIMIZER                   .optimizer = mega_optimizer_from_options(&s->optim),
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
    *out = (mega_engine_options){
#include "option_rows.h"
    };
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
        return MEGA_MISTAKE("mega_engine_create: %s %s; expected %s", r->name, text_of(r, o, found),
                            r->range == STAGE_OF_ZERO ? "0, 1, 2 or 3"
                            : r->kind == IS_DOUBLE    ? "a finite number of at least 0"
                            : r->range == POSITIVE    ? "at least 1"
                                                      : "at least 0");
    }
    return MEGA_OK;
}

/* ---- comparing ranks ---- */

static uint64_t hash_options(const void *list, int64_t begin, int64_t end)
{
    uint64_t hash = MEGA_HASH_START;
    char text[64];
    for (int64_t i = begin; i < end; i++)
        if (rows[i].range != OWN) hash = mega_hash64(hash, text, strlen(text_of(&rows[i], list, text)) + 1);
    return hash;
}

static void describe_option(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    char text[64];
    snprintf(out, MEGA_COMPARED_TEXT, "%s %s", rows[i].name, text_of(&rows[i], list, text));
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
                             .list = o,
                             .count = NUM_ROWS,
                             .hash = hash_options,
                             .describe = describe_option};
    MEGA_TRY(mega_comm_compare(mega_world_comm(o->world), &l));
    return compare_stairs(mega_world_comm(o->world), o);
}
