/* The loss scale of an engine (optim/loss_scale.c is its state machine): which steps are skipped, what is said about
 * it, and its part of a checkpoint. Only fp16 scales its losses. */
#include "engine_losses.h"
#include "engine_step.h"
#include "megalith/log.h"

#include <math.h>
#include <stdio.h>

#define MEMBER "loss_scale"

static bool is_scaled(const mega_engine *e)
{
    return e->options.compute == MEGA_F16;
}

double engine_scale(const mega_engine *e)
{
    return is_scaled(e) ? e->step.scale.scale : 1.0;
}

/* DeepSpeed's line, on the rank that logs. */
static void say_overflow(const mega_engine *e, const mega_loss_scale *next, mega_loss_scale_change change)
{
    if (e->options.loss_scale.rules != MEGA_SCALE_DEEPSPEED || e->layout->world.rank != 0) return;
    char what[96] = "";
    if (e->options.loss_scale.fixed > 0) {
        mega_warn("[deepspeed] OVERFLOW! Skipping step. Gradients are non-finite, weights were not updated.");
        return;
    }
    if (change == MEGA_SCALE_LOWERED) snprintf(what, sizeof what, ", reducing to %.0f", next->scale);
    else
        snprintf(what, sizeof what, ", but hysteresis is %lld. Reducing hysteresis to %lld",
                 (long long)e->step.scale.hysteresis, (long long)next->hysteresis);
    mega_info("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: %.0f%s", e->step.scale.scale, what);
}

/* All ranks have the same loss and the same sum of non-finite gradients, so all decide alike. */
mega_status engine_skip_step(mega_engine *e, mega_step_result *r)
{
    mega_loss_scale next = e->step.scale;
    const mega_loss_scale_change change =
        is_scaled(e) ? mega_loss_scale_advance(&next, &e->options.loss_scale, true) : MEGA_SCALE_EXHAUSTED;
    if (change == MEGA_SCALE_EXHAUSTED)
        return isfinite(r->loss) ? engine_nonfinite_gradient(e) : engine_nonfinite_loss(e, r->loss);
    say_overflow(e, &next, change);
    e->step.scale = next;
    e->progress.skipped++;
    r->skipped = true;
    r->grad_norm = NAN;
    return MEGA_OK;
}

void engine_scale_good_step(mega_engine *e)
{
    if (is_scaled(e)) mega_loss_scale_advance(&e->step.scale, &e->options.loss_scale, false);
}

const char *engine_scale_text(const mega_engine *e, char out[64])
{
    out[0] = '\0';
    if (is_scaled(e)) snprintf(out, 64, " at the smallest loss scale, %.6g", e->step.scale.scale);
    return out;
}

void engine_scale_reset(mega_engine *e)
{
    e->step.scale = mega_loss_scale_begin(&e->options.loss_scale);
}

mega_status engine_scale_save(const mega_engine *e, json_t *root)
{
    if (!is_scaled(e)) return MEGA_OK;
    json_t *scale = json_pack("{s:f, s:I, s:I, s:I}", "scale", e->step.scale.scale, "good_steps",
                              (json_int_t)e->step.scale.good, "hysteresis", (json_int_t)e->step.scale.hysteresis,
                              "skipped_iterations", (json_int_t)e->progress.skipped);
    return json_object_set_new(root, MEMBER, scale) == 0 ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "run.json");
}

void engine_scale_load_skipped(mega_engine *e, const json_t *root)
{
    const json_t *skipped = json_object_get(json_object_get(root, MEMBER), "skipped_iterations");
    e->progress.skipped = (int64_t)json_integer_value(skipped); /* 0 where there is none */
}

/* A checkpoint of another number type has no scale, and a static scale is that of the options: the engine keeps its
 * own. */
mega_status engine_scale_load(mega_engine *e, const json_t *root)
{
    const json_t *stored = json_object_get(root, MEMBER);
    if (!is_scaled(e) || e->options.loss_scale.fixed > 0 || stored == NULL) return MEGA_OK;
    const double scale = json_number_value(json_object_get(stored, "scale"));
    const int64_t good = (int64_t)json_integer_value(json_object_get(stored, "good_steps"));
    const int64_t hysteresis = (int64_t)json_integer_value(json_object_get(stored, "hysteresis"));
    if (!(scale > 0) || !isfinite(scale) || good < 0 || hysteresis < 1)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "run.json: \"" MEMBER "\": scale %g, good_steps %lld, hysteresis %lld; expected a scale above "
                         "0, 0 or more steps, and a hysteresis of at least 1; load with --no-load-optim to start with "
                         "the scale of the options",
                         scale, (long long)good, (long long)hysteresis);
    e->step.scale = (mega_loss_scale){.scale = scale, .good = good, .hysteresis = hysteresis};
    return MEGA_OK;
}
