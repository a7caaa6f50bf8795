/* The updates of elementwise.c for one number type. REAL, SQRT and NAME are defined by the file that includes this.
 * Every factor that does not depend on the element is computed in double and rounded once; the loops compute in REAL,
 * as AdamW's kernel does, without branches, so that the compiler vectorizes them. */

typedef struct NAME(arrays) {
    REAL *restrict p, *restrict a, *restrict b, *restrict c;
    const REAL *restrict g;
} NAME(arrays);

static NAME(arrays) NAME(arrays_of)(const mega_optimizer_call *c, int states)
{
    return (NAME(arrays)){.p = c->param,
                          .g = c->grad,
                          .a = c->state[0],
                          .b = states > 1 ? c->state[1] : NULL,
                          .c = states > 2 ? c->state[2] : NULL};
}

static void NAME(amsgrad)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 3);
    const double *o = c->option, k = (double)c->update;
    const bool corrects = o[ARGUMENT_no_bias_correction] == 0, l2 = o[ARGUMENT_l2] != 0;
    const REAL b1 = (REAL)o[ARGUMENT_beta1], n1 = (REAL)(1 - o[ARGUMENT_beta1]), eps = (REAL)o[ARGUMENT_eps];
    const REAL b2 = (REAL)o[ARGUMENT_beta2], n2 = (REAL)(1 - o[ARGUMENT_beta2]), factor = (REAL)c->grad_factor;
    const REAL rate = (REAL)(corrects ? c->lr / (1 - pow(o[ARGUMENT_beta1], k)) : c->lr);
    const REAL root = (REAL)(corrects ? 1 / sqrt(1 - pow(o[ARGUMENT_beta2], k)) : 1);
    const REAL inside = l2 ? (REAL)c->weight_decay : 0, outside = l2 ? 0 : (REAL)(c->lr * c->weight_decay);
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor + inside * x.p[i];
        x.a[i] = b1 * x.a[i] + n1 * g;
        x.b[i] = b2 * x.b[i] + n2 * (g * g);
        x.c[i] = x.b[i] > x.c[i] ? x.b[i] : x.c[i];
        x.p[i] -= rate * (x.a[i] / (SQRT(x.c[i]) * root + eps)) + outside * x.p[i];
    }
}

static void NAME(one_bit_momentum)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const REAL b1 = (REAL)ARGUMENT(c, beta1), n1 = (REAL)(1 - ARGUMENT(c, beta1));
    const REAL factor = (REAL)c->grad_factor;
    for (int64_t i = begin; i < end; i++) x.a[i] = b1 * x.a[i] + n1 * (x.g[i] * factor);
}

/* An element whose gradient was always 0 has v = 0: no sign of its momentum means anything. */
static void NAME(one_bit)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 2);
    const REAL lr = (REAL)c->lr, decay = (REAL)c->weight_decay, eps = (REAL)ARGUMENT(c, eps);
    for (int64_t i = begin; i < end; i++) {
        x.a[i] = x.b[i] > 0 ? x.a[i] : 0;
        x.p[i] -= lr * ((x.b[i] > 0 ? x.a[i] / (SQRT(x.b[i]) + eps) : 0) + decay * x.p[i]);
    }
}

static void NAME(sgd)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const bool first = c->update == 1;
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)c->lr;
    const REAL kept = first ? 0 : (REAL)ARGUMENT(c, momentum);
    const bool damps = !first && ARGUMENT(c, momentum) != 0; /* torch: not in the first update, nor without momentum */
    const REAL added = damps ? (REAL)(1 - ARGUMENT(c, dampening)) : 1;
    const REAL ahead = (REAL)ARGUMENT(c, momentum), own = ARGUMENT(c, nesterov) != 0 ? 1 : 0;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor + decay * x.p[i];
        x.a[i] = kept * x.a[i] + added * g;
        x.p[i] -= lr * (own != 0 ? g + ahead * x.a[i] : x.a[i]);
    }
}

static void NAME(adagrad)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const double slowed = 1 + (double)(c->update - 1) * ARGUMENT(c, lr_decay);
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)(c->lr / slowed);
    const REAL eps = (REAL)ARGUMENT(c, eps);
    const REAL initial = c->update == 1 ? (REAL)ARGUMENT(c, initial_accumulator) : 0;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor + decay * x.p[i];
        x.a[i] += initial + g * g;
        x.p[i] -= lr * (g / (SQRT(x.a[i]) + eps));
    }
}

static void NAME(lion)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const double beta1 = ARGUMENT(c, beta1), beta2 = ARGUMENT(c, beta2);
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)c->lr, left = (REAL)(1 - c->lr * c->weight_decay);
    const REAL b1 = (REAL)beta1, n1 = (REAL)(1 - beta1), b2 = (REAL)beta2, n2 = (REAL)(1 - beta2);
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor, way = b1 * x.a[i] + n1 * g;
        const REAL sign = (REAL)(way > 0) - (REAL)(way < 0);
        x.p[i] = left * x.p[i] - lr * sign;
        x.a[i] = b2 * x.a[i] + n2 * g;
    }
}

static void NAME(ademamix)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 3);
    const ademamix_factors f = ademamix_factors_of(c);
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)c->lr, decay = (REAL)c->weight_decay;
    const REAL b1 = (REAL)f.beta1, n1 = (REAL)(1 - f.beta1), b2 = (REAL)f.beta2, n2 = (REAL)(1 - f.beta2);
    const REAL b3 = (REAL)f.beta3, n3 = (REAL)(1 - f.beta3), alpha = (REAL)f.alpha, eps = (REAL)f.eps;
    const REAL fast = (REAL)(1 / f.corrected1), square = (REAL)(1 / f.corrected2);
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor;
        x.a[i] = b1 * x.a[i] + n1 * g;
        x.b[i] = b3 * x.b[i] + n3 * g;
        x.c[i] = b2 * x.c[i] + n2 * (g * g);
        const REAL way = (x.a[i] * fast + alpha * x.b[i]) / (SQRT(x.c[i] * square) + eps);
        x.p[i] -= lr * (way + decay * x.p[i]);
    }
}

/* The states are x, z and v: the average is kept beside the weights, so that neither is computed from the other. */
static void NAME(schedule_free)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 3);
    const double *o = c->option, share = o[OPTIMIZER_ARGUMENTS + SCHEDULE_FREE_SHARE];
    const bool first = c->update == 1;
    const REAL factor = (REAL)c->grad_factor, lr = (REAL)schedule_free_lr(c), decay = (REAL)c->weight_decay;
    const REAL b1 = (REAL)o[ARGUMENT_beta1], n1 = (REAL)(1 - o[ARGUMENT_beta1]);
    const REAL b2 = (REAL)o[ARGUMENT_beta2], n2 = (REAL)(1 - o[ARGUMENT_beta2]);
    const REAL square = (REAL)(1 / (1 - pow(o[ARGUMENT_beta2], (double)c->update)));
    const REAL eps = (REAL)o[ARGUMENT_eps], added = (REAL)share, kept = (REAL)(1 - share);
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor, v = (first ? 0 : b2 * x.c[i]) + n2 * (g * g);
        const REAL way = g / (SQRT(v * square) + eps) + decay * x.p[i];
        const REAL z = (first ? x.p[i] : x.b[i]) - lr * way;
        const REAL average = kept * (first ? x.p[i] : x.a[i]) + added * z;
        x.a[i] = average;
        x.b[i] = z;
        x.c[i] = v;
        x.p[i] = b1 * average + n1 * z;
    }
}
