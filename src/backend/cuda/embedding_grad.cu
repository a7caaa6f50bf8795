/* Gradient of the embedding table (ops_rows.h), in two kernels, without atomics: the positions are sorted by their ids,
 * equal ones in their order; then the first position of each id adds up all positions of it. */
#include "kernel.h"

typedef struct sort_shared {
    uint32_t count[SORT_DIGITS * SORT_THREADS]; /* of each digit and thread, in this order */
    uint32_t sum[2][SORT_THREADS];
} sort_shared;

/* The row of the table that position i adds to; table_rows: none. */
BODY uint32_t row_of(const mega_embedding_grad_args *a, int64_t i)
{
    const int64_t row = a->ids[i] - a->begin;
    return (uint32_t)(row >= 0 && row < a->table_rows ? row : a->table_rows);
}

/* Makes of the counts the number of entries before each. */
DEVICE void sort_scan(sort_shared *s)
{
    const unsigned x = thread_x();
    uint32_t own = 0;
    int turn = 0;
    for (int d = 0; d < SORT_DIGITS; d++) own += s->count[x * SORT_DIGITS + (unsigned)d];
    s->sum[0][x] = own;
    block_barrier();
    for (unsigned far = 1; far < SORT_THREADS; far *= 2, turn ^= 1) {
        s->sum[turn ^ 1][x] = s->sum[turn][x] + (x >= far ? s->sum[turn][x - far] : 0);
        block_barrier();
    }
    uint32_t before = s->sum[turn][x] - own;
    for (int d = 0; d < SORT_DIGITS; d++) {
        uint32_t *const count = &s->count[x * SORT_DIGITS + (unsigned)d];
        const uint32_t n = *count;
        *count = before;
        before += n;
    }
    block_barrier();
}

/* Sorts by the digits of four bits, lowest first; each thread has consecutive positions. Scratch: two lists of them,
 * of which the first has the result. */
KERNEL(embedding_grad_sort, mega_embedding_grad_args, SORT_THREADS)
{
    SHARED(sort_shared, s);
    const unsigned x = thread_x();
    const int64_t share = (a.rows + SORT_THREADS - 1) / SORT_THREADS, begin = x * share;
    const int64_t end = begin + share < a.rows ? begin + share : a.rows;
    int32_t *from = (int32_t *)a.head.scratch, *to = from + a.rows;
    for (int64_t i = begin; i < end; i++) from[i] = (int32_t)i;
    for (int shift = 0; shift < 32 && (shift == 0 || a.table_rows >> shift > 0); shift += 4) {
        for (unsigned d = 0; d < SORT_DIGITS; d++) s->count[d * SORT_THREADS + x] = 0;
        for (int64_t i = begin; i < end; i++) s->count[(row_of(&a, from[i]) >> shift & 15u) * SORT_THREADS + x]++;
        block_barrier();
        sort_scan(s);
        for (int64_t i = begin; i < end; i++) {
            const int32_t position = from[i];
            to[s->count[(row_of(&a, position) >> shift & 15u) * SORT_THREADS + x]++] = position;
        }
        int32_t *const other = from;
        from = to;
        to = other;
        block_barrier(); /* the next turn reads what others have written */
    }
    for (int64_t i = begin; i < end && from != (int32_t *)a.head.scratch; i++) to[i] = from[i];
}

BODY void embedding_grad_run(const mega_embedding_grad_args *a, mega_dtype t)
{
    const int32_t *const sorted = (const int32_t *)a->head.scratch;
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const uint32_t row = row_of(a, sorted[p.row]);
        if (row >= a->table_rows || (p.row > 0 && row_of(a, sorted[p.row - 1]) == row)) continue;
        const int64_t at = (int64_t)row * a->cols + p.col;
        eight sum = load_eight(a->dtable, MEGA_F32, at, p.left);
        for (int64_t i = p.row; i < a->rows && row_of(a, sorted[i]) == row; i++) {
            const eight dy = load_eight(a->dy, t, sorted[i] * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += dy.v[k];
        }
        store_eight(a->dtable, MEGA_F32, at, p.left, sum);
    }
}
KERNELS_BY_TYPE(embedding_grad, mega_embedding_grad_args, EIGHT_THREADS)
