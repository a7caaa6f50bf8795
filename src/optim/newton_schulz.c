/* Orthogonalizes a matrix by a Newton-Schulz iteration (Higham 2008, chapter 8; Bernstein and Newhouse 2024): X = in /
 * |in|, then some times X = (a I + b A + c A^2) X with A = XX', which brings all singular values near 1. The shorter
 * dimension is that of A; with A = X'X the product is X (a I + b A + c A^2), the same matrix.
 *
 * A and A^2 are symmetric: their products compute the lower half. Under tp each rank has some rows or columns of X, A is
 * the sum of the A of all ranks, and nothing else is exchanged but one number for the norm. */
#include "megalith/kernels.h"
#include "muon.h"

#include <math.h>
#include <string.h>

typedef struct coefficient_set {
    double a, b, c;
} coefficient_set;

enum { MOST_SETS = 8, NORM_CHUNK = 16384, TILE = 32 };

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

static int64_t norm_chunks(const newton_schulz *n)
{
    return (n->rows * n->cols + NORM_CHUNK - 1) / NORM_CHUNK;
}

typedef enum product { GRAM, SQUARE, STEP } product;

/* The products of one step: gram = XX' or X'X, square = gram gram, and x[to] = square x or x square. */
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

static const mega_kernel *product_kernel(const newton_schulz *n)
{
    return n->plain ? &mega_plain_gemm : &mega_cpu_gemm;
}

static size_t product_bytes(const newton_schulz *n)
{
    const mega_kernel *k = product_kernel(n);
    size_t most = round_up((size_t)norm_chunks(n) * sizeof(double));
    for (product p = GRAM; p <= STEP && k->scratch != NULL; p++) {
        const mega_gemm_args a = product_args(n, p);
        const size_t bytes = round_up(k->scratch(&a, mega_team_size(n->team)));
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t newton_schulz_scratch(const newton_schulz *n)
{
    return 2 * matrix_bytes(n) + 2 * gram_bytes(n) + product_bytes(n);
}

void *newton_schulz_matrix(const newton_schulz *n)
{
    return n->scratch + matrix_bytes(n);
}

double newton_schulz_flops(const newton_schulz *n)
{
    const double size = (double)gram_size(n), all = (double)(n->rows * n->cols);
    return (double)n->steps * (size * all + size * size * size + 2 * size * all);
}

/* ---- work of the team ---- */

typedef struct schulz_job {
    const newton_schulz *n;
    const void *in;
    void *gram, *square, *out;
    double *chunk;
    double factor;
    coefficient_set k;
    int64_t size; /* of gram and square */
} schulz_job;

#define REAL    float
#define NAME(x) x##_f32
#include "newton_schulz_body.c"
#undef REAL
#undef NAME
#define REAL    double
#define NAME(x) x##_f64
#include "newton_schulz_body.c"

static void run_part(const schulz_job *job, int64_t items, int64_t grain, mega_team_part *narrow, mega_team_part *wide)
{
    schulz_job copy = *job;
    mega_team_for(job->n->team, items, grain, job->n->acc == MEGA_F64 ? wide : narrow, &copy);
}

/* Writes in / |in| to out; a norm below 1e-7 counts as 1e-7, as in PyTorch and Megatron-LM. */
static mega_status normalize(schulz_job *job)
{
    const newton_schulz *n = job->n;
    const int64_t count = n->rows * n->cols;
    double squares = 0;
    run_part(job, count, NORM_CHUNK, squares_f32, squares_f64);
    for (int64_t i = 0; i < norm_chunks(n); i++) squares += job->chunk[i];
    if (n->sums != NULL)
        MEGA_TRY(mega_comm_all_reduce(n->sums->comm, "norm of a matrix", &squares, 1, MEGA_F64, MEGA_REDUCE_SUM));
    job->factor = 1 / fmax(sqrt(squares), 1e-7);
    run_part(job, count, NORM_CHUNK, scaled_f32, scaled_f64);
    return MEGA_OK;
}

static void multiply(const newton_schulz *n, product which, const void *a, const void *b, void *c, void *scratch)
{
    mega_gemm_args args = product_args(n, which);
    args.head.scratch = scratch;
    args.a = a;
    args.b = b;
    args.c = c;
    product_kernel(n)->run(n->team, &args);
}

/* One step from `from` to `to`. */
static mega_status iterate(schulz_job *job, const void *from, void *to, void *scratch)
{
    const newton_schulz *n = job->n;
    multiply(n, GRAM, from, from, job->gram, scratch);
    run_part(job, job->size, TILE, mirrored_f32, mirrored_f64);
    if (n->sums != NULL)
        MEGA_TRY(mega_comm_all_reduce(n->sums->comm, "products of a matrix", job->gram, job->size * job->size, n->acc,
                                      MEGA_REDUCE_SUM));
    multiply(n, SQUARE, job->gram, job->gram, job->square, scratch);
    run_part(job, job->size, TILE, polynomial_f32, polynomial_f64);
    multiply(n, STEP, n->by_columns ? from : job->square, n->by_columns ? job->square : from, to, scratch);
    return MEGA_OK;
}

mega_status newton_schulz_run(const newton_schulz *n, const void *in, void **out)
{
    char *x[2] = {n->scratch, n->scratch + matrix_bytes(n)}, *gram = x[1] + matrix_bytes(n);
    char *scratch = gram + 2 * gram_bytes(n);
    schulz_job job = {.n = n,
                      .in = in,
                      .gram = gram,
                      .square = gram + gram_bytes(n),
                      .out = x[0],
                      .chunk = (double *)(void *)scratch,
                      .size = gram_size(n)};
    MEGA_TRY(normalize(&job));
    void *from = x[0];
    for (int64_t i = 0; i < n->steps; i++) {
        void *to = i + 1 == n->steps && *out != NULL ? *out : from == x[0] ? x[1] : x[0];
        job.k = set_of(n->coefficients, i);
        MEGA_TRY(iterate(&job, from, to, scratch));
        from = to;
    }
    *out = from;
    return MEGA_OK;
}
