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

void muon_prepare(mega_optimizer *o, int i)
{
    const optimizer_span *r = &o->update[i];
    mega_formula_args a = elementwise_args(&o->work[i], MEGA_KERNEL_muon_momentum);
    a.state[1] = mega_params_grad_at(o->params, r->bucket, r->begin);
    optimizer_run(o, MEGA_KERNEL_muon_momentum, &a);
}

void muon_update(mega_optimizer *o, int i)
{
    const optimizer_work *w = &o->work[i];
    const whole_tensor *t = &o->tensor[o->update[i].tensor];
    const double scale =
        muon_scale((mega_muon_scale)ARGUMENT(&w->call, muon_scale), (double)t->whole[0], (double)t->whole[1]);
    mega_formula_args a = elementwise_args(w, MEGA_KERNEL_muon_step);
    a.times = scale * ARGUMENT(&w->call, muon_extra_scale);
    optimizer_run(o, MEGA_KERNEL_muon_step, &a);
}
