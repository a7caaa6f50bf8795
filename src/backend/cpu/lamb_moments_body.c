/* The first pass of Lamb for one number type. REAL, SQRT and NAME are defined by the file that includes this. */

enum { NAME(lamb_block) = 256, NAME(lamb_lanes) = 8 };

/* Updates the states of elements begin … end - 1; sum[0] = squares of the parameter, sum[1] = squares of its step. */
static void NAME(lamb_chunk)(const mega_lamb_moments_args *a, int64_t begin, int64_t end, double sum[2])
{
    enum { BLOCK = NAME(lamb_block), LANES = NAME(lamb_lanes) };
    const REAL *restrict p = a->p, *restrict g = a->g;
    REAL *restrict m = a->m, *restrict v = a->v;
    const double *n = a->number;
    const REAL b1 = (REAL)n[4], n1 = (REAL)(1 - n[4]), b2 = (REAL)n[5], n2 = (REAL)(1 - n[5]);
    const REAL inside = (REAL)n[1], outside = (REAL)n[2], decay = (REAL)n[3], factor = (REAL)MEGA_UPDATE_FACTOR(a);
    double params[LANES] = {0}, steps[LANES] = {0};
    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;
        REAL u[BLOCK] = {0}, old[BLOCK] = {0};
        for (int64_t k = 0; k < count; k++) {
            const int64_t i = first + k;
            const REAL gradient = g[i] * factor;
            m[i] = b1 * m[i] + n1 * gradient;
            v[i] = b2 * v[i] + n2 * (gradient * gradient);
            old[k] = p[i];
            u[k] = m[i] / (SQRT(v[i] + inside) + outside) + decay * p[i];
        }
        for (int k = 0; k < BLOCK; k += LANES)
            for (int l = 0; l < LANES; l++) {
                params[l] += (double)old[k + l] * (double)old[k + l];
                steps[l] += (double)u[k + l] * (double)u[k + l];
            }
    }
    sum[0] = sum[1] = 0;
    for (int l = 0; l < LANES; l++) {
        sum[0] += params[l];
        sum[1] += steps[l];
    }
}
