/* Gradient of the embedding table (ops_rows.h), in three kernels, without atomics: the positions are sorted by their
 * ids, equal ones in their order; then the first position of each id adds up all positions of it. Where they lie in
 * several chunks of the sorted list (COLUMN_ROWS), the first of each chunk adds up those there, and the third kernel
 * adds the sums of the chunks: a batch of one id, such as padding, is no work of one thread. */
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

/* What is sorted, and the sums of chunks: [chunks, 2, cols]. Ids whose positions lie in several chunks have at most two
 * sums in a chunk: one from its first position on, and one from a later position, which continues in the next. */
typedef struct sorted_list {
    const int32_t *position;
    float *sums;
    int64_t chunk; /* positions in each but the last */
} sorted_list;

BODY sorted_list list_of(const mega_embedding_grad_args *a)
{
    sorted_list l;
    l.position = (const int32_t *)a->head.scratch;
    l.sums = (float *)((char *)a->head.scratch + SORT_BYTES(a->rows));
    l.chunk = COLUMN_ROWS(a->rows);
    return l;
}

/* The row of the table of entry i of the list; table_rows: none. */
BODY uint32_t listed_row(const mega_embedding_grad_args *a, const sorted_list *l, int64_t i)
{
    return i >= 0 && i < a->rows ? row_of(a, l->position[i]) : (uint32_t)a->table_rows;
}

BODY void embedding_grad_run(const mega_embedding_grad_args *a, mega_dtype t)
{
    const sorted_list l = list_of(a);
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const uint32_t row = listed_row(a, &l, p.row);
        const bool continues = listed_row(a, &l, p.row - 1) == row, begins_chunk = p.row % l.chunk == 0;
        if (row >= a->table_rows || (continues && !begins_chunk)) continue;
        const int64_t at = (int64_t)row * a->cols + p.col, chunk = p.row / l.chunk, end = (chunk + 1) * l.chunk;
        const bool is_split = continues || (listed_row(a, &l, end - 1) == row && listed_row(a, &l, end) == row);
        eight sum = load_eight(a->dtable, MEGA_F32, at, is_split ? 0 : p.left);
        for (int64_t i = p.row; i < end && listed_row(a, &l, i) == row; i++) {
            const eight dy = load_eight(a->dy, t, l.position[i] * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += dy.v[k];
        }
        if (is_split) store_eight(l.sums, MEGA_F32, (2 * chunk + !begins_chunk) * a->cols + p.col, p.left, sum);
        else
            store_eight(a->dtable, MEGA_F32, at, p.left, sum);
    }
}
KERNELS_BY_TYPE(embedding_grad, mega_embedding_grad_args, EIGHT_THREADS)

/* The chunk in which an id begins that continues in the next one adds up the sums of all its chunks. */
KERNEL(embedding_grad_total, mega_embedding_grad_args, EIGHT_THREADS)
{
    const sorted_list l = list_of(&a);
    for (place p = place_first(COLUMN_CHUNKS(a.rows) - 1, a.cols); place_goes_on(&p); place_next(&p)) {
        const int64_t begin = p.row * l.chunk;
        const uint32_t row = listed_row(&a, &l, begin + l.chunk - 1);
        const bool is_whole = listed_row(&a, &l, begin) == row;
        if (row >= a.table_rows || listed_row(&a, &l, begin + l.chunk) != row) continue;
        if (is_whole && listed_row(&a, &l, begin - 1) == row) continue;
        const int64_t at = (int64_t)row * a.cols + p.col;
        eight sum = load_eight(a.dtable, MEGA_F32, at, p.left);
        for (int64_t c = p.row; c == p.row || listed_row(&a, &l, c * l.chunk) == row; c++) {
            const int64_t later = c == p.row && !is_whole;
            const eight part = load_eight(l.sums, MEGA_F32, (2 * c + later) * a.cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += part.v[k];
        }
        store_eight(a.dtable, MEGA_F32, at, p.left, sum);
    }
}
