/* The optimizers that are built in, one row each. To add one: a member of mega_optimizer_kind, its name in the choices
 * of --optimizer (options.c, in the same order), and a row here; docs/recipes.md, "An optimizer", lists the other
 * places. An update of each element by itself is a formula of megalith/optimizer_formulas.h. An option is a row of
 * optimizer_arguments.h. An update that needs whole tensors says so in `scope`: lamb.c and muon.c have its parts. */
#include "elementwise.h"
#include "megalith/kernels.h"
#include "muon.h"
#include "optimizer_impl.h"
#include "optimizer_row.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static void adam_kernel(const mega_queue *queue, const optimizer_work *w, bool l2)
{
    const mega_optimizer_call *c = &w->call;
    const mega_adamw_args args = {.head = {.dtype = w->compute},
                                  .p = c->param,
                                  .m = w->state[0],
                                  .v = w->state[1],
                                  .weight = w->weight,
                                  .g = c->grad,
                                  .count = c->count,
                                  .eps = ARGUMENT(c, eps),
                                  .grad_factor = w->factor,
                                  .number = elementwise_numbers(w, MEGA_KERNEL_adamw),
                                  .block = w->block,
                                  .l2 = l2};
    mega_kernel_of(w->backend, MEGA_KERNEL_adamw)->run(queue, &args);
}

static void run_adam(const mega_queue *queue, const optimizer_work *w)
{
    adam_kernel(queue, w, ARGUMENT(&w->call, l2) != 0);
}

static void run_one_bit(const mega_queue *queue, const optimizer_work *w)
{
    if ((double)w->call.update > ARGUMENT(&w->call, freeze_step)) elementwise_run(queue, w, MEGA_KERNEL_one_bit);
    else
        adam_kernel(queue, w, false);
}

static void run_sgd(const mega_queue *queue, const optimizer_work *w)
{
    const mega_optimizer_call *c = &w->call;
    if (ARGUMENT(c, dampening) != 0 || ARGUMENT(c, nesterov) != 0) {
        elementwise_run(queue, w, MEGA_KERNEL_nesterov);
        return;
    }
    const mega_sgd_args args = {.head = {.dtype = w->compute},
                                .p = c->param,
                                .momentum = w->state[0],
                                .weight = w->weight,
                                .g = c->grad,
                                .count = c->count,
                                .mu = ARGUMENT(c, momentum),
                                .grad_factor = w->factor,
                                .number = elementwise_numbers(w, MEGA_KERNEL_sgd),
                                .block = w->block};
    mega_kernel_of(w->backend, MEGA_KERNEL_sgd)->run(queue, &args);
}

/* Names of states are those of torch. */
static const char *const adam_states[] = {"exp_avg", "exp_avg_sq", NULL};
static const char *const amsgrad_states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL};
static const char *const sgd_states[] = {"momentum_buffer", NULL};
static const char *const adagrad_states[] = {"sum", NULL};
static const char *const lion_states[] = {"exp_avg", NULL};
static const char *const ademamix_states[] = {"exp_avg", "exp_avg_slow", "exp_avg_sq", NULL};

static const char *const schedule_free_states[] = {"y", "z", "exp_avg_sq", NULL};
static const char *const schedule_free_numbers[] = {
    [MEGA_CARRIED_LR_MAX] = "lr_max", [MEGA_CARRIED_WEIGHT_SUM] = "weight_sum", NULL};
static const char *const muon_states[] = {"momentum_buffer", "exp_avg", "exp_avg_sq", NULL};

enum { ONE_BIT_WORKER_ERROR = 2 };
static const char *const one_bit_states[] = {"exp_avg", "exp_avg_sq", "worker_error", "server_error", NULL};

static const optimizer_builtin builtins[] = {
    [MEGA_OPTIMIZER_ADAM] = {.row = {.name = "adam", .state = adam_states},
                             .formula = {MEGA_KERNEL_adamw},
                             .run = run_adam},
    [MEGA_OPTIMIZER_SGD] = {.row = {.name = "sgd", .state = sgd_states},
                            .formula = {MEGA_KERNEL_sgd, MEGA_KERNEL_nesterov},
                            .run = run_sgd},
    [MEGA_OPTIMIZER_ADAGRAD] = {.row = {.name = "adagrad", .state = adagrad_states}, .formula = {MEGA_KERNEL_adagrad}},
    [MEGA_OPTIMIZER_LION] = {.row = {.name = "lion", .state = lion_states}, .formula = {MEGA_KERNEL_lion}},
    [MEGA_OPTIMIZER_ADEMAMIX] = {.row = {.name = "ademamix", .state = ademamix_states},
                                 .formula = {MEGA_KERNEL_ademamix}},
    [MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW] = {.row = {.name = "schedule_free_adamw", .state = schedule_free_states},
                                            .formula = {MEGA_KERNEL_schedule_free},
                                            .number = schedule_free_numbers,
                                            .averages = true},
    [MEGA_OPTIMIZER_LAMB] = {.row = {.name = "lamb", .state = adam_states},
                             .formula = {MEGA_KERNEL_lamb_step},
                             .scope = SCOPE_NORM,
                             .prepare = lamb_prepare,
                             .update_whole = lamb_update},
    [MEGA_OPTIMIZER_MUON] = {.row = {.name = "muon", .state = muon_states},
                             .formula = {MEGA_KERNEL_adamw, MEGA_KERNEL_muon_momentum, MEGA_KERNEL_muon_step},
                             .run = run_adam, /* of what is no matrix */
                             .scope = SCOPE_MATRIX,
                             .prepare = muon_prepare,
                             .update_whole = muon_update},
    [MEGA_OPTIMIZER_ONE_BIT_ADAM] = {.row = {.name = "one_bit_adam", .state = one_bit_states},
                                     .formula = {MEGA_KERNEL_adamw, MEGA_KERNEL_one_bit_momentum, MEGA_KERNEL_one_bit},
                                     .run = run_one_bit,
                                     .momentum = MEGA_KERNEL_one_bit_momentum,
                                     .first_residual = ONE_BIT_WORKER_ERROR},
};

/* Adam with one state more; the same optimizer to users and in checkpoints. */
static const optimizer_builtin amsgrad = {.row = {.name = "adam", .state = amsgrad_states},
                                          .formula = {MEGA_KERNEL_amsgrad}};

const optimizer_builtin *optimizer_builtin_for(const mega_optimizer_options *o)
{
    return o->kind == MEGA_OPTIMIZER_ADAM && o->amsgrad ? &amsgrad : optimizer_builtin_of(o->kind);
}

const optimizer_builtin *optimizer_builtin_of(mega_optimizer_kind kind)
{
    const size_t count = sizeof builtins / sizeof *builtins;
    return (size_t)kind < count && builtins[kind].row.name != NULL ? &builtins[kind] : NULL;
}

const char *mega_optimizer_kind_name(mega_optimizer_kind kind)
{
    const optimizer_builtin *b = optimizer_builtin_of(kind);
    return b != NULL ? b->row.name : "unknown";
}

/* ---- arguments ---- */

#define CHECKED(kind, type, taken, name, setting, member, range, read_by, ...) \
    {#member, offsetof(mega_optimizer_options, member), MEGA_OPTION_##kind, MEGA_RANGE_##range, read_by},
static const struct {
    const char *name;
    size_t field;
    mega_option_kind kind;
    mega_option_range range;
    unsigned read_by;
} arguments[] = {MEGA_OPTIMIZER_ARGUMENTS(CHECKED)};

static double argument_value(int i, const mega_optimizer_options *from)
{
    const void *at = (const char *)from + arguments[i].field;
    switch (arguments[i].kind) {
    case MEGA_OPTION_FLOAT: return *(const double *)at;
    case MEGA_OPTION_INT: return (double)*(const int64_t *)at;
    case MEGA_OPTION_CHOICE: return *(const unsigned *)at;
    default: return *(const bool *)at;
    }
}

/* A member is 0 where a C program gives none, so that 0 is in range here. */
static mega_status check_argument(int i, double value)
{
    const bool is_below_one = arguments[i].range == MEGA_RANGE_BELOW_ONE,
               is_count = arguments[i].kind == MEGA_OPTION_INT;
    const bool is_any = arguments[i].range == MEGA_RANGE_ANY;
    if (isfinite(value) && (is_any || value >= 0) && (!is_below_one || value < 1)) return MEGA_OK;
    return MEGA_MISTAKE("mega_optimizer_create: optimizer.%s %.*g; expected %s", arguments[i].name, is_count ? 19 : 6,
                        value,
                        is_below_one ? "0 or more, and below 1"
                        : is_count   ? "0 or more"
                        : is_any     ? "a finite number"
                                     : "a finite number of at least 0");
}

static mega_status check_whole(const optimizer_builtin *b, const mega_optimizer_options *o)
{
    static_assert(sizeof(mega_muon_scale) == sizeof(unsigned) && sizeof(mega_muon_coefficients) == sizeof(unsigned),
                  "choices are read as numbers");
    if (b->scope == SCOPE_NORM && (o->max_coeff <= 0 || o->min_coeff > o->max_coeff))
        return MEGA_MISTAKE(
            "mega_optimizer_create: optimizer.min_coeff %g, max_coeff %g; expected a largest trust ratio "
            "above 0, and a smallest one that is not above it",
            o->min_coeff, o->max_coeff);
    if (b->scope != SCOPE_MATRIX) return MEGA_OK;
    if (o->muon_steps < 1 || o->muon_steps > MUON_MOST_STEPS)
        return MEGA_MISTAKE("mega_optimizer_create: optimizer.muon_steps %lld; expected 1 to %d",
                            (long long)o->muon_steps, MUON_MOST_STEPS);
    if ((unsigned)o->muon_coefficients > MEGA_MUON_CANS || (unsigned)o->muon_scale > MEGA_MUON_SHAPE_SCALING)
        return MEGA_MISTAKE("mega_optimizer_create: optimizer.muon_coefficients %d, muon_scale %d; expected values of "
                            "mega_muon_coefficients and mega_muon_scale",
                            (int)o->muon_coefficients, (int)o->muon_scale);
    return MEGA_OK;
}

mega_status optimizer_builtin_arguments(const optimizer_builtin *b, const mega_optimizer_options *from,
                                        double out[OPTIMIZER_ARGUMENTS])
{
    for (int i = 0; i < OPTIMIZER_ARGUMENTS; i++) {
        out[i] = argument_value(i, from);
        if ((arguments[i].read_by >> from->kind & 1) != 0) MEGA_TRY(check_argument(i, out[i]));
    }
    return check_whole(b, from);
}
