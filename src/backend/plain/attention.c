/* Attention: plain kernel (ops_attention.h). Computes one query row at a time; its probabilities are in scratch [keys]
 * double. */
#include "attention_rules.h"
#include "backend_impl.h"
#include <math.h>

static void attention_query(const mega_attention_args *a, double *p, int64_t b, int64_t i, int64_t h)
{
    const mega_dtype t = a->head.dtype;
    const mega_attention_rules *r = &a->rules;
    const int64_t D = a->head_dim, S = a->seq, row = b * S + i, g = rules_kv_head(r, a->heads, a->kv_heads, h);
    const int64_t begin = rules_key_begin(a, row, i), end = rules_key_end(a, row, i), at = b * a->keys;
    const double slope = rules_slope(r, a->head_begin + h);
    const bool has_sink = a->sinks != NULL;
    const double sink = has_sink ? get(a->sinks, t, h) : -INFINITY;
    double max = sink, sum = 0.0;
    for (int64_t j = begin; j < end; j++) {
        double dot = 0.0;
        for (int64_t d = 0; d < D; d++)
            dot += get(a->q, t, row * a->ld_q + h * D + d) * get(a->k, t, (at + j) * a->ld_kv + g * D + d);
        p[j] = dot * a->scale;
        if (r->softcap > 0.0) p[j] = r->softcap * tanh(p[j] / r->softcap);
        p[j] += slope * (double)(j - i);
        if (a->bias != NULL) p[j] += get(a->bias, t, rules_bucket(r, i, j) * a->heads + h);
        max = fmax(max, p[j]);
    }
    for (int64_t j = begin; j < end; j++) {
        p[j] = exp(p[j] - max);
        sum += p[j];
    }
    if (has_sink) sum += exp(sink - max);
    for (int64_t j = begin; j < end; j++) {
        p[j] /= sum;
        if (a->dropout > 0.0) {
            const uint64_t block = mega_dropout_block_of_keys((uint32_t)((a->head_begin + h) * S + i), (uint64_t)j);
            p[j] *= dropout_factor(a->head.step, a->site, a->sample_id[row], block, (int)(j & 7), a->dropout);
        }
    }
    for (int64_t d = 0; d < D; d++) {
        double out = 0.0;
        for (int64_t j = begin; j < end; j++) out += p[j] * get(a->v, t, (at + j) * a->ld_kv + g * D + d);
        put(a->out, t, row * a->ld_out + h * D + d, out);
    }
    put(a->lse, acc_of(t), h * a->batch * S + row, begin < end || has_sink ? max + log(sum) : 0.0);
}

static void plain_attention_run(const mega_queue *queue, const void *args)
{
    const mega_attention_args *a = args;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < a->seq; i++) attention_query(a, a->head.scratch, b, i, h);
}

static size_t plain_attention_scratch(const void *args, int threads)
{
    const mega_attention_args *a = args;
    return (size_t)a->keys * sizeof(double);
}

const mega_kernel mega_plain_attention = {
    .name = "attention", .run = plain_attention_run, .scratch = plain_attention_scratch};
