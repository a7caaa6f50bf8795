/* Attention forward by blocks of queries and keys with a running maximum and sum (Dao et al. 2022). A block of scores
 * has a row for each key and a column for each query. Maxima and sums of queries are therefore taken lane by lane, and
 * the softmax writes the right operand of the next product in place. In a block that a causal mask cuts, at most one
 * strip beyond the mask is computed. */

/* Values that are the same for all blocks of one head of one sequence. */
typedef struct attention_head {
    const mega_attention_args *a;
    dropout_key key;
    int64_t b, h, g;
    int64_t words, depth; /* words of a packed row of the head; words that a product over the head size reads */
    bool is_cut;          /* more than the causal mask hides keys */
    bool is_bent;         /* soft-cap, ALiBi or biases: bend_pair turns q.k into scores */
    float scale;          /* of the scores, in powers of 2 */
    float *line;          /* biases of the head by difference of query and key (attention_line_words), or NULL */
} attention_head;

/* A block of queries and a block of keys; their sizes `queries` and `keys` are padded to strips. */
typedef struct attention_pair {
    const attention_limits *limits;
    int64_t i0, j0, queries, keys;
    bool diagonal, masked; /* diagonal: the causal mask cuts it; masked: some query does not see some key */
} attention_pair;

ALWAYS attention_head attention_head_of(const mega_attention_args *a, int64_t b, int64_t g)
{
    attention_head w = {.a = a, .b = b, .g = g, .words = attention_round(a->head_dim, GRAIN) / PER_WORD};
    w.depth = PAIRS ? w.words : a->head_dim;
    w.is_cut = a->key_begin != NULL || a->key_end != NULL || a->rules.has_window;
    w.is_bent = a->rules.softcap > 0.0 || a->rules.alibi_heads > 0 || a->bias != NULL;
    w.scale = w.is_bent ? LOG2_E : (float)(a->scale * 1.4426950408889634);
    if (a->dropout > 0.0) w.key = dropout_key_of(a->head.step, a->site, a->dropout);
    return w;
}

/* Return the rows of head `head` of tensor x, from query i or from key j of the sequence. */
ALWAYS head_rows head_rows_of(const attention_head *w, const void *x, int64_t ld, int64_t head, int64_t i)
{
    const mega_attention_args *a = w->a;
    return (head_rows){x, (w->b * a->seq + i) * ld + head * a->head_dim, ld, a->head_dim, a->head.dtype};
}

ALWAYS head_rows key_rows_of(const attention_head *w, const void *x, int64_t ld, int64_t head, int64_t j)
{
    const mega_attention_args *a = w->a;
    return (head_rows){x, (w->b * a->keys + j) * ld + head * a->head_dim, ld, a->head_dim, a->head.dtype};
}

static attention_pair attention_pair_of(const attention_head *w, const attention_limits *t, int64_t i0, int64_t rows,
                                        int64_t j0)
{
    const int64_t left = w->a->keys - j0, n = left < BLOCK ? left : BLOCK;
    attention_pair p = {t, i0, j0, attention_round(rows, QUERY_GRAIN), attention_round(n, QUERY_GRAIN), false, false};
    p.diagonal = w->a->causal && i0 == j0;
    p.masked = p.diagonal || n != p.keys;
    for (int64_t r = 0; r < rows && w->is_cut; r++) p.masked |= t->begin[r] > j0 || t->end[r] < j0 + n;
    return p;
}

/* first_column returns the first query column that sees keys of the strip at row r; last_row returns one past the last
 * key row that the strip of columns at c sees. */
ALWAYS int64_t first_column(const attention_pair *p, int64_t r)
{
    return p->diagonal ? r / STRIP * STRIP : 0;
}

ALWAYS int64_t last_row(const attention_pair *p, int64_t c)
{
    const int64_t end = (c / STRIP + 1) * STRIP;
    return p->diagonal && end < p->keys ? end : p->keys;
}

/* s[keys, queries] = a[keys, D] b[D, queries]. */
static void score_product(const attention_head *w, const attention_pair *p, float *s, const float *a, const float *b,
                          rows_ahead *ahead)
{
    const int64_t step = p->diagonal ? STRIP : p->keys;
    for (int64_t r = 0; r < p->keys; r += step) {
        const int64_t c = first_column(p, r);
        if (c >= p->queries) return;
        attention_product(s + r * BLOCK + c, a + r * w->words, w->words, b + c, step, p->queries - c, w->depth, false,
                          ahead);
    }
}

/* o[D, queries] (+)= a[D, keys] p[keys, queries]; on the diagonal, half a block of keys at a time. */
static void value_product(const attention_head *w, const attention_pair *p, float *o, const float *a, const float *s,
                          bool accumulate, rows_ahead *ahead)
{
    const int64_t rows = PAIRS ? attention_round(w->a->head_dim, STRIP) : w->a->head_dim, ld = BLOCK / PER_WORD;
    const int64_t half = p->diagonal && p->keys > GRAIN ? GRAIN : p->keys, rest = p->keys - half;
    attention_product(o, a, ld, s, rows, p->queries, half / PER_WORD, accumulate, ahead);
    if (rest > 0 && p->queries > half)
        attention_product(o + half, a + half / PER_WORD, ld, s + half / PER_WORD * BLOCK + half, rows,
                          p->queries - half, rest / PER_WORD, true, ahead);
}

/* Overwrites the scores of keys that a query does not see with `rest`. If there is only the causal mask, rows before
 * the diagonal strip are skipped: their keys are all seen. */
static void mask_pair(const attention_head *w, const attention_pair *p, float *s, float rest)
{
    for (int64_t c = 0; c < p->queries; c += VL) {
        vi from, to;
        memcpy(&from, p->limits->begin + c, sizeof from);
        memcpy(&to, p->limits->end + c, sizeof to);
        from -= (int32_t)p->j0;
        to -= (int32_t)p->j0;
        for (int64_t r = p->diagonal && !w->is_cut ? c / STRIP * STRIP : 0; r < last_row(p, c); r++) {
            const vi row = (vi){0} + (int32_t)r;
            vstore(s + r * BLOCK + c, vselect((row >= from) & (row < to), vload(s + r * BLOCK + c), vset(rest)));
        }
    }
}

/* Replaces q.k by scores: the soft-cap, whose derivative goes to `slopes` unless it is NULL, then the biases. */
static void bend_pair(const attention_head *w, const attention_pair *p, float *s, float *slopes)
{
    const mega_attention_rules *r = &w->a->rules;
    const float cap = (float)r->softcap, into = (float)(cap > 0.0f ? w->a->scale / r->softcap : w->a->scale);
    const float slope = (float)rules_slope(r, w->a->head_begin + w->h);
    for (int64_t c = 0; c < p->queries; c += VL) {
        float query[VL];
        for (int64_t l = 0; l < VL; l++) query[l] = (float)(p->i0 + c + l - p->j0);
        const vf queries = vload(query);
        for (int64_t row = 0; row < last_row(p, c); row++) {
            float *at = s + row * BLOCK + c;
            vf x = vload(at) * into;
            if (cap > 0.0f) {
                x = vtanh(x);
                if (slopes != NULL) vstore(slopes + row * BLOCK + c, 1.0f - x * x);
                x *= cap;
            }
            x += slope * ((float)row - queries);
            if (w->line != NULL) x += vload(w->line + attention_line_begin(w->a) + p->i0 + c - p->j0 - row);
            vstore(at, x);
        }
    }
}

/* Writes the biases of the head to its line. `buckets` has the bucket for each element of it. */
static void fill_line(const attention_head *w, const int32_t *buckets)
{
    const mega_attention_args *a = w->a;
    float bias[MEGA_BIAS_BUCKETS];
    for (int64_t n = 0; n < a->rules.bias_buckets; n++)
        BY_TYPE(a->head.dtype, bias[n] = vget_n(type, a->bias, n * a->heads + w->h, 1)[0]);
    for (int64_t n = 0; n < attention_line_words(a); n++) w->line[n] = bias[buckets[n]];
}

/* Zeroes the strips beyond the causal mask that products over half blocks of keys read. */
static void clear_strips(const attention_pair *p, float *s)
{
    if (!p->diagonal) return;
    for (int64_t r = STRIP; r < p->keys; r += 2 * STRIP)
        for (int64_t i = r / PER_WORD; i < (r + STRIP) / PER_WORD; i++)
            for (int64_t c = r - STRIP; c < r; c += VL) vstore(s + i * BLOCK + c, vset(0.0f));
}

/* Computes the dropout factors of a pair of blocks, in the layout of the scores. */
static void drop_pair(const attention_head *w, const attention_pair *p, float *factors)
{
    const mega_attention_args *a = w->a;
    for (int64_t c = 0; c < p->queries; c += VL) {
        const int64_t keys = last_row(p, c), row = (a->head_begin + w->h) * a->seq + p->i0 + c;
        uint32_t sample[VL];
        for (int64_t l = 0; l < VL; l++) {
            const int64_t i = p->i0 + c + l;
            sample[l] = a->sample_id[w->b * a->seq + (i < a->seq ? i : a->seq - 1)];
        }
        for (int64_t r = 0; r < keys; r += DROPOUT_KEYS)
            dropout_keys(factors + r * BLOCK + c, BLOCK, &w->key, sample, (uint64_t)row, (uint64_t)(p->j0 + r));
    }
}

/* Running state of one block of queries; `max` is the maximum score times `scale`, in powers of 2. */
typedef struct softmax_state {
    float max[BLOCK], sum[BLOCK], shrink[BLOCK];
} softmax_state;

/* Stores rows r and r + 1 of columns [c, c + VL) as the right operand of a product over keys. */
ALWAYS void put_keys(float *s, int64_t r, int64_t c, vf x, vf y)
{
#if PAIRS
    vstore(s + r / 2 * BLOCK + c, pairs_of_two(narrow_two(x, y)));
#else
    vstore(s + r * BLOCK + c, x);
    vstore(s + (r + 1) * BLOCK + c, y);
#endif
}

/* Replaces the scores of columns [c, c + VL) by their weights; with PAIRS the weights go to `to` as pairs of keys. */
ALWAYS void softmax_column(const bool drop, const attention_pair *p, softmax_state *t, const float *s, float *to,
                           const float *factors, int64_t c, float scale)
{
    const int64_t rows = last_row(p, c);
    vf m[4];
    for (int l = 0; l < 4; l++) m[l] = vload(s + l * BLOCK + c);
    for (int64_t r = 4; r < rows; r += 4)
        for (int l = 0; l < 4; l++) m[l] = vmax(m[l], vload(s + (r + l) * BLOCK + c));
    const vf before = vload(t->max + c), max = vmax(before, vmax(vmax(m[0], m[1]), vmax(m[2], m[3])) * scale);
    vf sum[2] = {vset(0.0f), vset(0.0f)};
    for (int64_t r = 0; r < rows; r += 2) {
        vf e[2];
        for (int l = 0; l < 2; l++) {
            e[l] = vexp2(vload(s + (r + l) * BLOCK + c) * scale - max);
            sum[l] += e[l];
            if (drop) e[l] *= vload(factors + (r + l) * BLOCK + c);
        }
        put_keys(to, r, c, e[0], e[1]);
    }
    const vf shrink = vexp2(before - max);
    vstore(t->max + c, max);
    vstore(t->sum + c, vload(t->sum + c) * shrink + (sum[0] + sum[1]));
    vstore(t->shrink + c, shrink);
}

static void softmax_pair(const attention_head *w, const attention_pair *p, softmax_state *t, const float *s, float *to,
                         float *factors)
{
    const float scale = w->scale;
    if (w->a->dropout > 0.0) {
        drop_pair(w, p, factors);
        for (int64_t c = 0; c < p->queries; c += VL) softmax_column(true, p, t, s, to, factors, c, scale);
    } else
        for (int64_t c = 0; c < p->queries; c += VL) softmax_column(false, p, t, s, to, NULL, c, scale);
    clear_strips(p, to);
}

/* Rescales the outputs of earlier key blocks to the new maxima, for columns whose maximum changed. */
static void shrink_outputs(const attention_head *w, const softmax_state *t, float *o, int64_t queries)
{
    vf least = vset(1.0f);
    for (int64_t c = 0; c < queries; c += VL) least = vmin(least, vload(t->shrink + c));
    if (!vany(least < 1.0f)) return;
    for (int64_t d = 0; d < w->a->head_dim; d++)
        for (int64_t c = 0; c < queries; c += VL)
            vstore(o + d * BLOCK + c, vload(o + d * BLOCK + c) * vload(t->shrink + c));
}

/* The buffers of one thread's scratch, in blocks of positions. For all keys: keys along their elements, and values
 * along the keys. For a block of queries: queries as columns and outputs as columns. For a pair of blocks: scores,
 * weights and dropout factors. */
typedef struct attention_scratch {
    float *k, *vt, *qt, *ot, *s, *p, *factors;
} attention_scratch;

static attention_scratch attention_scratch_of(const mega_attention_args *a, float *scratch)
{
    const int64_t block = attention_block_words(a), blocks = attention_key_blocks(a), pair = BLOCK * BLOCK;
    attention_scratch t = {.k = scratch, .vt = scratch + blocks * block, .qt = scratch + 2 * blocks * block};
    t.ot = t.qt + block;
    t.s = t.ot + block;
    t.factors = t.s + pair;
    t.p = PAIRS ? t.factors + pair : t.s;
    return t;
}

/* Advances *i to the next block of queries, in this head or at the start of the next head. Returns false at the end. */
static bool next_queries(attention_head *w, int64_t *i)
{
    const mega_attention_args *a = w->a;
    *i += BLOCK;
    if (*i < a->seq) return true;
    *i = 0;
    if (++w->h == a->heads) w->h = 0, w->b++;
    return w->b < a->batch;
}

ALWAYS int64_t rows_at(const mega_attention_args *a, int64_t i)
{
    return a->seq - i < BLOCK ? a->seq - i : BLOCK;
}

ALWAYS int64_t keys_at(const mega_attention_args *a, int64_t j)
{
    return a->keys - j < BLOCK ? a->keys - j : BLOCK;
}

/* Adds the rows that the block at i will read: its queries, and for the query head that packs them its keys and
 * values. */
static void ahead_inputs(rows_ahead *t, const attention_head *w, int64_t i)
{
    const mega_attention_args *a = w->a;
    const int64_t g = rules_kv_head(&a->rules, a->heads, a->kv_heads, w->h);
    t->left = rows_at(a, i);
    ahead_add(t, head_rows_of(w, a->q, a->ld_q, w->h, i));
    if (w->h != attention_first_head(a, g) || a->keys != a->seq) return;
    ahead_add(t, key_rows_of(w, a->k, a->ld_kv, g, i));
    ahead_add(t, key_rows_of(w, a->v, a->ld_kv, g, i));
}

/* Rows that are prefetched in one go at most (bench_attention measures it). */
#define ASK_MOST 4

/* Returns how many rows to prefetch at a time, at most ASK_MOST, so that all are done after key blocks [first, stop)
 * have gone through `products` products each. */
ALWAYS int64_t ahead_step(const rows_ahead *t, int64_t first, int64_t stop, int64_t products)
{
    const int64_t times = products * ((stop - first + BLOCK - 1) / BLOCK) * (BLOCK / 6);
    if (times <= 0) return 0;
    const int64_t step = (t->tensors * t->left + times - 1) / times;
    return step < ASK_MOST ? step : ASK_MOST;
}

/* Gives queries that see no key, whose outputs are 0, a sum with which the outputs and the log-sum-exp are 0. */
static void settle_blind(const attention_limits *limits, softmax_state *t)
{
    for (int64_t r = 0; r < BLOCK; r++)
        if (limits->begin[r] >= limits->end[r]) t->max[r] = 0.0f, t->sum[r] = 1.0f;
}

static float sink_of(const mega_attention_args *a, int64_t h)
{
    float sink = 0.0f;
    BY_TYPE(a->head.dtype, sink = vget_n(type, a->sinks, h, 1)[0]);
    return sink;
}

static void attention_queries(const attention_head *w, const attention_scratch *t, int64_t i0, int64_t rows)
{
    const mega_attention_args *a = w->a;
    attention_limits limits;
    attention_limits_of(a, w->b, i0, &limits);
    const int64_t block = attention_block_words(a), first = limits.first, stop = limits.last;
    const head_rows q = head_rows_of(w, a->q, a->ld_q, w->h, i0), out = head_rows_of(w, a->out, a->ld_out, w->h, i0);
    attention_head next = *w;
    int64_t next_i = i0;
    rows_ahead ahead = {.left = rows};
    ahead_add(&ahead, out);
    if (next_queries(&next, &next_i)) ahead_inputs(&ahead, &next, next_i);
    ahead.step = ahead_step(&ahead, first, stop, 2);
    softmax_state state;
    const float sink = a->sinks != NULL ? sink_of(a, w->h) * LOG2_E : -1e30f;
    for (int64_t c = 0; c < BLOCK; c++) state.max[c] = sink, state.sum[c] = a->sinks != NULL ? 1.0f : 0.0f;
    pack_turned(t->qt, &q, rows, attention_round(rows, QUERY_GRAIN));
    for (int64_t j = first; j < stop; j += BLOCK) {
        const attention_pair p = attention_pair_of(w, &limits, i0, rows, j);
        score_product(w, &p, t->s, t->k + j / BLOCK * block, t->qt, &ahead);
        if (w->is_bent) bend_pair(w, &p, t->s, NULL);
        if (p.masked) mask_pair(w, &p, t->s, -INFINITY);
        softmax_pair(w, &p, &state, t->s, t->p, t->factors);
        if (j > first) shrink_outputs(w, &state, t->ot, p.queries);
        value_product(w, &p, t->ot, t->vt + j / BLOCK * block, t->p, j > first, &ahead);
    }
    if (first >= stop) memset(t->ot, 0, (size_t)block * sizeof(float));
    if (limits.is_blind && a->sinks == NULL) settle_blind(&limits, &state);
    for (int64_t c = 0; c < rows; c += VL) vstore(state.shrink + c, 1.0f / vload(state.sum + c));
    unpack_turned(&out, t->ot, state.shrink, rows);
    float *lse = (float *)a->lse + w->h * a->batch * a->seq + w->b * a->seq + i0;
    for (int64_t c = 0; c < rows; c += VL)
        vput_n(MEGA_F32, lse, c, rows - c, vload(state.max + c) * LN_2 + vlog(vload(state.sum + c)));
}

/* Packs the keys and values of block j. */
static void pack_keys(const attention_head *w, const attention_scratch *t, int64_t j)
{
    const mega_attention_args *a = w->a;
    const int64_t block = attention_block_words(a), n = keys_at(a, j * BLOCK);
    const head_rows k = key_rows_of(w, a->k, a->ld_kv, w->g, j * BLOCK),
                    v = key_rows_of(w, a->v, a->ld_kv, w->g, j * BLOCK);
    pack_rows(t->k + j * block, w->words, &k, n, attention_round(n, GRAIN));
    pack_along(t->vt + j * block, &v, n, attention_round(n, GRAIN));
}

/* Computes query blocks [begin, end) of key/value head `item`, for all the query heads that read it. Keys are packed
 * when a query first needs them. */
static void attention_item(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch)
{
    attention_head w = attention_head_of(a, item / a->kv_heads, item % a->kv_heads);
    const attention_scratch t = attention_scratch_of(a, scratch);
    int64_t packed = attention_first_keys(a, begin);
    if (a->bias != NULL) w.line = scratch + attention_scratch_words(a) - attention_line_words(a);
    products_begin();
    for (w.h = attention_first_head(a, w.g); w.h < attention_end_head(a, w.g); w.h++) {
        if (a->bias != NULL) fill_line(&w, a->head.scratch);
        for (int64_t i = begin; i < end; i++) {
            for (; packed < attention_end_keys(a, i); packed++) pack_keys(&w, &t, packed);
            attention_queries(&w, &t, i * BLOCK, rows_at(a, i * BLOCK));
        }
    }
    products_end();
}
