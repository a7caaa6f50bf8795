/* Gradient of attention: plain kernel (ops_attention.h). With probabilities P, dropout factors M, out = (P M) v:
 *   dv = (P M)^T dout; dP = M (dout v^T); dS = P (dP - sum_j P dP); dq = scale dS k; dk = scale dS^T q.
 * With a soft-cap dS is multiplied by the derivative of the cap, 1 - tanh^2.
 * dk and dv are summed in scratch in double, over all queries and all heads that share a key/value head. */
#include "attention_rules.h"
#include "backend_impl.h"
#include <math.h>

/* Scratch: p [S], m [S] (M), ds [S], dk [S, D], dv [S, D]; with a soft-cap also its derivative, cap [S]. */
typedef struct grad_scratch {
    double *p, *m, *ds, *dk, *dv, *cap;
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
            const int64_t at = (b * S + j) * a->ld_kv + kv * D + d;
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
        w->p[j] = exp(score - lse);
        w->m[j] = a->dropout > 0.0
                      ? dropout_factor(g->head.step, a->site, a->sample_id[row], block, (int)(j & 7), a->dropout)
                      : 1.0;
        w->ds[j] = w->m[j] * dout_v;
        sum += w->p[j] * w->ds[j];
    }
    for (int64_t j = begin; j < end; j++) w->ds[j] = w->p[j] * (w->ds[j] - sum);
    for (int64_t j = begin; j < end && r->softcap > 0.0; j++) w->ds[j] *= w->cap[j];
}

static void attention_grad_query(const mega_attention_grad_args *g, const grad_scratch *w, int64_t row, int64_t h)
{
    const mega_attention_args *a = &g->forward;
    const mega_dtype t = g->head.dtype;
    const mega_attention_rules *r = &a->rules;
    const int64_t D = a->head_dim, S = a->seq, b = row / S, i = row % S;
    const int64_t kv = rules_kv_head(r, a->heads, a->kv_heads, h);
    const int64_t segment = a->causal && a->segment_start != NULL ? a->segment_start[row] : 0;
    const int64_t first = rules_first_key(r, i), begin = first > segment ? first : segment;
    const int64_t end = rules_end_key(r, a->causal, i, S);
    probabilities(g, w, row, h, begin, end);
    for (int64_t d = 0; d < D; d++) {
        const double q = get(a->q, t, row * a->ld_q + h * D + d);
        const double dout = get(g->dout, t, row * g->ld_dout + h * D + d);
        double dq = 0.0;
        for (int64_t j = begin; j < end; j++) {
            dq += w->ds[j] * get(a->k, t, (b * S + j) * a->ld_kv + kv * D + d);
            w->dk[j * D + d] += a->scale * w->ds[j] * q;
            w->dv[j * D + d] += w->p[j] * w->m[j] * dout;
        }
        put(g->dq, t, row * g->ld_dq + h * D + d, a->scale * dq);
    }
}

static void plain_attention_grad_run(mega_team *team, const void *args)
{
    const mega_attention_grad_args *g = args;
    const mega_attention_args *a = &g->forward;
    const int64_t S = a->seq, D = a->head_dim;
    double *const base = g->head.scratch;
    const grad_scratch w = {base, base + S, base + 2 * S, base + 3 * S, base + 3 * S + S * D, base + 3 * S + 2 * S * D};
    (void)team;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t kv = 0; kv < a->kv_heads; kv++) {
            for (int64_t i = 0; i < 2 * S * D; i++) w.dk[i] = 0.0;
            for (int64_t h = 0; h < a->heads; h++)
                for (int64_t i = 0; i < S && rules_kv_head(&a->rules, a->heads, a->kv_heads, h) == kv; i++)
                    attention_grad_query(g, &w, b * S + i, h);
            for (int64_t j = 0; j < S; j++)
                for (int64_t d = 0; d < D; d++) {
                    put(g->dk, g->head.dtype, (b * S + j) * g->ld_dkv + kv * D + d, w.dk[j * D + d]);
                    put(g->dv, g->head.dtype, (b * S + j) * g->ld_dkv + kv * D + d, w.dv[j * D + d]);
                }
        }
}

static size_t plain_attention_grad_scratch(const void *args, int threads)
{
    const mega_attention_grad_args *g = args;
    (void)threads;
    const int64_t rows = g->forward.rules.softcap > 0.0 ? 4 : 3;
    return (size_t)(rows * g->forward.seq + 2 * g->forward.seq * g->forward.head_dim) * sizeof(double);
}

const mega_kernel mega_plain_attention_grad = {
    .name = "attention_grad", .run = plain_attention_grad_run, .scratch = plain_attention_grad_scratch};
