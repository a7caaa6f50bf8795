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
 *       lr(k) = lr min(k / warmup, 1);  w = k^r (largest lr so far)^power;  c = w / (sum of all w so far)
 *
 * Lamb's (optim/lamb.c) and Muon's (optim/muon.c) updates of an element are here too.
 *
 * An optimizer is two functions of each backend. NUMBERS makes of an update c what does not depend on the element: the
 * numbers n, computed in double; it is of the kernel `numbers` (optimizer_kernels.h), whose arguments are a. FORMULA
 * updates an element: the parameter *p and the states s[], with its gradient g, which was multiplied by the call's
 * factor, and with the numbers, each rounded once to REAL. The file that includes this one defines NUMBERS, POW, EXP,
 * LOG and SQRT of doubles, or FORMULA, REAL, SQRT and DIVIDE. FORMULA has no branches that depend on an element, so
 * that compilers make vectors of it. */
#include <stddef.h>

#ifdef NUMBERS
/* What an update is to the elements of a group. */
typedef struct numbers_given {
    double k, lr, weight_decay;
    double share; /* schedule-free: c */
} numbers_given;

/* The learning rate of a schedule-free optimizer, which warms up. */
NUMBERS_OF_UPDATE double schedule_free_lr(const mega_numbers_args *a, double k, double lr)
{
    return k < a->warmup_steps ? lr * (k / a->warmup_steps) : lr;
}

/* Of AdamW and SGD, which are kernels of their own: kernels.h says how they read their numbers. */
NUMBERS(adamw)
{
    const bool corrects = a->no_bias_correction == 0;
    n[0] = corrects ? 1 - POW(a->beta1, c->k) : 1, n[1] = corrects ? 1 - POW(a->beta2, c->k) : 1;
    n[2] = c->lr, n[3] = c->weight_decay, n[4] = a->beta1, n[5] = a->beta2;
}

NUMBERS(sgd)
{
    (void)a;
    n[0] = c->k == 1, n[1] = c->lr, n[2] = c->weight_decay;
}
#endif

#ifdef NUMBERS
NUMBERS(amsgrad)
{
    const double k = c->k;
    const bool corrects = a->no_bias_correction == 0, l2 = a->l2 != 0;
    n[0] = a->beta1, n[1] = 1 - a->beta1;
    n[2] = a->beta2, n[3] = 1 - a->beta2;
    n[4] = corrects ? c->lr / (1 - POW(a->beta1, k)) : c->lr;
    n[5] = corrects ? 1 / SQRT(1 - POW(a->beta2, k)) : 1;
    n[6] = a->eps, n[7] = l2 ? c->weight_decay : 0, n[8] = l2 ? 0 : c->lr * c->weight_decay;
}
#elif defined FORMULA
FORMULA(amsgrad) /* states m, v, largest v */
{
    const REAL b1 = n[0], rest1 = n[1], b2 = n[2], rest2 = n[3], rate = n[4], root = n[5], eps = n[6];
    const REAL inside = n[7], outside = n[8], gradient = g + inside * *p;
    s[0] = b1 * s[0] + rest1 * gradient;
    s[1] = b2 * s[1] + rest2 * (gradient * gradient);
    s[2] = s[1] > s[2] ? s[1] : s[2];
    *p -= rate * DIVIDE(s[0], SQRT(s[2]) * root + eps) + outside * *p;
}
#endif

#ifdef NUMBERS
NUMBERS(one_bit_momentum)
{
    (void)c;
    n[0] = a->beta1, n[1] = 1 - a->beta1;
}

NUMBERS(one_bit)
{
    n[0] = c->lr, n[1] = c->weight_decay, n[2] = a->eps;
}
#elif defined FORMULA
FORMULA(one_bit_momentum) /* state m */
{
    (void)p;
    s[0] = n[0] * s[0] + n[1] * g;
}

/* An element whose gradient was always 0 has v = 0: no sign of its momentum means anything. */
FORMULA(one_bit) /* states m, v */
{
    const REAL lr = n[0], decay = n[1], eps = n[2];
    (void)g;
    s[0] = s[1] > 0 ? s[0] : 0;
    *p -= lr * ((s[1] > 0 ? DIVIDE(s[0], SQRT(s[1]) + eps) : 0) + decay * *p);
}
#endif

#ifdef NUMBERS
NUMBERS(nesterov)
{
    const bool first = c->k == 1;
    const bool damps = !first && a->momentum != 0; /* torch: not in the first update, nor without momentum */
    n[0] = c->lr, n[1] = c->weight_decay, n[2] = first ? 0 : a->momentum;
    n[3] = damps ? 1 - a->dampening : 1;
    n[4] = a->momentum, n[5] = a->nesterov != 0;
}
#elif defined FORMULA
FORMULA(nesterov) /* state m; also SGD with dampening */
{
    const REAL lr = n[0], decay = n[1], kept = n[2], added = n[3], ahead = n[4], own = n[5];
    const REAL gradient = g + decay * *p;
    s[0] = kept * s[0] + added * gradient;
    *p -= lr * (own != 0 ? gradient + ahead * s[0] : s[0]);
}
#endif

#ifdef NUMBERS
NUMBERS(adagrad)
{
    n[0] = c->lr / (1 + (c->k - 1) * a->lr_decay), n[1] = c->weight_decay;
    n[2] = a->eps, n[3] = c->k == 1 ? a->initial_accumulator : 0;
}
#elif defined FORMULA
FORMULA(adagrad) /* state v */
{
    const REAL lr = n[0], decay = n[1], eps = n[2], initial = n[3], gradient = g + decay * *p;
    s[0] += initial + gradient * gradient;
    *p -= lr * DIVIDE(gradient, SQRT(s[0]) + eps);
}
#endif

#ifdef NUMBERS
NUMBERS(lion)
{
    n[0] = c->lr, n[1] = 1 - c->lr * c->weight_decay;
    n[2] = a->beta1, n[3] = 1 - a->beta1;
    n[4] = a->beta2, n[5] = 1 - a->beta2;
}
#elif defined FORMULA
FORMULA(lion) /* state m */
{
    const REAL lr = n[0], left = n[1], b1 = n[2], rest1 = n[3], b2 = n[4], rest2 = n[5];
    const REAL step = b1 * s[0] + rest1 * g, sign = (REAL)(step > 0) - (REAL)(step < 0);
    *p = left * *p - lr * sign;
    s[0] = b2 * s[0] + rest2 * g;
}
#endif

#ifdef NUMBERS
NUMBERS(ademamix)
{
    const double k = c->k, steps = a->alpha_steps;
    const double beta1 = a->beta1, beta2 = a->beta2, last = a->beta3;
    double beta3 = last, alpha = a->alpha;
    if (k < steps) {
        const double done = k / steps, log1 = LOG(beta1), log3 = LOG(last);
        alpha *= done;
        if (beta1 > 0 && last > 0) beta3 = EXP(log1 * log3 / ((1 - done) * log3 + done * log1));
        beta3 = beta3 < last ? beta3 : last;
    }
    n[0] = c->lr, n[1] = c->weight_decay, n[2] = beta1, n[3] = 1 - beta1, n[4] = beta2, n[5] = 1 - beta2;
    n[6] = beta3, n[7] = 1 - beta3, n[8] = alpha, n[9] = a->eps;
    n[10] = 1 / (1 - POW(beta1, k)), n[11] = 1 / (1 - POW(beta2, k));
}
#elif defined FORMULA
FORMULA(ademamix) /* states m, s, v */
{
    const REAL lr = n[0], decay = n[1], b1 = n[2], rest1 = n[3], b2 = n[4], rest2 = n[5], b3 = n[6], rest3 = n[7];
    const REAL alpha = n[8], eps = n[9], fast = n[10], square = n[11];
    s[0] = b1 * s[0] + rest1 * g;
    s[1] = b3 * s[1] + rest3 * g;
    s[2] = b2 * s[2] + rest2 * (g * g);
    const REAL step = DIVIDE(s[0] * fast + alpha * s[1], SQRT(s[2] * square) + eps);
    *p -= lr * (step + decay * *p);
}
#endif

#ifdef NUMBERS
NUMBERS(schedule_free)
{
    n[0] = schedule_free_lr(a, c->k, c->lr), n[1] = c->weight_decay, n[2] = a->beta1, n[3] = 1 - a->beta1;
    n[4] = a->beta2, n[5] = 1 - a->beta2;
    n[6] = 1 / (1 - POW(a->beta2, c->k)), n[7] = a->eps;
    n[8] = c->share, n[9] = 1 - c->share, n[10] = c->k == 1;
}
#elif defined FORMULA
/* The average is kept beside the weights, so that neither is computed from the other. */
FORMULA(schedule_free) /* states x, z, v */
{
    const REAL lr = n[0], decay = n[1], b1 = n[2], rest1 = n[3], b2 = n[4], rest2 = n[5], square = n[6], eps = n[7];
    const REAL added = n[8], kept = n[9], first = n[10];
    const REAL second = (first != 0 ? 0 : b2 * s[2]) + rest2 * (g * g);
    const REAL step = DIVIDE(g, SQRT(second * square) + eps) + decay * *p;
    const REAL plain = (first != 0 ? *p : s[1]) - lr * step;
    const REAL average = kept * (first != 0 ? *p : s[0]) + added * plain;
    s[0] = average;
    s[1] = plain;
    s[2] = second;
    *p = b1 * average + rest1 * plain;
}
#endif

#ifdef NUMBERS
NUMBERS(lamb_step) /* n[0] is yet to be multiplied by the trust ratio */
{
    const double k = c->k;
    const bool inside = a->eps_inside_sqrt != 0;
    n[0] = a->no_bias_correction != 0 ? c->lr : c->lr * SQRT(1 - POW(a->beta2, k)) / (1 - POW(a->beta1, k));
    n[1] = inside ? a->eps : 0, n[2] = inside ? 0 : a->eps, n[3] = c->weight_decay;
    n[4] = a->beta1, n[5] = a->beta2; /* of lamb_moments */
}
#elif defined FORMULA
FORMULA(lamb_step) /* states m, v */
{
    const REAL rate = n[0], inside = n[1], outside = n[2], decay = n[3];
    (void)g;
    *p -= rate * (DIVIDE(s[0], SQRT(s[1] + inside) + outside) + decay * *p);
}
#endif

#ifdef NUMBERS
NUMBERS(muon_momentum)
{
    const bool nesterov = a->muon_nesterov != 0;
    n[0] = a->l2 != 0 ? c->weight_decay : 0;
    n[1] = a->muon_momentum, n[2] = 1 - a->muon_momentum;
    n[3] = nesterov ? n[1] : 1, n[4] = nesterov ? n[2] : 0;
}

NUMBERS(muon_step) /* n[1] is yet to be multiplied by the scale of the matrix */
{
    n[0] = 1 - c->lr * (a->l2 != 0 ? 0 : c->weight_decay); /* L2 is in the momentum */
    n[1] = c->lr;
}
#elif defined FORMULA
FORMULA(muon_momentum) /* states m, and the gradient, which becomes what is orthogonalized */
{
    const REAL decay = n[0], kept = n[1], added = n[2], of_momentum = n[3], of_gradient = n[4];
    const REAL gradient = g + decay * *p;
    s[0] = kept * s[0] + added * gradient;
    s[1] = of_momentum * s[0] + of_gradient * gradient;
}

FORMULA(muon_step) /* g: the orthogonalized matrix */
{
    (void)s;
    *p = n[0] * *p - n[1] * g;
}
#endif

#ifdef NUMBERS
/* What continues from update to update, and follows from what was there before this one. */
NUMBERS_OF_UPDATE void numbers_carry(const mega_numbers_args *a, double carried[MEGA_UPDATE_CARRIED], double *share)
{
    const double k = a->block->updates, lr = schedule_free_lr(a, k, a->lr);
    for (int i = 0; i < MEGA_UPDATE_CARRIED; i++) carried[i] = a->block->carried[i];
    *share = 0;
    if (a->formula != MEGA_KERNEL_schedule_free) return;
    if (lr > carried[MEGA_CARRIED_LR_MAX]) carried[MEGA_CARRIED_LR_MAX] = lr;
    const double weight = POW(k, a->r) * POW(carried[MEGA_CARRIED_LR_MAX], a->weight_lr_power);
    carried[MEGA_CARRIED_WEIGHT_SUM] += weight;
    *share = weight > 0 ? weight / carried[MEGA_CARRIED_WEIGHT_SUM] : 0;
}

/* Writes the numbers of group g. */
NUMBERS_OF_UPDATE void numbers_of_group(const mega_numbers_args *a, double share, int64_t g)
{
    const mega_update_group *group = &a->group[g];
    const double common = group->decay != 0 ? a->weight_decay : 0;
    const double decay = group->has_own_decay != 0 ? group->decay : common;
    const numbers_given call = {a->block->updates, a->lr * group->lr_scale, decay, share};
    double *n = a->number + g * MEGA_FORMULA_NUMBERS;
#define NUMBERS_IF(name, ...) \
    if (a->formula == MEGA_KERNEL_##name) numbers_##name(a, &call, n);
    MEGA_FORMULAS(NUMBERS_IF) NUMBERS_IF(adamw) NUMBERS_IF(sgd)
}
#endif
