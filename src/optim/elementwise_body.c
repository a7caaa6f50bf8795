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

static void NAME(sgd)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const bool first = c->update == 1;
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)c->lr;
    const REAL kept = first ? 0 : (REAL)c->option[SGD_MOMENTUM];
    const bool damps =
        !first && c->option[SGD_MOMENTUM] != 0; /* torch: not in the first update, nor without momentum */
    const REAL added = damps ? (REAL)(1 - c->option[SGD_DAMPENING]) : 1;
    const REAL ahead = (REAL)c->option[SGD_MOMENTUM], own = c->option[SGD_NESTEROV] != 0 ? 1 : 0;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor + decay * x.p[i];
        x.a[i] = kept * x.a[i] + added * g;
        x.p[i] -= lr * (own != 0 ? g + ahead * x.a[i] : x.a[i]);
    }
}

static void NAME(adagrad)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const double slowed = 1 + (double)(c->update - 1) * c->option[ADAGRAD_LR_DECAY];
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)c->weight_decay, lr = (REAL)(c->lr / slowed);
    const REAL eps = (REAL)c->option[ADAGRAD_EPS];
    for (int64_t i = begin; i < end; i++) {
        const REAL g = x.g[i] * factor + decay * x.p[i];
        x.a[i] += g * g;
        x.p[i] -= lr * (g / (SQRT(x.a[i]) + eps));
    }
}

static void NAME(lion)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const NAME(arrays) x = NAME(arrays_of)(c, 1);
    const double beta1 = c->option[LION_BETA1], beta2 = c->option[LION_BETA2];
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
