/* Attention backward by the same blocks as forward (plain/attention_grad.c has the formulas). Probabilities come back
 * from the saved log-sum-exp; sum_j P dP of a query is dout . out. dk and dv of one key/value head are summed in
 * scratch over its query heads and blocks in a fixed order. Queries are packed with the scale in them, so dS^T q needs
 * none. */

typedef struct grad_scratch {
    float *k, *kt, *vt, *dk, *dv; /* of the whole head: k, dk, dv [Sp, Dp]; kt, vt [D, Sp] */
    float *q, *dout, *dq;         /* of a block of queries [QUERY_BLOCK, Dp] */
    float *p, *ds;                /* of a pair of blocks [QUERY_BLOCK, KEY_BLOCK] */
    float lse[QUERY_BLOCK], delta[QUERY_BLOCK];
} grad_scratch;

/* p: scores become dropped probabilities; ds: dout v^T becomes dS. Keys that a query does not see get zeros. */
static void grad_block(const attention_head *w, const grad_scratch *t, int64_t i0, int64_t rows, int64_t j0, int64_t n)
{
    const int64_t padded = round_to(n, TILE_COLS);
    const bool drop = w->a->dropout > 0.0;
    float factor[KEY_BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        float *p = t->p + r * KEY_BLOCK, *ds = t->ds + r * KEY_BLOCK;
        const int64_t first = key_begin(w, i0 + r) - j0, last = key_end(w, i0 + r) - j0;
        const int64_t begin = first > 0 ? first : 0, end = last < n ? last : n;
        if (begin >= end) {
            set_zero(p, padded);
            set_zero(ds, padded);
            continue;
        }
        for (int64_t j = 0; j < begin; j++) p[j] = -INFINITY;
        for (int64_t j = end; j < padded; j++) p[j] = -INFINITY;
        if (drop) {
            for (int64_t j = 0; j < padded; j++) factor[j] = 1.0f;
            drop_keys(w, factor, i0 + r, j0, begin, end);
        }
        const float lse = t->lse[r], delta = t->delta[r];
        for (int64_t j = 0; j < padded; j += VL) {
            const vf e = vexp(vload(p + j) - lse), dp = vload(ds + j);
            if (drop) {
                const vf f = vload(factor + j);
                vstore(p + j, e * f);
                vstore(ds + j, e * (dp * f - delta));
            } else {
                vstore(p + j, e);
                vstore(ds + j, e * (dp - delta));
            }
        }
    }
}

/* delta[r] = dout . out, from the values as they are stored. */
static void grad_delta(const attention_head *w, grad_scratch *t, int64_t i0, int64_t rows)
{
    const mega_attention_args *a = w->a;
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t D = a->head_dim, at = w->b * a->seq + i0;
    for (int64_t r = 0; r < rows; r++) {
        vf sum = vset(0.0f);
        for (int64_t d = 0; d < D; d += VL) {
            const int64_t out = (at + r) * a->ld_out + w->h * D + d;
            const vf o = bf16 ? vget_n(true, a->out, out, D - d) : vget_n(false, a->out, out, D - d);
            sum += o * vget_n(false, t->dout, r * w->Dp + d, D - d);
        }
        t->delta[r] = vsum(sum);
        t->lse[r] = ((const float *)a->lse)[w->h * a->batch * a->seq + at + r];
    }
}

/* Rows of a packed block back to a tensor. */
static void unpack_rows(bool bf16, void *x, int64_t row, int64_t column, int64_t ld, const float *src, int64_t padded,
                        int64_t rows, int64_t width, float scale)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < width; d += VL) {
            const int64_t at = (row + i) * ld + column + d;
            const vf v = vget_n(false, src, i * padded + d, width - d) * scale;
            if (bf16) vput_n(true, x, at, width - d, v);
            else
                vput_n(false, x, at, width - d, v);
        }
}

static void grad_queries(const mega_attention_grad_args *g, const attention_head *w, grad_scratch *t, int64_t i0,
                         int64_t rows)
{
    const mega_attention_args *a = w->a;
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t D = a->head_dim, Dp = w->Dp, at = w->b * a->seq + i0;
    int64_t begin, end;
    key_range(w, i0, rows, &begin, &end);
    pack_rows(t->q, Dp, bf16, a->q, at, w->h * D, a->ld_q, rows, D, (float)a->scale);
    pack_rows(t->dout, Dp, bf16, g->dout, at, w->h * D, g->ld_dout, rows, D, 1.0f);
    grad_delta(w, t, i0, rows);
    set_zero(t->dq, rows * Dp);
    for (int64_t j = begin; j < end; j += KEY_BLOCK) {
        const int64_t n = end - j < KEY_BLOCK ? end - j : KEY_BLOCK, padded = round_to(n, TILE_COLS);
        tile_product(t->p, KEY_BLOCK, t->q, Dp, 1, t->kt + j, w->Sp, rows, padded, D, false);
        tile_product(t->ds, KEY_BLOCK, t->dout, Dp, 1, t->vt + j, w->Sp, rows, padded, D, false);
        grad_block(w, t, i0, rows, j, n);
        tile_product(t->dv + j * Dp, Dp, t->p, 1, KEY_BLOCK, t->dout, Dp, n, Dp, rows, true);
        tile_product(t->dk + j * Dp, Dp, t->ds, 1, KEY_BLOCK, t->q, Dp, n, Dp, rows, true);
        tile_product(t->dq, Dp, t->ds, KEY_BLOCK, 1, t->k + j * Dp, Dp, rows, Dp, n, true);
    }
    unpack_rows(bf16, g->dq, at, w->h * D, g->ld_dq, t->dq, Dp, rows, D, (float)a->scale);
}

static void attention_grad_items(const mega_attention_grad_args *g, int64_t begin, int64_t end, float *scratch)
{
    const mega_attention_args *a = &g->forward;
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t S = a->seq, D = a->head_dim, per_group = a->heads / a->kv_heads;
    for (int64_t item = begin; item < end; item++) {
        attention_head w = attention_head_of(a, item / a->kv_heads, item % a->kv_heads);
        const int64_t whole = w.Sp * w.Dp, block = QUERY_BLOCK * w.Dp, row = w.b * S, column = w.g * D;
        grad_scratch t = {.k = scratch, .dk = scratch + whole, .dv = scratch + 2 * whole, .kt = scratch + 3 * whole};
        t.vt = t.kt + D * w.Sp;
        t.q = t.vt + D * w.Sp;
        t.dout = t.q + block;
        t.dq = t.dout + block;
        t.p = t.dq + block;
        t.ds = t.p + QUERY_BLOCK * KEY_BLOCK;
        pack_rows(t.k, w.Dp, bf16, a->v, row, column, a->ld_kv, S, D, 1.0f); /* only to transpose them */
        transpose_rows(t.vt, w.Sp, t.k, w.Dp, S, D);
        pack_rows(t.k, w.Dp, bf16, a->k, row, column, a->ld_kv, S, D, 1.0f);
        transpose_rows(t.kt, w.Sp, t.k, w.Dp, S, D);
        set_zero(t.dk, 2 * whole);
        for (w.h = w.g * per_group; w.h < (w.g + 1) * per_group; w.h++)
            for (int64_t i = 0; i < S; i += QUERY_BLOCK)
                grad_queries(g, &w, &t, i, S - i < QUERY_BLOCK ? S - i : QUERY_BLOCK);
        unpack_rows(bf16, g->dk, row, column, g->ld_dkv, t.dk, w.Dp, S, D, 1.0f);
        unpack_rows(bf16, g->dv, row, column, g->ld_dkv, t.dv, w.Dp, S, D, 1.0f);
    }
}
