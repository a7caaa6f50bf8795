/* Measures causal attention alone, forward plus backward, relative to the arithmetic peak that is measured right before
 * and after: attention_fp32_of_peak and attention_bf16_of_peak. Operations are counted causal: 2 B H S^2 D forward and
 * 2.5 times that backward. One thread is timed by its own CPU time, so that other work on the machine hardly matters.
 * Run by `make bench only=attention`; a first argument "bf16" measures that type, a second one selects a shape by its
 * index. */
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 9

typedef struct shape {
    int64_t batch, seq, heads, head_dim;
    double dropout;
} shape;

static const mega_step_block step_block = {.seed = 1, .loss_factor = 1.0};

static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *tensor(mega_dtype type, int64_t n)
{
    void *x;
    if (mega_pages_alloc(&x, (size_t)n * mega_dtype_size(type), "a tensor") != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        exit(1);
    }
    uint32_t random = 12345;
    for (int64_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        const float v = (float)(random >> 8) * 0x1p-23f - 1.0f;
        if (type == MEGA_BF16) ((uint16_t *)x)[i] = mega_f32_to_bf16(v);
        else
            ((float *)x)[i] = v;
    }
    return x;
}

static double seconds_of(const mega_kernel *kernel, const void *args)
{
    const double begin = cpu_time();
    kernel->run(NULL, args);
    return cpu_time() - begin;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(mega_dtype type, const shape *s)
{
    const int64_t T = s->batch * s->seq, C = s->heads * s->head_dim;
    const size_t element = mega_dtype_size(type), wide = (size_t)(T * C) * element;
    char *qkv = tensor(type, T * 3 * C), *dqkv = tensor(type, T * 3 * C);
    void *out = tensor(type, T * C), *dout = tensor(type, T * C), *lse = tensor(MEGA_F32, T * s->heads);
    uint32_t *sample = mega_calloc((size_t)T, sizeof *sample);
    mega_attention_args a = {.batch = s->batch, .seq = s->seq, .heads = s->heads, .kv_heads = s->heads};
    a.keys = s->seq, a.head_dim = s->head_dim, a.q = qkv, a.k = qkv + (size_t)C * element,
    a.v = qkv + 2 * (size_t)C * element;
    a.out = out, a.lse = lse, a.sample_id = sample, a.ld_q = a.ld_kv = 3 * C, a.ld_out = C;
    a.scale = 1.0 / sqrt((double)s->head_dim), a.dropout = s->dropout, a.causal = true;
    a.head.dtype = type, a.head.step = &step_block;
    mega_attention_grad_args g = {.dq = dqkv, .dk = dqkv + (size_t)C * element, .forward = a};
    g.dv = dqkv + 2 * (size_t)C * element, g.dout = dout, g.ld_dq = g.ld_dkv = 3 * C, g.ld_dout = C;
    g.head = a.head;
    const size_t bytes[2] = {mega_cpu_attention.scratch(&a, 1), mega_cpu_attention_grad.scratch(&g, 1)};
    void *scratch[2];
    for (int i = 0; i < 2; i++)
        if (mega_pages_alloc(&scratch[i], bytes[i], "scratch of attention") != MEGA_OK) {
            fprintf(stderr, "%s\n", mega_error_message());
            exit(1);
        }
    a.head.scratch = scratch[0], g.head.scratch = scratch[1];
    const double flop = 2.0 * (double)(T * s->seq) * (double)C;
    double forward[REPEATS], backward[REPEATS], both[REPEATS], before = mega_cpu_peak_flops(NULL, type);
    for (int i = 0; i < REPEATS; i++) {
        const double f = seconds_of(&mega_cpu_attention, &a), b = seconds_of(&mega_cpu_attention_grad, &g);
        const double after = mega_cpu_peak_flops(NULL, type), peak = after > before ? after : before;
        forward[i] = flop / f / peak, backward[i] = 2.5 * flop / b / peak, both[i] = 3.5 * flop / (f + b) / peak;
        before = after;
    }
    if (s->seq >= 1024 && s->dropout == 0.0)
        for (int i = 0; i < REPEATS; i++)
            printf("RESULT attention_%s_%sof_peak %.4f ratio causal, forward and backward, T=%lld, D=64, one thread\n",
                   type == MEGA_BF16 ? "bf16" : "fp32", s->seq == 1024 ? "" : "t4096_", both[i], (long long)s->seq);
    qsort(forward, REPEATS, sizeof *forward, by_value);
    qsort(backward, REPEATS, sizeof *backward, by_value);
    qsort(both, REPEATS, sizeof *both, by_value);
    printf("attention_%s_of_peak S=%lld D=%lld dropout=%g: %.3f (forward %.3f, backward %.3f; spread %.3f to %.3f)\n",
           type == MEGA_BF16 ? "bf16" : "fp32", (long long)s->seq, (long long)s->head_dim, s->dropout,
           both[REPEATS / 2], forward[REPEATS / 2], backward[REPEATS / 2], both[0], both[REPEATS - 1]);
    void *all[] = {qkv, dqkv, out, dout, lse};
    const size_t sizes[] = {3 * wide, 3 * wide, wide, wide, (size_t)(T * s->heads) * sizeof(float)};
    for (int i = 0; i < 5; i++) mega_pages_free(all[i], sizes[i]);
    mega_free(sample);
    for (int i = 0; i < 2; i++) mega_pages_free(scratch[i], bytes[i]);
}

int main(int argc, char **argv)
{
    const mega_dtype type = argc > 1 && strcmp(argv[1], "bf16") == 0 ? MEGA_BF16 : MEGA_F32;
    static const shape shapes[] = {{1, 1024, 12, 64, 0.0},
                                   {1, 1024, 12, 64, 0.1},
                                   {1, 4096, 2, 64, 0.0},
                                   {4, 64, 12, 64, 0.0},
                                   {12, 64, 4, 32, 0.0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (argc < 3 || (size_t)atoi(argv[2]) == i) measure(type, &shapes[i]);
    return 0;
}
