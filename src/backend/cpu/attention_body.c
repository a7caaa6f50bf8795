/* Attention forward by blocks of queries and keys with a running maximum and sum (Dao et al. 2022). Keys and values of
 * one key/value head are packed once, keys transposed, as floats; every block product is a tile product. */

#define QUERY_BLOCK MEGA_QUERY_BLOCK
#define KEY_BLOCK   MEGA_KEY_BLOCK
_Static_assert(MEGA_TILE_COLS % TILE_COLS == 0 && KEY_BLOCK % TILE_COLS == 0, "blocks are whole tiles");
_Static_assert(KEY_BLOCK <= MASK_RUN, "a mask of a row of a block is one run");

ALWAYS int64_t round_to(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

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

/* Multiplies x[j] by the dropout factor of key j0 + j, j in [begin, end), for query i. */
static void drop_keys(const attention_head *w, float *x, int64_t i, int64_t j0, int64_t begin, int64_t end)
{
    const mega_attention_args *a = w->a;
    float buffer[MASK_BUFFER];
    const int64_t row = ((a->head_begin + w->h) * a->seq + i) * a->seq;
    const float *factor =
        dropout_factors(buffer, &w->key, a->sample_id[w->b * a->seq + i], (uint64_t)(row + j0 + begin), end - begin);
    for (int64_t j = begin; j < end; j += VL)
        vput_n(false, x, j, end - j, vget_n(false, x, j, end - j) * vget_n(false, factor, j - begin, end - j));
}

/* Running state of one block of queries. */
typedef struct softmax_rows {
    float max[QUERY_BLOCK], sum[QUERY_BLOCK];
} softmax_rows;

/* Scores p [rows, KEY_BLOCK] of queries i0… and keys j0…j0+n become weights; earlier sums and outputs are rescaled. */
static void softmax_block(const attention_head *w, softmax_rows *s, float *p, float *o, int64_t i0, int64_t rows,
                          int64_t j0, int64_t n)
{
    const int64_t padded = round_to(n, TILE_COLS);
    for (int64_t r = 0; r < rows; r++) {
        float *row = p + r * KEY_BLOCK;
        const int64_t first = key_begin(w, i0 + r) - j0, last = key_end(w, i0 + r) - j0;
        const int64_t begin = first > 0 ? first : 0, end = last < n ? last : n;
        if (begin >= end) {
            set_zero(row, padded);
            continue;
        }
        for (int64_t j = 0; j < begin; j++) row[j] = -INFINITY;
        for (int64_t j = end; j < padded; j++) row[j] = -INFINITY;
        vf max = vload(row);
        for (int64_t j = VL; j < padded; j += VL) max = vmax(max, vload(row + j));
        float m = vmax_lane(max);
        if (m < s->max[r]) m = s->max[r];
        vf sum = vset(0.0f);
        for (int64_t j = 0; j < padded; j += VL) {
            const vf e = vexp(vload(row + j) - m);
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
        if (w->a->dropout > 0.0) drop_keys(w, row, i0 + r, j0, begin, end);
    }
}

/* Where the parts of one thread's scratch stand. */
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
        tile_product(t->p, KEY_BLOCK, t->q, Dp, 1, t->kt + j, w->Sp, rows, round_to(n, TILE_COLS), D, false);
        softmax_block(w, &s, t->p, t->o, i0, rows, j, n);
        tile_product(t->o, Dp, t->p, KEY_BLOCK, 1, t->v + j * Dp, Dp, rows, Dp, n, true);
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

static void attention_items(const mega_attention_args *a, int64_t begin, int64_t end, float *scratch)
{
    const bool bf16 = a->head.dtype == MEGA_BF16;
    const int64_t S = a->seq, D = a->head_dim, per_group = a->heads / a->kv_heads;
    for (int64_t item = begin; item < end; item++) {
        attention_head w = attention_head_of(a, item / a->kv_heads, item % a->kv_heads);
        attention_scratch t = {.kt = scratch};
        t.v = t.kt + D * w.Sp;
        t.q = t.v + w.Sp * w.Dp;
        t.o = t.q + QUERY_BLOCK * w.Dp;
        t.p = t.o + QUERY_BLOCK * w.Dp;
        /* The place of the values holds the keys until they are transposed. */
        pack_rows(t.v, w.Dp, bf16, a->k, w.b * S, w.g * D, a->ld_kv, S, D, 1.0f);
        transpose_rows(t.kt, w.Sp, t.v, w.Dp, S, D);
        pack_rows(t.v, w.Dp, bf16, a->v, w.b * S, w.g * D, a->ld_kv, S, D, 1.0f);
        for (w.h = w.g * per_group; w.h < (w.g + 1) * per_group; w.h++)
            for (int64_t i = 0; i < S; i += QUERY_BLOCK)
                attention_queries(&w, &t, i, S - i < QUERY_BLOCK ? S - i : QUERY_BLOCK);
    }
}
