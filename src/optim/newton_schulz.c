/* Orthogonalizes a matrix by a Newton-Schulz iteration (Higham 2008, chapter 8; Bernstein and Newhouse 2024): X = in /
 * |in|, then some times X = (a I + b A + c A^2) X with A = XX', which brings all singular values near 1. The shorter
 * dimension is that of A; with A = X'X the product is X (a I + b A + c A^2), the same matrix.
 *
 * For a matrix that is much longer than wide most of the time would go into products with X. A short run of steps then
 * works on A alone (Gram Newton-Schulz): with S = a I + b A + c A^2, the next A is S A S and the product of all S is Q,
 * all of them of the size of A, and only the last step of the run computes Q X. All of these matrices commute and are
 * symmetric. A rounding error of A grows up to a^2 times in a step. A run therefore ends before the errors grow more
 * than MOST_GROWTH times, which leaves 2^-8 of the smallest singular values in fp32; the next run begins with an A
 * computed from X. In bf16, as others compute it, these lose more.
 *
 * Products that are symmetric compute the lower half. Under tp each rank has some rows or columns of X, A is the sum of
 * the A of all ranks, and nothing else is exchanged but one number for the norm. */
#include "megalith/device_memory.h"
#include "megalith/kernels.h"
#include "muon.h"

#include <math.h>

typedef struct coefficient_set {
    double a, b, c;
} coefficient_set;

enum { MOST_SETS = 8, GRAMS = 4, MOST_GROWTH = 1 << 16, SUM_BYTES = 64 };

/* As in Megatron-LM's (Emerging-Optimizers) tables of these names: after the last set of polar_express and cans it is
 * used again, after the others the first one. */
static const struct {
    int count;
    bool repeats_last;
    coefficient_set set[MOST_SETS];
} coefficients[] = {
    [MEGA_MUON_SIMPLE] = {1, false, {{3.4445, -4.7750, 2.0315}}},
    [MEGA_MUON_QUINTIC] = {5,
                           false,
                           {{4.0848, -6.8946, 2.9270},
                            {3.9505, -6.3029, 2.6377},
                            {3.7418, -5.5913, 2.3037},
                            {2.8769, -3.1427, 1.2046},
                            {2.8366, -3.0525, 1.2012}}},
    [MEGA_MUON_POLAR_EXPRESS] = {8,
                                 true,
                                 {{8.2051, -22.9019, 16.4607},
                                  {4.0664, -2.8612, 0.5184},
                                  {3.9096, -2.8234, 0.5250},
                                  {3.2856, -2.4153, 0.4853},
                                  {2.2779, -1.6198, 0.3985},
                                  {1.8726, -1.2307, 0.3585},
                                  {1.8564, -1.2132, 0.3568},
                                  {1.8750, -1.2500, 0.3750}}},
    [MEGA_MUON_CANS] = {5,
                        true,
                        {{8.4703, -25.1081, 18.6293},
                         {4.1828, -3.1087, 0.5806},
                         {3.9619, -2.9541, 0.5630},
                         {3.2866, -2.4647, 0.5074},
                         {2.2737, -1.6447, 0.4162}}},
};

static coefficient_set set_of(mega_muon_coefficients kind, int64_t step)
{
    const int count = coefficients[kind].count;
    return coefficients[kind].set[step < count ? step : coefficients[kind].repeats_last ? count - 1 : step % count];
}

newton_schulz newton_schulz_of(const whole_tensor *t, const mega_layout *layout, mega_dtype acc)
{
    return (newton_schulz){.acc = acc,
                           .rows = t->rows,
                           .cols = t->cols,
                           .by_columns = t->is_cut ? t->cut_dim == 0 : t->rows > t->cols,
                           .sums = t->is_cut && mega_axis_has_others(&layout->tp) ? &layout->tp : NULL};
}

/* ---- memory ---- */

static int64_t gram_size(const newton_schulz *n)
{
    return n->by_columns ? n->cols : n->rows;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t matrix_bytes(const newton_schulz *n)
{
    return round_up((size_t)(n->rows * n->cols) * mega_dtype_size(n->acc));
}

static size_t gram_bytes(const newton_schulz *n)
{
    return round_up((size_t)(gram_size(n) * gram_size(n)) * mega_dtype_size(n->acc));
}

typedef enum product { GRAM, SMALL, STEP } product;

/* GRAM: XX' or X'X. SMALL: a product of two matrices of that size, which is symmetric. STEP: the next X, a matrix of
 * that size times x, or x times it. */
static mega_gemm_args product_args(const newton_schulz *n, product which)
{
    const int64_t size = gram_size(n);
    mega_gemm_args a = {.head = {.dtype = n->acc}, .c_dtype = n->acc, .m = size, .n = size, .k = size};
    a.lda = a.ldb = a.ldc = size;
    a.lower = which != STEP;
    if (which == GRAM) {
        a.k = n->by_columns ? n->rows : n->cols;
        a.trans_a = n->by_columns;
        a.trans_b = !n->by_columns;
        a.lda = a.ldb = n->cols;
    } else if (which == STEP) {
        a.m = n->rows;
        a.n = n->cols;
        a.lda = n->by_columns ? n->cols : size;
        a.ldb = n->by_columns ? size : n->cols;
        a.ldc = n->cols;
    }
    return a;
}

static size_t kernel_bytes(const newton_schulz *n, mega_kernel_id id, const void *args)
{
    const mega_kernel *k = mega_kernel_of(n->backend, id);
    return k->scratch == NULL ? 0 : round_up(k->scratch(args, mega_team_size(n->queue.team)));
}

/* Scratch of the kernels. */
static size_t kernels_bytes(const newton_schulz *n)
{
    const mega_matrix_squares_args squares = {.head = {.dtype = n->acc}, .count = n->rows * n->cols};
    size_t most = kernel_bytes(n, MEGA_KERNEL_matrix_squares, &squares);
    for (product p = GRAM; p <= STEP; p++) {
        const mega_gemm_args a = product_args(n, p);
        const size_t bytes = kernel_bytes(n, MEGA_KERNEL_gemm, &a);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t newton_schulz_scratch(const newton_schulz *n)
{
    return 2 * matrix_bytes(n) + GRAMS * gram_bytes(n) + SUM_BYTES + kernels_bytes(n);
}

void *newton_schulz_matrix(const newton_schulz *n)
{
    return n->scratch + matrix_bytes(n);
}

/* Products of the size of A in a run of `steps` steps: the squares, the next A after each step but the last, and the
 * product of S with earlier ones in each step but the first. */
static double run_products(int64_t steps)
{
    return (double)(steps + 2 * (steps - 1) + (steps - 1));
}

/* Multiply-adds of a run: its Gram matrix, its last product, and what lies between. */
static double run_work(const newton_schulz *n, int64_t steps)
{
    const double size = (double)gram_size(n), all = (double)(n->rows * n->cols);
    return size * all / 2 + run_products(steps) / 2 * size * size * size + size * all;
}

/* The steps of the run that begins with step number `begin`: as many as rounding errors allow, or 1 where that takes
 * less work. */
static int64_t run_steps(const newton_schulz *n, int64_t begin)
{
    int64_t steps = 0;
    for (double growth = 1; begin + steps < n->steps && growth <= MOST_GROWTH; steps++) {
        const double a = set_of(n->coefficients, begin + steps).a;
        growth *= a * a;
    }
    return run_work(n, steps) < (double)steps * run_work(n, 1) ? steps : 1;
}

newton_schulz_cost newton_schulz_cost_of(const newton_schulz *n)
{
    const double size = (double)gram_size(n), gram = size * size, all = (double)(n->rows * n->cols);
    newton_schulz_cost c = {0};
    for (int64_t i = 0, steps; i < n->steps; i += steps) {
        steps = run_steps(n, i);
        c.flops += 2 * run_work(n, steps);
        c.elements += 3 * all + 3 * (1 + run_products(steps)) * gram;
        c.summed += n->sums != NULL ? gram : 0;
    }
    return c;
}

/* ---- a run ---- */

enum { A, S, Q, FREE }; /* the matrices of the size of A */

typedef struct schulz_job {
    const newton_schulz *n;
    void *gram[GRAMS];
    double *sum; /* the squares of the matrix */
    void *scratch;
} schulz_job;

static void schulz_run(const newton_schulz *n, mega_kernel_id id, const void *args)
{
    mega_device_begin();
    mega_kernel_of(n->backend, id)->run(&n->queue, args);
    mega_device_end();
}

/* Writes in / |in| to out; a norm below 1e-7 counts as 1e-7, as in PyTorch and Megatron-LM. */
static mega_status normalize(const schulz_job *job, const void *in, void *out)
{
    const newton_schulz *n = job->n;
    const mega_matrix_squares_args squares = {
        .head = {.dtype = n->acc, .scratch = job->scratch}, .sum = job->sum, .x = in, .count = n->rows * n->cols};
    const mega_matrix_scale_args scale = {
        .head = {.dtype = n->acc}, .y = out, .x = in, .squares = job->sum, .count = n->rows * n->cols};
    schulz_run(n, MEGA_KERNEL_matrix_squares, &squares);
    if (n->sums != NULL)
        MEGA_TRY(mega_comm_all_reduce(n->sums->comm, "norm of a matrix", job->sum, 1, MEGA_F64, MEGA_REDUCE_SUM));
    schulz_run(n, MEGA_KERNEL_matrix_scale, &scale);
    return MEGA_OK;
}

static void multiply(const schulz_job *job, product which, const void *a, const void *b, void *c)
{
    mega_gemm_args args = product_args(job->n, which);
    args.head.scratch = job->scratch;
    args.a = a;
    args.b = b;
    args.c = c;
    schulz_run(job->n, MEGA_KERNEL_gemm, &args);
}

static void multiply_symmetric(const schulz_job *job, product which, const void *a, const void *b, void *c)
{
    const mega_mirror_args both = {.head = {.dtype = job->n->acc}, .s = c, .size = gram_size(job->n)};
    multiply(job, which, a, b, c);
    schulz_run(job->n, MEGA_KERNEL_mirror, &both);
}

static void swap(schulz_job *job, int i, int j)
{
    void *kept = job->gram[i];
    job->gram[i] = job->gram[j];
    job->gram[j] = kept;
}

/* Makes S of step number i from A, multiplies Q by it, and replaces A by S A S unless this is the last step of a
 * run. */
static void step_of_run(schulz_job *job, int64_t i, bool is_first, bool is_last)
{
    void **g = job->gram;
    const coefficient_set k = set_of(job->n->coefficients, i);
    const mega_polynomial_args polynomial = {
        .head = {.dtype = job->n->acc}, .s = g[S], .x = g[A], .size = gram_size(job->n), .a = k.a, .b = k.b, .c = k.c};
    multiply(job, SMALL, g[A], g[A], g[S]);
    schulz_run(job->n, MEGA_KERNEL_polynomial, &polynomial);
    if (!is_last) {
        multiply_symmetric(job, SMALL, g[S], g[A], g[FREE]);
        multiply_symmetric(job, SMALL, g[S], g[FREE], g[A]);
    }
    if (is_first) {
        swap(job, S, Q);
        return;
    }
    multiply_symmetric(job, SMALL, g[S], g[Q], g[FREE]);
    swap(job, Q, FREE);
}

/* Steps [begin, end), from `from` to `to`. */
static mega_status run_of_steps(schulz_job *job, int64_t begin, int64_t end, const void *from, void *to)
{
    const newton_schulz *n = job->n;
    void **g = job->gram;
    multiply_symmetric(job, GRAM, from, from, g[A]);
    if (n->sums != NULL)
        MEGA_TRY(mega_comm_all_reduce(n->sums->comm, "products of a matrix", g[A], gram_size(n) * gram_size(n), n->acc,
                                      MEGA_REDUCE_SUM));
    for (int64_t i = begin; i < end; i++) step_of_run(job, i, i == begin, i + 1 == end);
    multiply(job, STEP, n->by_columns ? from : g[Q], n->by_columns ? g[Q] : from, to);
    return MEGA_OK;
}

mega_status newton_schulz_run(const newton_schulz *n, const void *in, void **out)
{
    char *x[2] = {n->scratch, n->scratch + matrix_bytes(n)}, *gram = x[1] + matrix_bytes(n);
    char *sum = gram + GRAMS * gram_bytes(n);
    schulz_job job = {.n = n, .sum = (double *)(void *)sum, .scratch = sum + SUM_BYTES};
    for (int i = 0; i < GRAMS; i++) job.gram[i] = gram + (size_t)i * gram_bytes(n);
    MEGA_TRY(normalize(&job, in, x[0]));
    void *from = x[0];
    for (int64_t begin = 0, end; begin < n->steps; begin = end) {
        end = begin + run_steps(n, begin);
        void *to = end == n->steps && *out != NULL ? *out : from == x[0] ? x[1] : x[0];
        MEGA_TRY(run_of_steps(&job, begin, end, from, to));
        from = to;
    }
    *out = from;
    return MEGA_OK;
}
