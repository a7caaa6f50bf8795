/* The optimizers that are built in, one row each. To add one: a member of mega_optimizer_kind, its name in the choices
 * of --optimizer (options.c, in the same order), and a row here; docs/recipes.md, "An optimizer", lists the other
 * places. An update of each element by itself is a loop in elementwise_body.c. An option of the row (at most
 * OPTIMIZER_OPTIONS) is a member of mega_optimizer_options with a line in `settings`; an enum of elementwise.h numbers
 * those of a row. An update that needs whole tensors says so in `reach`: lamb.c and muon.c have its parts. */
#include "elementwise.h"
#include "megalith/kernels.h"
#include "muon.h"
#include "optimizer_impl.h"
#include "optimizer_row.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* An update without bias correction is one after infinitely many. */
static int64_t adam_update(const mega_optimizer_call *c)
{
    return c->option[ADAM_UNCORRECTED] != 0 ? INT64_MAX : c->update;
}

static void adam_kernel(mega_team *team, const optimizer_work *w, int64_t update, bool l2)
{
    const mega_optimizer_call *c = &w->call;
    const mega_adamw_args args = {.head = {.dtype = w->compute},
                                  .p = c->param,
                                  .m = w->state[0],
                                  .v = w->state[1],
                                  .weight = w->weight,
                                  .g = c->grad,
                                  .count = c->count,
                                  .k = update,
                                  .lr = c->lr,
                                  .beta1 = c->option[ADAM_BETA1],
                                  .beta2 = c->option[ADAM_BETA2],
                                  .eps = c->option[ADAM_EPS],
                                  .weight_decay = c->weight_decay,
                                  .grad_factor = c->grad_factor,
                                  .l2 = l2};
    (w->plain ? &mega_plain_adamw : &mega_cpu_adamw)->run(team, &args);
}

static void run_adam(mega_team *team, const optimizer_work *w)
{
    adam_kernel(team, w, adam_update(&w->call), w->call.option[ADAM_L2] != 0);
}

static void run_one_bit(mega_team *team, const optimizer_work *w)
{
    if ((double)w->call.update > w->call.option[ONE_BIT_FREEZE]) elementwise_one_bit(team, w);
    else
        adam_kernel(team, w, INT64_MAX, false);
}

static void run_sgd(mega_team *team, const optimizer_work *w)
{
    const mega_optimizer_call *c = &w->call;
    if (c->option[SGD_DAMPENING] != 0 || c->option[SGD_NESTEROV] != 0) {
        elementwise_sgd(team, w);
        return;
    }
    const mega_sgd_args args = {.head = {.dtype = w->compute},
                                .p = c->param,
                                .momentum = w->state[0],
                                .weight = w->weight,
                                .g = c->grad,
                                .count = c->count,
                                .lr = c->lr,
                                .mu = c->option[SGD_MOMENTUM],
                                .weight_decay = c->weight_decay,
                                .grad_factor = c->grad_factor,
                                .first = c->update == 1};
    (w->plain ? &mega_plain_sgd : &mega_cpu_sgd)->run(team, &args);
}

/* Names of states are those of torch. */
static const char *const adam_states[] = {"exp_avg", "exp_avg_sq", NULL};
static const char *const adam_options[] = {[ADAM_BETA1] = "beta1",
                                           [ADAM_BETA2] = "beta2",
                                           [ADAM_EPS] = "eps",
                                           [ADAM_L2] = "l2",
                                           [ADAM_UNCORRECTED] = "no_bias_correction",
                                           NULL};
static const char *const amsgrad_states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL};
static const char *const sgd_states[] = {"momentum_buffer", NULL};
static const char *const sgd_options[] = {
    [SGD_MOMENTUM] = "momentum", [SGD_DAMPENING] = "dampening", [SGD_NESTEROV] = "nesterov", NULL};
static const char *const adagrad_states[] = {"sum", NULL};
static const char *const adagrad_options[] = {
    [ADAGRAD_EPS] = "eps", [ADAGRAD_LR_DECAY] = "lr_decay", [ADAGRAD_INITIAL] = "initial_accumulator", NULL};
static const char *const lion_states[] = {"exp_avg", NULL};
static const char *const lion_options[] = {[LION_BETA1] = "beta1", [LION_BETA2] = "beta2", NULL};
static const char *const ademamix_states[] = {"exp_avg", "exp_avg_slow", "exp_avg_sq", NULL};
static const char *const ademamix_options[] = {[ADEMAMIX_BETA1] = "beta1",
                                               [ADEMAMIX_BETA2] = "beta2",
                                               [ADEMAMIX_EPS] = "eps",
                                               [ADEMAMIX_BETA3] = "beta3",
                                               [ADEMAMIX_ALPHA] = "alpha",
                                               [ADEMAMIX_STEPS] = "alpha_steps",
                                               NULL};

static const char *const schedule_free_states[] = {"y", "z", "exp_avg_sq", NULL};
static const char *const schedule_free_numbers[] = {
    [SCHEDULE_FREE_LR_MAX] = "lr_max", [SCHEDULE_FREE_WEIGHT_SUM] = "weight_sum", NULL};
static const char *const schedule_free_options[] = {[SCHEDULE_FREE_BETA1] = "beta1",
                                                    [SCHEDULE_FREE_BETA2] = "beta2",
                                                    [SCHEDULE_FREE_EPS] = "eps",
                                                    [SCHEDULE_FREE_WARMUP] = "warmup_steps",
                                                    [SCHEDULE_FREE_R] = "r",
                                                    [SCHEDULE_FREE_POWER] = "weight_lr_power",
                                                    NULL};
static const char *const lamb_options[] = {[LAMB_BETA1] = "beta1",
                                           [LAMB_BETA2] = "beta2",
                                           [LAMB_EPS] = "eps",
                                           [LAMB_MOST] = "max_coeff",
                                           [LAMB_LEAST] = "min_coeff",
                                           [LAMB_NO_BIAS_CORRECTION] = "no_bias_correction",
                                           [LAMB_EPS_INSIDE] = "eps_inside_sqrt",
                                           NULL};
static const char *const muon_states[] = {"momentum_buffer", "exp_avg", "exp_avg_sq", NULL};
static const char *const muon_options[] = {[ADAM_BETA1] = "beta1",
                                           [ADAM_BETA2] = "beta2",
                                           [ADAM_EPS] = "eps",
                                           [ADAM_L2] = "l2",
                                           [ADAM_UNCORRECTED] = "no_bias_correction",
                                           [MUON_MOMENTUM] = "muon_momentum",
                                           [MUON_NESTEROV] = "muon_nesterov",
                                           [MUON_STEPS] = "muon_steps",
                                           [MUON_COEFFICIENTS] = "muon_coefficients",
                                           [MUON_SCALE] = "muon_scale",
                                           [MUON_EXTRA_SCALE] = "muon_extra_scale",
                                           NULL};

enum { ONE_BIT_WORKER_ERROR = 2 };
static const char *const one_bit_states[] = {"exp_avg", "exp_avg_sq", "worker_error", "server_error", NULL};
static const char *const one_bit_options[] = {[ONE_BIT_BETA1] = "beta1",
                                              [ONE_BIT_BETA2] = "beta2",
                                              [ONE_BIT_EPS] = "eps",
                                              [ONE_BIT_FREEZE] = "freeze_step",
                                              NULL};

static const optimizer_builtin builtins[] = {
    [MEGA_OPTIMIZER_ADAM] = {.row = {.name = "adam", .state = adam_states, .option = adam_options}, .run = run_adam},
    [MEGA_OPTIMIZER_SGD] = {.row = {.name = "sgd", .state = sgd_states, .option = sgd_options}, .run = run_sgd},
    [MEGA_OPTIMIZER_ADAGRAD] = {.row = {.name = "adagrad", .state = adagrad_states, .option = adagrad_options},
                                .run = elementwise_adagrad},
    [MEGA_OPTIMIZER_LION] = {.row = {.name = "lion", .state = lion_states, .option = lion_options},
                             .run = elementwise_lion},
    [MEGA_OPTIMIZER_ADEMAMIX] = {.row = {.name = "ademamix", .state = ademamix_states, .option = ademamix_options},
                                 .run = elementwise_ademamix},
    [MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW] = {.row = {.name = "schedule_free_adamw",
                                                    .state = schedule_free_states,
                                                    .option = schedule_free_options},
                                            .run = elementwise_schedule_free,
                                            .number = schedule_free_numbers,
                                            .advance = elementwise_schedule_free_advance,
                                            .averages = true},
    [MEGA_OPTIMIZER_LAMB] = {.row = {.name = "lamb", .state = adam_states, .option = lamb_options},
                             .reach = REACH_NORM,
                             .prepare = lamb_prepare,
                             .update_whole = lamb_update},
    [MEGA_OPTIMIZER_MUON] = {.row = {.name = "muon", .state = muon_states, .option = muon_options},
                             .run = run_adam, /* of what is no matrix */
                             .reach = REACH_MATRIX,
                             .prepare = muon_prepare,
                             .update_whole = muon_update},
    [MEGA_OPTIMIZER_ONE_BIT_ADAM] = {.row = {.name = "one_bit_adam",
                                             .state = one_bit_states,
                                             .option = one_bit_options},
                                     .run = run_one_bit,
                                     .momentum = elementwise_one_bit_momentum,
                                     .errors = ONE_BIT_WORKER_ERROR,
                                     .freeze_step = ONE_BIT_FREEZE},
};

/* Adam with one state more; the same optimizer to users and in checkpoints. */
static const optimizer_builtin amsgrad = {.row = {.name = "adam", .state = amsgrad_states, .option = adam_options},
                                          .run = elementwise_amsgrad};

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

/* ---- options ---- */

typedef enum setting_range { BELOW_ONE, NOT_NEGATIVE, FINITE, IS_BOOL, IS_COUNT, IS_CHOICE } setting_range;

static const struct {
    const char *name;
    size_t field;
    setting_range range;
} settings[] = {
    {"beta1", offsetof(mega_optimizer_options, beta1), BELOW_ONE},
    {"beta2", offsetof(mega_optimizer_options, beta2), BELOW_ONE},
    {"eps", offsetof(mega_optimizer_options, eps), NOT_NEGATIVE},
    {"l2", offsetof(mega_optimizer_options, l2), IS_BOOL},
    {"no_bias_correction", offsetof(mega_optimizer_options, no_bias_correction), IS_BOOL},
    {"momentum", offsetof(mega_optimizer_options, momentum), BELOW_ONE},
    {"dampening", offsetof(mega_optimizer_options, dampening), FINITE},
    {"nesterov", offsetof(mega_optimizer_options, nesterov), IS_BOOL},
    {"lr_decay", offsetof(mega_optimizer_options, lr_decay), NOT_NEGATIVE},
    {"initial_accumulator", offsetof(mega_optimizer_options, initial_accumulator), NOT_NEGATIVE},
    {"beta3", offsetof(mega_optimizer_options, beta3), BELOW_ONE},
    {"alpha", offsetof(mega_optimizer_options, alpha), NOT_NEGATIVE},
    {"alpha_steps", offsetof(mega_optimizer_options, alpha_steps), IS_COUNT},
    {"freeze_step", offsetof(mega_optimizer_options, freeze_step), IS_COUNT},
    {"warmup_steps", offsetof(mega_optimizer_options, warmup_steps), IS_COUNT},
    {"r", offsetof(mega_optimizer_options, r), FINITE},
    {"weight_lr_power", offsetof(mega_optimizer_options, weight_lr_power), FINITE},
    {"max_coeff", offsetof(mega_optimizer_options, max_coeff), NOT_NEGATIVE},
    {"min_coeff", offsetof(mega_optimizer_options, min_coeff), NOT_NEGATIVE},
    {"eps_inside_sqrt", offsetof(mega_optimizer_options, eps_inside_sqrt), IS_BOOL},
    {"muon_momentum", offsetof(mega_optimizer_options, muon_momentum), BELOW_ONE},
    {"muon_nesterov", offsetof(mega_optimizer_options, muon_nesterov), IS_BOOL},
    {"muon_steps", offsetof(mega_optimizer_options, muon_steps), IS_COUNT},
    {"muon_coefficients", offsetof(mega_optimizer_options, muon_coefficients), IS_CHOICE},
    {"muon_scale", offsetof(mega_optimizer_options, muon_scale), IS_CHOICE},
    {"muon_extra_scale", offsetof(mega_optimizer_options, muon_extra_scale), NOT_NEGATIVE},
};

static mega_status read_setting(size_t i, const mega_optimizer_options *from, double *out)
{
    const char *at = (const char *)from + settings[i].field;
    double value = 0;
    if (settings[i].range == IS_BOOL) {
        bool is_set;
        memcpy(&is_set, at, sizeof is_set);
        *out = is_set;
        return MEGA_OK;
    }
    if (settings[i].range == IS_CHOICE) {
        unsigned choice;
        memcpy(&choice, at, sizeof choice);
        *out = choice;
        return MEGA_OK;
    }
    if (settings[i].range == IS_COUNT) {
        int64_t count;
        memcpy(&count, at, sizeof count);
        *out = (double)count;
        if (count >= 0) return MEGA_OK;
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: optimizer.%s %lld; expected 0 or more",
                         settings[i].name, (long long)count);
    }
    memcpy(&value, at, sizeof value);
    *out = value;
    if (settings[i].range == BELOW_ONE && !(value >= 0 && value < 1))
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: optimizer.%s %g; expected 0 or more, and below 1",
                         settings[i].name, value);
    if (settings[i].range == FINITE && !isfinite(value))
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: optimizer.%s %g; expected a finite number",
                         settings[i].name, value);
    if (settings[i].range == NOT_NEGATIVE && !(value >= 0 && isfinite(value)))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_optimizer_create: optimizer.%s %g; expected a finite number of at least 0",
                         settings[i].name, value);
    return MEGA_OK;
}

static mega_status check_whole(const optimizer_builtin *b, const mega_optimizer_options *o)
{
    static_assert(sizeof(mega_muon_scale) == sizeof(unsigned) && sizeof(mega_muon_coefficients) == sizeof(unsigned),
                  "choices are read as numbers");
    if (b->reach == REACH_NORM && (o->max_coeff <= 0 || o->min_coeff > o->max_coeff))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_optimizer_create: optimizer.min_coeff %g, max_coeff %g; expected a largest trust ratio "
                         "above 0, and a smallest one that is not above it",
                         o->min_coeff, o->max_coeff);
    if (b->reach != REACH_MATRIX) return MEGA_OK;
    if (o->muon_steps < 1 || o->muon_steps > MUON_MOST_STEPS)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_optimizer_create: optimizer.muon_steps %lld; expected 1 to %d",
                         (long long)o->muon_steps, MUON_MOST_STEPS);
    if ((unsigned)o->muon_coefficients > MEGA_MUON_CANS || (unsigned)o->muon_scale > MEGA_MUON_SHAPE_SCALING)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_optimizer_create: optimizer.muon_coefficients %d, muon_scale %d; expected values of "
                         "mega_muon_coefficients and mega_muon_scale",
                         (int)o->muon_coefficients, (int)o->muon_scale);
    if (!(o->muon_lr >= 0 && isfinite(o->muon_lr)) || !(o->adam_lr >= 0 && isfinite(o->adam_lr)))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_optimizer_create: optimizer.muon_lr %g, adam_lr %g; expected finite factors of at least "
                         "0 (0 means 1)",
                         o->muon_lr, o->adam_lr);
    return MEGA_OK;
}

/* An option without a member keeps the default of its row. */
mega_status optimizer_builtin_options(const optimizer_builtin *b, const mega_optimizer_options *from,
                                      double out[OPTIMIZER_OPTIONS])
{
    for (int k = 0; k < OPTIMIZER_OPTIONS && b->row.option != NULL && b->row.option[k] != NULL; k++) {
        if (b->row.option_default != NULL) out[k] = b->row.option_default[k];
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            if (strcmp(settings[i].name, b->row.option[k]) == 0) MEGA_TRY(read_setting(i, from, &out[k]));
    }
    return check_whole(b, from);
}
