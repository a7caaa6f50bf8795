/* Matrix product: plain kernel (ops_linear.h). */
#include "backend_impl.h"

static void plain_gemm_run(mega_team *team, const void *args)
{
    const mega_gemm_args *a = args;
    const mega_dtype t = a->head.dtype;
    /* Distance in memory between consecutive elements along each index. */
    const int64_t a_m = a->trans_a ? 1 : a->lda, a_k = a->trans_a ? a->lda : 1;
    const int64_t b_k = a->trans_b ? 1 : a->ldb, b_n = a->trans_b ? a->ldb : 1;
    const bool add = a->accumulate && !(a->begins && a->head.step != NULL && a->head.step->first_micro_batch);
    (void)team;
    for (int64_t m = 0; m < a->m; m++) {
        double row_sum = 0.0;
        for (int64_t k = 0; k < a->k && a->row_sum != NULL; k++) row_sum += get(a->a, t, m * a_m + k * a_k);
        if (a->row_sum != NULL) put_add(a->row_sum, acc_of(t), m, row_sum);
        for (int64_t n = 0; n < a->n && !(a->lower && n > m); n++) {
            double sum = a->bias != NULL ? get(a->bias, t, n) : 0.0;
            for (int64_t k = 0; k < a->k; k++) sum += get(a->a, t, m * a_m + k * a_k) * get(a->b, t, k * b_k + n * b_n);
            if (add) sum += get(a->c, a->c_dtype, m * a->ldc + n);
            if (a->residual != NULL) sum += get(a->residual, a->c_dtype, m * a->ldc + n);
            put(a->c, a->c_dtype, m * a->ldc + n, sum);
        }
    }
}

const mega_kernel mega_plain_gemm = {.name = "gemm", .run = plain_gemm_run};
