/* Which member of a blend gives the next sample. Follows Megatron-LM's arithmetic exactly (NumPy's sum, doubles, ties
 * go to the lower member), because a rounding that differs by one bit gives other batches. */
#include "data_impl.h"
#include "megalith/memory.h"
#include <math.h>

int64_t mega_blend_request(int64_t total, double weight)
{
    return (int64_t)ceil((double)total * weight * 1.005);
}

/* numpy.sum of doubles: sequential below 8 terms, eight running sums up to 128, recursive halves above. */
static double numpy_sum(const double *x, int64_t n)
{
    if (n < 8) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i];
        return sum;
    }
    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;
        return numpy_sum(x, half) + numpy_sum(x + half, n - half);
    }
    double r[8];
    memcpy(r, x, sizeof r);
    int64_t i = 8;
    for (; i < n - n % 8; i += 8) {
        for (int k = 0; k < 8; k++) r[k] += x[i + k];
    }
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++) sum += x[i];
    return sum;
}

mega_status mega_blend_order(const double *weights, int count, int64_t size, const volatile sig_atomic_t *stop,
                             int16_t *member, int64_t *sample)
{
    double *weight = mega_malloc((size_t)count * sizeof *weight);
    int64_t *used = mega_calloc((size_t)count, sizeof *used);
    if (weight == NULL || used == NULL) {
        MEGA_FREE(weight, used);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "blend: no memory for %d members", count);
    }
    const double sum = numpy_sum(weights, count);
    for (int k = 0; k < count; k++) weight[k] = weights[k] / sum;
    for (int64_t i = 0; i < size && !mega_data_is_stopped(stop, i); i++) {
        const double x = i > 1 ? (double)i : 1.0;
        int best = -1;
        double most = 0;
        for (int k = 0; k < count; k++) {
            const double behind = weight[k] * x - (double)used[k];
            /* otherwise a member of weight 0 would win a tie at 0 */
            if (weight[k] > 0 && (best < 0 || behind > most)) {
                most = behind;
                best = k;
            }
        }
        member[i] = (int16_t)best;
        sample[i] = used[best]++;
    }
    MEGA_FREE(weight, used);
    return mega_data_is_stopped(stop, 0) ? mega_data_stopped("building the order of a blend") : MEGA_OK;
}
