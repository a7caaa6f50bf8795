/* Embedding and the gradient of its table. */

ALWAYS void embedding_typed(mega_dtype type, const mega_embedding_args *a, int64_t begin, int64_t end)
{
    const int64_t C = a->cols;
    for (int64_t r = begin; r < end; r++) {
        const int64_t row = (a->ids != NULL ? a->ids[r] : r) - a->begin;
        const bool is_here = row >= 0 && row < a->table_rows;
        for (int64_t c = 0; c < C; c += VL) {
            vf v = is_here ? vget_n(type, a->table, row * C + c, C - c) : vset(0.0f);
            if (a->addend != NULL) v += vget_n(type, a->addend, r * C + c, C - c);
            vput_n(type, a->y, r * C + c, C - c, v);
        }
    }
}

static void embedding_rows(const mega_embedding_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, embedding_typed(type, a, begin, end));
}

ALWAYS void embedding_grad_typed(mega_dtype type, const mega_embedding_grad_args *a, int64_t begin, int64_t end)
{
    const int64_t C = a->cols;
    float *dtable = a->dtable;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t row = a->ids[r] - a->begin;
        if (row < 0 || row >= a->table_rows) continue;
        for (int64_t c = begin; c < end; c += VL) {
            const int64_t n = end - c;
            const vf sum = vget_n(MEGA_F32, dtable, row * C + c, n) + vget_n(type, a->dy, r * C + c, n);
            vput_n(MEGA_F32, dtable, row * C + c, n, sum);
        }
    }
}

static void embedding_grad_columns(const mega_embedding_grad_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, embedding_grad_typed(type, a, begin, end));
}
