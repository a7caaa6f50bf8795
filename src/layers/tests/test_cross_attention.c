/* Attention to another source against a computation from the definition, and attention with biases by relative
 * position, both cut over tp as in test_layers.c; and a window whose cache is a ring, with biases, filled by chunks
 * that end in padding, against attention over the whole sequence. */
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 5, T = B * S, C = 8, HEADS = 4, D = C / HEADS };
enum { POSITIONS = 7, U = B * POSITIONS, WIDTH = 6 }; /* of the source */

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
/* One row sees no position; one has a limit beyond the last. */
static const int32_t begins[T] = {0, 2, 0, 5, 1, 0, 0, 3, 6, 0}, ends[T] = {7, 4, 0, 7, 3, 1, 2, 9, 7, 5};

static void fill(double *x, int64_t n, uint32_t seed)
{
    float *random = mega_calloc((size_t)n, sizeof *random);
    assert_non_null(random);
    mega_kit_normal(random, n, seed);
    for (int64_t i = 0; i < n; i++) x[i] = (double)random[i];
    mega_free(random);
}

/* ---- another source ---- */

/* What a rank computes, and the numbers from which it does. */
typedef struct rank_result {
    double x[T * C], source[U * WIDTH], y[T * C];
    double q[C * C], k[C * WIDTH], v[C * WIDTH], out[C * C];
} rank_result;

static void copy_weight(const mega_params *params, const char *name, double *to, int64_t count)
{
    const int p = mega_params_find(params, name);
    if (p < 0) return; /* of self-attention: Q, K and V are one weight */
    assert_true(mega_params_get(params, p)->count <= count);
    memcpy(to, mega_params_master(params, p), (size_t)mega_params_get(params, p)->count * sizeof *to);
}

typedef mega_tensor describe_layer(const mega_builder *b, mega_tensor x);

static mega_tensor cross(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {
        .num_heads = HEADS, .key_begin = "first", .key_end = "last", .qkv = &random_weights, .out = &random_weights};
    return mega_cross_attention(b, "cross", x, mega_input(b, "source", MEGA_F64, POSITIONS, WIDTH), POSITIONS, &o);
}

static mega_tensor plain(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS, .qkv = &random_weights, .out = &random_weights};
    return mega_self_attention(b, "cross", x, &o);
}

/* The same with biases by relative position. */
static mega_tensor biased(const mega_builder *b, mega_tensor x)
{
    const mega_param_options wide = {.init = MEGA_INIT_NORMAL, .init_std = 1};
    const mega_attention_options o = {.num_heads = HEADS,
                                      .bias = mega_attention_bias(b, "relative", 4, HEADS, &wide),
                                      .bias_distance = 4,
                                      .qkv = &random_weights,
                                      .out = &random_weights};
    return mega_self_attention(b, "cross", x, &o);
}

/* Writes an input, if the program reads it. */
static void set(mega_program *p, const char *name, const void *x, size_t bytes)
{
    void *to = mega_program_tensor(p, name, 0);
    if (to != NULL) memcpy(to, x, bytes);
}

/* Computes the partial result of one rank of `size`. */
static void run(describe_layer *describe, int rank, int size, rank_result *r)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_program *p = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout layout = *one;
    layout.tp.rank = rank;
    layout.tp.size = size;
    need(mega_params_create(&layout, &params));
    mega_builder b = {.layout = &layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F64, params, &layout, &b.graph));
    const mega_tensor x = mega_input(&b, "x", MEGA_F64, S, C);
    mega_graph_output(b.graph, describe(&b, x), "y");
    need(mega_graph_status(b.graph));
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(params, 6));
    const mega_program_options how = {.backend = MEGA_BACKEND_PLAIN, .name = "layer"};
    need(mega_program_build(b.graph, &how, &p));
    need(mega_program_allocate(p));
    fill(r->x, T * C, 3), fill(r->source, U * WIDTH, 4);
    set(p, "x", r->x, sizeof r->x);
    set(p, "source", r->source, sizeof r->source);
    set(p, "first", begins, sizeof begins);
    set(p, "last", ends, sizeof ends);
    need(mega_program_forward(p, 0));
    memcpy(r->y, mega_program_tensor(p, "y", 0), sizeof r->y);
    copy_weight(params, "m.cross.c_attn_q.weight", r->q, C * C);
    copy_weight(params, "m.cross.c_attn_k.weight", r->k, C * WIDTH);
    copy_weight(params, "m.cross.c_attn_v.weight", r->v, C * WIDTH);
    copy_weight(params, "m.cross.c_proj.weight", r->out, C * C);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* Returns element `row` of the product of a weight [rows, n] and x. */
static double product(const double *weight, int64_t row, const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += weight[row * n + i] * x[i];
    return sum;
}

/* Writes channel c of the context of row t: the mean of the values that the row sees, weighted by e^(q.k / sqrt(D)). */
static double context(const rank_result *r, int t, int c)
{
    double sum = 0.0, weights = 0.0;
    for (int j = begins[t]; j < ends[t] && j < POSITIONS; j++) {
        const double *source = &r->source[(t / S * POSITIONS + j) * WIDTH];
        double dot = 0.0;
        for (int d = c / D * D; d < c / D * D + D; d++)
            dot += product(r->q, d, &r->x[t * C], C) * product(r->k, d, source, WIDTH);
        const double weight = exp(dot / sqrt((double)D));
        sum += weight * product(r->v, c, source, WIDTH);
        weights += weight;
    }
    return weights > 0.0 ? sum / weights : 0.0;
}

/* Compares the sum over two ranks with the result of one. */
static void partial_results_add_up(describe_layer *describe, const rank_result *whole)
{
    static rank_result part[2];
    double sum[T * C];
    for (int rank = 0; rank < 2; rank++) run(describe, rank, 2, &part[rank]);
    for (int i = 0; i < T * C; i++) sum[i] = part[0].y[i] + part[1].y[i];
    assert_true(mega_kit_relative_error_f64(part[0].y, whole->y, T * C) > 0.1);
    assert_true(mega_kit_relative_error_f64(sum, whole->y, T * C) <= 1e-13);
}

static void a_source_is_attended_to(void **state)
{
    static rank_result whole;
    double expected[T * C];
    (void)state;
    run(cross, 0, 1, &whole);
    for (int t = 0; t < T; t++) {
        double row[C];
        for (int c = 0; c < C; c++) row[c] = context(&whole, t, c);
        for (int c = 0; c < C; c++) expected[t * C + c] = product(whole.out, c, row, C);
    }
    assert_true(mega_kit_relative_error_f64(whole.y, expected, T * C) <= 1e-13);
    partial_results_add_up(cross, &whole);
}

/* The columns of the table are cut like the heads. */
static void biases_are_of_heads(void **state)
{
    static rank_result with, without;
    (void)state;
    run(biased, 0, 1, &with);
    run(plain, 0, 1, &without);
    assert_true(mega_kit_relative_error_f64(with.y, without.y, T * C) > 0.01);
    partial_results_add_up(biased, &with);
}

/* ---- mistakes ---- */

static void expect_mistake(mega_mode mode, int64_t positions, const mega_attention_options *o, const char *message)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder b = {.layout = one, .samples = B, .positions = S, .cache = S, .mode = mode, .path = "m"};
    need(mega_graph_create(MEGA_F32, params, one, &b.graph));
    const mega_tensor x = mega_input(&b, "x", MEGA_F32, S, C);
    const mega_tensor source = mega_input(&b, "source", MEGA_F32, POSITIONS, WIDTH);
    mega_cross_attention(&b, "cross", x, source, positions, o);
    if (mega_graph_status(b.graph) == MEGA_OK || strstr(mega_error_message(), message) == NULL)
        fail_msg("expected \"%s\" in: %s", message, mega_error_message());
    mega_graph_destroy(b.graph);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

static void mistakes_name_the_layer(void **state)
{
    const mega_rope rope = {.theta = 10000};
    const mega_attention_options causal = {.num_heads = HEADS, .is_causal = true}, open = {.num_heads = HEADS},
                                 window = {.num_heads = HEADS, .has_window = true, .window_left = 2},
                                 alibi = {.num_heads = HEADS, .alibi = true},
                                 rotated = {.num_heads = HEADS, .rope = &rope};
    (void)state;
    expect_mistake(MEGA_TRAIN, POSITIONS, NULL, "layer \"m\", cross: mega_cross_attention without num_heads; give");
    expect_mistake(MEGA_TRAIN, POSITIONS, &causal, "mega_cross_attention with a causal mask, which compares");
    expect_mistake(MEGA_TRAIN, POSITIONS, &window, "mega_cross_attention with a window, which compares");
    expect_mistake(MEGA_TRAIN, POSITIONS, &alibi, "mega_cross_attention with ALiBi, which compares");
    expect_mistake(MEGA_TRAIN, POSITIONS, &rotated, "mega_cross_attention with rotary position embedding, which");
    expect_mistake(MEGA_TRAIN, 0, &open, "mega_cross_attention to 0 positions of each sample; expected 1 or more");
    expect_mistake(MEGA_TRAIN, POSITIONS + 1, &open, "expected [16, 8] f32");
}

/* ---- a ring ---- */

enum { LENGTH = 26, CHUNK = 4, REAL = 3, LEFT = 3 };

static void describe(const mega_builder *b)
{
    const mega_attention_options o = {.num_heads = HEADS,
                                      .is_causal = true,
                                      .has_window = true,
                                      .window_left = LEFT,
                                      .bias = mega_attention_bias(b, "relative", 4, HEADS, &random_weights.weight),
                                      .bias_distance = 3,
                                      .qkv = &random_weights,
                                      .out = &random_weights};
    const mega_tensor x = mega_input(b, "x", MEGA_F64, b->positions, C);
    mega_graph_output(b->graph, mega_self_attention(b, "attn", x, &o), "y");
    need(mega_graph_status(b->graph));
}

static mega_program *program_with(const mega_builder *b, const char *name, mega_program *states_of)
{
    const mega_program_options how = {.backend = MEGA_BACKEND_PLAIN, .name = name, .states_of = states_of};
    mega_program *p = NULL;
    need(mega_program_build(b->graph, &how, &p));
    need(mega_program_allocate(p));
    return p;
}

static mega_program *program_of(const mega_builder *b, const char *name)
{
    return program_with(b, name, NULL);
}

/* Runs chunks of CHUNK rows, of which the last CHUNK - REAL are padding. */
static void run_chunks(mega_program *p, const double *x, double *y)
{
    int32_t filled[1] = {0};
    mega_program_step_block(p)->kv_length = filled;
    for (; filled[0] < LENGTH; filled[0] += REAL) {
        double *in = mega_program_tensor(p, "x", 0);
        for (int i = 0; i < CHUNK * C; i++) {
            const int64_t at = filled[0] * C + i;
            in[i] = i < REAL * C && at < LENGTH * C ? x[at] : 1e3; /* padding would be noticed */
        }
        need(mega_program_forward(p, 0));
        const int64_t left = LENGTH - filled[0], rows = left < REAL ? left : REAL;
        memcpy(y + filled[0] * C, mega_program_tensor(p, "y", 0), (size_t)(rows * C) * sizeof *y);
    }
}

static void a_window_has_a_ring(void **state)
{
    static double x[LENGTH * C], whole[LENGTH * C], y[LENGTH * C];
    mega_layout *one = NULL;
    mega_params *params = NULL;
    int caches = 0;
    (void)state;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder all = {.layout = one, .samples = 1, .positions = LENGTH, .path = "m"};
    mega_builder chunk = {.layout = one, .samples = 1, .positions = CHUNK, .mode = MEGA_GENERATE, .path = "m"};
    chunk.length = LENGTH, chunk.cache = LENGTH + CHUNK;
    need(mega_graph_create(MEGA_F64, params, one, &all.graph));
    need(mega_graph_create(MEGA_F64, params, one, &chunk.graph));
    describe(&all), describe(&chunk);
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(params, 6));
    mega_program *of_all = program_of(&all, "all"), *of_chunk = program_of(&chunk, "chunk");
    fill(x, LENGTH * C, 8);
    memcpy(mega_program_tensor(of_all, "x", 0), x, sizeof x);
    need(mega_program_forward(of_all, 0));
    memcpy(whole, mega_program_tensor(of_all, "y", 0), sizeof whole);
    run_chunks(of_chunk, x, y);
    assert_true(mega_kit_relative_error_f64(y, whole, LENGTH * C) <= 1e-14);
    mega_program_named t;
    for (int i = 0; mega_program_named_get(of_chunk, i, &t); i++) {
        if (t.role != MEGA_PROGRAM_STATE) continue;
        assert_int_equal(t.dim[1], LEFT + CHUNK);
        caches++;
    }
    assert_int_equal(caches, 2);
    mega_program_destroy(of_all);
    mega_program_destroy(of_chunk);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* ---- a source that is read once ---- */

/* Describes attention to the source in `mode`, without x or without the source where they are not read. */
static void describe_kept(mega_builder *b, mega_params *params, bool has_x, bool has_source)
{
    const mega_attention_options o = {.num_heads = HEADS,
                                      .head_dim = D,
                                      .key_begin = "first",
                                      .key_end = "last",
                                      .qkv = &random_weights,
                                      .out = &random_weights};
    need(mega_graph_create(MEGA_F64, params, b->layout, &b->graph));
    const mega_tensor x = has_x ? mega_input(b, "x", MEGA_F64, S, C) : mega_none();
    const mega_tensor source = has_source ? mega_input(b, "source", MEGA_F64, POSITIONS, WIDTH) : mega_none();
    const mega_tensor y = mega_cross_attention(b, "cross", x, source, POSITIONS, &o);
    assert_int_equal(y.id != 0, has_x);
    if (has_x) mega_graph_output(b->graph, y, "y");
    need(mega_graph_status(b->graph));
}

/* One program keeps keys and values, and another attends to them, as one does that has both. */
static void a_source_is_kept(void **state)
{
    static double x[T * C], source[U * WIDTH], whole[T * C];
    mega_layout *one = NULL;
    mega_params *params = NULL;
    (void)state;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder both = {.layout = one, .samples = B, .positions = S, .mode = MEGA_EVAL, .path = "m"};
    mega_builder keep = both, read = both;
    keep.mode = read.mode = MEGA_GENERATE;
    describe_kept(&both, params, true, true);
    describe_kept(&keep, params, false, true);
    describe_kept(&read, params, true, false);
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(params, 6));
    mega_program *p[3] = {program_of(&both, "both"), program_of(&keep, "keep"), NULL};
    p[2] = program_with(&read, "read", p[1]);
    fill(x, T * C, 3), fill(source, U * WIDTH, 4);
    for (int i = 0; i < 3; i++) {
        set(p[i], "x", x, sizeof x);
        set(p[i], "source", source, sizeof source);
        set(p[i], "first", begins, sizeof begins);
        set(p[i], "last", ends, sizeof ends);
        need(mega_program_forward(p[i], 0));
        if (i == 0) memcpy(whole, mega_program_tensor(p[0], "y", 0), sizeof whole);
    }
    assert_memory_equal(mega_program_tensor(p[2], "y", 0), whole, sizeof whole);
    for (int i = 2; i >= 0; i--) mega_program_destroy(p[i]);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_attended_to), cmocka_unit_test(biases_are_of_heads),
        cmocka_unit_test(mistakes_name_the_layer), cmocka_unit_test(a_window_has_a_ring),
        cmocka_unit_test(a_source_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
