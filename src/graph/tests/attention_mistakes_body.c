/* Mistakes in calls of attention and of gated activations. Part of test_op_mistakes.c. */

static void attention_too_large(const operands *o)
{
    const mega_attention_shape s = {
        .batch = INT64_MAX, .seq = 2, .heads = INT64_MAX, .kv_heads = 1, .head_dim = INT64_MAX, .causal = true};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x}, (mega_attention_keys){.begin = {0}}, (mega_tensor){0}, &s);
}

static void attention_with(const operands *o, int64_t kv_heads, mega_attention_rules rules)
{
    const mega_attention_shape s = {
        .batch = 1, .seq = 12, .heads = 1, .kv_heads = kv_heads, .head_dim = 1, .rules = rules};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x}, (mega_attention_keys){.begin = {0}}, (mega_tensor){0}, &s);
}

static void attention_of_negative_window(const operands *o)
{
    attention_with(o, 1, (mega_attention_rules){.has_window = true, .window_left = -2});
}

static void attention_of_negative_cap(const operands *o)
{
    attention_with(o, 1, (mega_attention_rules){.softcap = -1.0});
}

static void attention_of_uneven_heads(const operands *o)
{
    attention_with(o, 2, (mega_attention_rules){.softcap = 0.0});
}

static void attention_of_groups_beyond(const operands *o)
{
    attention_with(o, 1, (mega_attention_rules){.group = 2, .group_begin = 2});
}

static void attention_without_values(const operands *o)
{
    const mega_attention_shape s = {.batch = 1, .seq = 12, .heads = 3, .kv_heads = 3, .head_dim = 1};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x, .k = o->x}, (mega_attention_keys){.begin = {0}},
                      (mega_tensor){0}, &s);
}

/* Keys of another sequence, which neither a causal mask nor one tensor with the queries fits. */
static void attention_to_source(const operands *o, bool causal)
{
    const mega_attention_shape s = {
        .batch = 1, .seq = 12, .keys = 3, .heads = 1, .kv_heads = 1, .head_dim = 1, .causal = causal};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x}, (mega_attention_keys){.begin = {0}}, (mega_tensor){0}, &s);
}

static void attention_causal_to_source(const operands *o)
{
    attention_to_source(o, true);
}

static void attention_source_in_one_tensor(const operands *o)
{
    attention_to_source(o, false);
}

static void attention_of_other_ends(const operands *o)
{
    const mega_attention_shape s = {.batch = 1, .seq = 12, .heads = 1, .kv_heads = 1, .head_dim = 1};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x}, (mega_attention_keys){.end = o->vector}, (mega_tensor){0},
                      &s);
}

/* A ring without a window. */
static void attention_of_endless_ring(const operands *o)
{
    const mega_attention_shape s = {
        .batch = 1, .seq = 12, .heads = 1, .kv_heads = 1, .head_dim = 1, .causal = true, .is_ring = true};
    const int64_t dim[3] = {1, 20, 1};
    const mega_tensor k = mega_graph_state(o->g, "k_cache", MEGA_F32, 3, dim);
    const mega_tensor v = mega_graph_state(o->g, "v_cache", MEGA_F32, 3, dim);
    mega_op_attention_cached(o->g, (mega_attention_qkv){.q = o->x}, k, v, &s);
}

static void attention_of_no_table(const operands *o)
{
    attention_with(o, 1, (mega_attention_rules){.bias_buckets = 32, .bias_distance = 128});
}

static void attention_of_other_sinks(const operands *o)
{
    const mega_attention_shape s = {.batch = 1, .seq = 12, .heads = 1, .kv_heads = 1, .head_dim = 1};
    mega_op_attention(o->g, (mega_attention_qkv){.q = o->x, .sinks = o->vector}, (mega_attention_keys){.begin = {0}},
                      (mega_tensor){0}, &s);
}

static void glu_of_negative_limit(const operands *o)
{
    mega_op_glu_limited(o->g, o->x, MEGA_ACT_SILU, false, -1.0, 1.0);
}
