/* Checks the plain kernels against numbers that were computed by hand or are known in closed form. */
#include "kit.h"
#include "megalith/kernels.h"
#include <math.h>
#include <string.h>

static const mega_step_block step_block = {.seed = 1234, .step = 7, .loss_factor = 1.0};
static const mega_kernel_head head = {.dtype = MEGA_F64, .step = &step_block};

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("found %.17g, expected %.17g", found, expected);
}

static void test_embedding(void **state)
{
    (void)state;
    const int32_t ids[3] = {11, 9, 12};
    const double table[4] = {1, 2, 3, 4}, addend[6] = {10, 20, 30, 40, 50, 60};
    double y[6];
    mega_embedding_args a = {head, y, ids, table, addend, 3, 2, 10, 2};
    mega_plain_embedding.run(NULL, &a);
    const double expected[6] = {13, 24, 30, 40, 50, 60}; /* ids 9 and 12 are not on this rank */
    assert_memory_equal(y, expected, sizeof y);
}

static void test_layer_norm(void **state)
{
    (void)state;
    const double x[4] = {1, 2, 3, 6}, gain[4] = {1, 1, 2, 1}, bias[4] = {0, 0, 0, 5};
    double y[4], mean, rstd;
    mega_layer_norm_args a = {head, y, &mean, &rstd, x, gain, bias, 1, 4, 0.5, false, false};
    mega_plain_layer_norm.run(NULL, &a);
    near(mean, 3, 0);
    near(rstd, 0.5, 1e-16); /* variance 14/4 = 3.5, plus 0.5 */
    near(y[0], -1, 1e-15);
    near(y[1], -0.5, 1e-15);
    near(y[2], 0, 1e-15);
    near(y[3], 6.5, 1e-15);
}

/* The same GEMM for every way of storing its operands. */
static void test_gemm(void **state)
{
    (void)state;
    const double a[8] = {1, 2, 3, -9, 4, 5, 6, -9}; /* [2, 3], lda 4 */
    const double at[6] = {1, 4, 2, 5, 3, 6}, b[6] = {7, 8, 9, 10, 11, 12}, bt[6] = {7, 9, 11, 8, 10, 12};
    const double bias[2] = {100, 200};
    for (int form = 0; form < 4; form++) {
        const bool ta = form & 1, tb = form & 2;
        double c[6] = {0};
        mega_gemm_args g = {head, c,  ta ? at : a, tb ? bt : b, bias,     2,     2,    3,    ta ? 2 : 4, tb ? 3 : 2,
                            3,    ta, tb,          false,       MEGA_F64, false, NULL, NULL, false};
        mega_plain_gemm.run(NULL, &g);
        const double expected[6] = {158, 264, 0, 239, 354, 0};
        assert_memory_equal(c, expected, sizeof c);
        g.bias = NULL;
        g.accumulate = true;
        mega_plain_gemm.run(NULL, &g);
        near(c[0], 158 + 58, 0);
        near(c[4], 354 + 154, 0);
        double sums[2] = {1000, 2000};
        g.bias = bias, g.residual = c, g.row_sum = sums, g.accumulate = false;
        mega_plain_gemm.run(NULL, &g); /* residual in place; row sums of a */
        near(c[0], 158 + 58 + 158, 0);
        near(c[4], 354 + 154 + 354, 0);
        near(sums[0], 1000 + 6, 0);
        near(sums[1], 2000 + 15, 0);
    }
}

static void test_gemm_types(void **state)
{
    (void)state;
    const uint16_t a[2] = {mega_f32_to_bf16(1.0f), mega_f32_to_bf16(0.00390625f)}; /* 1, 2^-8 */
    const uint16_t b[2] = {mega_f32_to_bf16(1.0f), mega_f32_to_bf16(1.0f)};
    float wide = 0;
    uint16_t narrow = 0;
    mega_gemm_args g = {{.dtype = MEGA_BF16, .step = &step_block},
                        &wide,
                        a,
                        b,
                        NULL,
                        1,
                        1,
                        2,
                        2,
                        1,
                        1,
                        false,
                        false,
                        false,
                        MEGA_F32,
                        false,
                        NULL,
                        NULL,
                        false};
    mega_plain_gemm.run(NULL, &g);
    near(wide, 1.00390625, 0);
    g.c = &narrow, g.c_dtype = MEGA_BF16;
    mega_plain_gemm.run(NULL, &g);
    near(mega_bf16_to_f32(narrow), 1.0, 0); /* halfway: rounds to even */
}

/* Equal keys give equal probabilities, so outputs are means of the values that a query may see. */
static void test_attention(void **state)
{
    (void)state;
    const double q[4] = {1, -1, 2, 3}, k[4] = {0, 0, 0, 0}, v[4] = {2, 4, 8, 16};
    const int32_t start[4] = {0, 0, 1, 3};
    double out[4], lse[4], scratch[4];
    mega_attention_args a = {.head = head, .out = out, .lse = lse, .q = q, .k = k, .v = v};
    a.head.scratch = scratch;
    a.batch = 1, a.seq = a.keys = 4, a.heads = 1, a.kv_heads = 1, a.head_dim = 1;
    a.ld_q = a.ld_kv = a.ld_out = 1, a.scale = 1, a.causal = true, a.key_begin = start;
    mega_plain_attention.run(NULL, &a);
    const double causal[4] = {2, 3, 6, 16}, keys[4] = {1, 2, 2, 1};
    for (int i = 0; i < 4; i++) near(out[i], causal[i], 1e-15), near(lse[i], log(keys[i]), 1e-15);
    a.causal = false, a.key_begin = NULL;
    mega_plain_attention.run(NULL, &a);
    for (int i = 0; i < 4; i++) near(out[i], 7.5, 1e-15);
    const int32_t first[4] = {0, 1, 2, -3}, end[4] = {3, 3, 2, 9}; /* the third query sees no key */
    const double between[4] = {14.0 / 3, 6, 0, 7.5}, seen[4] = {3, 2, 1, 4};
    a.key_begin = first, a.key_end = end;
    mega_plain_attention.run(NULL, &a);
    for (int i = 0; i < 4; i++) near(out[i], between[i], 1e-14), near(lse[i], log(seen[i]), 1e-15);
    a.key_end = NULL;
    const double k2[4] = {0, log(3.0), 0, 0};
    a.causal = true, a.key_begin = NULL, a.k = k2;
    mega_plain_attention.run(NULL, &a); /* query 1 is -1: weights 3/4, 1/4 */
    near(out[1], 0.75 * 2 + 0.25 * 4, 1e-15);
    near(lse[1], log(4.0 / 3.0), 1e-15);
}

/* Queries that attend to the keys of another sequence: two queries, three keys. */
static void test_attention_to_source(void **state)
{
    (void)state;
    const double q[2] = {1, -1}, k[3] = {0, log(2.0), 0}, v[3] = {1, 2, 4};
    const int32_t end[2] = {3, 2};
    double out[2], lse[2], scratch[3];
    mega_attention_args a = {.head = head, .out = out, .lse = lse, .q = q, .k = k, .v = v, .key_end = end};
    a.head.scratch = scratch;
    a.batch = 1, a.seq = 2, a.keys = 3, a.heads = 1, a.kv_heads = 1, a.head_dim = 1;
    a.ld_q = a.ld_kv = a.ld_out = 1, a.scale = 1;
    assert_int_equal(mega_plain_attention.scratch(&a, 1), sizeof scratch);
    mega_plain_attention.run(NULL, &a); /* weights 1/4, 1/2, 1/4; then 2/3, 1/3 */
    near(out[0], 0.25 + 1 + 1, 1e-14), near(lse[0], log(4.0), 1e-14);
    near(out[1], 2.0 / 3 + 2.0 / 3, 1e-14), near(lse[1], log(1.5), 1e-14);
}

/* The first distance of each bucket of T5: in both directions, where the second half of the buckets is for keys after
 * the query, and in one. */
static void test_relative_bucket(void **state)
{
    (void)state;
    const int64_t both[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
    const int64_t past[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                              16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
    for (int64_t n = 0; n < 16; n++) {
        assert_int_equal(mega_relative_bucket(-both[n], 32, 128, false), n);
        if (n > 0) assert_int_equal(mega_relative_bucket(-(both[n] - 1), 32, 128, false), n - 1);
        if (n > 0) assert_int_equal(mega_relative_bucket(both[n], 32, 128, false), 16 + n);
    }
    for (int64_t n = 0; n < 32; n++) {
        assert_int_equal(mega_relative_bucket(-past[n], 32, 128, true), n);
        if (n > 0) assert_int_equal(mega_relative_bucket(-(past[n] - 1), 32, 128, true), n - 1);
        assert_int_equal(mega_relative_bucket(past[n], 32, 128, true), 0);
    }
    assert_int_equal(mega_relative_bucket(-100000, 32, 128, false), 15);
    assert_int_equal(mega_relative_bucket(100000, 32, 128, false), 31);
}

/* Rows that arrive one after another give the same result as one attention over all of them; also with biases and a
 * window whose keys are in a ring. */
static void rows_one_after_another(bool is_ring)
{
    enum { S = 5, H = 2, D = 3, W = H * D, CAPACITY = 6, LEFT = 1, RING = LEFT + 3 };
    const mega_attention_rules rules = {.has_window = is_ring,
                                        .window_left = LEFT,
                                        .bias_buckets = is_ring ? 2 : 0,
                                        .bias_distance = 2,
                                        .bias_one_side = true};
    const double table[2 * H] = {0.3, -0.2, 1.1, 0.7}, *bias = is_ring ? table : NULL;
    float f[3 * S * W];
    double qkv[3][S * W], whole[S * W], lse[H * S], scratch[S], out[S * W], cache[2][CAPACITY * W] = {{0}};
    mega_kit_normal(f, 3 * S * W, 5);
    for (int i = 0; i < 3 * S * W; i++) qkv[i / (S * W)][i % (S * W)] = f[i];
    mega_attention_args a = {.head = head, .out = whole, .lse = lse, .q = qkv[0], .k = qkv[1], .v = qkv[2]};
    a.head.scratch = scratch;
    a.batch = 1, a.seq = a.keys = S, a.heads = a.kv_heads = H, a.head_dim = D, a.scale = 0.5, a.causal = true;
    a.ld_q = a.ld_kv = a.ld_out = W, a.rules = rules, a.bias = bias;
    mega_plain_attention.run(NULL, &a);

    double cached_scratch[CAPACITY];
    int32_t length = 0;
    mega_step_block step = {.kv_length = &length};
    for (int64_t rows = 3; length < S; length += (int32_t)rows, rows = 2) { /* 3 rows, then 2 */
        mega_attention_cached_args c = {.head = {.dtype = MEGA_F64, .scratch = cached_scratch, .step = &step},
                                        .out = out + length * W};
        c.k_cache = cache[0], c.v_cache = cache[1];
        c.q = qkv[0] + length * W, c.k = qkv[1] + length * W, c.v = qkv[2] + length * W;
        c.rules = rules, c.is_ring = is_ring, c.bias = bias;
        c.batch = 1, c.rows = rows, c.capacity = is_ring ? RING : CAPACITY, c.heads = c.kv_heads = H, c.head_dim = D;
        c.ld_q = c.ld_kv = c.ld_out = W, c.scale = 0.5;
        mega_plain_attention_cached.run(NULL, &c);
    }
    assert_true(mega_kit_relative_error_f64(out, whole, S * W) < 1e-15);
}

static void test_attention_cached(void **state)
{
    (void)state;
    rows_one_after_another(false);
    rows_one_after_another(true);
}

static void test_gelu(void **state)
{
    (void)state;
    const double x[3] = {1, -1, 0}, bias[3] = {0, 0, 1};
    double y[3];
    mega_gelu_args a = {head, y, x, bias, 1, 3, true};
    mega_plain_gelu.run(NULL, &a);
    near(y[0], 0.84119199060827, 1e-13);
    near(y[1], -0.15880800939173, 1e-13);
    near(y[2], 0.84119199060827, 1e-13);
    a.tanh_form = false;
    mega_plain_gelu.run(NULL, &a);
    near(y[0], 0.84134474606854, 1e-13);
    near(y[1], -0.15865525393146, 1e-13);
}

/* The mask depends on (sample, position, column), not on the row, and changes with step, seed and site. */
static void test_dropout(void **state)
{
    (void)state;
    enum { C = 1000 };
    static double x[3 * C], y[3 * C], z[3 * C];
    const uint32_t sample[3] = {7, 8, 7}, swapped_sample[3] = {8, 7, 7};
    const int32_t position[3] = {3, 3, 4}, swapped_position[3] = {3, 3, 4};
    for (int i = 0; i < 3 * C; i++) x[i] = 1;
    mega_dropout_add_args a = {head, y, x, NULL, NULL, sample, position, 3, C, 0.25, 5};
    mega_dropout_add_args b = {head, z, x, NULL, NULL, swapped_sample, swapped_position, 3, C, 0.25, 5};
    mega_plain_dropout_add.run(NULL, &a);
    mega_plain_dropout_add.run(NULL, &b);
    assert_memory_equal(y, z + C, C * sizeof *y);
    assert_memory_equal(y + C, z, C * sizeof *y);
    assert_memory_equal(y + 2 * C, z + 2 * C, C * sizeof *y);
    assert_memory_not_equal(y, y + C, C * sizeof *y);
    assert_memory_not_equal(y, y + 2 * C, C * sizeof *y);
    int dropped = 0;
    for (int i = 0; i < 3 * C; i++) {
        assert_true(y[i] == 0 || fabs(y[i] - 4.0 / 3.0) < 1e-15);
        dropped += y[i] == 0;
    }
    assert_in_range(dropped, 750 - 120, 750 + 120); /* five standard deviations for 3000 elements */
    mega_step_block other = step_block;
    other.step++;
    b = a, b.y = z, b.head.step = &other;
    mega_plain_dropout_add.run(NULL, &b);
    assert_memory_not_equal(y, z, sizeof y);
    b.head.step = &step_block, b.site++;
    mega_plain_dropout_add.run(NULL, &b);
    assert_memory_not_equal(y, z, sizeof y);
}

static void test_xent(void **state)
{
    (void)state;
    const double logits[4] = {0, log(2.0), log(5.0), 1000}; /* the last is padding */
    const int32_t label = 11;
    const float mask = 1;
    double row_max, sums[2], row_loss, dlogits[4];
    mega_xent_max_args m = {head, &row_max, logits, 1, 3, 4};
    mega_xent_sum_args s = {head, sums, logits, &row_max, &label, 1, 3, 4, 10};
    mega_xent_grad_args g = {head, &row_loss, dlogits, logits, &row_max, sums, &label, &mask,
                             NULL, 1,         4,       3,      4,        10,   1.0};
    mega_plain_xent_max.run(NULL, &m);
    mega_plain_xent_sum.run(NULL, &s);
    mega_plain_xent_grad.run(NULL, &g);
    near(row_max, log(5.0), 0);
    near(sums[0], 8.0 / 5.0, 1e-15);
    near(row_loss, log(4.0), 1e-15);
    const double expected[4] = {0.125, 0.25 - 1, 0.625, 0};
    for (int i = 0; i < 4; i++) near(dlogits[i], expected[i], 1e-15);
    const double zero = 0; /* no unmasked token: counts as 1 */
    g.denominator = &zero;
    mega_plain_xent_grad.run(NULL, &g);
    near(dlogits[1], -0.75, 1e-15);
    const int32_t elsewhere = 9;
    s.labels = &elsewhere;
    mega_plain_xent_sum.run(NULL, &s);
    near(sums[1], 0, 0);
}

static void test_sums(void **state)
{
    (void)state;
    const double x[4] = {1, -2, 0, 3};
    const float mask[4] = {1, 0, 1, 0.5f};
    double out, y[4], columns[2] = {100, 200}, norm[3];
    mega_masked_sum_args s = {head, &out, x, mask, 4};
    mega_plain_masked_sum.run(NULL, &s);
    near(out, 2.5, 0);
    s.x = NULL;
    mega_plain_masked_sum.run(NULL, &s);
    near(out, 2.5, 0);
    mega_add_args add = {head, y, x, x, 4};
    mega_plain_add.run(NULL, &add);
    near(y[1], -4, 0);
    mega_column_sum_args c = {head, columns, x, 2, 2};
    mega_plain_column_sum.run(NULL, &c);
    near(columns[0], 101, 0);
    near(columns[1], 201, 0);
    const double odd[4] = {0, NAN, -0.0, INFINITY};
    mega_norm_args n = {head, norm, x, 4, false};
    mega_plain_norm.run(NULL, &n);
    near(norm[0], 14, 0), near(norm[1], 1, 0), near(norm[2], 0, 0);
    n.x = odd;
    mega_plain_norm.run(NULL, &n);
    assert_true(isnan(norm[0]));
    near(norm[1], 2, 0), near(norm[2], 2, 0);
    n.adds = true;
    mega_plain_norm.run(NULL, &n);
    near(norm[1], 4, 0), near(norm[2], 4, 0);
}

static void test_convert(void **state)
{
    (void)state;
    const float x[5] = {1.0f, -0.5f, 65504.0f, 3.0e-8f, INFINITY};
    uint16_t half[5], bf16[5];
    double back[5];
    mega_convert_args a = {head, half, x, 5, MEGA_F16, MEGA_F32, 1.0};
    mega_plain_convert.run(NULL, &a);
    assert_int_equal(half[0], 0x3c00), assert_int_equal(half[1], 0xb800), assert_int_equal(half[2], 0x7bff);
    assert_int_equal(half[3], 0x0001), assert_int_equal(half[4], 0x7c00); /* 3e-8 > half the least number */
    a.dst = bf16, a.dst_dtype = MEGA_BF16, a.scale = 2.0;
    mega_plain_convert.run(NULL, &a);
    assert_int_equal(bf16[0], 0x4000), assert_int_equal(bf16[1], 0xbf80);
    a = (mega_convert_args){head, back, bf16, 5, MEGA_F64, MEGA_BF16, 0.5};
    mega_plain_convert.run(NULL, &a);
    near(back[0], 1, 0), near(back[1], -0.5, 0);
}

/* In its first step, Adam moves each weight by lr against the sign of its gradient, independent of its size. */
static void test_adamw(void **state)
{
    (void)state;
    double p[3] = {1, 2, -3}, m[3] = {0}, v[3] = {0};
    const double g[3] = {100, -0.01, 5};
    float weight[3];
    const double first[] = {1 - 0.9, 1 - 0.999, 0.1, 0.5, 0.9, 0.999};
    mega_adamw_args a = {head, p, m, v, NULL, g, 3, 0.0, 1.0, first, false, NULL};
    mega_plain_adamw.run(NULL, &a);
    const double expected[3] = {1 - 0.1 * (1 + 0.5), 2 - 0.1 * (-1 + 1.0), -3 - 0.1 * (1 - 1.5)};
    for (int i = 0; i < 3; i++) near(p[i], expected[i], 1e-12);
    near(m[0], 10, 1e-12);
    near(v[0], 10, 1e-12);
    /* l2: the gradient is 100 + 0.5 p; the step stays lr. In f32 with rounded weights. */
    float pf[1] = {1}, mf[1] = {0}, vf[1] = {0}, gf[1] = {100};
    a = (mega_adamw_args){{.dtype = MEGA_F32}, pf, mf, vf, weight, gf, 1, 0.0, 0.5, first, true, NULL};
    mega_plain_adamw.run(NULL, &a);
    near(pf[0], 0.9, 1e-7);
    near(mf[0], 0.1 * (0.5 * 100 + 0.5), 1e-6);
    near(weight[0], 0.9, 1e-7);
}

static void test_sgd(void **state)
{
    (void)state;
    double p = 1, momentum = 99, g = 2;
    double number[] = {1, 0.1, 0.5};
    mega_sgd_args a = {head, &p, &momentum, NULL, &g, 1, 0.9, 1.0, number, NULL};
    mega_plain_sgd.run(NULL, &a);
    near(momentum, 2.5, 1e-15);
    near(p, 0.75, 1e-15);
    number[0] = 0;
    mega_plain_sgd.run(NULL, &a);
    near(momentum, 0.9 * 2.5 + 2.375, 1e-15);
}

static void test_means_and_squares(void **state)
{
    (void)state;
    const double x[8] = {1, 2, 3, 6, -1, 0, 5, 4}, target[8] = {0, 2, 1, 6, -1, 3, 5, 0}, dloss[4] = {1, 0.5, -1, 2};
    double mean[4], dx[8], loss[4];
    mega_mean_rows_args m = {head, mean, x, 2, 2, 2};
    mega_plain_mean_rows.run(NULL, &m);
    const double means[4] = {2, 4, 2, 2};
    assert_memory_equal(mean, means, sizeof means);
    mega_mean_rows_grad_args mg = {head, dx, means, 2, 2, 2};
    mega_plain_mean_rows_grad.run(NULL, &mg);
    const double shares[8] = {1, 2, 1, 2, 1, 1, 1, 1};
    assert_memory_equal(dx, shares, sizeof shares);
    mega_squared_error_args e = {head, loss, x, target, 4, 2};
    mega_plain_squared_error.run(NULL, &e);
    const double losses[4] = {1, 4, 9, 16};
    assert_memory_equal(loss, losses, sizeof losses);
    mega_squared_error_grad_args eg = {head, dx, dloss, x, target, 4, 2};
    mega_plain_squared_error_grad.run(NULL, &eg);
    const double slopes[8] = {2, 0, 2, 0, 0, 6, 0, 16};
    for (int i = 0; i < 8; i++) near(dx[i], slopes[i], 0);
}

static void test_masked_sum_without_mask(void **state)
{
    (void)state;
    const double x[3] = {1, 2, 4}, dout = 3;
    const float mask[3] = {1, 0, 0.5f};
    double sum, dx[3];
    mega_masked_sum_args a = {head, &sum, x, NULL, 3};
    mega_plain_masked_sum.run(NULL, &a);
    near(sum, 7, 0);
    a.x = NULL;
    mega_plain_masked_sum.run(NULL, &a);
    near(sum, 3, 0);
    mega_masked_sum_grad_args b = {head, dx, &dout, mask, 3};
    mega_plain_masked_sum_grad.run(NULL, &b);
    near(dx[0], 3, 0), near(dx[1], 0, 0), near(dx[2], 1.5, 0);
}

/* The label's logit is the largest, a smaller one, the first and then the second of two equal ones, and next to a NaN;
 * last come labels that are not a class. */
static void test_accuracy(void **state)
{
    (void)state;
    const double logits[21] = {1, 5, 2, 1, 5, 2, 4, 4, 2, 4, 4, 2, NAN, 5, 2, 1, 5, 2, 1, 5, 2};
    const int32_t labels[7] = {1, 2, 0, 1, 1, -100, 3};
    const double expected[7] = {1, 0, 1, 0, 0, 0, 0};
    const double expected_counts[7] = {1, 1, 1, 1, 1, 0, 0};
    double hit[7], counts[7];
    mega_accuracy_args a = {head, hit, counts, logits, labels, 7, 3, MEGA_F64, -100};
    mega_plain_accuracy.run(NULL, &a);
    assert_memory_equal(hit, expected, sizeof hit);
    assert_memory_equal(counts, expected_counts, sizeof counts);
}

static void test_first_rows_and_row_sums(void **state)
{
    (void)state;
    const double x[8] = {1, 2, 3, 6, -1, 0, 5, 4};
    double y[4], dx[8], sum[4];
    mega_first_rows_args f = {head, y, x, 2, 2, 2};
    mega_plain_first_rows.run(NULL, &f);
    const double firsts[4] = {1, 2, -1, 0};
    assert_memory_equal(y, firsts, sizeof firsts);
    mega_first_rows_grad_args fg = {head, dx, firsts, 2, 2, 2};
    mega_plain_first_rows_grad.run(NULL, &fg);
    const double spread[8] = {1, 2, 0, 0, -1, 0, 0, 0};
    for (int i = 0; i < 8; i++) near(dx[i], spread[i], 0);
    mega_row_sum_args s = {head, sum, x, 4, 2, MEGA_F64};
    mega_plain_row_sum.run(NULL, &s);
    const double sums[4] = {3, 9, -1, 9};
    assert_memory_equal(sum, sums, sizeof sums);
    mega_row_sum_grad_args sg = {head, dx, sums, 4, 2, MEGA_F64};
    mega_plain_row_sum_grad.run(NULL, &sg);
    const double copies[8] = {3, 3, 9, 9, -1, -1, 9, 9};
    assert_memory_equal(dx, copies, sizeof copies);
}

/* torch.nn.functional.cross_entropy(reduction="none") and its gradient; labels -100 and 3 are not classes and are
 * ignored. */
static void test_cross_entropy(void **state)
{
    (void)state;
    const double logits[12] = {1, 2, 3, 1, 2, 3, 5, 5, 5, 800, 0, -800}, dloss[4] = {1, 2, 1, 1};
    const int32_t labels[4] = {2, 0, -100, 3};
    const float weights[4] = {0.5f, 2, 4, 8};
    double loss[4], dlogits[12], sum;
    mega_cross_entropy_args a = {head, loss, logits, labels, 4, 3, MEGA_F64, -100};
    mega_plain_cross_entropy.run(NULL, &a);
    const double losses[4] = {0.40760596444438, 2.40760596444438, 0, 0};
    for (int i = 0; i < 4; i++) near(loss[i], losses[i], 1e-13);
    mega_cross_entropy_grad_args g = {head, dlogits, dloss, logits, labels, 4, 3, MEGA_F64, -100};
    mega_plain_cross_entropy_grad.run(NULL, &g);
    const double slopes[12] = {0.0900305731703805,  0.2447284710547977, -0.3347590442251781,
                               -1.8199388536592390, 0.4894569421095953, 1.3304819115496437};
    for (int i = 0; i < 12; i++) near(dlogits[i], slopes[i], 1e-14);
    mega_labelled_sum_args w = {head, &sum, labels, weights, 4, 3, -100};
    mega_plain_labelled_sum.run(NULL, &w);
    near(sum, 2.5, 0);
    w.weights = NULL;
    mega_plain_labelled_sum.run(NULL, &w);
    near(sum, 2, 0);
}

/* Three tokens, two choices each, among three experts of which the second has no rows; one choice is no expert. */
static void test_experts(void **state)
{
    (void)state;
    const int32_t choice[6] = {2, 0, 0, 2, 3, 0};
    int32_t place[6], source[6], first[4];
    mega_expert_order_args o = {head, place, source, first, choice, 6, 3, 0};
    mega_plain_expert_order.run(NULL, &o);
    const int32_t places[6] = {3, 0, 1, 4, -1, 2}, sources[6] = {1, 2, 5, 0, 3, -1}, firsts[4] = {0, 3, 3, 5};
    assert_memory_equal(place, places, sizeof place);
    assert_memory_equal(source, sources, sizeof source);
    assert_memory_equal(first, firsts, sizeof first);
    mega_expert_order_args part = {head, place, source, first, choice, 6, 2, 2}; /* experts 2 and 3 alone */
    mega_plain_expert_order.run(NULL, &part);
    const int32_t part_places[6] = {0, -1, -1, 1, 2, -1}, part_sources[6] = {0, 3, 4, -1, -1, -1};
    const int32_t part_firsts[3] = {0, 2, 3};
    assert_memory_equal(place, part_places, sizeof place);
    assert_memory_equal(source, part_sources, sizeof source);
    assert_memory_equal(first, part_firsts, sizeof part_firsts);
    mega_plain_expert_order.run(NULL, &o);
    const double x[3] = {1, 2, 3}, weight[6] = {10, 100, 1000, 1e4, 1e5, 1e6}, matrix[6] = {2, 3, 8, 8, 5, 7};
    double rows[6], y[12], out[6], dy[12], dweight[6], dmatrix[6], dbias[6] = {0};
    mega_expert_rows_args r = {head, rows, x, source, 6, 1, 2};
    mega_plain_expert_rows.run(NULL, &r);
    const double by_expert[6] = {1, 2, 3, 1, 2, 0};
    assert_memory_equal(rows, by_expert, sizeof rows);
    mega_expert_linear_args l = {head, y, rows, matrix, NULL, first, 6, 1, 2, 3, false};
    mega_plain_expert_linear.run(NULL, &l);
    const double products[12] = {2, 3, 4, 6, 6, 9, 5, 7, 10, 14, 0, 0};
    assert_memory_equal(y, products, sizeof y);
    mega_expert_combine_args c = {head, out, y, weight, place, 3, 2, 2};
    mega_plain_expert_combine.run(NULL, &c);
    const double sums[6] = {50 + 200, 70 + 300, 4000 + 1e5, 6000 + 14e4, 6e6, 9e6};
    assert_memory_equal(out, sums, sizeof out);
    const double dout[6] = {1, 0, 0, 1, 1, 1};
    mega_expert_combine_grad_args g = {head, dy, dweight, dout, y, weight, place, source, 6, 6, 2, 2};
    mega_plain_expert_combine_grad.run(NULL, &g);
    const double dys[12] = {100, 0, 0, 1000, 1e6, 1e6, 10, 0, 0, 1e4, 0, 0}, dweights[6] = {5, 2, 6, 14, 0, 15};
    assert_memory_equal(dy, dys, sizeof dy);
    assert_memory_equal(dweight, dweights, sizeof dweight);
    mega_expert_linear_grad_w_args w = {head, dmatrix, dbias, dy, rows, first, 6, 1, 2, 3, false, false};
    mega_plain_expert_linear_grad_w.run(NULL, &w);
    const double dmatrices[6] = {100 + 3e6, 2000 + 3e6, 0, 0, 10, 2e4};
    const double dbiases[6] = {100 + 1e6, 1000 + 1e6, 0, 0, 10, 1e4};
    assert_memory_equal(dmatrix, dmatrices, sizeof dmatrix);
    assert_memory_equal(dbias, dbiases, sizeof dbias);
}

/* The choices of test_experts among four experts, two on each of two ranks: rank 0 sends three rows to itself and two
 * to rank 1, which gets one more row from itself. Two rows a round. */
static void test_expert_rounds(void **state)
{
    (void)state;
    const int32_t choice[6] = {2, 0, 0, 2, -1, 0}, firsts[10] = {0, 3, 3, 5, 5, 0, 0, 1, 1, 2};
    const int32_t places[2][6] = {{2, 0, 1, 3, -1, -1}, {-1, -1, -1, -1, -1, 0}};
    const int32_t sources[2][4] = {{1, 2, 0, 3}, {5, -1, -1, -1}};
    const int32_t received[2][4] = {{0, 0, 1, -1}, {-1, -1, -1, -1}};
    int32_t order_place[6], order_source[6], first[5], place[6], source[4], got[4], needed;
    mega_expert_order_args o = {head, order_place, order_source, first, choice, 6, 4, 0};
    mega_plain_expert_order.run(NULL, &o);
    assert_memory_equal(first, firsts, sizeof first);
    for (int round = 0; round < 3; round++) {
        mega_expert_send_args s = {head, place, source, choice, order_place, order_source, first, 6, 4, 2, 2, round};
        mega_plain_expert_send.run(NULL, &s);
        mega_expert_received_args r = {head, got, &needed, firsts, 4, 2, 2, round, 1};
        mega_plain_expert_received.run(NULL, &r);
        assert_int_equal(needed, round < 2);
        if (round == 2) continue;
        assert_memory_equal(place, places[round], sizeof place);
        assert_memory_equal(source, sources[round], sizeof source);
        assert_memory_equal(got, received[round], sizeof got);
    }
    const int32_t none[10] = {0};
    double later = -1;
    for (int64_t rows = 1; rows <= 3; rows++) {
        mega_expert_later_args l = {head, &later, firsts, 4, 2, rows};
        mega_plain_expert_later.run(NULL, &l);
        assert_true(later == (double)((3 - 1) / rows));
    }
    mega_plain_expert_later.run(NULL, &(mega_expert_later_args){head, &later, none, 4, 2, 1});
    assert_true(later == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_types),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_to_source),
        cmocka_unit_test(test_relative_bucket),
        cmocka_unit_test(test_attention_cached),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_means_and_squares),
        cmocka_unit_test(test_masked_sum_without_mask),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_first_rows_and_row_sums),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_expert_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
