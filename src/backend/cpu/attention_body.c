/* Attention forward by blocks of queries and keys with a running maximum and sum (Dao et al. 2022). Keys and values of
 * one key/value head are packed once into panels, keys transposed, as floats; every block product is a tile product.
 * Where a causal mask cuts through a block, rows are taken in groups that stop at the last key of the group. */

#define QUERY_BLOCK MEGA_QUERY_BLOCK
#define KEY_BLOCK   MEGA_KEY_BLOCK
#define MASK_GROUP  12 /* queries, and keys, that a causal mask treats as one; a multiple of both tile heights */
_Static_assert(MEGA_TILE_COLS % TILE_COLS == 0 && KEY_BLOCK % TILE_COLS == 0, "blocks are whole tiles");
_Static_assert(QUERY_BLOCK % MASK_GROUP == 0 && KEY_BLOCK % MASK_GROUP == 0 && KEY_BLOCK % QUERY_BLOCK == 0,
               "the groups of a pair of blocks meet on the diagonal");
_Static_assert(KEY_BLOCK <= MASK_RUN, "a mask of a row of a block is one run");

/* What stays the same for all blocks of one head of one sequence. */
typedef struct attention_head {
    const mega_attention_args *a;
    dropout_key key;
    int64_t b, h, g, Dp, Sp; /* padded head size; padded positions, the leading dimension of transposed keys */
} attention_head;

ALWAYS attention_head attention_head_of(const mega_attention_args *a, int64_t b, int64_t g)
{
    attention_head w = {.a = a, .b = b, .g = g};
    w.Dp = round_to(a->head_dim, TILE_COLS);
    w.Sp = round_to(a->seq, TILE_COLS);
    if (a->dropout > 0.0) w.key = dropout_key_of(a->head.step, a->site, a->dropout);
    return w;
}

/* First key that query i sees, and one past the last. */
ALWAYS int64_t key_begin(const attention_head *w, int64_t i)
{
    const bool cut = w->a->causal && w->a->segment_start != NULL;
    return cut ? w->a->segment_start[w->b * w->a->seq + i] : 0;
}

ALWAYS int64_t key_end(const attention_head *w, int64_t i)
{
    return w->a->causal ? i + 1 : w->a->seq;
}

/* Key blocks that queries [i, i + rows) see: from a multiple of KEY_BLOCK to the last key. */
static void key_range(const attention_head *w, int64_t i, int64_t rows, int64_t *begin, int64_t *end)
{
    int64_t first = w->a->seq;
    for (int64_t r = 0; r < rows; r++) first = key_begin(w, i + r) < first ? key_begin(w, i + r) : first;
    *begin = first / KEY_BLOCK * KEY_BLOCK;
    *end = key_end(w, i + rows - 1);
}

/* Keys of a block [j0, j0 + n) that some query of the group of row r of a query block at i0 sees; they come first. */
ALWAYS int64_t group_keys(const attention_head *w, int64_t i0, int64_t r, int64_t j0, int64_t n)
{
    if (!w->a->causal) return n;
    const int64_t stop = i0 + (r / MASK_GROUP + 1) * MASK_GROUP - j0;
    return stop < n ? stop : n;
}

/* p[rows, n] = a[rows, D] keys[D, n], where a key is seen. */
static void score_block(const attention_head *w, float *p, const float *a, tile_b keys, int64_t i0, int64_t rows,
                        int64_t j0, int64_t n)
{
    const int64_t step = group_keys(w, i0, 0, j0, n) < n ? MASK_GROUP : rows;
    for (int64_t r = 0; r < rows; r += step)
        tile_product(p + r * KEY_BLOCK, KEY_BLOCK, a + r * w->Dp, w->Dp, 1, keys, rows - r < step ? rows - r : step,
                     round_to(group_keys(w, i0, r, j0, n), TILE_COLS), w->a->head_dim, false);
}

/* o[rows, Dp] += p[rows, n] values[n, Dp], where a key is seen. */
static void value_block(const attention_head *w, float *o, const float *p, tile_b values, int64_t i0, int64_t rows,
                        int64_t j0, int64_t n)
{
    const int64_t step = group_keys(w, i0, 0, j0, n) < n ? MASK_GROUP : rows;
    for (int64_t r = 0; r < rows; r += step)
        tile_product(o + r * w->Dp, w->Dp, p + r * KEY_BLOCK, KEY_BLOCK, 1, values, rows - r < step ? rows - r : step,
                     w->Dp, group_keys(w, i0, r, j0, n), true);
}

/* Columns of a row of a block that hold keys the query sees: [begin, end); the rest of [0, width) becomes `rest` near
 * them and zero elsewhere, so that loops run over the whole vectors of [*from, *to). False: the query sees none. */
ALWAYS bool mask_row(const attention_head *w, float *row, float rest, int64_t i, int64_t j0, int64_t n, int64_t width,
                     int64_t *from, int64_t *to)
{
    const int64_t first = key_begin(w, i) - j0, last = key_end(w, i) - j0;
    const int64_t begin = first > 0 ? first : 0, end = last < n ? last : n;
    if (begin >= end) {
        set_zero(row, width);
        return false;
    }
    *from = begin / VL * VL;
    *to = round_to(end, VL);
    for (int64_t j = 0; j < *from; j += VL) vstore(row + j, vset(0.0f));
    for (int64_t j = *from; j < begin; j++) row[j] = rest;
    for (int64_t j = end; j < *to; j++) row[j] = rest;
    for (int64_t j = *to; j < width; j += VL) vstore(row + j, vset(0.0f));
    return true;
}

/* Dropout factors of keys [j, j + n) for query i; whole vectors of them may be read. */
ALWAYS const float *key_factors(const attention_head *w, float *buffer, int64_t i, int64_t j, int64_t n)
{
    const mega_attention_args *a = w->a;
    const int64_t row = ((a->head_begin + w->h) * a->seq + i) * a->seq;
    return dropout_factors(buffer, &w->key, a->sample_id[w->b * a->seq + i], (uint64_t)(row + j), n);
}

/* Multiplies x[j] by the dropout factor of key j0 + j for query i; [begin, end) is whole vectors. */
static void drop_keys(const attention_head *w, float *x, int64_t i, int64_t j0, int64_t begin, int64_t end)
{
    float buffer[MASK_BUFFER];
    const float *factor = key_factors(w, buffer, i, j0 + begin, end - begin);
    for (int64_t j = begin; j < end; j += VL) vstore(x + j, vload(x + j) * vload(factor + j - begin));
}

/* Running state of one block of queries. */
typedef struct softmax_rows {
    float max[QUERY_BLOCK], sum[QUERY_BLOCK];
} softmax_rows;

/* Scores p [rows, KEY_BLOCK] of queries i0… and keys j0…j0+n become weights; earlier sums and outputs are rescaled. */
static void softmax_block(const attention_head *w, softmax_rows *s, float *p, float *o, int64_t i0, int64_t rows,
                          int64_t j0, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        float *row = p + r * KEY_BLOCK;
        int64_t from, to;
        if (!mask_row(w, row, -INFINITY, i0 + r, j0, n, round_to(group_keys(w, i0, r, j0, n), TILE_COLS), &from, &to))
            continue;
        vf max = vload(row + from);
        for (int64_t j = from + VL; j < to; j += VL) max = vmax(max, vload(row + j));
        float m = vmax_lane(max);
        if (m < s->max[r]) m = s->max[r];
        const float offset = m * LOG2_E;
        vf sum = vset(0.0f);
        for (int64_t j = from; j < to; j += VL) {
            const vf e = vexp2(vload(row + j) * LOG2_E - offset);
            vstore(row + j, e);
            sum += e;
        }
        if (m != s->max[r]) {
            const float shrink = expf(s->max[r] - m);
            s->sum[r] *= shrink;
            for (int64_t d = 0; d < w->Dp; d += VL) vstore(o + r * w->Dp + d, vload(o + r * w->Dp + d) * shrink);
            s->max[r] = m;
        }
        s->sum[r] += vsum(sum);
        if (w->a->dropout > 0.0) drop_keys(w, row, i0 + r, j0, from, to);
    }
}

/* Where the parts of one thread's scratch stand: keys as panels of columns, values as panels of rows [Sp, TILE_COLS];
 * a block of queries and of outputs [QUERY_BLOCK, Dp], and of scores [QUERY_BLOCK, KEY_BLOCK]. */
typedef struct attention_scratch {
    float *kt, *v, *q, *p, *o;
} attention_scratch;

static void attention_queries(const attention_head *w, const attention_scratch *t, int64_t i0, int64_t rows)
{
    const mega_attention_args *a = w->a;
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t D = a->head_dim, Dp = w->Dp, at = w->b * a->seq + i0;
    softmax_rows s;
    int64_t begin, end;
    key_range(w, i0, rows, &begin, &end);
    pack_rows(t->q, Dp, bf16, a->q, at, w->h * D, a->ld_q, rows, D, (float)a->scale);
    set_zero(t->o, rows * Dp);
    for (int64_t r = 0; r < rows; r++) s.max[r] = -INFINITY, s.sum[r] = 0.0f;
    for (int64_t j = begin; j < end; j += KEY_BLOCK) {
        const int64_t n = end - j < KEY_BLOCK ? end - j : KEY_BLOCK;
        score_block(w, t->p, t->q, (tile_b){t->kt + j * D, D * TILE_COLS, TILE_COLS}, i0, rows, j, n);
        softmax_block(w, &s, t->p, t->o, i0, rows, j, n);
        value_block(w, t->o, t->p, (tile_b){t->v + j * TILE_COLS, w->Sp * TILE_COLS, TILE_COLS}, i0, rows, j, n);
    }
    for (int64_t r = 0; r < rows; r++) {
        const float inverse = 1.0f / s.sum[r];
        for (int64_t d = 0; d < D; d += VL) {
            const vf o = vget_n(false, t->o, r * Dp + d, D - d) * inverse;
            const int64_t out = (at + r) * a->ld_out + w->h * D + d;
            if (bf16) vput_n(true, a->out, out, D - d, o);
            else
                vput_n(false, a->out, out, D - d, o);
        }
        ((float *)a->lse)[w->h * a->batch * a->seq + at + r] = s.max[r] + logf(s.sum[r]);
    }
}

/* Query blocks [begin, end) of key/value head `item` and of all the query heads that read it. */
static void attention_item(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch)
{
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t S = a->seq, D = a->head_dim, per_group = a->heads / a->kv_heads;
    attention_head w = attention_head_of(a, item / a->kv_heads, item % a->kv_heads);
    attention_scratch t = {.kt = scratch};
    t.v = t.kt + D * w.Sp;
    t.q = t.v + w.Sp * w.Dp;
    t.o = t.q + QUERY_BLOCK * w.Dp;
    t.p = t.o + QUERY_BLOCK * w.Dp;
    const int64_t stop = end * QUERY_BLOCK < S ? end * QUERY_BLOCK : S, keys = a->causal ? stop : S;
    pack_columns(t.kt, bf16, a->k, w.b * S, w.g * D, a->ld_kv, keys, D);
    pack_panels(t.v, w.Sp, w.Dp, bf16, a->v, w.b * S, w.g * D, a->ld_kv, keys, D);
    for (w.h = w.g * per_group; w.h < (w.g + 1) * per_group; w.h++)
        for (int64_t i = begin * QUERY_BLOCK; i < stop; i += QUERY_BLOCK)
            attention_queries(&w, &t, i, stop - i < QUERY_BLOCK ? stop - i : QUERY_BLOCK);
}
