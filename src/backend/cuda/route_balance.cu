/* The balance loss, by a block an expert of a group, its gradient, how evenly experts are used, by a thread a group,
 * and how often each is chosen, by a block an expert (ops_route.h). All numbers are F32, whatever the type of the call
 * is. */
#include "functions.h"

KERNEL(route_balance, mega_route_balance_args, ROW_THREADS)
{
    SHARED(double, part);
    for (int64_t i = block_x(); i < a.groups * a.experts; i += blocks_x()) {
        const int64_t g = i / a.experts, e = i - g * a.experts;
        double count = 0.0, sum = 0.0;
        for (int64_t t = g * a.rows + thread_x(); t < (g + 1) * a.rows; t += ROW_THREADS) {
            sum += (double)((const float *)a.share)[t * a.experts + e];
            for (int64_t j = 0; j < a.counted; j++) count += a.choice[t * a.choices + j] == e ? 1.0 : 0.0;
        }
        count = block_sum_double(count, part);
        block_barrier(); /* all have read the count before the next sum overwrites it */
        sum = block_sum_double(sum, part);
        block_barrier();
        if (thread_x() != 0) continue;
        const double fraction = count / (double)(a.rows * a.counted);
        ((float *)a.fraction)[i] = (float)fraction;
        ((double *)a.head.scratch)[i] = fraction * (sum / (double)a.rows);
    }
}

KERNEL(route_balance_total, mega_route_balance_args, ROW_THREADS)
{
    for (int64_t g = (int64_t)block_x() * ROW_THREADS + thread_x(); g < a.groups; g += blocks_x() * ROW_THREADS) {
        double loss = 0.0;
        for (int64_t e = 0; e < a.experts; e++) loss += ((const double *)a.head.scratch)[g * a.experts + e];
        ((float *)a.loss)[g] = (float)((double)a.experts * loss);
    }
}

KERNEL(route_balance_grad, mega_route_balance_grad_args, COLUMN_THREADS)
{
    const int64_t rows = a.groups * a.rows;
    for (place p = tile_first(rows, a.experts); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        const int64_t g = p.row / a.rows;
        const float factor = device_divide(((const float *)a.dloss)[g] * (float)a.experts, (float)a.rows);
        eight x = load_eight(a.fraction, MEGA_F32, g * a.experts + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= factor;
        store_eight(a.dshare, MEGA_F32, p.at, p.left, x);
    }
}

KERNEL(route_load, mega_route_load_args, ROW_THREADS)
{
    for (int64_t g = (int64_t)block_x() * ROW_THREADS + thread_x(); g < a.groups; g += blocks_x() * ROW_THREADS) {
        const float *fraction = (const float *)a.fraction + g * a.experts;
        float most = fraction[0], least = fraction[0], entropy = 0.0f;
        for (int64_t e = 0; e < a.experts; e++) {
            const float f = fraction[e];
            most = device_max(most, f);
            least = device_min(least, f);
            if (f > 0.0f) entropy -= f * log_of(f);
        }
        ((float *)a.fullest)[g] = most * (float)a.experts;
        ((float *)a.emptiest)[g] = least * (float)a.experts;
        ((float *)a.entropy)[g] = a.experts > 1 ? device_divide(entropy, log_of((float)a.experts)) : 1.0f;
    }
}

KERNEL(route_count, mega_route_count_args, ROW_THREADS)
{
    SHARED(double, part);
    for (int64_t e = block_x(); e < a.experts; e += blocks_x()) {
        double count = 0.0;
        for (int64_t i = thread_x(); i < a.rows * a.choices; i += ROW_THREADS) count += a.choice[i] == e ? 1.0 : 0.0;
        count = block_sum_double(count, part);
        block_barrier(); /* all have read it before the next sum overwrites it */
        if (thread_x() == 0) ((float *)a.counts)[e] += (float)count;
    }
}
