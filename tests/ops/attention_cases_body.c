/* The cases of attention. Part of test_kernels.c. */

/* DOCUMENTS: key_begin is the start of a document. PADDING: key_end leaves out the last keys; for some queries, all.
 * SINKS: heads have a score without a value, which is no limit. */
enum { NO_LIMITS, DOCUMENTS, PADDING, SINKS = 4 };

typedef struct attention_case {
    int64_t batch, seq, heads, kv_heads, head_dim;
    bool causal;
    int limits; /* DOCUMENTS, PADDING, SINKS */
    double dropout;
    mega_attention_rules rules;
} attention_case;

static const attention_case attention_cases[] = {
    {0, 8, 2, 2, 8, true, NO_LIMITS, 0.0, {.group = 0}},
    {1, 1, 1, 1, 1, true, NO_LIMITS, 0.0, {.group = 0}},
    {2, 5, 2, 1, 3, true, DOCUMENTS, 0.2, {.group = 0}},
    {1, 49, 2, 2, 16, true, NO_LIMITS, 0.1, {.group = 0}},
    {2, 64, 4, 2, 32, true, NO_LIMITS, 0.0, {.group = 0}},
    {1, 131, 3, 3, 20, true, DOCUMENTS, 0.0, {.group = 0}},
    {1, 300, 2, 1, 64, true, DOCUMENTS, 0.15, {.group = 0}},
    {2, 70, 2, 2, 40, false, NO_LIMITS, 0.1, {.group = 0}},
    {1, 129, 1, 1, 64, false, DOCUMENTS, 0.0, {.group = 0}},
    {1, 500, 3, 3, 16, true, NO_LIMITS, 0.0, {.group = 0}},
    {1, 450, 1, 1, 24, false, NO_LIMITS, 0.1, {.group = 0}}, /* cut among threads */
    {1, 35, 2, 1, 128, true, DOCUMENTS, 0.1, {.group = 0}},
    {1, 21, 1, 1, 256, false, NO_LIMITS, 0.0, {.group = 0}},
    {1, 68, 2, 1, 100, true, NO_LIMITS, 0.1, {.group = 0}}, /* several tiles of the largest heads, with CUDA too */
    {1, 70, 1, 1, 136, false, NO_LIMITS, 0.1, {.group = 0}},
    {1, 60, 2, 2, 16, false, NO_LIMITS, 0.0, {.has_window = true, .window_left = 9, .window_right = 3}},
    /* windows: over several blocks, within one, open on one side, of non-causal attention, cut among threads */
    {1, 300, 2, 1, 64, true, NO_LIMITS, 0.0, {.has_window = true, .window_left = 70}},
    {2, 131, 3, 3, 20, true, DOCUMENTS, 0.1, {.has_window = true, .window_left = 5, .window_right = -1}},
    {1, 200, 2, 2, 16, false, NO_LIMITS, 0.0, {.has_window = true, .window_left = 65, .window_right = 3}},
    {1, 450, 1, 1, 24, false, NO_LIMITS, 0.1, {.has_window = true, .window_left = -1, .window_right = 130}},
    {1, 450, 1, 1, 24, false, NO_LIMITS, 0.0, {.has_window = true, .window_left = 64, .window_right = -1}},
    {1, 700, 1, 1, 16, true, NO_LIMITS, 0.0, {.has_window = true, .window_left = 100}},
    {1, 90, 1, 1, 8, true, NO_LIMITS, 0.0, {.has_window = true}}, /* each query sees itself alone */
    {1, 129, 2, 2, 32, true, DOCUMENTS, 0.0, {.softcap = 2.0}},
    {2, 70, 2, 1, 40, false, NO_LIMITS, 0.1, {.softcap = 0.7}},
    {1, 200, 2, 2, 16, true, NO_LIMITS, 0.0, {.alibi_heads = 12}},
    {1, 150, 2, 2, 20, false, DOCUMENTS, 0.1, {.alibi_heads = 8}},
    {1, 260, 4, 2, 24, true, DOCUMENTS, 0.1, {.has_window = true, .window_left = 90, .softcap = 3.0, .alibi_heads = 7}},
    /* heads 3, 4 and 5 of groups of two: key/value heads 1, 2, 2; no head reads 0 and 3 */
    {1, 131, 3, 4, 16, true, NO_LIMITS, 0.0, {.group = 2, .group_begin = 3}},
    {1, 200, 2, 1, 16, true, NO_LIMITS, 0.1, {.group = 6, .group_begin = 4}},
    {1, 300, 2, 1, 64, false, PADDING, 0.1, {.group = 0}},
    {2, 131, 3, 3, 20, true, DOCUMENTS | PADDING, 0.0, {.group = 0}},
    {1, 450, 1, 1, 24, false, DOCUMENTS | PADDING, 0.0, {.has_window = true, .window_left = 64, .window_right = 9}},
    {2, 70, 2, 2, 40, false, PADDING, 0.0, {.softcap = 1.5}},
    {1, 450, 1, 1, 24, false, DOCUMENTS | PADDING, 0.1, {.group = 0}}, /* cut among threads */
    {1, 300, 2, 1, 64, false, NO_LIMITS, 0.1, {.bias_buckets = 32, .bias_distance = 128}},
    {2, 131, 3, 3, 20, true, DOCUMENTS, 0.0, {.bias_buckets = 8, .bias_distance = 20, .bias_one_side = true}},
    {1, 450, 1, 1, 24, false, PADDING, 0.0, {.bias_buckets = 16, .bias_distance = 64}}, /* cut among threads */
    {2, 131, 4, 2, 20, true, DOCUMENTS | SINKS, 0.1, {.has_window = true, .window_left = 30}},
    {1, 300, 2, 1, 64, false, PADDING | SINKS, 0.0, {.group = 0}},
    {1, 70, 2, 2, 136, true, SINKS, 0.0, {.softcap = 2.0}},
};

/* Returns how many keys a sequence has in this turn: as many as queries, more, or fewer; 0: there is no such turn. */
static int64_t attention_keys(const attention_case *s, int turn)
{
    const bool compares = s->causal || s->rules.has_window || s->rules.alibi_heads > 0 || s->rules.bias_buckets > 0;
    if (turn == 0) return s->seq;
    return compares ? 0 : turn == 1 ? 2 * s->seq + 5 : (s->seq + 1) / 3;
}

/* float64 is the definition: the cpu form is the plain one, which the short cases run through. */
static bool attention_is_skipped(mega_dtype type, const attention_case *s, int64_t keys)
{
    return keys == 0 || (is_slow && type == MEGA_F64 && s->seq * keys > 10000);
}

static void attention_limits(check *k, const attention_case *s, mega_attention_args *a)
{
    const int64_t T = s->batch * s->seq;
    int32_t *start = check_bytes(k, (size_t)T * sizeof *start), *end = check_bytes(k, (size_t)T * sizeof *end);
    const int32_t *throws = integers(k, T, 0, 40);
    for (int64_t t = 0; t < T; t++) {
        const int64_t i = t % s->seq;
        start[t] = i == 0 ? 0 : throws[t] == 0 ? (int32_t)i : start[t - 1];
        end[t] = (int32_t)(a->keys * 2 / 3 + t / s->seq);
        if (i % 13 == 5) end[t] = INT32_MAX;
        if (i < s->seq / 3 || i % 13 == 3) end[t] = -2; /* sees no key: of long sequences, whole blocks of queries */
    }
    a->key_begin = s->limits & DOCUMENTS ? start : NULL;
    a->key_end = s->limits & PADDING ? end : NULL;
}

/* Fills the arguments over one tensor [T, (H + 2G) D], as models pass them; other keys have a tensor of their own. */
static void attention_arguments(check *k, const attention_case *s, int64_t keys, mega_attention_args *a, void *out,
                                void *lse)
{
    const int64_t T = s->batch * s->seq, width = (s->heads + 2 * s->kv_heads) * s->head_dim;
    const size_t element_bytes = mega_dtype_size(k->type);
    *a = (mega_attention_args){.out = out, .lse = lse, .batch = s->batch, .seq = s->seq, .heads = s->heads};
    a->kv_heads = s->kv_heads, a->head_dim = s->head_dim, a->head_begin = 3;
    a->q = check_input(k, k->type, T * width);
    a->k = (const char *)a->q + (size_t)(s->heads * s->head_dim) * element_bytes;
    a->v = (const char *)a->k + (size_t)(s->kv_heads * s->head_dim) * element_bytes;
    a->ld_q = a->ld_kv = width, a->ld_out = s->heads * s->head_dim + 1, a->keys = keys;
    if (keys != s->seq) {
        a->ld_kv = 2 * s->kv_heads * s->head_dim;
        a->k = check_input(k, k->type, s->batch * keys * a->ld_kv);
        a->v = (const char *)a->k + (size_t)(s->kv_heads * s->head_dim) * element_bytes;
    }
    a->scale = 1.0 / sqrt((double)s->head_dim), a->dropout = s->dropout, a->site = 21, a->causal = s->causal;
    uint32_t *sample = check_bytes(k, (size_t)T * sizeof *sample);
    for (int64_t t = 0; t < T; t++) sample[t] = 77 + (uint32_t)(t / s->seq);
    a->sample_id = sample;
    attention_limits(k, s, a);
    a->rules = s->rules;
    a->bias = s->rules.bias_buckets > 0 ? check_input(k, k->type, s->rules.bias_buckets * s->heads) : NULL;
    a->sinks = s->limits & SINKS ? check_input(k, k->type, s->heads) : NULL;
    a->head = (mega_kernel_head){.dtype = k->type, .step = &step_block};
}

static check attention_begin(const char *name, mega_dtype type, const attention_case *s, int64_t keys)
{
    const mega_attention_rules *r = &s->rules;
    return check_begin(
        name, type,
        "batch %lld, seq %lld, keys %lld, heads %lld/%lld x %lld, causal %d, limits %d, dropout %g, window %d "
        "(%lld, %lld), cap %g, alibi %lld, biases %lld, group %lld",
        (long long)s->batch, (long long)s->seq, (long long)keys, (long long)s->heads, (long long)s->kv_heads,
        (long long)s->head_dim, s->causal, s->limits, s->dropout, r->has_window, (long long)r->window_left,
        (long long)r->window_right, r->softcap, (long long)r->alibi_heads, (long long)r->bias_buckets,
        (long long)r->group);
}

static void check_attention(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(attention_cases) && rows == 1 && cols == 1; i++) {
        const attention_case *s = &attention_cases[i / 3];
        const int64_t keys = attention_keys(s, i % 3);
        if (attention_is_skipped(type, s, keys)) continue;
        check k = attention_begin("attention", type, s, keys);
        mega_attention_args a;
        void *out = check_output_add(&k, "out", type, s->batch * s->seq * (s->heads * s->head_dim + 1));
        void *lse = check_output_add(&k, "lse", acc_type(&k), s->batch * s->seq * s->heads);
        attention_arguments(&k, s, keys, &a, out, lse);
        k.row = a.ld_out;
        check_run(&k, &mega_plain_attention, &mega_cpu_attention, &a, &a.head);
    }
}

static void check_attention_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(attention_cases) && rows == 1 && cols == 1; i++) {
        const attention_case *s = &attention_cases[i / 3];
        const int64_t keys = attention_keys(s, i % 3);
        if (attention_is_skipped(type, s, keys)) continue;
        check k = attention_begin("attention_grad", type, s, keys);
        const int64_t T = s->batch * s->seq, U = s->batch * keys, ld_out = s->heads * s->head_dim + 1;
        mega_attention_grad_args g = {.ld_dq = s->heads * s->head_dim + 2, .ld_dkv = s->kv_heads * s->head_dim + 1};
        void *out = check_bytes(&k, (size_t)(T * ld_out) * 8), *lse = check_bytes(&k, (size_t)(T * s->heads) * 8);
        attention_arguments(&k, s, keys, &g.forward, out, lse);
        g.forward.head.scratch = check_bytes(&k, (size_t)(keys + 1) * sizeof(double));
        mega_plain_attention.run(NULL, &g.forward);
        g.dout = check_input(&k, type, T * ld_out);
        g.ld_dout = ld_out;
        g.dq = check_output_add(&k, "dq", type, T * g.ld_dq);
        g.dk = check_output_add(&k, "dk", type, U * g.ld_dkv);
        g.dv = check_output_add(&k, "dv", type, U * g.ld_dkv);
        const int64_t biases = s->rules.bias_buckets * s->heads;
        g.dbias = biases > 0 ? check_output_add(&k, "dbias", acc_type(&k), biases) : NULL;
        g.head.step = &step_block;
        k.output[0].row = g.ld_dq, k.output[1].row = k.output[2].row = g.ld_dkv, k.row = biases; /* all of dbias */
        /* dS = P (dP - delta) cancels; delta comes from `out` as it was stored, rounded to the type of the call. */
        k.tolerance_f32 = 6e-6;
        k.tolerance_bf16 = 1e-2;
        check_run(&k, &mega_plain_attention_grad, &mega_cpu_attention_grad, &g, &g.head);
    }
}

static void check_attention_cached(mega_dtype type, int64_t rows, int64_t cols)
{
    static const mega_attention_rules rules[] = {
        {.has_window = false},
        {.has_window = true, .window_left = 6, .window_right = -1},
        {.softcap = 1.5},
        {.alibi_heads = 6, .has_window = true, .window_left = 20},
        {.group = 3, .group_begin = 2},
        {.bias_buckets = 16, .bias_distance = 30, .bias_one_side = true},
        {.bias_buckets = 6, .bias_distance = 5, .has_window = true, .window_left = 9},
    };
    for (int64_t i = 0; i < 8 * COUNT(rules) && rows == 1 && cols == 1; i++) {
        const int64_t n = i % 2 == 0 ? 1 : 5;
        const mega_attention_rules *r = &rules[i / 8];
        const bool has_sinks = i % 8 >= 4;
        const bool is_ring = i % 4 >= 2; /* the keys of the last sequences go past its end */
        if (is_ring && !r->has_window) continue;
        check k = check_begin("attention_cached", type, "%lld rows, rules %lld, ring %d, sinks %d", (long long)n,
                              (long long)i / 8, is_ring, has_sinks);
        enum { B = 3, H = 4, G = 2, D = 20 };
        const int64_t capacity = is_ring ? r->window_left + n : 180; /* (several tiles) */
        mega_attention_cached_args a = {.batch = B, .rows = n, .capacity = capacity, .heads = H, .kv_heads = G};
        a.head_dim = D, a.ld_q = H * D + 1, a.ld_kv = G * D + 2, a.ld_out = H * D + 3, a.scale = 0.3;
        a.head_begin = 1, a.rules = *r, a.is_ring = is_ring;
        a.bias = r->bias_buckets > 0 ? check_input(&k, type, r->bias_buckets * H) : NULL;
        a.sinks = has_sinks ? check_input(&k, type, H) : NULL;
        a.q = check_input(&k, type, B * n * a.ld_q);
        a.k = check_input(&k, type, B * n * a.ld_kv), a.v = check_input(&k, type, B * n * a.ld_kv);
        a.out = check_output_add(&k, "out", type, B * n * a.ld_out);
        a.k_cache = check_output_add(&k, "k_cache", type, B * capacity * G * D);
        a.v_cache = check_output_add(&k, "v_cache", type, B * capacity * G * D);
        k.row = a.ld_out;
        int32_t *lengths = check_bytes(&k, B * sizeof *lengths);
        lengths[0] = 0, lengths[1] = 7, lengths[2] = is_ring ? 38 : (int32_t)capacity - 2;
        const mega_step_block lengths_block = {.kv_length = lengths}; /* of the last sequence, rows pass the capacity */
        a.head.step = &lengths_block;
        check_run(&k, &mega_plain_attention_cached, &mega_cpu_attention_cached, &a, &a.head);
    }
}

static void check_attention_sinks_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    const int64_t heads = 1 + cols % 5, head_dim = 1 + cols % 70;
    check k = check_begin("attention_sinks_grad", type, "%lld rows, %lld heads x %lld", (long long)rows,
                          (long long)heads, (long long)head_dim);
    mega_attention_sinks_grad_args a = {.rows = rows, .heads = heads, .head_dim = head_dim};
    a.dout = check_input(&k, type, rows * heads * head_dim), a.out = check_input(&k, type, rows * heads * head_dim);
    a.lse = check_input(&k, acc_type(&k), heads * rows), a.sinks = check_input(&k, type, heads);
    a.dsinks = check_output_add(&k, "dsinks", acc_type(&k), heads);
    k.row = heads;
    check_run(&k, &mega_plain_attention_sinks_grad, &mega_cpu_attention_sinks_grad, &a, &a.head);
}
