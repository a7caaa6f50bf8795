/* Attention backward by the same blocks as forward (plain/attention_grad.c has the formulas). Probabilities come back
 * from the saved log-sum-exp; sum_j P dP of a query is dout . out. dk and dv of one key/value head are summed in
 * scratch over its query heads and blocks in a fixed order. Queries are packed with the scale in them, so dS^T q needs
 * none. */

typedef struct grad_scratch {
    float *k, *kt, *vt;   /* of the whole head: k as panels of rows [Sp, TILE_COLS]; kt, vt of columns */
    float *dk, *dv;       /* [Sp, Dp] */
    float *q, *dout, *dq; /* of a block of queries [QUERY_BLOCK, Dp] */
    float *p, *ds;        /* of a pair of blocks [QUERY_BLOCK, KEY_BLOCK] */
    float lse[QUERY_BLOCK], delta[QUERY_BLOCK];
} grad_scratch;

/* p: scores become dropped probabilities; ds: dout v^T becomes dS. Keys that a query does not see get zeros. */
static void grad_block(const attention_head *w, const grad_scratch *t, int64_t i0, int64_t rows, int64_t j0, int64_t n)
{
    const bool drop = w->a->dropout > 0.0;
    float buffer[MASK_BUFFER];
    for (int64_t r = 0; r < rows; r++) {
        float *p = t->p + r * KEY_BLOCK, *ds = t->ds + r * KEY_BLOCK;
        const int64_t width = round_to(group_keys(w, i0, r, j0, n), TILE_COLS);
        int64_t from, to;
        mask_row(w, ds, 0.0f, i0 + r, j0, n, width, &from, &to);
        if (!mask_row(w, p, -INFINITY, i0 + r, j0, n, width, &from, &to)) continue;
        const float lse = t->lse[r] * LOG2_E, delta = t->delta[r];
        if (drop) {
            const float *factor = key_factors(w, buffer, i0 + r, j0 + from, to - from);
            for (int64_t j = from; j < to; j += VL) {
                const vf e = vexp2(vload(p + j) * LOG2_E - lse), f = vload(factor + j - from);
                vstore(p + j, e * f);
                vstore(ds + j, e * (vload(ds + j) * f - delta));
            }
            continue;
        }
        for (int64_t j = from; j < to; j += VL) {
            const vf e = vexp2(vload(p + j) * LOG2_E - lse);
            vstore(p + j, e);
            vstore(ds + j, e * (vload(ds + j) - delta));
        }
    }
}

/* dx[n, Dp] += p[rows, n]^T x[rows, Dp]: keys in groups start at the first query that sees them. */
static void key_product(const attention_head *w, float *dx, const float *p, const float *x, int64_t i0, int64_t rows,
                        int64_t j0, int64_t n)
{
    const int64_t Dp = w->Dp, step = group_keys(w, i0, 0, j0, n) < n ? MASK_GROUP : n;
    for (int64_t j = 0; j < n; j += step) {
        const int64_t r = step == n || j0 + j < i0 ? 0 : j0 + j - i0;
        if (r >= rows) return;
        tile_product(dx + j * Dp, Dp, p + r * KEY_BLOCK + j, 1, KEY_BLOCK, (tile_b){x + r * Dp, TILE_COLS, Dp},
                     n - j < step ? n - j : step, Dp, rows - r, true);
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
        const int64_t n = end - j < KEY_BLOCK ? end - j : KEY_BLOCK, panel = D * TILE_COLS;
        score_block(w, t->p, t->q, (tile_b){t->kt + j * D, panel, TILE_COLS}, i0, rows, j, n);
        score_block(w, t->ds, t->dout, (tile_b){t->vt + j * D, panel, TILE_COLS}, i0, rows, j, n);
        grad_block(w, t, i0, rows, j, n);
        key_product(w, t->dv + j * Dp, t->p, t->dout, i0, rows, j, n);
        key_product(w, t->dk + j * Dp, t->ds, t->q, i0, rows, j, n);
        value_block(w, t->dq, t->ds, (tile_b){t->k + j * TILE_COLS, w->Sp * TILE_COLS, TILE_COLS}, i0, rows, j, n);
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
        pack_columns(t.vt, bf16, a->v, row, column, a->ld_kv, S, D);
        pack_columns(t.kt, bf16, a->k, row, column, a->ld_kv, S, D);
        pack_panels(t.k, w.Sp, w.Dp, bf16, a->k, row, column, a->ld_kv, S, D);
        set_zero(t.dk, 2 * whole);
        for (w.h = w.g * per_group; w.h < (w.g + 1) * per_group; w.h++)
            for (int64_t i = 0; i < S; i += QUERY_BLOCK)
                grad_queries(g, &w, &t, i, S - i < QUERY_BLOCK ? S - i : QUERY_BLOCK);
        unpack_rows(bf16, g->dk, row, column, g->ld_dkv, t.dk, w.Dp, S, D, 1.0f);
        unpack_rows(bf16, g->dv, row, column, g->ld_dkv, t.dv, w.Dp, S, D, 1.0f);
    }
}
