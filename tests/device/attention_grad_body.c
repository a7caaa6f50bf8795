/* Between which two numbers each gradient of attention must be, up to what any kernel may differ (`allowed`). The
 * kernels of GPUs compute what the plain one does, but for two things that every kernel by tiles has, FlashAttention
 * too:
 * - delta, the sum of P dP over the keys of a query, is that of dout out over its channels, with `out` as it was
 *   stored, rounded to the type of the call (the CPU's kernel does the same);
 * - in 16 bits P M and dS are rounded before the products with dout, keys and queries, for tensor cores take 16 bits.
 * Both are done here too, in double. What then remains is fp32: the error of a sum is up to some units of the sum of
 * the magnitudes of its terms. dS = P (M dP - delta) may be far smaller than these: of a query that sees one key it is
 * 0, and what a kernel has there is nothing but such errors. So dS and P M are intervals, rounded at both ends, and the
 * gradients are sums of intervals: 16 bits give a width only where an interval has an edge between two numbers of the
 * type in it. Part of test_kernels.c. */

/* An error of fp32: as many units of the magnitudes as eight roundings one after the other. (A product of D = 256 is
 * summed in 256 steps, whose roundings cancel but for about 16 of them, most of these in smaller sums.) */
#define FLOAT_ERROR 0x1p-21

typedef struct grad_range {
    double low, high;
} grad_range;

/* Of the outputs in turn: dq, dk, dv, dbias. */
typedef struct grad_ranges {
    grad_range *of[MAX_OUTPUTS];
} grad_ranges;

/* One query of a head. */
typedef struct grad_query {
    const mega_attention_grad_args *g;
    int64_t b, h, i, row, kv;
    double delta, delta_size; /* the sum of dout out, and that of its magnitudes */
} grad_query;

static double grad_rounded(mega_dtype t, double x)
{
    if (t == MEGA_BF16) return mega_bf16_to_f32(mega_f32_to_bf16((float)x));
    return t == MEGA_F16 ? mega_f16_to_f32(mega_f32_to_f16((float)x)) : x;
}

static grad_range grad_around(mega_dtype t, double x, double error)
{
    return (grad_range){grad_rounded(t, x - error), grad_rounded(t, x + error)};
}

static void grad_range_add(grad_range *sum, grad_range x, double factor)
{
    sum->low += fmin(x.low * factor, x.high * factor);
    sum->high += fmax(x.low * factor, x.high * factor);
}

/* The sum of a b over `count` channels; *size that of its magnitudes. */
static double grad_dot(mega_dtype t, const void *a, int64_t a_at, const void *b, int64_t b_at, int64_t count,
                       double *size)
{
    double sum = 0.0;
    *size = 0.0;
    for (int64_t d = 0; d < count; d++) {
        const double term = element(a, t, a_at + d) * element(b, t, b_at + d);
        sum += term, *size += fabs(term);
    }
    return sum;
}

/* P M, dS, and dS before the slope of the cap. */
typedef struct grad_pair {
    grad_range pm, ds, before_cap;
} grad_pair;

static grad_pair grad_pair_of(const grad_query *q, int64_t j)
{
    const mega_attention_grad_args *const g = q->g;
    const mega_attention_args *const a = &g->forward;
    const mega_attention_rules *const r = &a->rules;
    const mega_dtype t = g->head.dtype;
    const int64_t D = a->head_dim, key = (q->b * a->keys + j) * a->ld_kv + q->kv * D;
    double size, dp_size, slope = 1.0;
    double score = a->scale * grad_dot(t, a->q, q->row * a->ld_q + q->h * D, a->k, key, D, &size);
    const double dp = grad_dot(t, g->dout, q->row * g->ld_dout + q->h * D, a->v, key, D, &dp_size);
    size *= fabs(a->scale);
    if (r->softcap > 0.0) {
        const double bent = tanh(score / r->softcap);
        score = r->softcap * bent, slope = 1.0 - bent * bent;
    }
    const double distance = rules_slope(r, a->head_begin + q->h) * (double)(j - q->i);
    const double bias = a->bias != NULL ? element(a->bias, t, rules_bucket(r, q->i, j) * a->heads + q->h) : 0.0;
    const double lse = element(a->lse, MEGA_F32, q->h * a->batch * a->seq + q->row);
    const uint64_t block = mega_dropout_block_of_keys((uint32_t)((a->head_begin + q->h) * a->seq + q->i), (uint64_t)j);
    const double m = a->dropout > 0.0
                         ? dropout_factor(g->head.step, a->site, a->sample_id[q->row], block, (int)(j & 7), a->dropout)
                         : 1.0;
    const double p = exp(score + distance + bias - lse), ds = p * (m * dp - q->delta);
    const double unit = FLOAT_ERROR * (1.0 + size + fabs(distance) + fabs(bias) + fabs(lse)); /* of P, relative */
    const double error = FLOAT_ERROR * p * (m * dp_size + q->delta_size) + unit * fabs(ds);
    return (grad_pair){.pm = grad_around(t, p * m, unit * p * m),
                       .ds = grad_around(t, ds * slope, error * slope + FLOAT_ERROR * fabs(ds)),
                       .before_cap = grad_around(MEGA_F32, ds, error)};
}

static void grad_query_add(const grad_query *q, const grad_ranges *to)
{
    const mega_attention_grad_args *const g = q->g;
    const mega_attention_args *const a = &g->forward;
    const mega_dtype t = g->head.dtype;
    const int64_t D = a->head_dim, end = rules_key_end(a, q->row, q->i);
    for (int64_t j = rules_key_begin(a, q->row, q->i); j < end; j++) {
        const grad_pair p = grad_pair_of(q, j);
        const int64_t key = q->b * a->keys + j;
        for (int64_t d = q->kv * D; d < (q->kv + 1) * D; d++) {
            const int64_t own = q->h * D + d - q->kv * D;
            grad_range_add(&to->of[0][q->row * g->ld_dq + own], p.ds, a->scale * element(a->k, t, key * a->ld_kv + d));
            grad_range_add(&to->of[1][key * g->ld_dkv + d], p.ds, a->scale * element(a->q, t, q->row * a->ld_q + own));
            grad_range_add(&to->of[2][key * g->ld_dkv + d], p.pm, element(g->dout, t, q->row * g->ld_dout + own));
        }
        if (g->dbias != NULL)
            grad_range_add(&to->of[3][rules_bucket(&a->rules, q->i, j) * a->heads + q->h], p.before_cap, 1.0);
    }
}

/* What is not in a row of a head, and a table that is added to, begin as they were. */
static void grad_ranges_begin(check *k, const mega_attention_grad_args *g, grad_ranges *to)
{
    const int64_t D = g->forward.head_dim;
    const int64_t used[] = {g->forward.heads * D, g->forward.kv_heads * D, g->forward.kv_heads * D, 0};
    for (int o = 0; o < k->num_outputs; o++) {
        const check_output *const out = &k->output[o];
        to->of[o] = mega_arena_alloc(&k->arena, (size_t)(out->n + 1) * sizeof(grad_range));
        assert_non_null(to->of[o]);
        for (int64_t i = 0; i < out->n; i++) {
            const bool is_sum = out->row > 0 && i % out->row < used[o];
            const double x = is_sum ? 0.0 : element(out->initial, out->type, i);
            to->of[o][i] = (grad_range){x, x};
        }
    }
}

/* The ranges of a check of attention_grad, in memory of its arena. In 16 bits their middles take the place of what the
 * plain kernel computes, which rounds nothing on its way; in fp32 its results must be in them. */
static grad_ranges grad_ranges_of(check *k, const mega_attention_grad_args *g)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim;
    grad_ranges to = {.of = {NULL}};
    grad_ranges_begin(k, g, &to);
    for (int64_t n = 0; n < a->batch * a->heads * a->seq; n++) {
        grad_query q = {.g = g, .b = n / a->seq / a->heads, .h = n / a->seq % a->heads, .i = n % a->seq};
        q.row = q.b * a->seq + q.i;
        q.kv = rules_kv_head(&a->rules, a->heads, a->kv_heads, q.h);
        q.delta = grad_dot(k->type, g->dout, q.row * g->ld_dout + q.h * D, a->out, q.row * a->ld_out + q.h * D, D,
                           &q.delta_size);
        grad_query_add(&q, &to);
    }
    for (int o = 0; o < k->num_outputs && k->type != MEGA_F32; o++)
        for (int64_t i = 0; i < k->output[o].n; i++)
            set_element(k->output[o].expected, k->output[o].type, i,
                        (float)((to.of[o][i].low + to.of[o][i].high) / 2.0));
    return to;
}
