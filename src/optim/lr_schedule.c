/* Learning rate and weight decay as functions of the samples consumed. The order of the tests is Megatron's and
 * matters: past the end of the decay even the inverse square root is at its floor. */
#include "megalith/optim_options.h"
#include "megalith/schedule.h"
#include <float.h>
#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

const char *mega_lr_style_name(mega_lr_style style)
{
    static const char *const name[] = {
        [MEGA_LR_CONSTANT] = "constant", [MEGA_LR_LINEAR] = "linear",
        [MEGA_LR_COSINE] = "cosine",     [MEGA_LR_INVERSE_SQUARE_ROOT] = "inverse-square-root",
        [MEGA_LR_WSD] = "WSD",           [MEGA_LR_EXPONENTIAL] = "exponential"};
    return (size_t)style < sizeof name / sizeof *name ? name[style] : "unknown";
}

const char *mega_lr_wsd_style_name(mega_lr_wsd_style style)
{
    static const char *const name[] = {[MEGA_LR_WSD_EXPONENTIAL] = "exponential",
                                       [MEGA_LR_WSD_LINEAR] = "linear",
                                       [MEGA_LR_WSD_COSINE] = "cosine",
                                       [MEGA_LR_WSD_MINUS_SQRT] = "minus_sqrt"};
    return (size_t)style < sizeof name / sizeof *name ? name[style] : "unknown";
}

const char *mega_weight_decay_style_name(mega_weight_decay_style style)
{
    static const char *const name[] = {
        [MEGA_WD_CONSTANT] = "constant", [MEGA_WD_LINEAR] = "linear", [MEGA_WD_COSINE] = "cosine"};
    return (size_t)style < sizeof name / sizeof *name ? name[style] : "unknown";
}

static mega_status check_styles(const mega_lr_schedule *s)
{
    if ((unsigned)s->style >= MEGA_LR_STYLE_COUNT)
        return MEGA_MISTAKE("schedule.style %d: no style of decay; expected 0 to %d", (int)s->style,
                            MEGA_LR_STYLE_COUNT - 1);
    if ((unsigned)s->wsd_style >= MEGA_LR_WSD_STYLE_COUNT)
        return MEGA_MISTAKE("schedule.wsd_style %d: no style of decay; expected 0 to %d", (int)s->wsd_style,
                            MEGA_LR_WSD_STYLE_COUNT - 1);
    if ((unsigned)s->decay_style > MEGA_WD_COSINE)
        return MEGA_MISTAKE("schedule.decay_style %d: no style of weight decay; expected 0 to %d", (int)s->decay_style,
                            MEGA_WD_COSINE);
    return MEGA_OK;
}

mega_status mega_lr_schedule_check(const mega_lr_schedule *s)
{
    const struct {
        const char *name;
        double value;
    } number[] = {{"max_lr", s->max_lr},
                  {"min_lr", s->min_lr},
                  {"warmup_init", s->warmup_init},
                  {"warmup", s->warmup},
                  {"decay", s->decay},
                  {"wsd_decay", s->wsd_decay},
                  {"warmup_tokens", s->warmup_tokens},
                  {"decay_tokens", s->decay_tokens},
                  {"start_weight_decay", s->start_weight_decay},
                  {"end_weight_decay", s->end_weight_decay}};
    MEGA_TRY(check_styles(s));
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!(number[i].value >= 0 && number[i].value <= FLT_MAX))
            return MEGA_MISTAKE("schedule.%s %g; expected a finite number of at least 0 that a float holds",
                                number[i].name, number[i].value);
    if (s->style != MEGA_LR_CONSTANT && !(s->warmup < s->decay))
        return MEGA_MISTAKE("schedule.warmup %g, schedule.decay %g samples: a rate that decays needs samples to do so; "
                            "expected a warm-up that ends before the decay does",
                            s->warmup, s->decay);
    if (s->style != MEGA_LR_CONSTANT && s->decay_tokens > 0 && !(s->warmup_tokens < s->decay_tokens))
        return MEGA_MISTAKE(
            "schedule.warmup_tokens %g, schedule.decay_tokens %g: expected a warm-up that ends before the "
            "decay does",
            s->warmup_tokens, s->decay_tokens);
    if (s->style == MEGA_LR_WSD && s->wsd_decay > s->decay)
        return MEGA_MISTAKE("schedule.wsd_decay %g samples; expected at most those of schedule.decay, %g", s->wsd_decay,
                            s->decay);
    if (s->weight_decay_samples < (s->decay_style != MEGA_WD_CONSTANT))
        return MEGA_MISTAKE(
            "schedule.weight_decay_samples %lld; expected the samples over which the weight decay grows",
            (long long)s->weight_decay_samples);
    return MEGA_OK;
}

#define ROW(name, field, kind) MEGA_OPTION(mega_optim_options, name, field, kind)

// clang-format off
static const mega_option_row learning_rows[] = {
    {ROW("lr", lr, MEGA_OPTION_FLOAT), .json = "optimizer.params.lr", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "peak learning rate"},
    {ROW("lr-decay-style", lr_decay_style, MEGA_OPTION_CHOICE), .fallback = "linear", .choices = "constant|linear|cosine|inverse-square-root|WSD|exponential", .resume = MEGA_RESUME_SCHEDULE, .help = "curve from the peak to --min-lr; WSD stays at the peak until its last part (--lr-wsd-decay-*); exponential halves the rate over the curve, as Megatron-LM 1.0 does"},
    {ROW("lr-decay-iters", lr_decay_iters, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "iteration at which the curve ends; --train-iters when not given"},
    {ROW("lr-decay-samples", lr_decay_samples, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "sample at which the curve ends; --train-samples when not given"},
    {ROW("lr-wsd-decay-style", lr_wsd_decay_style, MEGA_OPTION_CHOICE), .fallback = "exponential", .choices = "exponential|linear|cosine|minus_sqrt", .resume = MEGA_RESUME_SCHEDULE, .help = "WSD: the shape of its last part, from the peak to --min-lr"},
    {ROW("lr-wsd-decay-iters", lr_wsd_decay_iters, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "WSD: iterations of its last part, which ends where the curve does"},
    {ROW("lr-wsd-decay-samples", lr_wsd_decay_samples, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "WSD: samples of its last part, in a training that is counted in samples"},
    {ROW("lr-warmup-fraction", lr_warmup_fraction, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_SCHEDULE, .help = "warm-up as a part of the curve"},
    {ROW("lr-warmup-iters", lr_warmup_iters, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "warm-up in iterations"},
    {ROW("lr-warmup-samples", lr_warmup_samples, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "warm-up in samples"},
    {ROW("lr-warmup-init", lr_warmup_init, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "learning rate at the start of the warm-up"},
    {ROW("min-lr", min_lr, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "learning rate at the end of the curve and after it"},
};
const mega_option_section mega_optim_learning_section = MEGA_SECTION("learning rate", learning_rows);
// clang-format on

mega_status mega_lr_schedule_from_options(const mega_optim_options *o, mega_lr_schedule *out)
{
    const double batch = (double)o->global_batch_size;
    const bool by_samples = o->train_samples > 0;
    mega_lr_schedule s = {.style = o->lr_decay_style,
                          .wsd_style = o->lr_wsd_decay_style,
                          .max_lr = o->lr,
                          .min_lr = o->min_lr,
                          .warmup_init = o->lr_warmup_init,
                          .decay_style = o->weight_decay_incr_style,
                          .start_weight_decay = o->start_weight_decay,
                          .end_weight_decay = o->end_weight_decay};
    if (by_samples) {
        s.decay = (double)(o->lr_decay_samples > 0 ? o->lr_decay_samples : o->train_samples);
        s.warmup = (double)o->lr_warmup_samples;
        s.wsd_decay = (double)o->lr_wsd_decay_samples;
        s.weight_decay_samples = o->train_samples;
    } else {
        s.decay = (double)(o->lr_decay_iters > 0 ? o->lr_decay_iters : o->train_iters) * batch;
        s.warmup = (double)o->lr_warmup_iters * batch;
        s.wsd_decay = (double)o->lr_wsd_decay_iters * batch;
        s.weight_decay_samples = o->train_iters * o->global_batch_size;
    }
    if (!isnan(o->lr_warmup_fraction)) s.warmup = o->lr_warmup_fraction * s.decay;
    if (s.decay <= 0)
        return MEGA_MISTAKE("learning rate: the decay is over %.0f samples; give --train-iters, "
                            "--train-samples, --lr-decay-iters or --lr-decay-samples above 0",
                            s.decay);
    if (s.warmup >= s.decay)
        return MEGA_MISTAKE(
            "learning rate: the warm-up of %.0f samples does not end before the decay over %.0f samples "
            "does; shorten it (--lr-warmup-iters, --lr-warmup-samples, --lr-warmup-fraction) or lengthen "
            "the decay (--lr-decay-iters, --lr-decay-samples)",
            s.warmup, s.decay);
    *out = s;
    return MEGA_OK;
}

/* The remaining fraction of the way from the peak to the minimum: 1 until the last part of the decay begins. */
static double wsd_left(const mega_lr_schedule *s, double n)
{
    const double past = n - (s->decay - s->wsd_decay);
    if (past <= 0) return 1;
    const double done = past / s->wsd_decay;
    switch (s->wsd_style) {
    case MEGA_LR_WSD_LINEAR: return 1 - done;
    case MEGA_LR_WSD_COSINE: return 0.5 * (1 + cos(PI * done));
    case MEGA_LR_WSD_MINUS_SQRT: return 1 - sqrt(done);
    default: return 2 * pow(0.5, done) - 1;
    }
}

/* Megatron-LM 1.0 computes this decay without the warm-up, and keeps its last value afterwards. */
static double decay_exponential(const mega_lr_schedule *s, double n)
{
    const double past = fmax(fmin(n, s->decay - s->warmup) - s->warmup, 0);
    return fmax(s->min_lr, s->max_lr * exp(-0.693 * past / s->decay));
}

double mega_lr_schedule_lr(const mega_lr_schedule *s, int64_t samples)
{
    const double n = (double)samples;
    if (s->warmup > 0 && n <= s->warmup) return s->warmup_init + (s->max_lr - s->warmup_init) * n / s->warmup;
    if (s->style == MEGA_LR_CONSTANT) return s->max_lr;
    if (s->style == MEGA_LR_EXPONENTIAL) return decay_exponential(s, n);
    if (n > s->decay) return s->min_lr;
    if (s->style == MEGA_LR_INVERSE_SQUARE_ROOT)
        return fmax(s->min_lr, s->max_lr * sqrt(fmax(s->warmup, 1)) / sqrt(fmax(n, 1)));
    const double done = (n - s->warmup) / (s->decay - s->warmup);
    const double left = s->style == MEGA_LR_WSD      ? wsd_left(s, n)
                        : s->style == MEGA_LR_LINEAR ? 1.0 - done
                                                     : 0.5 * (1.0 + cos(PI * done));
    return s->min_lr + left * (s->max_lr - s->min_lr);
}

/* Megatron-DeepSpeed's rules: warm-up and decay are each counted in tokens if an option counts them so. A decay in
 * tokens after a warm-up in samples begins with the tokens that these had. */
double mega_lr_schedule_lr_at(const mega_lr_schedule *s, int64_t samples, int64_t tokens)
{
    mega_lr_schedule of_tokens = *s;
    const bool warms_by_tokens = !(s->warmup > 0) && s->warmup_tokens > 0;
    const bool is_warming = warms_by_tokens ? (double)tokens <= s->warmup_tokens : (double)samples <= s->warmup;
    of_tokens.warmup = s->warmup_tokens;
    of_tokens.decay = s->decay_tokens;
    if (is_warming) return mega_lr_schedule_lr(warms_by_tokens ? &of_tokens : s, warms_by_tokens ? tokens : samples);
    if (!(s->decay_tokens > 0)) return mega_lr_schedule_lr(s, samples);
    if (!warms_by_tokens && (double)tokens <= s->warmup_tokens) return s->max_lr; /* skipped steps had other lengths */
    return mega_lr_schedule_lr(&of_tokens, tokens);
}

double mega_lr_schedule_weight_decay(const mega_lr_schedule *s, int64_t samples)
{
    if (samples > s->weight_decay_samples || s->decay_style == MEGA_WD_CONSTANT) return s->end_weight_decay;
    const double done = (double)samples / (double)s->weight_decay_samples;
    const double grown = s->decay_style == MEGA_WD_LINEAR ? done : 0.5 * (cos(PI * (1.0 - done)) + 1.0);
    return s->start_weight_decay + grown * (s->end_weight_decay - s->start_weight_decay);
}
