/* residual + dropout(x + bias), and its gradient. */

ALWAYS void dropout_add_typed(mega_dtype type, const mega_dropout_add_args *a, int64_t begin, int64_t end)
{
    const int64_t C = a->cols;
    const bool drop = a->dropout > 0.0;
    const dropout_key key = drop ? dropout_key_of(a->head.step, a->site, a->dropout) : (dropout_key){0};
    float buffer[MASK_BUFFER];
    for (int64_t r = begin; r < end; r++)
        for (int64_t run = 0; run < C; run += MASK_RUN) {
            const int64_t stop = C - run < MASK_RUN ? C : run + MASK_RUN;
            const float *factor = NULL;
            if (drop)
                factor = dropout_factors(buffer, &key, a->sample_id[r], (uint64_t)(a->seq_position[r] * C + run),
                                         stop - run);
            for (int64_t c = run; c < stop; c += VL) {
                const int64_t at = r * C + c, n = stop - c;
                vf v = vget_n(type, a->x, at, n);
                if (a->bias != NULL) v += vget_n(type, a->bias, c, n);
                if (drop) v *= vget_n(MEGA_F32, factor, c - run, n);
                if (a->residual != NULL) v += vget_n(type, a->residual, at, n);
                vput_n(type, a->y, at, n, v);
            }
        }
}

static void dropout_add_rows(const mega_dropout_add_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, dropout_add_typed(type, a, begin, end));
}

ALWAYS void dropout_grad_typed(mega_dtype type, const mega_dropout_grad_args *a, int64_t begin, int64_t end,
                               float *partial)
{
    const int64_t C = a->cols;
    const bool drop = a->dropout > 0.0;
    const dropout_key key = drop ? dropout_key_of(a->head.step, a->site, a->dropout) : (dropout_key){0};
    float buffer[MASK_BUFFER];
    for (int64_t r = begin; r < end; r++)
        for (int64_t run = 0; run < C; run += MASK_RUN) {
            const int64_t stop = C - run < MASK_RUN ? C : run + MASK_RUN;
            const float *factor = NULL;
            if (drop)
                factor = dropout_factors(buffer, &key, a->sample_id[r], (uint64_t)(a->seq_position[r] * C + run),
                                         stop - run);
            for (int64_t c = run; c < stop; c += VL) {
                const int64_t at = r * C + c, n = stop - c;
                vf v = vget_n(type, a->dy, at, n);
                if (drop) v *= vget_n(MEGA_F32, factor, c - run, n);
                if (partial != NULL) vput_n(MEGA_F32, partial, c, n, vget_n(MEGA_F32, partial, c, n) + v);
                vput_n(type, a->dx, at, n, v);
            }
        }
}

static void dropout_grad_rows(const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial)
{
    if (partial != NULL) set_zero(partial, a->cols);
    BY_TYPE(a->head.dtype, dropout_grad_typed(type, a, begin, end, partial));
}
