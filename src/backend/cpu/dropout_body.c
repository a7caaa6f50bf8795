/* residual + dropout(x + bias), and its gradient. */

ALWAYS void dropout_add_typed(bool bf16, const mega_dropout_add_args *a, int64_t begin, int64_t end)
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
                vf v = vget_n(bf16, a->x, at, n);
                if (a->bias != NULL) v += vget_n(bf16, a->bias, c, n);
                if (drop) v *= vget_n(false, factor, c - run, n);
                if (a->residual != NULL) v += vget_n(bf16, a->residual, at, n);
                vput_n(bf16, a->y, at, n, v);
            }
        }
}

static void dropout_add_rows(const mega_dropout_add_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) dropout_add_typed(true, a, begin, end);
    else
        dropout_add_typed(false, a, begin, end);
}

ALWAYS void dropout_grad_typed(bool bf16, const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial)
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
                vf v = vget_n(bf16, a->dy, at, n);
                if (drop) v *= vget_n(false, factor, c - run, n);
                if (partial != NULL) vput_n(false, partial, c, n, vget_n(false, partial, c, n) + v);
                vput_n(bf16, a->dx, at, n, v);
            }
        }
}

static void dropout_grad_rows(const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial)
{
    if (partial != NULL) set_zero(partial, a->cols);
    if (a->head.dtype == MEGA_BF16) dropout_grad_typed(true, a, begin, end, partial);
    else
        dropout_grad_typed(false, a, begin, end, partial);
}
