/* Gradient of the embedding table: plain kernel (ops_rows.h). */
#include "backend_impl.h"

static void plain_embedding_grad_run(const mega_queue *queue, const void *args)
{
    const mega_embedding_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t row = a->ids[r] - a->begin;
        if (row < 0 || row >= a->table_rows) continue;
        for (int64_t c = 0; c < a->cols; c++)
            put_add(a->dtable, acc_of(t), row * a->cols + c, get(a->dy, t, r * a->cols + c));
    }
}

const mega_kernel mega_plain_embedding_grad = {.name = "embedding_grad", .run = plain_embedding_grad_run};
