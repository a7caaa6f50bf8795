/* Matrix product: plain kernel (ops_linear.h). */
#include "backend_impl.h"

enum { COLUMNS = 8 };

typedef struct strides { /* between consecutive elements along each index */
    int64_t a_m, a_k, b_k, b_n;
} strides;

/* Adds to sum[…] the products of a row of A with columns n … n + COLUMNS - 1 of B, each in the order of k. Several
 * columns at a time, since an addition of one need not wait for that of another; in double without looking at the type
 * of each element, since every test of layouts computes in double. */
static void add_products(const mega_gemm_args *a, const strides *s, int64_t m, int64_t n, double sum[COLUMNS])
{
    const mega_dtype t = a->head.dtype;
    const int count = a->n - n < COLUMNS ? (int)(a->n - n) : COLUMNS;
    if (t == MEGA_F64 && count == COLUMNS) {
        const double *x = (const double *)a->a + m * s->a_m, *y = (const double *)a->b + n * s->b_n;
        for (int64_t k = 0; k < a->k; k++)
            for (int i = 0; i < COLUMNS; i++) sum[i] += x[k * s->a_k] * y[k * s->b_k + i * s->b_n];
        return;
    }
    for (int64_t k = 0; k < a->k; k++) {
        const double x = get(a->a, t, m * s->a_m + k * s->a_k);
        for (int i = 0; i < count; i++) sum[i] += x * get(a->b, t, k * s->b_k + (n + i) * s->b_n);
    }
}

static void plain_gemm_run(const mega_queue *queue, const void *args)
{
    const mega_gemm_args *a = args;
    const mega_dtype t = a->head.dtype;
    const strides s = {.a_m = a->trans_a ? 1 : a->lda,
                       .a_k = a->trans_a ? a->lda : 1,
                       .b_k = a->trans_b ? 1 : a->ldb,
                       .b_n = a->trans_b ? a->ldb : 1};
    const bool add = a->accumulate && !(a->first_in_step && a->head.step != NULL && a->head.step->first_micro_batch);
    for (int64_t m = 0; m < a->m; m++) {
        double row_sum = 0.0, sum[COLUMNS];
        const int64_t columns = a->lower && m + 1 < a->n ? m + 1 : a->n;
        for (int64_t k = 0; k < a->k && a->row_sum != NULL; k++) row_sum += get(a->a, t, m * s.a_m + k * s.a_k);
        if (a->row_sum != NULL) put_add(a->row_sum, acc_of(t), m, row_sum);
        for (int64_t n = 0; n < columns; n++) {
            const int i = (int)(n % COLUMNS);
            for (int j = 0; i == 0 && j < COLUMNS; j++)
                sum[j] = a->bias != NULL && n + j < a->n ? get(a->bias, t, n + j) : 0.0;
            if (i == 0) add_products(a, &s, m, n, sum);
            if (add) sum[i] += get(a->c, a->c_dtype, m * a->ldc + n);
            if (a->residual != NULL) sum[i] += get(a->residual, a->c_dtype, m * a->ldc + n);
            put(a->c, a->c_dtype, m * a->ldc + n, sum[i]);
        }
    }
}

const mega_kernel mega_plain_gemm = {.name = "gemm", .run = plain_gemm_run};
