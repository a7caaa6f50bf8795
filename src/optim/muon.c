/* Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) as Megatron-LM and torch.optim.Muon compute it.
 * With g the clipped gradient of a matrix [out, in], m a state that starts at 0, mu the momentum and d the weight
 * decay:
 *
 *   m = mu m + (1 - mu) g;  x = m, or mu m + (1 - mu) g with Nesterov's momentum
 *   p = (1 - lr d) p - lr scale(out, in) extra_scale orthogonalized(x)
 *
 * With Adam's L2 the decay is added to g instead, as in Megatron-LM. The update program calls the parts: momentum and
 * parameter of each element here, on the rank that holds it; newton_schulz.c orthogonalizes on the rank to which the
 * matrix was dealt. In between, x and the result replace the gradient, so no other memory holds them. */
#include "muon.h"
#include "optimizer_impl.h"

#include <math.h>

double muon_scale(mega_muon_scale mode, double rows, double cols)
{
    switch (mode) {
    case MEGA_MUON_SPECTRAL: return sqrt(fmax(rows, cols));
    case MEGA_MUON_UNIT_RMS_NORM: return sqrt(rows / cols);
    case MEGA_MUON_SHAPE_SCALING: break;
    }
    return sqrt(fmax(1, rows / cols));
}

typedef struct muon_pass {
    const mega_optimizer_call *call;
    void *grad;
} muon_pass;

#define REAL    float
#define NAME(x) x##_f32
#include "muon_body.c"
#undef REAL
#undef NAME
#define REAL    double
#define NAME(x) x##_f64
#include "muon_body.c"

enum { MUON_GRAIN = 4096 }; /* elements that a thread claims at a time (bench_optimizer) */

void muon_prepare(mega_optimizer *o, int i)
{
    const optimizer_work *w = &o->work[i];
    const optimizer_span *r = &o->update[i];
    muon_pass pass = {&w->call, mega_params_grad_at(o->params, r->bucket, r->begin)};
    mega_team_for(o->options.queue.team, w->call.count, MUON_GRAIN,
                  w->compute == MEGA_F64 ? muon_momentum_f64 : muon_momentum_f32, &pass);
}

void muon_update(mega_optimizer *o, int i)
{
    optimizer_work w = o->work[i];
    const whole_tensor *t = &o->tensor[o->update[i].tensor];
    const mega_optimizer_row row = {.update = w.compute == MEGA_F64 ? muon_step_f64 : muon_step_f32};
    const double scale =
        muon_scale((mega_muon_scale)ARGUMENT(&w.call, muon_scale), (double)t->whole[0], (double)t->whole[1]);
    w.call.grad_factor = scale * ARGUMENT(&w.call, muon_extra_scale);
    if (ARGUMENT(&w.call, l2) != 0) w.call.weight_decay = 0; /* it is in the momentum */
    mega_optimizer_row_run(&row, o->options.queue.team, &w);
}
