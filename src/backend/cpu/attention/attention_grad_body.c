/* Attention backward, with the same blocks as forward (plain/attention_grad.c has the formulas). Probabilities are
 * recomputed from the saved log-sum-exp; for each query, sum_j P dP equals dout . out. dk and dv of one key/value head
 * are summed in scratch, over its query heads and blocks in a fixed order. */

/* The buffers of one thread's scratch, in blocks of positions. For all keys: k and v along their elements, kt along the
 * keys, dk and dv as panels. For a block of queries: q and dout as columns and as panels, dq as columns. For a pair of
 * blocks: p and ds as rows along queries (the left operands of dv and dk), ds as the right operand of dq, scores, dout
 * v^T, dropout factors and derivatives of the soft-cap. */
typedef struct grad_scratch {
    float *k, *v, *kt, *dk, *dv;
    float *qt, *dot, *q, *dout, *dq;
    float *p, *ds, *ds_keys, *s, *dp, *factors, *slopes;
    float lse[BLOCK], delta[BLOCK];
    bool keeps;                    /* gradients of biases are computed: grad_pair leaves dS in dp */
    float sums[MEGA_BIAS_BUCKETS]; /* of a block of queries */
} grad_scratch;

static grad_scratch grad_scratch_of(const mega_attention_args *a, float *scratch)
{
    const int64_t block = attention_block_words(a), panel = attention_panel_words(a), blocks = attention_key_blocks(a);
    const int64_t pair = BLOCK * BLOCK;
    grad_scratch t = {.k = scratch};
    t.v = t.k + blocks * block;
    t.kt = t.v + blocks * block;
    t.qt = t.kt + blocks * block;
    t.dot = t.qt + block;
    t.dq = t.dot + block;
    t.q = t.dq + block;
    t.dout = t.q + panel;
    t.dk = t.dout + panel;
    t.dv = t.dk + blocks * panel;
    t.s = t.dv + blocks * panel;
    t.dp = t.s + pair;
    t.factors = t.dp + pair;
    t.p = PAIRS ? t.factors + pair : t.s;
    t.ds = PAIRS ? t.p + pair : t.dp;
    t.ds_keys = PAIRS ? t.ds + pair : t.dp;
    t.slopes = a->rules.softcap > 0.0 ? t.factors + 4 * pair : NULL;
    t.keeps = false;
    return t;
}

/* Stores rows r and r + 1 of columns [c, c + VL) as the left operand of a product over queries and, if `keys` is not
 * NULL, as the right operand of a product over keys. For words of floats both layouts are the same. */
ALWAYS void put_rows(float *to, float *keys, int64_t r, int64_t c, vf x, vf y)
{
#if PAIRS
    const __m512i halves = narrow_two(x, y);
    uint16_t *at = (uint16_t *)(void *)to + r * BLOCK + c;
    _mm256_storeu_si256((__m256i *)(void *)at, _mm512_castsi512_si256(halves));
    _mm256_storeu_si256((__m256i *)(void *)(at + BLOCK), _mm512_extracti64x4_epi64(halves, 1));
    if (keys != NULL) vstore(keys + r / 2 * BLOCK + c, pairs_of_two(halves));
#else
    (void)keys;
    vstore(to + r * BLOCK + c, x);
    vstore(to + (r + 1) * BLOCK + c, y);
#endif
}

/* Replaces the scores and dout v^T of columns [c, c + VL) by the probabilities after dropout and dS. */
ALWAYS void grad_column(const bool drop, const bool capped, const attention_pair *p, const grad_scratch *t, int64_t c,
                        float scale)
{
    const vf lse = vload(t->lse + c), delta = vload(t->delta + c);
    const bool keeps = PAIRS && t->keeps; /* sum_biases reads floats */
    for (int64_t r = 0; r < last_row(p, c); r += 2) {
        vf e[2], ds[2];
        for (int l = 0; l < 2; l++) {
            const int64_t at = (r + l) * BLOCK + c;
            const vf dp = vload(t->dp + at);
            e[l] = vexp2(vload(t->s + at) * scale - lse);
            if (drop) {
                const vf f = vload(t->factors + at);
                ds[l] = e[l] * (dp * f - delta);
                e[l] *= f;
            } else
                ds[l] = e[l] * (dp - delta);
            if (keeps) vstore(t->dp + at, ds[l]);
            if (capped) ds[l] *= vload(t->slopes + at);
        }
        put_rows(t->p, NULL, r, c, e[0], e[1]);
        put_rows(t->ds, t->ds_keys, r, c, ds[0], ds[1]);
    }
}

static void grad_pair(const attention_head *w, const attention_pair *p, const grad_scratch *t)
{
    const float scale = w->scale;
    const bool drop = w->a->dropout > 0.0, capped = t->slopes != NULL;
    if (drop) drop_pair(w, p, t->factors);
    for (int64_t c = 0; c < p->queries; c += VL) {
        if (drop && capped) grad_column(true, true, p, t, c, scale);
        else if (drop)
            grad_column(true, false, p, t, c, scale);
        else if (capped)
            grad_column(false, true, p, t, c, scale);
        else
            grad_column(false, false, p, t, c, scale);
    }
    clear_strips(p, t->ds_keys);
#if PAIRS
    if (!p->diagonal) return;
    for (int64_t r = STRIP; r < p->keys; r++) /* zero the strips that products over pairs of queries read */
        if (r / STRIP % 2 == 1)
            for (int l = 0; l < 2; l++)
                memset((uint16_t *)(void *)(l == 0 ? t->p : t->ds) + r * BLOCK + (r / STRIP - 1) * STRIP, 0, 2 * STRIP);
#endif
}

/* Adds dS of a pair of blocks, which is in dp, to the sums by bucket: first by difference of query and key. */
static void sum_biases(const attention_head *w, const attention_pair *p, grad_scratch *t, const int32_t *buckets)
{
    float line[3 * BLOCK] = {0};
    const int32_t *bucket = buckets + attention_line_begin(w->a) + p->i0 - p->j0 - (BLOCK - 1);
    for (int64_t c = 0; c < p->queries; c += VL)
        for (int64_t r = 0; r < last_row(p, c); r++) {
            float *at = line + BLOCK - 1 + c - r;
            vstore(at, vload(at) + vload(t->dp + r * BLOCK + c));
        }
    for (int64_t n = 0; n < 2 * BLOCK - 1; n++) t->sums[bucket[n]] += line[n];
}

/* Stores the sums of block `i` of queries where no other thread does. */
static void put_sums(const mega_attention_grad_args *g, const attention_head *w, const grad_scratch *t, int64_t i)
{
    const mega_attention_args *a = w->a;
    const int64_t buckets = a->rules.bias_buckets;
    float *to = (float *)g->head.scratch + attention_line_words(a);
    to += ((w->b * a->heads + w->h) * attention_query_blocks(a) + i) * buckets;
    memcpy(to, t->sums, (size_t)buckets * sizeof *to);
}

/* dx[keys, D] (+)= p[keys, queries] x[queries, D], panel by panel, from the first query that sees a strip of keys. */
static void key_product(const attention_head *w, const attention_pair *p, float *dx, const float *s, const float *x,
                        bool accumulate, rows_ahead *ahead)
{
    const int64_t D = attention_round(w->a->head_dim, STRIP), ld = BLOCK / PER_WORD;
    const int64_t step = p->diagonal ? QUERY_GRAIN : p->keys;
    for (int64_t d = 0; d < D; d += BLOCK, dx += BLOCK * BLOCK, x += BLOCK * BLOCK)
        for (int64_t r = 0; r < p->keys; r += step) {
            const int64_t c = first_column(p, r);
            if (c >= p->queries) break;
            attention_product(dx + r * BLOCK, s + r * ld + c / PER_WORD, ld, x + c / PER_WORD * BLOCK, step,
                              D - d < BLOCK ? D - d : BLOCK, (p->queries - c) / PER_WORD, accumulate, ahead);
        }
}

/* Computes delta[i] = dout . out from the values as they are stored, and the log-sum-exps in powers of 2. */
static void grad_delta(const mega_attention_grad_args *g, const attention_head *w, grad_scratch *t, int64_t i0,
                       int64_t rows)
{
    const mega_attention_args *a = w->a;
    const head_rows o = head_rows_of(w, a->out, a->ld_out, w->h, i0),
                    y = head_rows_of(w, g->dout, g->ld_dout, w->h, i0);
    const float *lse = (const float *)a->lse + w->h * a->batch * a->seq + w->b * a->seq + i0;
    for (int64_t r = 0; r < BLOCK; r++) t->delta[r] = t->lse[r] = 0.0f;
    for (int64_t r = 0; r < rows; r++) {
        vf sum = vset(0.0f);
        ask_for_row(&o, r + ROWS_AHEAD, rows);
        for (int64_t d = 0; d < o.width; d += VL) {
            const int64_t x_at = o.at + r * o.ld + d, y_at = y.at + r * y.ld + d, n = o.width - d;
            BY_ROWS_TYPE(o.type, sum += vget_n(type, o.x, x_at, n) * vget_n(type, y.x, y_at, n));
        }
        t->delta[r] = vsum(sum);
        t->lse[r] = lse[r] * LOG2_E;
    }
}

/* Packs the keys and values of block j. */
static void grad_pack_keys(const attention_head *w, const attention_part *part, const grad_scratch *t, int64_t j)
{
    const mega_attention_args *a = w->a;
    const int64_t block = attention_block_words(a), n = keys_at(a, j * BLOCK), padded = attention_round(n, GRAIN);
    const head_rows k = key_rows_of(w, a->k, a->ld_kv, w->g, j * BLOCK),
                    v = key_rows_of(w, a->v, a->ld_kv, w->g, j * BLOCK);
    pack_rows(t->k + j * block, w->words, &k, n, padded);
    pack_rows(t->v + j * block, w->words, &v, n, padded);
    if (part->queries) pack_along(t->kt + j * block, &k, n, padded);
}

/* Stores the finished dk and dv of block j. */
static void grad_unpack_keys(const mega_attention_grad_args *g, const attention_head *w, const grad_scratch *t,
                             int64_t j)
{
    const mega_attention_args *a = w->a;
    const int64_t panel = attention_panel_words(a), n = keys_at(a, j * BLOCK);
    const head_rows dk = key_rows_of(w, g->dk, g->ld_dkv, w->g, j * BLOCK),
                    dv = key_rows_of(w, g->dv, g->ld_dkv, w->g, j * BLOCK);
    unpack_panels(&dk, t->dk + j * panel, BLOCK * BLOCK, n, (float)a->scale);
    unpack_panels(&dv, t->dv + j * panel, BLOCK * BLOCK, n, 1.0f);
}

/* Returns whether dk and dv are zero before the first product, because key_begin or key_end may hide a block of keys
 * from the queries with which its sums would start. Those of causal attention without key_end start on the diagonal. */
ALWAYS bool starts_from_zero(const mega_attention_args *a)
{
    return a->key_end != NULL || (a->key_begin != NULL && !a->causal);
}

/* Computes the products of a pair of blocks. `first`: this is the first key block that these queries see. The sums of
 * dk and dv start with the first queries that see the keys, in the first query head. */
static void grad_products(const attention_head *w, const attention_part *part, const attention_pair *p,
                          const grad_scratch *t, bool first, rows_ahead *ahead)
{
    const mega_attention_args *a = w->a;
    const int64_t block = attention_block_words(a), panel = attention_panel_words(a), at = p->j0 / BLOCK;
    score_product(w, p, t->s, t->k + at * block, t->qt, ahead);
    score_product(w, p, t->dp, t->v + at * block, t->dot, ahead);
    if (w->is_bent) bend_pair(w, p, t->s, t->slopes);
    if (p->masked) mask_pair(w, p, t->s, -INFINITY);
    grad_pair(w, p, t);
    if (part->keys) {
        const bool begin = !starts_from_zero(a) && w->h == attention_first_head(a, w->g) &&
                           p->i0 / BLOCK == attention_first_queries(a, at);
        key_product(w, p, t->dv + at * panel, t->p, t->dout, !begin, ahead);
        key_product(w, p, t->dk + at * panel, t->ds, t->q, !begin, ahead);
    }
    if (part->queries) value_product(w, p, t->dq, t->kt + at * block, t->ds_keys, !first, ahead);
}

/* Packs the operands for queries [i0, i0 + rows). */
static void grad_pack_queries(const mega_attention_grad_args *g, const attention_head *w, const attention_part *part,
                              grad_scratch *t, int64_t i0, int64_t rows)
{
    const mega_attention_args *a = w->a;
    const int64_t padded = attention_round(rows, GRAIN);
    const head_rows q = head_rows_of(w, a->q, a->ld_q, w->h, i0), y = head_rows_of(w, g->dout, g->ld_dout, w->h, i0);
    pack_turned(t->qt, &q, rows, padded);
    pack_turned(t->dot, &y, rows, padded);
    if (part->keys) {
        pack_panels(t->q, &q, rows, padded);
        pack_panels(t->dout, &y, rows, padded);
    }
    grad_delta(g, w, t, i0, rows);
}

static void grad_queries(const mega_attention_grad_args *g, const attention_head *w, const attention_part *part,
                         grad_scratch *t, int64_t i0)
{
    const mega_attention_args *a = w->a;
    attention_limits limits;
    attention_limits_of(a, w->b, i0, &limits);
    const int64_t rows = rows_at(a, i0), first = limits.first, end = part->key_end * BLOCK;
    const int64_t begin = first > part->key_begin * BLOCK ? first : part->key_begin * BLOCK;
    const int64_t stop = limits.last < end ? limits.last : end;
    const head_rows dq = head_rows_of(w, g->dq, g->ld_dq, w->h, i0);
    memset(t->sums, 0, t->keeps ? sizeof t->sums : 0);
    if (begin >= stop) { /* of a part of the keys, or of queries that see none */
        if (t->keeps) put_sums(g, w, t, i0 / BLOCK);
        for (int64_t r = 0; r < BLOCK; r++) t->delta[r] = 0.0f;
        if (part->queries) memset(t->dq, 0, (size_t)attention_block_words(a) * sizeof(float));
        if (part->queries) unpack_turned(&dq, t->dq, t->delta, rows);
        return;
    }
    attention_head next = *w;
    int64_t next_i = i0;
    rows_ahead ahead = {.left = rows};
    if (part->queries) ahead_add(&ahead, dq);
    if (next_queries(&next, &next_i)) {
        ahead_inputs(&ahead, &next, next_i);
        ahead_add(&ahead, head_rows_of(&next, g->dout, g->ld_dout, next.h, next_i));
        ahead_add(&ahead, head_rows_of(&next, a->out, a->ld_out, next.h, next_i));
    }
    ahead.step = ahead_step(&ahead, begin, stop, 5);
    grad_pack_queries(g, w, part, t, i0, rows);
    for (int64_t j = begin; j < stop; j += BLOCK) {
        const attention_pair p = attention_pair_of(w, &limits, i0, rows, j);
        grad_products(w, part, &p, t, j == first, &ahead);
        if (t->keeps) sum_biases(w, &p, t, g->head.scratch);
    }
    if (t->keeps) put_sums(g, w, t, i0 / BLOCK);
    for (int64_t r = 0; r < BLOCK; r++) t->delta[r] = (float)a->scale;
    if (part->queries) unpack_turned(&dq, t->dq, t->delta, rows);
}

/* Computes a part of key/value head `item`, for all the query heads that read it. */
static void attention_grad_item(const mega_attention_grad_args *g, int64_t item, const attention_part *part,
                                float *scratch)
{
    const mega_attention_args *a = &g->forward;
    const int64_t seen = attention_first_keys(a, part->query_begin), panel = attention_panel_words(a);
    grad_scratch t = grad_scratch_of(a, scratch);
    attention_head w = attention_head_of(a, item / a->kv_heads, item % a->kv_heads);
    const int64_t first = attention_first_head(a, w.g), end = attention_end_head(a, w.g);
    int64_t packed = seen > part->key_begin ? seen : part->key_begin;
    const bool is_zero = starts_from_zero(a) || first >= end; /* no head reads this one: its gradient is 0 */
    for (int64_t j = part->key_begin; part->keys && is_zero && j < part->key_end; j++) {
        memset(t.dk + j * panel, 0, (size_t)panel * sizeof(float));
        memset(t.dv + j * panel, 0, (size_t)panel * sizeof(float));
    }
    t.keeps = part->queries && g->dbias != NULL;
    if (a->bias != NULL) w.line = scratch + attention_grad_scratch_words(a) - attention_line_words(a);
    products_begin();
    for (w.h = first; w.h < end; w.h++) {
        if (a->bias != NULL) fill_line(&w, g->head.scratch);
        for (int64_t i = part->query_begin; i < part->query_end; i++) {
            const int64_t seen_end = attention_end_keys(a, i);
            const int64_t needed = seen_end < part->key_end ? seen_end : part->key_end;
            for (; packed < needed; packed++) grad_pack_keys(&w, part, &t, packed);
            grad_queries(g, &w, part, &t, i * BLOCK);
        }
    }
    for (int64_t j = part->key_begin; part->keys && j < part->key_end; j++) grad_unpack_keys(g, &w, &t, j);
    products_end();
}
