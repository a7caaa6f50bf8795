/* Gradient of the sinks of attention: the threads share the heads, whose sums are of blocks of channels. */
#include "cpu/share.h"

#include <math.h>

/* The dot product of n numbers of two rows; its order depends on n alone. */
static double dot_of(const mega_attention_sinks_grad_args *a, int64_t at, int64_t n)
{
    float x[CPU_BLOCK], y[CPU_BLOCK];
    double lane[8] = {0}; /* what is added up nearly cancels */
    for (int64_t d = 0; d < n; d += CPU_BLOCK) {
        const int64_t width = n - d < CPU_BLOCK ? n - d : CPU_BLOCK;
        block_get(x, a->dout, a->head.dtype, at + d, width);
        block_get(y, a->out, a->head.dtype, at + d, width);
        for (int64_t i = width; i % 8 != 0; i++) x[i] = y[i] = 0.0f;
        for (int64_t i = 0; i < width; i += 8)
            for (int k = 0; k < 8; k++) lane[k] += (double)x[i + k] * (double)y[i + k];
    }
    double sum = 0.0;
    for (int k = 0; k < 8; k++) sum += lane[k];
    return sum;
}

static void cpu_attention_sinks_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_attention_sinks_grad_args *a = ((const cpu_job *)user)->args;
    (void)thread;
    for (int64_t h = begin; h < end; h++) {
        const float *lse = (const float *)a->lse + h * a->rows;
        float sink, *const dsink = (float *)a->dsinks + h;
        double sum = 0.0;
        block_get(&sink, a->sinks, a->head.dtype, h, 1);
        for (int64_t r = 0; r < a->rows; r++)
            sum += exp((double)sink - (double)lse[r]) * dot_of(a, (r * a->heads + h) * a->head_dim, a->head_dim);
        *dsink -= (float)sum;
    }
}

static void cpu_attention_sinks_grad_run(const mega_queue *queue, const void *args)
{
    const mega_attention_sinks_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_attention_sinks_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), cpu_attention_sinks_grad_work, args, a->heads, 1,
                    a->rows * a->heads * a->head_dim);
}

const mega_kernel mega_cpu_attention_sinks_grad = {.name = "attention_sinks_grad", .run = cpu_attention_sinks_grad_run};
