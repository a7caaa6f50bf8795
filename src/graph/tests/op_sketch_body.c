/* Helpers with which a case describes its graph, and the cases of ops that transformers use. Part of test_ops.c. */

/* T rows, C columns, N outputs of a GEMM, V rows of a table: all different, among them 1, odd sizes and one more than a
 * tile. */
typedef struct sizes {
    int64_t T, C, N, V;
} sizes;
static const sizes all_sizes[] = {{6, 8, 12, 10}, {1, 1, 1, 2}, {17, 33, 9, 65}, {34, 16, 65, 31}};

typedef struct sketch {
    mega_graph *g;
    sizes s;
    mega_tensor x, sample_id, seq_position;
    mega_axis two; /* an axis that claims two ranks over a group of one: collectives stay in the program and do not
                      change values */
    bool one_rank;
} sketch;

static mega_tensor param(const sketch *k, const char *name)
{
    return mega_graph_param(k->g, mega_params_find(mega_graph_params(k->g), name));
}

static mega_tensor input_2d(const sketch *k, const char *name, mega_dtype dtype, int64_t rows, int64_t cols)
{
    const int64_t dim[2] = {rows, cols};
    return mega_graph_input(k->g, name, dtype, 2, dim);
}

static mega_tensor input_1d(const sketch *k, const char *name, mega_dtype dtype, int64_t n)
{
    return mega_graph_input(k->g, name, dtype, 1, &n);
}

/* Returns a second float input [T, C] whose gradient is requested. */
static mega_tensor other(const sketch *k)
{
    const mega_tensor t = input_2d(k, "other", k->g->dtype, k->s.T, k->s.C);
    mega_graph_want_gradient(k->g, t, "d_other");
    return t;
}

/* Declares the result. Its gradient is the input "seed", and the loss of the test is the sum of result times seed. */
static void result(const sketch *k, mega_tensor y)
{
    mega_graph_output(k->g, y, "y");
    mega_graph_seed_gradient(k->g, y, "seed");
}

static void linear(sketch *k)
{
    result(k, mega_op_linear(k->g, k->x, param(k, "weight")));
}

static void linear_bias(sketch *k)
{
    result(k, mega_op_bias_add(k->g, mega_op_linear(k->g, k->x, param(k, "weight")), param(k, "bias_n")));
}

static void linear_residual(sketch *k)
{
    const mega_tensor t = input_2d(k, "other", k->g->dtype, k->s.T, k->s.N);
    mega_graph_want_gradient(k->g, t, "d_other");
    const mega_tensor y = mega_op_bias_add(k->g, mega_op_linear(k->g, k->x, param(k, "weight")), param(k, "bias_n"));
    result(k, mega_op_add(k->g, t, y));
}

static void layer_norm(sketch *k)
{
    result(k, mega_op_layer_norm(k->g, k->x, param(k, "gain"), param(k, "bias"), 1e-5));
}

/* Two uses of one value: the add that sums its gradients is fused into the layer norm gradient. */
static void layer_norm_residual(sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "gain"));
    result(k, mega_op_add(k->g, x, mega_op_layer_norm(k->g, x, param(k, "gain"), param(k, "bias"), 1e-5)));
}

static void layer_norm_without_bias(sketch *k)
{
    result(k, mega_op_layer_norm(k->g, k->x, param(k, "gain"), mega_none(), 1e-5));
}

static void layer_norm_without_both(sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "gain"));
    result(k, mega_op_layer_norm(k->g, x, mega_none(), mega_none(), 1e-5));
}

static void layer_norm_plus_one(sketch *k)
{
    result(k, mega_op_layer_norm_plus_one(k->g, k->x, param(k, "gain"), param(k, "bias"), 1e-5));
}

static void rms_norm(sketch *k)
{
    result(k, mega_op_rms_norm(k->g, k->x, param(k, "gain"), 1e-5, false));
}

/* The add that sums the gradients of x is fused into the gradient of the norm. */
static void rms_norm_residual(sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "bias"));
    result(k, mega_op_add(k->g, x, mega_op_rms_norm(k->g, x, param(k, "gain"), 1e-5, false)));
}

static void rms_norm_plus_one(sketch *k)
{
    result(k, mega_op_rms_norm(k->g, k->x, param(k, "gain"), 1e-5, true));
}

static void rms_norm_without_gain(sketch *k)
{
    result(k, mega_op_rms_norm(k->g, mega_op_bias_add(k->g, k->x, param(k, "bias")), mega_none(), 1e-5, false));
}

static void gated(sketch *k, mega_activation_kind kind, bool gate_second)
{
    result(k, mega_op_glu(k->g, mega_op_linear(k->g, k->x, param(k, "weight_two")), kind, gate_second));
}

static void swiglu(sketch *k)
{
    gated(k, MEGA_ACT_SILU, false);
}

static void geglu_gate_second(sketch *k)
{
    gated(k, MEGA_ACT_GELU_TANH, true);
}

static void reglu(sketch *k)
{
    gated(k, MEGA_ACT_RELU, true);
}

static void bilinear(sketch *k)
{
    gated(k, MEGA_ACT_IDENTITY, false);
}

static void glu_limited(sketch *k)
{
    const mega_tensor x = mega_op_linear(k->g, k->x, param(k, "weight_two"));
    result(k, mega_op_glu_limited(k->g, x, MEGA_ACT_SILU, false, 1.1, 1.7));
}

static void bias_gelu_tanh(sketch *k)
{
    result(k, mega_op_gelu(k->g, mega_op_bias_add(k->g, k->x, param(k, "bias")), true));
}

static void gelu_erf(sketch *k)
{
    result(k, mega_op_gelu(k->g, k->x, false));
}

static void add(sketch *k)
{
    result(k, mega_op_add(k->g, mega_op_add(k->g, k->x, k->x), other(k)));
}

static void bias_residual(sketch *k)
{
    result(k, mega_op_add(k->g, other(k), mega_op_bias_add(k->g, k->x, param(k, "bias"))));
}

static void bias_dropout_residual(sketch *k)
{
    const mega_tensor h = mega_op_bias_add(k->g, k->x, param(k, "bias"));
    result(k, mega_op_add(k->g, other(k), mega_op_dropout(k->g, h, 0.3, 5, k->sample_id, k->seq_position)));
}

static void embedding(sketch *k)
{
    const mega_tensor ids = input_1d(k, "ids", MEGA_I32, k->s.T);
    result(k, mega_op_embedding(k->g, ids, param(k, "table"), (mega_tensor){0}, 0));
}

/* Half of the ids are outside the rows of the table on this rank. */
static void embedding_cut_and_added(sketch *k)
{
    const mega_tensor ids = input_1d(k, "ids", MEGA_I32, k->s.T);
    const mega_tensor e = mega_op_embedding(k->g, ids, param(k, "table"), (mega_tensor){0}, k->s.V / 2);
    result(k, mega_op_add(k->g, k->x, e));
}

static mega_attention_shape attention_shape(const sketch *k, double dropout)
{
    const bool even = k->s.T % 2 == 0, wide = k->s.C % 4 == 0;
    return (mega_attention_shape){.batch = even ? 2 : 1,
                                  .seq = even ? k->s.T / 2 : k->s.T,
                                  .heads = wide ? 4 : 1,
                                  .kv_heads = wide ? 2 : 1,
                                  .head_dim = wide ? k->s.C / 4 : k->s.C,
                                  .head_begin = 3,
                                  .scale = 0.7,
                                  .dropout = dropout,
                                  .site = 9,
                                  .causal = true};
}

/* Rows of an input, a parameter and a value (some are in two views, some in none), and a parameter as an activation. */
static void rows_and_parameters(sketch *k)
{
    const int64_t n = (k->s.T + 1) / 2;
    const mega_tensor table = param(k, "table"), weight = param(k, "weight");
    const mega_tensor h = mega_op_add(k->g, mega_op_rows(k->g, k->x, 0, n), mega_op_rows(k->g, k->x, k->s.T - n, n));
    mega_tensor y = mega_op_linear(k->g, mega_op_add(k->g, h, mega_op_rows(k->g, table, k->s.V - n, n)), weight);
    y = mega_op_add(k->g, mega_op_rows(k->g, y, 0, 1), mega_op_rows(k->g, mega_op_rows(k->g, y, n / 2, 1), 0, 1));
    const mega_tensor z = mega_op_linear(k->g, mega_op_add(k->g, table, mega_op_gelu(k->g, table, true)), weight);
    result(k, mega_op_add(k->g, y, mega_op_rows(k->g, z, 1, 1)));
}

static mega_tensor qkv(const sketch *k, const mega_attention_shape *a)
{
    const mega_tensor t = input_2d(k, "qkv", k->g->dtype, k->s.T, (a->heads + 2 * a->kv_heads) * a->head_dim);
    mega_graph_want_gradient(k->g, t, "d_qkv");
    return t;
}

static const mega_attention_keys all_keys;

static void attention(sketch *k)
{
    const mega_attention_shape a = attention_shape(k, 0.0);
    result(k, mega_op_attention(k->g, (mega_attention_qkv){.q = qkv(k, &a)}, all_keys, (mega_tensor){0}, &a));
}

static void attention_segments_dropout(sketch *k)
{
    const mega_attention_shape a = attention_shape(k, 0.25);
    const mega_attention_keys keys = {.begin = input_1d(k, "key_begin", MEGA_I32, k->s.T)};
    result(k, mega_op_attention(k->g, (mega_attention_qkv){.q = qkv(k, &a)}, keys, k->sample_id, &a));
}

/* A window, a soft-cap and ALiBi together, of attention that is not causal. */
static void attention_rules(sketch *k)
{
    mega_attention_shape a = attention_shape(k, 0.0);
    a.causal = false;
    a.rules = (mega_attention_rules){
        .has_window = true, .window_left = 3, .window_right = 1, .softcap = 0.9, .alibi_heads = 7};
    result(k, mega_op_attention(k->g, (mega_attention_qkv){.q = qkv(k, &a)}, all_keys, (mega_tensor){0}, &a));
}

/* Biases by relative position; the table is a parameter. */
static void attention_biases(sketch *k)
{
    mega_attention_shape a = attention_shape(k, 0.0);
    a.causal = false;
    a.rules = (mega_attention_rules){.bias_buckets = 6, .bias_distance = 4};
    const mega_attention_qkv x = {.q = qkv(k, &a), .bias = param(k, "relative")};
    result(k, mega_op_attention(k->g, x, all_keys, (mega_tensor){0}, &a));
}

/* A score of each head that has no value. */
static void attention_sinks(sketch *k)
{
    mega_attention_shape a = attention_shape(k, 0.0);
    a.rules = (mega_attention_rules){.has_window = true, .window_left = 2};
    const mega_attention_qkv x = {.q = qkv(k, &a), .sinks = param(k, "sinks")};
    result(k, mega_op_attention(k->g, x, all_keys, (mega_tensor){0}, &a));
}

static mega_tensor differentiable(const sketch *k, const char *name, const char *gradient, int64_t cols)
{
    const mega_tensor t = input_2d(k, name, k->g->dtype, k->s.T, cols);
    mega_graph_want_gradient(k->g, t, gradient);
    return t;
}

/* Queries, keys and values in a tensor each; of several heads, the first reads another key/value head than the rest. */
static void attention_apart(sketch *k)
{
    mega_attention_shape a = attention_shape(k, 0.1);
    a.rules.group = a.heads > 1 ? 3 : 1;
    a.rules.group_begin = a.heads > 1 ? 2 : 0;
    const mega_attention_qkv x = {.q = differentiable(k, "qkv", "d_qkv", a.heads * a.head_dim),
                                  .k = differentiable(k, "k", "d_k", a.kv_heads * a.head_dim),
                                  .v = differentiable(k, "v", "d_v", a.kv_heads * a.head_dim)};
    const mega_attention_keys keys = {.begin = input_1d(k, "key_begin", MEGA_I32, k->s.T)};
    result(k, mega_op_attention(k->g, x, keys, k->sample_id, &a));
}

/* Keys and values of another sequence, of three positions more, the last of which most queries do not see. */
static void attention_to_source(sketch *k)
{
    mega_attention_shape a = attention_shape(k, 0.1);
    a.causal = false;
    a.keys = a.seq + 3;
    const mega_attention_keys keys = {.begin = input_1d(k, "key_begin", MEGA_I32, k->s.T),
                                      .end = input_1d(k, "key_end", MEGA_I32, k->s.T)};
    mega_attention_qkv x = {.q = differentiable(k, "qkv", "d_qkv", a.heads * a.head_dim)};
    x.k = input_2d(k, "k", k->g->dtype, a.batch * a.keys, a.kv_heads * a.head_dim);
    x.v = input_2d(k, "v", k->g->dtype, a.batch * a.keys, a.kv_heads * a.head_dim);
    mega_graph_want_gradient(k->g, x.k, "d_k");
    mega_graph_want_gradient(k->g, x.v, "d_v");
    result(k, mega_op_attention(k->g, x, keys, k->sample_id, &a));
}

/* Three heads of eight channels, six of which are rotated, and five more channels. */
static void rope_of(sketch *k, bool interleaved)
{
    static const float frequency[] = {1.0f, 0.3f, 0.01f};
    const mega_rope_shape s = {
        .frequency = frequency, .heads = 3, .head_dim = 8, .rotated = 6, .factor = 1.5f, .interleaved = interleaved};
    result(k, mega_op_rope(k->g, differentiable(k, "qkv", "d_qkv", 3 * 8 + 5), k->seq_position, &s));
}

/* Over an axis that claims two ranks: twice as many channels, half of which are absent. */
static void rms_norm_over(sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "bias"));
    result(k, mega_op_rms_norm_over(k->g, x, param(k, "gain"), &k->two, 1e-5, false));
}

static void rms_norm_over_plus_one(sketch *k)
{
    const mega_tensor x = mega_op_rms_norm_over(k->g, k->x, param(k, "gain"), &k->two, 1e-5, true);
    result(k, mega_op_rms_norm_over(k->g, x, (mega_tensor){0}, &k->two, 1e-5, false));
}

static void rope(sketch *k)
{
    rope_of(k, false);
}

static void rope_interleaved(sketch *k)
{
    rope_of(k, true);
}

/* Keys of two heads of five channels: three of each head's own, and two that all heads share, which a sum of the heads
 * before has. */
static void head_channels(sketch *k)
{
    const mega_head_channels own = {.from = 2, .from_dim = 7, .from_first = 1, .to = 2, .to_dim = 5, .count = 3};
    const mega_head_channels sum = {.from = 2, .from_dim = 7, .from_first = 4, .to = 1, .to_dim = 3, .count = 3};
    const mega_head_channels shared = {
        .from = 1, .from_dim = 3, .from_first = 1, .to = 2, .to_dim = 5, .to_first = 3, .count = 2};
    const mega_tensor x = differentiable(k, "qkv", "d_qkv", 2 * 7);
    const mega_tensor one = mega_op_head_channels(k->g, x, &sum);
    result(k, mega_op_add(k->g, mega_op_head_channels(k->g, x, &own), mega_op_head_channels(k->g, one, &shared)));
}

static void collectives(sketch *k)
{
    const mega_tensor x = mega_op_copy_to_group(k->g, k->x, &k->two);
    const mega_tensor y = mega_op_linear(k->g, x, param(k, "weight"));
    result(k, mega_op_bias_add(k->g, mega_op_reduce_from_group(k->g, y, &k->two), param(k, "bias_n")));
}
