/* Embedding: plain kernel (ops_rows.h). */
#include "backend_impl.h"

static void plain_embedding_run(const mega_queue *queue, const void *args)
{
    const mega_embedding_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t row = (a->ids != NULL ? a->ids[r] : r) - a->begin;
        const bool is_here = row >= 0 && row < a->table_rows;
        for (int64_t c = 0; c < a->cols; c++) {
            double v = is_here ? get(a->table, t, row * a->cols + c) : 0.0;
            if (a->addend != NULL) v += get(a->addend, t, r * a->cols + c);
            put(a->y, t, r * a->cols + c, v);
        }
    }
}

const mega_kernel mega_plain_embedding = {.name = "embedding", .run = plain_embedding_run};
