/* The updates of single elements in muon.c for one number type. REAL and NAME are defined by the file that includes
 * this. */

static void NAME(muon_momentum)(void *user, int thread, int64_t begin, int64_t end)
{
    const muon_pass *w = user;
    const mega_optimizer_call *c = w->call;
    const double mu = ARGUMENT(c, muon_momentum);
    const bool nesterov = ARGUMENT(c, muon_nesterov) != 0;
    const REAL factor = (REAL)c->grad_factor, decay = (REAL)(ARGUMENT(c, l2) != 0 ? c->weight_decay : 0);
    const REAL kept = (REAL)mu, added = (REAL)(1 - mu);
    const REAL of_momentum = nesterov ? kept : 1, of_gradient = nesterov ? added : 0;
    const REAL *restrict p = c->param;
    REAL *restrict m = c->state[0], *restrict g = w->grad;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const REAL gradient = g[i] * factor + decay * p[i];
        m[i] = kept * m[i] + added * gradient;
        g[i] = of_momentum * m[i] + of_gradient * gradient;
    }
}

static void NAME(muon_step)(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    const REAL left = (REAL)(1 - c->lr * c->weight_decay), rate = (REAL)(c->lr * c->grad_factor);
    REAL *restrict p = c->param;
    const REAL *restrict g = c->grad;
    for (int64_t i = begin; i < end; i++) p[i] = left * p[i] - rate * g[i];
}
