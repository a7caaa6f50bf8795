/* Optimizers that update each element by itself, besides AdamW and plain SGD. With g the clipped gradient, m, v, s
 * states that start at 0, k the number of the update from 1 and d the weight decay of the parameter:
 *
 *   sgd with Nesterov's momentum (mu) or dampening (tau), as torch.optim.SGD (Sutskever et al. 2013):
 *       g += d p;  m = mu m + (1 - tau) g, or g in the first update;  p -= lr (g + mu m) with Nesterov, else lr m
 *   adagrad, as torch.optim.Adagrad (Duchi et al. 2011):
 *       g += d p;  v += g^2;  p -= lr / (1 + (k - 1) lr_decay) * g / (sqrt(v) + eps)
 *   lion (Chen et al. 2023, arXiv 2302.06675):
 *       p -= lr (sign(b1 m + (1 - b1) g) + d p);  m = b2 m + (1 - b2) g
 *   ademamix (Pagliardini et al. 2024, arXiv 2409.03137):
 *       m = b1 m + (1 - b1) g;  s = b3(k) s + (1 - b3(k)) g;  v = b2 v + (1 - b2) g^2
 *       p -= lr ((m / (1 - b1^k) + alpha(k) s) / (sqrt(v / (1 - b2^k)) + eps) + d p)
 *       alpha(k) = min(k / T, 1) alpha;  b3(k) = exp(ln b1 ln b3 / ((1 - k/T) ln b3 + k/T ln b1)), at most b3;
 *       without T both have their last value from the start */
#include "elementwise.h"
#include <math.h>
#include <stddef.h>

/* ---- AdEMAMix: what changes from update to update ---- */

typedef struct ademamix_factors {
    double beta1, beta2, beta3, alpha, eps, corrected1, corrected2;
} ademamix_factors;

static ademamix_factors ademamix_factors_of(const mega_optimizer_call *c)
{
    const double *o = c->option, k = (double)c->update, steps = o[ADEMAMIX_STEPS];
    ademamix_factors f = {.beta1 = o[ADEMAMIX_BETA1],
                          .beta2 = o[ADEMAMIX_BETA2],
                          .beta3 = o[ADEMAMIX_BETA3],
                          .alpha = o[ADEMAMIX_ALPHA],
                          .eps = o[ADEMAMIX_EPS]};
    f.corrected1 = 1 - pow(f.beta1, k);
    f.corrected2 = 1 - pow(f.beta2, k);
    if (!(k < steps)) return f;
    const double done = k / steps, log1 = log(f.beta1), log3 = log(f.beta3);
    f.alpha *= done;
    if (f.beta1 > 0 && f.beta3 > 0) f.beta3 = fmin(f.beta3, exp(log1 * log3 / ((1 - done) * log3 + done * log1)));
    return f;
}

#define REAL    float
#define SQRT    sqrtf
#define NAME(x) x##_f32
#include "elementwise_body.c"
#undef REAL
#undef SQRT
#undef NAME
#define REAL    double
#define SQRT    sqrt
#define NAME(x) x##_f64
#include "elementwise_body.c"

typedef void update_function(const mega_optimizer_call *call, int64_t begin, int64_t end);

static void run_typed(mega_team *team, const optimizer_work *w, update_function *narrow, update_function *wide)
{
    const mega_optimizer_row row = {.update = w->compute == MEGA_F64 ? wide : narrow};
    mega_optimizer_row_run(&row, team, w);
}

void elementwise_sgd(mega_team *team, const optimizer_work *w)
{
    run_typed(team, w, sgd_f32, sgd_f64);
}

void elementwise_adagrad(mega_team *team, const optimizer_work *w)
{
    run_typed(team, w, adagrad_f32, adagrad_f64);
}

void elementwise_lion(mega_team *team, const optimizer_work *w)
{
    run_typed(team, w, lion_f32, lion_f64);
}

void elementwise_ademamix(mega_team *team, const optimizer_work *w)
{
    run_typed(team, w, ademamix_f32, ademamix_f64);
}
