/* Cross-entropy kernel 1 of 3, maximum of each row; a NaN makes it NaN (ops_loss.h). */
#include "xent_row.h"

BODY float max_or_nan(float x, float y)
{
    return x != x || x > y ? x : y;
}

KERNEL(xent_max, mega_xent_max_args, ROW_THREADS)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a.rows; row += blocks_x()) {
        float max = minus_infinity();
        for (int64_t c = (int64_t)thread_x() * 8; c < a.valid; c += ROW_THREADS * 8) {
            const eight x = load_eight(a.logits, MEGA_F32, row * a.ld + c, a.valid - c);
            UNROLL
            for (int k = 0; k < 8; k++)
                if (c + k < a.valid) max = max_or_nan(x.v[k], max);
        }
        UNROLL
        for (int m = 16; m > 0; m /= 2) max = max_or_nan(warp_xor(max, m), max);
        block_barrier(); /* the maximum of the row before has been read */
        if (thread_x() % 32 == 0) s->part[thread_x() / 32] = max;
        block_barrier();
        UNROLL
        for (int w = 0; w < ROW_THREADS / 32; w++) max = max_or_nan(s->part[w], max);
        if (thread_x() == 0) ((float *)a.row_max)[row] = max;
    }
}
