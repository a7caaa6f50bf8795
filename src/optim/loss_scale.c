/* The loss scale of fp16 as a state machine: it reads nothing but its state and the outcome of the step. Also its
 * options. */
#include "megalith/loss_scale.h"
#include "megalith/optim_options.h"

#include <math.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_optim_options, name, field, kind)

// clang-format off
static const mega_option_row scale_rows[] = {
    {ROW("loss-scale", loss_scale, MEGA_OPTION_FLOAT), .json = "fp16.loss_scale", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "static loss scale of --fp16; 0 is a dynamic one"},
    {ROW("initial-loss-scale", initial_loss_scale, MEGA_OPTION_FLOAT), .fallback = "4294967296", .range = MEGA_RANGE_POSITIVE, .help = "first value of the dynamic loss scale"},
    {ROW("initial-scale-power", initial_scale_power, MEGA_OPTION_INT), .json = "fp16.initial_scale_power", .fallback = "16", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1000, .help = "that value as a power of 2, instead of --initial-loss-scale; a DeepSpeed JSON starts at 2^16"},
    {ROW("min-loss-scale", min_loss_scale, MEGA_OPTION_FLOAT), .json = "fp16.min_loss_scale", .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "smallest dynamic loss scale; an overflow at it ends the training"},
    {ROW("loss-scale-window", loss_scale_window, MEGA_OPTION_INT), .json = "fp16.loss_scale_window", .fallback = "1000", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "steps without overflow after which the dynamic loss scale doubles"},
    {ROW("hysteresis", hysteresis, MEGA_OPTION_INT), .json = "fp16.hysteresis", .fallback = "2", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "number of the overflow that first halves the dynamic loss scale; it counts again from 1 when the scale has doubled"},
    {ROW("consecutive-hysteresis", consecutive_hysteresis, MEGA_OPTION_FLAG), .json = "fp16.consecutive_hysteresis", .resume = MEGA_RESUME_REPORTED, .help = "--hysteresis counts again from 1 after every step without overflow"},
};
const mega_option_section mega_optim_scale_section = MEGA_SECTION("mixed precision", scale_rows);
// clang-format on

double mega_loss_scale_of_power(const mega_optim_options *o)
{
    return ldexp(1, (int)o->initial_scale_power);
}

mega_loss_scale_options mega_loss_scale_from_options(const mega_optim_options *o)
{
    return (mega_loss_scale_options){.rules = o->loss_scale_rules,
                                     .fixed = o->loss_scale > 0 ? o->loss_scale : 0, /* NAN: not given */
                                     .initial = o->initial_loss_scale,
                                     .least = o->min_loss_scale,
                                     .window = o->loss_scale_window,
                                     .hysteresis = o->hysteresis,
                                     .consecutive_hysteresis = o->consecutive_hysteresis};
}

/* Megatron-LM's, where the options are all zero. */
static mega_loss_scale_options with_defaults(const mega_loss_scale_options *o)
{
    mega_loss_scale_options of = *o;
    if (of.initial == 0 && of.least == 0) of.initial = 4294967296.0, of.least = 1;
    if (of.window == 0) of.window = 1000;
    if (of.hysteresis == 0) of.hysteresis = 2;
    return of;
}

mega_status mega_loss_scale_check(const mega_loss_scale_options *given)
{
    const mega_loss_scale_options of = with_defaults(given), *o = &of;
    if (!(o->fixed >= 0) || !isfinite(o->fixed))
        return MEGA_MISTAKE("loss scale %g; expected a number above 0, or 0 for a dynamic one", o->fixed);
    if (o->fixed > 0) return MEGA_OK;
    if (!(o->least > 0) || !(o->initial >= o->least) || !isfinite(o->initial))
        return MEGA_MISTAKE(
            "loss scale: first value %g, smallest value %g; expected numbers above 0, the first not below "
            "the smallest",
            o->initial, o->least);
    if (o->window < 1 || o->hysteresis < 1)
        return MEGA_MISTAKE("loss scale: window %lld, hysteresis %lld; expected numbers of at least 1",
                            (long long)o->window, (long long)o->hysteresis);
    return MEGA_OK;
}

mega_loss_scale mega_loss_scale_begin(const mega_loss_scale_options *given)
{
    const mega_loss_scale_options of = with_defaults(given), *o = &of;
    return (mega_loss_scale){.scale = o->fixed > 0 ? o->fixed : o->initial, .hysteresis = o->hysteresis};
}

static mega_loss_scale_change after_overflow(mega_loss_scale *s, const mega_loss_scale_options *o)
{
    if (s->hysteresis > 1) {
        s->hysteresis--;
        s->good = 0;
        return MEGA_SCALE_WAITS;
    }
    if (s->scale <= o->least) return MEGA_SCALE_EXHAUSTED;
    s->scale = fmax(s->scale / 2, o->least);
    s->good = 0;
    return MEGA_SCALE_LOWERED;
}

/* DeepSpeed asks before it counts this step, so the first rise comes one step later than in Megatron-LM. */
static bool is_rise_due(mega_loss_scale *s, const mega_loss_scale_options *o)
{
    if (o->rules == MEGA_SCALE_DEEPSPEED) {
        const int64_t before = s->good++;
        return before > 0 && before % o->window == 0;
    }
    if (++s->good < o->window) return false;
    s->good = 0;
    return true;
}

mega_loss_scale_change mega_loss_scale_advance(mega_loss_scale *s, const mega_loss_scale_options *given,
                                               bool overflowed)
{
    const mega_loss_scale_options of = with_defaults(given), *o = &of;
    if (o->fixed > 0) return overflowed ? MEGA_SCALE_WAITS : MEGA_SCALE_KEPT;
    if (overflowed) return after_overflow(s, o);
    if (o->consecutive_hysteresis) s->hysteresis = o->hysteresis;
    if (!is_rise_due(s, o) || !isfinite(2 * s->scale)) return MEGA_SCALE_KEPT;
    s->hysteresis = o->hysteresis;
    s->scale *= 2;
    return MEGA_SCALE_RAISED;
}
