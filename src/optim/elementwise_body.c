/* The updates of elementwise.c for one number type. REAL, SQRT and NAME are defined by the file that includes this. p,
 * g and the states m, v, … are those of the formulas there; b1 and n1 are beta1 and 1 - beta1. Every factor that does
 * not depend on the element is computed in double and rounded once; the loops compute in REAL, as AdamW's kernel does,
 * without branches, so that the compiler vectorizes them. */

static void NAME(amsgrad)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict m = c->state[0], *restrict v = c->state[1], *restrict v_max = c->state[2];
    const REAL *restrict g = c->grad;
    const double k = (double)c->update;
    const bool corrects = ARGUMENT(c, no_bias_correction) == 0, l2 = ARGUMENT(c, l2) != 0;
    const REAL b1 = (REAL)ARGUMENT(c, beta1), n1 = (REAL)(1 - ARGUMENT(c, beta1)), eps = (REAL)ARGUMENT(c, eps);
    const REAL b2 = (REAL)ARGUMENT(c, beta2), n2 = (REAL)(1 - ARGUMENT(c, beta2)), factor = (REAL)c->grad_factor;
    const REAL rate = (REAL)(corrects ? c->lr / (1 - pow(ARGUMENT(c, beta1), k)) : c->lr);
    const REAL root = (REAL)(corrects ? 1 / sqrt(1 - pow(ARGUMENT(c, beta2), k)) : 1);
    const REAL inside = l2 ? (REAL)c->weight_decay : 0, outside = l2 ? 0 : (REAL)(c->lr * c->weight_decay);
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor + inside * p[i];
        m[i] = b1 * m[i] + n1 * gradient;
        v[i] = b2 * v[i] + n2 * (gradient * gradient);
        v_max[i] = v[i] > v_max[i] ? v[i] : v_max[i];
        p[i] -= rate * (m[i] / (SQRT(v_max[i]) * root + eps)) + outside * p[i];
    }
}

static void NAME(one_bit_momentum)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict m = c->state[0];
    const REAL *restrict g = c->grad;
    const REAL b1 = (REAL)ARGUMENT(c, beta1), n1 = (REAL)(1 - ARGUMENT(c, beta1));
    const REAL factor = (REAL)c->grad_factor;
    for (int64_t i = begin; i < end; i++) m[i] = b1 * m[i] + n1 * (g[i] * factor);
}

/* An element whose gradient was always 0 has v = 0: no sign of its momentum means anything. */
static void NAME(one_bit)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict m = c->state[0];
    const REAL *restrict v = c->state[1];
    const REAL lr = (REAL)c->lr, decay = (REAL)c->weight_decay, eps = (REAL)ARGUMENT(c, eps);
    for (int64_t i = begin; i < end; i++) {
        m[i] = v[i] > 0 ? m[i] : 0;
        p[i] -= lr * ((v[i] > 0 ? m[i] / (SQRT(v[i]) + eps) : 0) + decay * p[i]);
    }
}

static void NAME(sgd)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict momentum = c->state[0];
    const REAL *restrict g = c->grad;
    const bool first = c->update == 1;
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)c->lr;
    const REAL kept = first ? 0 : (REAL)ARGUMENT(c, momentum);
    const bool damps = !first && ARGUMENT(c, momentum) != 0; /* torch: not in the first update, nor without momentum */
    const REAL added = damps ? (REAL)(1 - ARGUMENT(c, dampening)) : 1;
    const REAL ahead = (REAL)ARGUMENT(c, momentum), own = ARGUMENT(c, nesterov) != 0 ? 1 : 0;
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor + decay * p[i];
        momentum[i] = kept * momentum[i] + added * gradient;
        p[i] -= lr * (own != 0 ? gradient + ahead * momentum[i] : momentum[i]);
    }
}

static void NAME(adagrad)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict sum = c->state[0];
    const REAL *restrict g = c->grad;
    const double slowed = 1 + (double)(c->update - 1) * ARGUMENT(c, lr_decay);
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)(c->lr / slowed);
    const REAL eps = (REAL)ARGUMENT(c, eps);
    const REAL initial = c->update == 1 ? (REAL)ARGUMENT(c, initial_accumulator) : 0;
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor + decay * p[i];
        sum[i] += initial + gradient * gradient;
        p[i] -= lr * (gradient / (SQRT(sum[i]) + eps));
    }
}

static void NAME(lion)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict m = c->state[0];
    const REAL *restrict g = c->grad;
    const double beta1 = ARGUMENT(c, beta1), beta2 = ARGUMENT(c, beta2);
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)c->lr, left = (REAL)(1 - c->lr * c->weight_decay);
    const REAL b1 = (REAL)beta1, n1 = (REAL)(1 - beta1), b2 = (REAL)beta2, n2 = (REAL)(1 - beta2);
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor, step = b1 * m[i] + n1 * gradient;
        const REAL sign = (REAL)(step > 0) - (REAL)(step < 0);
        p[i] = left * p[i] - lr * sign;
        m[i] = b2 * m[i] + n2 * gradient;
    }
}

static void NAME(ademamix)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict m = c->state[0], *restrict m_slow = c->state[1], *restrict v = c->state[2];
    const REAL *restrict g = c->grad;
    const ademamix_factors f = ademamix_factors_of(c);
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)c->lr, decay = (REAL)c->weight_decay;
    const REAL b1 = (REAL)f.beta1, n1 = (REAL)(1 - f.beta1), b2 = (REAL)f.beta2, n2 = (REAL)(1 - f.beta2);
    const REAL b3 = (REAL)f.beta3, n3 = (REAL)(1 - f.beta3), alpha = (REAL)f.alpha, eps = (REAL)f.eps;
    const REAL fast = (REAL)(1 / f.corrected1), square = (REAL)(1 / f.corrected2);
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor;
        m[i] = b1 * m[i] + n1 * gradient;
        m_slow[i] = b3 * m_slow[i] + n3 * gradient;
        v[i] = b2 * v[i] + n2 * (gradient * gradient);
        const REAL step = (m[i] * fast + alpha * m_slow[i]) / (SQRT(v[i] * square) + eps);
        p[i] -= lr * (step + decay * p[i]);
    }
}

/* The states are x, z and v: the average is kept beside the weights, so that neither is computed from the other. */
static void NAME(schedule_free)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    REAL *restrict p = c->param, *restrict x = c->state[0], *restrict z = c->state[1], *restrict v = c->state[2];
    const REAL *restrict g = c->grad;
    const double share = c->option[OPTIMIZER_ARGUMENTS + SCHEDULE_FREE_SHARE];
    const bool first = c->update == 1;
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)schedule_free_lr(c), decay = (REAL)c->weight_decay;
    const REAL b1 = (REAL)ARGUMENT(c, beta1), n1 = (REAL)(1 - ARGUMENT(c, beta1));
    const REAL b2 = (REAL)ARGUMENT(c, beta2), n2 = (REAL)(1 - ARGUMENT(c, beta2));
    const REAL square = (REAL)(1 / (1 - pow(ARGUMENT(c, beta2), (double)c->update)));
    const REAL eps = (REAL)ARGUMENT(c, eps), added = (REAL)share, kept = (REAL)(1 - share);
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor;
        const REAL second = (first ? 0 : b2 * v[i]) + n2 * (gradient * gradient);
        const REAL step = gradient / (SQRT(second * square) + eps) + decay * p[i];
        const REAL plain = (first ? p[i] : z[i]) - lr * step;
        const REAL average = kept * (first ? p[i] : x[i]) + added * plain;
        x[i] = average;
        z[i] = plain;
        v[i] = second;
        p[i] = b1 * average + n1 * plain;
    }
}
