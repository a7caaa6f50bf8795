/* Learning rate and weight decay as functions of the samples consumed. The order of the tests is Megatron's and
 * matters: past the end of the decay even the inverse square root is at its floor. */
#include "megalith/schedule.h"
#include <math.h>

#define PI 3.14159265358979323846

const char *mega_lr_style_name(mega_lr_style style)
{
    static const char *const name[] = {[MEGA_LR_CONSTANT] = "constant",
                                       [MEGA_LR_LINEAR] = "linear",
                                       [MEGA_LR_COSINE] = "cosine",
                                       [MEGA_LR_INVERSE_SQUARE_ROOT] = "inverse-square-root"};
    return name[style];
}

const char *mega_weight_decay_style_name(mega_weight_decay_style style)
{
    static const char *const name[] = {
        [MEGA_WD_CONSTANT] = "constant", [MEGA_WD_LINEAR] = "linear", [MEGA_WD_COSINE] = "cosine"};
    return name[style];
}

mega_status mega_lr_schedule_from_config(mega_lr_schedule *out, const mega_config *cfg)
{
    const double batch = (double)cfg->global_batch_size;
    const bool by_samples = cfg->train_samples > 0;
    mega_lr_schedule s = {.style = cfg->lr_decay_style,
                          .max_lr = cfg->lr,
                          .min_lr = cfg->min_lr,
                          .warmup_init = cfg->lr_warmup_init,
                          .decay_style = cfg->weight_decay_incr_style,
                          .start_weight_decay = cfg->start_weight_decay,
                          .end_weight_decay = cfg->end_weight_decay};
    if (by_samples) {
        s.decay = (double)(cfg->lr_decay_samples > 0 ? cfg->lr_decay_samples : cfg->train_samples);
        s.warmup = (double)cfg->lr_warmup_samples;
        s.weight_decay_samples = cfg->train_samples;
    } else {
        s.decay = (double)(cfg->lr_decay_iters > 0 ? cfg->lr_decay_iters : cfg->train_iters) * batch;
        s.warmup = (double)cfg->lr_warmup_iters * batch;
        s.weight_decay_samples = cfg->train_iters * cfg->global_batch_size;
    }
    if (!isnan(cfg->lr_warmup_fraction)) s.warmup = cfg->lr_warmup_fraction * s.decay;
    if (s.decay <= 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "learning rate: the decay is over %.0f samples; give --train-iters, "
                         "--train-samples, --lr-decay-iters or --lr-decay-samples above 0",
                         s.decay);
    if (s.warmup >= s.decay)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "learning rate: the warm-up of %.0f samples does not end before the decay over %.0f samples "
                         "does; shorten it (--lr-warmup-iters, --lr-warmup-samples, --lr-warmup-fraction) or lengthen "
                         "the decay (--lr-decay-iters, --lr-decay-samples)",
                         s.warmup, s.decay);
    *out = s;
    return MEGA_OK;
}

double mega_lr_schedule_lr(const mega_lr_schedule *s, int64_t samples)
{
    const double n = (double)samples;
    if (s->warmup > 0 && n <= s->warmup) return s->warmup_init + (s->max_lr - s->warmup_init) * n / s->warmup;
    if (s->style == MEGA_LR_CONSTANT) return s->max_lr;
    if (n > s->decay) return s->min_lr;
    if (s->style == MEGA_LR_INVERSE_SQUARE_ROOT)
        return fmax(s->min_lr, s->max_lr * sqrt(fmax(s->warmup, 1)) / sqrt(fmax(n, 1)));
    const double done = (n - s->warmup) / (s->decay - s->warmup);
    const double left = s->style == MEGA_LR_LINEAR ? 1.0 - done : 0.5 * (1.0 + cos(PI * done));
    return s->min_lr + left * (s->max_lr - s->min_lr);
}

double mega_lr_schedule_weight_decay(const mega_lr_schedule *s, int64_t samples)
{
    if (samples > s->weight_decay_samples || s->decay_style == MEGA_WD_CONSTANT) return s->end_weight_decay;
    const double done = (double)samples / (double)s->weight_decay_samples;
    const double grown = s->decay_style == MEGA_WD_LINEAR ? done : 0.5 * (cos(PI * (1.0 - done)) + 1.0);
    return s->start_weight_decay + grown * (s->end_weight_decay - s->start_weight_decay);
}
