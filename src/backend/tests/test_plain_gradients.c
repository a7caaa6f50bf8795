/* Checks every gradient kernel of plain/ against central differences of its forward kernel, in double. The loss is
 * sum(w y) for random w, so the gradient kernel gets dy = w. */
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include <string.h>

#define STEP      1e-5 /* truncation STEP^2 ~ 1e-10, rounding 1e-16/STEP ~ 1e-11 */
#define TOLERANCE 1e-6

static const mega_step_block step_block = {.seed = 1234, .step = 7, .loss_factor = 0.25};
static const mega_kernel_head head = {.dtype = MEGA_F64, .step = &step_block};

static double *random_doubles(int64_t n, uint32_t seed)
{
    float *f = mega_malloc((size_t)(n + 1) * sizeof *f);
    double *d = mega_malloc((size_t)(n + 1) * sizeof *d);
    assert_non_null(f);
    assert_non_null(d);
    mega_kit_normal(f, n, seed);
    for (int64_t i = 0; i < n; i++) d[i] = f[i];
    mega_free(f);
    return d;
}

static double *zeros(int64_t n)
{
    double *d = mega_calloc((size_t)(n + 1), sizeof *d);
    assert_non_null(d);
    return d;
}

typedef struct probe {
    const mega_kernel *kernel;
    void *args; /* the call writes y */
    const double *y, *w;
    int64_t outputs;
} probe;

static double loss(const probe *p)
{
    double sum = 0.0;
    p->kernel->run(NULL, p->args);
    for (int64_t i = 0; i < p->outputs; i++) sum += p->y[i] * p->w[i];
    return sum;
}

/* Compares `found` [n] with differences of the loss with respect to each x[i]. */
static void check(const probe *p, const char *what, double *x, int64_t n, const double *found)
{
    double *expected = zeros(n);
    for (int64_t i = 0; i < n; i++) {
        const double keep = x[i];
        x[i] = keep + STEP;
        const double up = loss(p);
        x[i] = keep - STEP;
        expected[i] = (up - loss(p)) / (2 * STEP);
        x[i] = keep;
    }
    loss(p); /* restores the forward results that the gradient kernel read */
    const double error = mega_kit_relative_error_f64(found, expected, n);
    mega_free(expected);
    if (!(error <= TOLERANCE)) fail_msg("%s of %s: relative error %g", what, p->kernel->name, error);
}

static void test_embedding(void **state)
{
    (void)state;
    enum { T = 7, C = 3, V = 5 };
    const int32_t ids[T] = {12, 10, 14, 12, 3, 99, 12}; /* two are outside [10, 15) */
    double *table = random_doubles(V * C, 1), *w = random_doubles(T * C, 2), *y = zeros(T * C), *dtable = zeros(V * C);
    mega_embedding_args f = {head, y, ids, table, NULL, T, C, 10, V};
    mega_embedding_grad_args b = {head, dtable, ids, w, T, C, 10, V};
    const probe p = {&mega_plain_embedding, &f, y, w, T * C};
    mega_plain_embedding_grad.run(NULL, &b);
    check(&p, "dtable", table, V * C, dtable);
    mega_plain_embedding_grad.run(NULL, &b); /* the kernel accumulates */
    for (int i = 0; i < V * C; i++) dtable[i] /= 2;
    check(&p, "dtable, twice", table, V * C, dtable);
    mega_free(table), mega_free(w), mega_free(y), mega_free(dtable);
}

static void test_layer_norm(void **state)
{
    (void)state;
    enum { T = 5, C = 11 };
    double *x = random_doubles(T * C, 1), *w = random_doubles(T * C, 2), *gain = random_doubles(C, 3);
    double *bias = random_doubles(C, 4), *addend = random_doubles(T * C, 5);
    double *y = zeros(T * C), *dx = zeros(T * C), *dgain = zeros(C), *dbias = zeros(C), mean[T], rstd[T];
    mega_layer_norm_args f = {head, y, mean, rstd, x, gain, bias, T, C, 1e-5, false, false};
    mega_layer_norm_grad_args b = {head, dx, dgain, dbias, w, x, mean, rstd, gain, addend, T, C, false, false};
    const probe p = {&mega_plain_layer_norm, &f, y, w, T * C};
    loss(&p);
    mega_plain_layer_norm_grad.run(NULL, &b);
    for (int i = 0; i < T * C; i++) dx[i] -= addend[i];
    check(&p, "dx", x, T * C, dx);
    check(&p, "dgain", gain, C, dgain);
    check(&p, "dbias", bias, C, dbias);
    mega_free(x), mega_free(w), mega_free(gain), mega_free(bias), mega_free(addend);
    mega_free(y), mega_free(dx), mega_free(dgain), mega_free(dbias);
}

/* The gradients of a linear layer as the graph computes them: two GEMMs and a column sum. */
static void test_linear(void **state)
{
    (void)state;
    enum { T = 4, K = 5, N = 3 };
    double *x = random_doubles(T * K, 1), *weight = random_doubles(N * K, 2), *bias = random_doubles(N, 3);
    double *w = random_doubles(T * N, 4), *y = zeros(T * N), *dx = zeros(T * K), *dweight = zeros(N * K),
           *db = zeros(N);
    mega_gemm_args f = {head, y,     x,    weight, bias,     T,     N,    K,    K,    K,
                        N,    false, true, false,  MEGA_F64, false, NULL, NULL, false};
    mega_gemm_args to_x = {head, dx,    w,     weight, NULL,     T,     K,    N,    N,    K,
                           K,    false, false, false,  MEGA_F64, false, NULL, NULL, false};
    mega_gemm_args to_w = {head, dweight, w,     x,    NULL,     N,     K,    T,    N,    K,
                           K,    true,    false, true, MEGA_F64, false, NULL, NULL, false};
    mega_column_sum_args to_b = {head, db, w, T, N};
    const probe p = {&mega_plain_gemm, &f, y, w, T * N};
    mega_plain_gemm.run(NULL, &to_x);
    mega_plain_gemm.run(NULL, &to_w);
    mega_plain_column_sum.run(NULL, &to_b);
    check(&p, "dx", x, T * K, dx);
    check(&p, "dweight", weight, N * K, dweight);
    check(&p, "dbias", bias, N, db);
    mega_free(x), mega_free(weight), mega_free(bias), mega_free(w);
    mega_free(y), mega_free(dx), mega_free(dweight), mega_free(db);
}

static void attention_case(int64_t heads, int64_t kv_heads, bool causal, bool segments, double dropout)
{
    enum { B = 2, S = 6, D = 3, T = B * S };
    const int64_t q_width = heads * D, kv_width = kv_heads * D, ld = q_width + 2 * kv_width;
    const int32_t start[T] = {0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 1, 1};
    uint32_t sample[T];
    for (uint32_t i = 0; i < T; i++) sample[i] = 100 + i / S;
    double *qkv = random_doubles(T * ld, 1), *w = random_doubles(T * q_width, 2), *out = zeros(T * q_width);
    double *dqkv = zeros(T * ld), *lse = zeros(T * heads), *scratch = zeros(3 * S + 2 * S * D);
    mega_attention_args f = {.head = head, .out = out, .lse = lse, .q = qkv, .k = qkv + q_width};
    f.v = qkv + q_width + kv_width;
    f.head.scratch = scratch;
    f.key_begin = segments ? start : NULL;
    f.sample_id = sample;
    f.batch = B, f.seq = f.keys = S, f.heads = heads, f.kv_heads = kv_heads, f.head_dim = D, f.head_begin = 4;
    f.ld_q = ld, f.ld_kv = ld, f.ld_out = q_width, f.scale = 0.7, f.dropout = dropout, f.site = 3, f.causal = causal;
    mega_attention_grad_args b = {.head = f.head, .dq = dqkv, .dk = dqkv + q_width, .dv = dqkv + q_width + kv_width};
    b.dout = w, b.ld_dq = ld, b.ld_dkv = ld, b.ld_dout = q_width, b.forward = f;
    assert_true(mega_plain_attention_grad.scratch(&b, 1) <= (3 * S + 2 * S * D) * sizeof(double));
    const probe p = {&mega_plain_attention, &f, out, w, T * q_width};
    loss(&p);
    mega_plain_attention_grad.run(NULL, &b);
    check(&p, "dqkv", qkv, T * ld, dqkv);
    mega_free(qkv), mega_free(w), mega_free(out), mega_free(dqkv), mega_free(lse), mega_free(scratch);
}

/* Biases by relative position, of heads of one rank. */
static void attention_biases(bool causal)
{
    enum { B = 2, S = 7, D = 2, HEADS = 2, T = B * S, W = HEADS * D, LD = 3 * W, BUCKETS = 4, N = BUCKETS * HEADS };
    double *qkv = random_doubles(T * LD, 1), *w = random_doubles(T * W, 2), *bias = random_doubles(N, 3);
    double *out = zeros(T * W), *lse = zeros(T * HEADS), *dqkv = zeros(T * LD), *dbias = zeros(N);
    double *scratch = zeros(3 * S + 2 * S * D + N);
    mega_attention_args f = {.head = head, .out = out, .lse = lse, .q = qkv, .k = qkv + W, .v = qkv + 2 * W};
    f.head.scratch = scratch, f.bias = bias;
    f.batch = B, f.seq = f.keys = S, f.heads = f.kv_heads = HEADS, f.head_dim = D;
    f.ld_q = f.ld_kv = LD, f.ld_out = W, f.scale = 0.7, f.causal = causal;
    f.rules = (mega_attention_rules){.bias_buckets = BUCKETS, .bias_distance = 5, .bias_one_side = causal};
    mega_attention_grad_args b = {.head = f.head, .dq = dqkv, .dk = dqkv + W, .dv = dqkv + 2 * W, .forward = f};
    b.dout = w, b.dbias = dbias, b.ld_dq = b.ld_dkv = LD, b.ld_dout = W;
    assert_true(mega_plain_attention_grad.scratch(&b, 1) <= (3 * S + 2 * S * D + N) * sizeof(double));
    const probe p = {&mega_plain_attention, &f, out, w, T * W};
    loss(&p);
    for (int i = 0; i < N; i++) dbias[i] = 1.0; /* it is added to */
    mega_plain_attention_grad.run(NULL, &b);
    for (int i = 0; i < N; i++) dbias[i] -= 1.0;
    check(&p, "dqkv", qkv, T * LD, dqkv);
    check(&p, "dbias", bias, N, dbias);
    mega_free(qkv), mega_free(w), mega_free(bias), mega_free(out), mega_free(lse);
    mega_free(dqkv), mega_free(dbias), mega_free(scratch);
}

/* Queries attend to a longer source of keys and values; one of them sees no key. */
static void attention_to_source(double dropout)
{
    enum { B = 2, S = 3, K = 5, D = 3, HEADS = 2, T = B * S, U = B * K, W = HEADS * D };
    const int32_t begin[T] = {0, 1, 3, 0, 4, 2}, end[T] = {5, 4, 3, 1, 5, 9};
    uint32_t sample[T];
    for (uint32_t i = 0; i < T; i++) sample[i] = 100 + i / S;
    double *q = random_doubles(T * W, 1), *k = random_doubles(U * D, 2), *v = random_doubles(U * D, 3);
    double *w = random_doubles(T * W, 4), *out = zeros(T * W), *lse = zeros(T * HEADS);
    double *dq = zeros(T * W), *dk = zeros(U * D), *dv = zeros(U * D), *scratch = zeros(3 * K + 2 * K * D);
    mega_attention_args f = {.head = head, .out = out, .lse = lse, .q = q, .k = k, .v = v};
    f.head.scratch = scratch;
    f.key_begin = begin, f.key_end = end, f.sample_id = sample;
    f.batch = B, f.seq = S, f.keys = K, f.heads = HEADS, f.kv_heads = 1, f.head_dim = D;
    f.ld_q = f.ld_out = W, f.ld_kv = D, f.scale = 0.7, f.dropout = dropout, f.site = 3;
    mega_attention_grad_args b = {.head = f.head, .dq = dq, .dk = dk, .dv = dv, .dout = w, .forward = f};
    b.ld_dq = b.ld_dout = W, b.ld_dkv = D;
    assert_true(mega_plain_attention_grad.scratch(&b, 1) <= (3 * K + 2 * K * D) * sizeof(double));
    const probe p = {&mega_plain_attention, &f, out, w, T * W};
    loss(&p);
    mega_plain_attention_grad.run(NULL, &b);
    for (int c = 0; c < W; c++) assert_true(out[2 * W + c] == 0.0 && dq[2 * W + c] == 0.0);
    check(&p, "dq", q, T * W, dq);
    check(&p, "dk", k, U * D, dk);
    check(&p, "dv", v, U * D, dv);
    mega_free(q), mega_free(k), mega_free(v), mega_free(w), mega_free(out), mega_free(lse);
    mega_free(dq), mega_free(dk), mega_free(dv), mega_free(scratch);
}

static void test_attention(void **state)
{
    (void)state;
    attention_to_source(0.0);
    attention_to_source(0.3);
    attention_biases(false);
    attention_biases(true);
    attention_case(3, 3, false, true, 0.0);
    attention_case(2, 2, true, false, 0.0);
    attention_case(4, 2, true, true, 0.0);
    attention_case(2, 1, true, true, 0.3);
    attention_case(3, 3, false, false, 0.2);
}

static void test_gelu(void **state)
{
    (void)state;
    enum { T = 4, C = 5 };
    for (int form = 0; form < 2; form++) {
        double *x = random_doubles(T * C, 1), *bias = random_doubles(C, 2), *w = random_doubles(T * C, 3);
        double *y = zeros(T * C), *dx = zeros(T * C), *dbias = zeros(C);
        mega_gelu_args f = {head, y, x, bias, T, C, form == 0};
        mega_gelu_grad_args b = {head, dx, dbias, w, x, bias, T, C, form == 0};
        const probe p = {&mega_plain_gelu, &f, y, w, T * C};
        mega_plain_gelu_grad.run(NULL, &b);
        check(&p, "dx", x, T * C, dx);
        check(&p, "dbias", bias, C, dbias);
        mega_free(x), mega_free(bias), mega_free(w), mega_free(y), mega_free(dx), mega_free(dbias);
    }
}

static void test_dropout(void **state)
{
    (void)state;
    enum { T = 4, C = 5 };
    const uint32_t sample[T] = {5, 5, 9, 9};
    const int32_t position[T] = {0, 1, 0, 1};
    for (int on = 0; on < 2; on++) {
        double *x = random_doubles(T * C, 1), *bias = random_doubles(C, 2), *w = random_doubles(T * C, 3);
        double *y = zeros(T * C), *dx = zeros(T * C), *dbias = zeros(C), *residual = random_doubles(T * C, 4);
        mega_dropout_add_args f = {head, y, x, bias, residual, sample, position, T, C, on ? 0.4 : 0.0, 11};
        mega_dropout_grad_args b = {head, dx, dbias, w, sample, position, T, C, on ? 0.4 : 0.0, 11};
        const probe p = {&mega_plain_dropout_add, &f, y, w, T * C};
        mega_plain_dropout_grad.run(NULL, &b);
        check(&p, "dx", x, T * C, dx);
        check(&p, "dbias", bias, C, dbias);
        check(&p, "dresidual", residual, T * C, w);
        mega_free(x), mega_free(bias), mega_free(w), mega_free(y), mega_free(dx), mega_free(dbias), mega_free(residual);
    }
}

enum { ROWS = 3, COLUMNS = 8, VALID = 6, LEADING = 9, BEGIN = 20 };

/* Runs the three kernels one after another, for the probe. */
typedef struct xent {
    mega_xent_max_args max;
    mega_xent_sum_args sum;
    mega_xent_grad_args grad;
} xent;

static void run_xent(const mega_queue *queue, const void *args)
{
    const xent *x = args;
    mega_plain_xent_max.run(queue, &x->max);
    mega_plain_xent_sum.run(queue, &x->sum);
    mega_plain_xent_grad.run(queue, &x->grad);
}

static void test_xent(void **state)
{
    (void)state;
    const mega_kernel all = {.name = "xent_grad", .run = run_xent};
    const int32_t labels[ROWS] = {BEGIN + 5, BEGIN, BEGIN + 3};
    const float mask[ROWS] = {1.0f, 0.0f, 0.5f};
    const double denominator = 1.5;
    double row_max[ROWS], sums[2 * ROWS], row_loss[ROWS], w[ROWS];
    for (int r = 0; r < ROWS; r++) w[r] = 1.5 * mask[r] * step_block.loss_factor / denominator;
    double *logits = random_doubles(ROWS * LEADING, 1), *dlogits = zeros(ROWS * LEADING);
    xent x = {.max = {head, row_max, logits, ROWS, VALID, LEADING},
              .sum = {head, sums, logits, row_max, labels, ROWS, VALID, LEADING, BEGIN},
              .grad = {head, row_loss, dlogits, logits, row_max, sums, labels, mask, &denominator, ROWS, COLUMNS, VALID,
                       LEADING, BEGIN, 1.5}};
    const probe p = {&all, &x, row_loss, w, ROWS};
    loss(&p);
    x.grad.dlogits = NULL;
    check(&p, "dlogits", logits, ROWS * LEADING, dlogits);
    mega_free(logits), mega_free(dlogits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding), cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_gelu),       cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_xent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
