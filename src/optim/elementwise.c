/* Optimizers that update each element by itself, besides AdamW and plain SGD. With g the clipped gradient, m, v, s
 * states that start at 0, k the number of the update from 1 and d the weight decay of the parameter:
 *
 *   adam with amsgrad, as torch.optim.AdamW and Adam (Reddi et al. 2018): AdamW, or with L2, whose root has the
 *       largest v so far instead of v; without bias correction the two divisors are 1
 *   one_bit_adam, as DeepSpeed's OneBitAdam (Tang et al. 2021, arXiv 2102.02888), with D ranks of dp and
 *       F = freeze_step:
 *       k <= F: AdamW without bias correction
 *       k > F: m = b1 m + (1 - b1) D g, with g this rank's part of the gradient; m becomes the compressed mean of the
 *       ranks' m (comm/compressed.h), 0 where v is 0;  p -= lr (m / (sqrt(v) + eps) + d p);  v stays
 *   sgd with Nesterov's momentum (mu) or dampening (tau), as torch.optim.SGD (Sutskever et al. 2013):
 *       g += d p;  m = mu m + (1 - tau) g, or g in the first update;  p -= lr (g + mu m) with Nesterov, else lr m
 *   adagrad, as torch.optim.Adagrad (Duchi et al. 2011):
 *       g += d p;  v += g^2, from initial_accumulator on;  p -= lr / (1 + (k - 1) lr_decay) * g / (sqrt(v) + eps)
 *   lion (Chen et al. 2023, arXiv 2302.06675):
 *       p -= lr (sign(b1 m + (1 - b1) g) + d p);  m = b2 m + (1 - b2) g
 *   ademamix (Pagliardini et al. 2024, arXiv 2409.03137):
 *       m = b1 m + (1 - b1) g;  s = b3(k) s + (1 - b3(k)) g;  v = b2 v + (1 - b2) g^2
 *       p -= lr ((m / (1 - b1^k) + alpha(k) s) / (sqrt(v / (1 - b2^k)) + eps) + d p)
 *       alpha(k) = min(k / T, 1) alpha;  b3(k) = exp(ln b1 ln b3 / ((1 - k/T) ln b3 + k/T ln b1)), at most b3;
 *       without T both have their last value from the start
 *   schedule_free_adamw, as schedulefree.AdamWScheduleFree (Defazio et al. 2024, arXiv 2405.15682), with x, y and z the
 *       weights of the evaluation, of the training and of the plain steps, all p before the first update:
 *       v = b2 v + (1 - b2) g^2;  z -= lr(k) (g / (sqrt(v / (1 - b2^k)) + eps) + d y)
 *       x = (1 - c) x + c z;  y = b1 x + (1 - b1) z
 *       lr(k) = lr min(k / warmup, 1);  w = k^r (largest lr so far)^power;  c = w / (sum of all w so far) */
#include "elementwise.h"
#include <math.h>

/* ---- AdEMAMix: what changes from update to update ---- */

typedef struct ademamix_factors {
    double beta1, beta2, beta3, alpha, eps, corrected1, corrected2;
} ademamix_factors;

static ademamix_factors ademamix_factors_of(const mega_optimizer_call *c)
{
    const double k = (double)c->update, steps = ARGUMENT(c, alpha_steps);
    ademamix_factors f = {.beta1 = ARGUMENT(c, beta1),
                          .beta2 = ARGUMENT(c, beta2),
                          .beta3 = ARGUMENT(c, beta3),
                          .alpha = ARGUMENT(c, alpha),
                          .eps = ARGUMENT(c, eps)};
    f.corrected1 = 1 - pow(f.beta1, k);
    f.corrected2 = 1 - pow(f.beta2, k);
    if (!(k < steps)) return f;
    const double done = k / steps, log1 = log(f.beta1), log3 = log(f.beta3);
    f.alpha *= done;
    if (f.beta1 > 0 && f.beta3 > 0) f.beta3 = fmin(f.beta3, exp(log1 * log3 / ((1 - done) * log3 + done * log1)));
    return f;
}

/* ---- schedule-free AdamW: what changes from update to update ---- */

static double schedule_free_lr(const mega_optimizer_call *c)
{
    const double k = (double)c->update, warmup = ARGUMENT(c, warmup_steps);
    return k < warmup ? c->lr * (k / warmup) : c->lr;
}

void elementwise_schedule_free_advance(const mega_optimizer_call *c, double *number)
{
    const double lr = schedule_free_lr(c);
    if (lr > number[SCHEDULE_FREE_LR_MAX]) number[SCHEDULE_FREE_LR_MAX] = lr;
    const double weight =
        pow((double)c->update, ARGUMENT(c, r)) * pow(number[SCHEDULE_FREE_LR_MAX], ARGUMENT(c, weight_lr_power));
    number[SCHEDULE_FREE_WEIGHT_SUM] += weight;
    number[SCHEDULE_FREE_SHARE] = weight > 0 ? weight / number[SCHEDULE_FREE_WEIGHT_SUM] : 0;
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

static void run_typed(const mega_queue *queue, const optimizer_work *w, update_function *narrow, update_function *wide)
{
    const mega_optimizer_row row = {.update = w->compute == MEGA_F64 ? wide : narrow};
    mega_optimizer_row_run(&row, mega_queue_team(queue), w);
}

void elementwise_amsgrad(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, amsgrad_f32, amsgrad_f64);
}

void elementwise_one_bit_momentum(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, one_bit_momentum_f32, one_bit_momentum_f64);
}

void elementwise_one_bit(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, one_bit_f32, one_bit_f64);
}

void elementwise_sgd(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, sgd_f32, sgd_f64);
}

void elementwise_adagrad(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, adagrad_f32, adagrad_f64);
}

void elementwise_lion(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, lion_f32, lion_f64);
}

void elementwise_ademamix(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, ademamix_f32, ademamix_f64);
}

void elementwise_schedule_free(const mega_queue *queue, const optimizer_work *w)
{
    run_typed(queue, w, schedule_free_f32, schedule_free_f64);
}
