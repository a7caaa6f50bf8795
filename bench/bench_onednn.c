/* Measures the GEMMs of GPT-2 124M in fp32 with oneDNN, for comparison with bench_kernels: same shapes, same output
 * lines. It is built only if oneDNN is installed (apt-get install libdnnl-dev), and no other program links oneDNN.
 * oneDNN takes its number of threads from OMP_NUM_THREADS. */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_TRIES = 3 };
#define MOST_SECONDS 0.3 /* per figure */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns n random numbers in [-0.5, 0.5). A regular pattern would need less power and so run faster. */
static float *tensor(long n)
{
    float *x = malloc((size_t)n * sizeof *x);
    if (x == NULL) {
        fprintf(stderr, "bench_onednn: no memory for %ld numbers\n", n);
        exit(1);
    }
    for (long i = 0; i < n; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

/* c [m, n] = a [m, k] b [k, n], or += with accumulate; a and b are stored transposed with trans_a and trans_b. */
static void bench_gemm(const char *what, long m, long n, long k, int trans_a, int trans_b, int accumulate)
{
    float *a = tensor(m * k), *b = tensor(k * n), *c = tensor(m * n);
    double least = INFINITY;
    const double start = now();
    for (int i = 0; i < LEAST_TRIES || now() - start < MOST_SECONDS; i++) {
        const double begin = now();
        const dnnl_status_t st = dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0f, a, trans_a ? m : k,
                                            b, trans_b ? k : n, accumulate ? 1.0f : 0.0f, c, n);
        const double seconds = now() - begin;
        if (st != dnnl_success) {
            fprintf(stderr, "bench_onednn: oneDNN refused %ld x %ld x %ld (status %d)\n", m, n, k, (int)st);
            exit(1);
        }
        least = seconds < least ? seconds : least;
    }
    const double flop = 2.0 * (double)m * (double)n * (double)k;
    char name[96];
    snprintf(name, sizeof name, "gemm %s %ld x %ld x %ld", what, m, n, k);
    printf("%-44s %9.1f us %8.1f GFLOP/s\n", name, least * 1e6, flop / least * 1e-9);
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    static const long layer[][2] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}}; /* outputs, inputs */
    const dnnl_version_t *v = dnnl_version();
    printf("oneDNN %d.%d.%d\n", v->major, v->minor, v->patch);
    for (long rows = 256; rows <= 4096; rows *= 16) {
        for (int i = 0; i < (int)(sizeof layer / sizeof *layer); i++) {
            const long out = layer[i][0], in = layer[i][1];
            bench_gemm("forward ", rows, out, in, 0, 1, 0);
            bench_gemm("to input", rows, in, out, 0, 0, 0);
            bench_gemm("to weight", out, in, rows, 1, 0, 1);
        }
    }
    return 0;
}
