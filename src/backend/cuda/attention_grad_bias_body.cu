/* Gradient of a table of biases, by multiply-adds: the sum of dS, before the slope of a cap, over the queries and keys
 * of each bucket. A block has 16 queries of a head and goes over tiles of keys; of each tile a thread has a diagonal,
 * where the distance is the same, and then two buckets. The sums of blocks are in scratch, after delta: [blocks, B, H,
 * buckets]. Part of attention_grad.cu. */

typedef struct bias_shared {
    float ds[ATTENTION_OWN][ATTENTION_TILE + 1];
    float biases[ATTENTION_BIASES], sum[ATTENTION_BIASES]; /* by distance */
    int bucket[ATTENTION_BIASES];
} bias_shared;

/* Writes dS of a tile of keys, from j0 on, and query i. */
BODY void bias_pairs(const mega_attention_grad_args *g, mega_dtype t, bias_shared *s, const float *keys,
                     const float *values, int64_t b, int64_t h, int64_t first, int own, int64_t j0, float slope)
{
    const mega_attention_args *const a = &g->forward;
    const int lane = (int)thread_x() % 32, D = (int)a->head_dim;
    const int64_t i = first + own, row = b * a->seq + i, j = j0 + lane, at = h * a->batch * a->seq + row;
    float ds = 0.0f;
    if (i < a->seq) {
        const keys_seen seen = seen_by_query(a, row, i);
        const float dot = tile_dot(keys + lane * (D + 1), a->q, t, row * a->ld_q + h * D, D);
        const float dp = tile_dot(values + lane * (D + 1), g->dout, t, row * g->ld_dout + h * D, D);
        const float keep = keep_factor(a, g->head.step, row, h, i, j);
        const float bias = a->bias != NULL ? s->biases[lane - own + ATTENTION_OWN - 1] : 0.0f;
        if (j >= seen.begin && j < seen.end)
            ds = pair_grad_of(a, dot, dp, slope, bias, keep,
                              ((const float *)a->lse)[at], ((const float *)g->head.scratch)[at], i, j)
                     .before_cap;
    }
    s->ds[own][lane] = ds;
}

/* Adds up the diagonals, and those of a bucket. */
BODY void bias_fold(bias_shared *s, float total[2])
{
    const int x = (int)thread_x();
    if (x < ATTENTION_BIASES) {
        float sum = 0.0f;
        for (int own = 0; own < ATTENTION_OWN; own++) {
            const int lane = x - (ATTENTION_OWN - 1) + own;
            if (lane >= 0 && lane < ATTENTION_TILE) sum += s->ds[own][lane];
        }
        s->sum[x] = sum;
    }
    block_barrier();
    for (int n = 0; n < ATTENTION_BIASES; n++) {
        if (s->bucket[n] == x) total[0] += s->sum[n];
        if (s->bucket[n] == x + ATTENTION_THREADS) total[1] += s->sum[n];
    }
}

BODY void attention_grad_bias_run(const mega_attention_grad_args *g, mega_dtype t)
{
    SHARED_DYNAMIC(float, keys);
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, size = ATTENTION_TILE * (D + 1), h = block_y(), b = block_z();
    float *const values = keys + size;
    bias_shared *const s = (bias_shared *)(values + size);
    const int64_t first = (int64_t)block_x() * ATTENTION_OWN, g_at = key_head(a, h) * D;
    const keys_seen seen = seen_by_block(a, first, ATTENTION_OWN, ATTENTION_TILE);
    const float slope = slope_of_head(&a->rules, a->head_begin + h);
    float total[2] = {0.0f, 0.0f};
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_TILE) {
        const int64_t at = (b * a->keys + j) * a->ld_kv + g_at, lowest = j - first - ATTENTION_OWN + 1;
        block_barrier(); /* the tile before has been used */
        tile_load(keys, a->k, t, at, a->ld_kv, a->keys - j, (int)D);
        tile_load(values, a->v, t, at, a->ld_kv, a->keys - j, (int)D);
        biases_load(s->biases, ATTENTION_BIASES, a->bias, t, &a->rules, a->heads, h, lowest);
        if (thread_x() < ATTENTION_BIASES)
            s->bucket[thread_x()] = (int)bucket_of_distance(&a->rules, lowest + thread_x());
        block_barrier();
        for (int own = (int)thread_x() / 32; own < ATTENTION_OWN; own += ATTENTION_THREADS / 32)
            bias_pairs(g, t, s, keys, values, b, h, first, own, j, slope);
        block_barrier();
        bias_fold(s, total);
    }
    float *const sums = (float *)g->head.scratch + a->heads * a->batch * a->seq +
                        ((block_x() * a->batch + b) * a->heads + h) * a->rules.bias_buckets;
    UNROLL
    for (int n = 0; n < 2; n++) {
        const int bucket = (int)thread_x() + n * ATTENTION_THREADS;
        if (bucket < a->rules.bias_buckets) sums[bucket] = total[n];
    }
}
KERNELS_BY_TYPE(attention_grad_bias, mega_attention_grad_args, ATTENTION_THREADS)

/* A thread has a bucket of a head. */
KERNEL(attention_grad_bias_total, mega_attention_grad_args, ATTENTION_THREADS)
{
    const mega_attention_args *const f = &a.forward;
    const int64_t n = (int64_t)block_x() * ATTENTION_THREADS + thread_x(), count = f->heads * f->rules.bias_buckets;
    const int64_t bucket = n / f->heads, h = n % f->heads;
    const float *const sums = (const float *)a.head.scratch + f->heads * f->batch * f->seq;
    double sum = 0.0;
    if (n >= count) return;
    for (int64_t p = 0; p < f->batch * ((f->seq + ATTENTION_OWN - 1) / ATTENTION_OWN); p++)
        sum += (double)sums[p * count + h * f->rules.bias_buckets + bucket];
    ((float *)a.dbias)[n] += (float)sum;
}
