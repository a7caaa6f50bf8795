/* Gradient of attention: plain kernel (ops_attention.h). With probabilities P, dropout factors M, out = (P M) v:
 *   dv = (P M)^T dout; dP = M (dout v^T); dS = P (dP - sum_j P dP); dq = scale dS k; dk = scale dS^T q.
 * With a soft-cap dS is multiplied by the derivative of the cap, 1 - tanh^2. The gradient of a bias is the sum of dS
 * over the queries and keys in its bucket.
 * dk and dv are summed in scratch in double, over all queries and all heads that share a key/value head. */
#include "attention_rules.h"
#include "backend_impl.h"
#include <math.h>

/* Scratch, for K keys: p [K], m [K] (M), ds [K], dk [K, D], dv [K, D]; with a soft-cap also its derivative, cap [K];
 * with biases their gradients, dbias [buckets, H]. */
typedef struct grad_scratch {
    double *p, *m, *ds, *dk, *dv, *cap, *dbias;
} grad_scratch;

/* Computes P, M and dS of one query over keys [begin, end). */
static void probabilities(const mega_attention_grad_args *g, const grad_scratch *w, int64_t row, int64_t h,
                          int64_t begin, int64_t end)
{
    const mega_attention_args *a = &g->forward;
    const mega_dtype t = g->head.dtype;
    const mega_attention_rules *r = &a->rules;
    const int64_t D = a->head_dim, S = a->seq, b = row / S, i = row % S;
    const int64_t kv = rules_kv_head(r, a->heads, a->kv_heads, h);
    const double slope = rules_slope(r, a->head_begin + h);
    const double lse = get(a->lse, acc_of(t), h * a->batch * S + row);
    double sum = 0.0;
    for (int64_t j = begin; j < end; j++) {
        double dot = 0.0, dout_v = 0.0;
        for (int64_t d = 0; d < D; d++) {
            const int64_t at = (b * a->keys + j) * a->ld_kv + kv * D + d;
            dot += get(a->q, t, row * a->ld_q + h * D + d) * get(a->k, t, at);
            dout_v += get(g->dout, t, row * g->ld_dout + h * D + d) * get(a->v, t, at);
        }
        const uint64_t block = mega_dropout_block_of_keys((uint32_t)((a->head_begin + h) * S + i), (uint64_t)j);
        double score = dot * a->scale;
        if (r->softcap > 0.0) {
            const double bent = tanh(score / r->softcap);
            score = r->softcap * bent;
            w->cap[j] = 1.0 - bent * bent;
        }
        score += slope * (double)(j - i);
        if (a->bias != NULL) score += get(a->bias, t, rules_bucket(r, i, j) * a->heads + h);
        w->p[j] = exp(score - lse);
        w->m[j] = a->dropout > 0.0
                      ? dropout_factor(g->head.step, a->site, a->sample_id[row], block, (int)(j & 7), a->dropout)
                      : 1.0;
        w->ds[j] = w->m[j] * dout_v;
        sum += w->p[j] * w->ds[j];
    }
    for (int64_t j = begin; j < end; j++) w->ds[j] = w->p[j] * (w->ds[j] - sum);
    for (int64_t j = begin; j < end && g->dbias != NULL; j++)
        w->dbias[rules_bucket(r, i, j) * a->heads + h] += w->ds[j];
    for (int64_t j = begin; j < end && r->softcap > 0.0; j++) w->ds[j] *= w->cap[j];
}

static void attention_grad_query(const mega_attention_grad_args *g, const grad_scratch *w, int64_t row, int64_t h)
{
    const mega_attention_args *a = &g->forward;
    const mega_dtype t = g->head.dtype;
    const mega_attention_rules *r = &a->rules;
    const int64_t D = a->head_dim, S = a->seq, b = row / S, i = row % S;
    const int64_t kv = rules_kv_head(r, a->heads, a->kv_heads, h);
    const int64_t begin = rules_key_begin(a, row, i), end = rules_key_end(a, row, i);
    probabilities(g, w, row, h, begin, end);
    for (int64_t d = 0; d < D; d++) {
        const double q = get(a->q, t, row * a->ld_q + h * D + d);
        const double dout = get(g->dout, t, row * g->ld_dout + h * D + d);
        double dq = 0.0;
        for (int64_t j = begin; j < end; j++) {
            dq += w->ds[j] * get(a->k, t, (b * a->keys + j) * a->ld_kv + kv * D + d);
            w->dk[j * D + d] += a->scale * w->ds[j] * q;
            w->dv[j * D + d] += w->p[j] * w->m[j] * dout;
        }
        put(g->dq, t, row * g->ld_dq + h * D + d, a->scale * dq);
    }
}

static void plain_attention_grad_run(const mega_queue *queue, const void *args)
{
    const mega_attention_grad_args *g = args;
    const mega_attention_args *a = &g->forward;
    const int64_t S = a->seq, K = a->keys, D = a->head_dim;
    double *const base = g->head.scratch;
    double *const more = base + 3 * K + 2 * K * D;
    const int64_t biases = g->dbias != NULL ? a->rules.bias_buckets * a->heads : 0;
    const grad_scratch w = {.p = base,
                            .m = base + K,
                            .ds = base + 2 * K,
                            .dk = base + 3 * K,
                            .dv = base + 3 * K + K * D,
                            .cap = more,
                            .dbias = more + (a->rules.softcap > 0.0 ? K : 0)};
    for (int64_t n = 0; n < biases; n++) w.dbias[n] = 0.0;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t kv = 0; kv < a->kv_heads; kv++) {
            for (int64_t i = 0; i < 2 * K * D; i++) w.dk[i] = 0.0;
            for (int64_t h = 0; h < a->heads; h++)
                for (int64_t i = 0; i < S && rules_kv_head(&a->rules, a->heads, a->kv_heads, h) == kv; i++)
                    attention_grad_query(g, &w, b * S + i, h);
            for (int64_t j = 0; j < K; j++)
                for (int64_t d = 0; d < D; d++) {
                    put(g->dk, g->head.dtype, (b * K + j) * g->ld_dkv + kv * D + d, w.dk[j * D + d]);
                    put(g->dv, g->head.dtype, (b * K + j) * g->ld_dkv + kv * D + d, w.dv[j * D + d]);
                }
        }
    for (int64_t n = 0; n < biases; n++)
        put(g->dbias, acc_of(g->head.dtype), n, get(g->dbias, acc_of(g->head.dtype), n) + w.dbias[n]);
}

static size_t plain_attention_grad_scratch(const void *args, int threads)
{
    const mega_attention_grad_args *g = args;
    const mega_attention_args *a = &g->forward;
    const int64_t rows = a->rules.softcap > 0.0 ? 4 : 3,
                  biases = g->dbias != NULL ? a->rules.bias_buckets * a->heads : 0;
    return (size_t)(rows * a->keys + 2 * a->keys * a->head_dim + biases) * sizeof(double);
}

const mega_kernel mega_plain_attention_grad = {
    .name = "attention_grad", .run = plain_attention_grad_run, .scratch = plain_attention_grad_scratch};
