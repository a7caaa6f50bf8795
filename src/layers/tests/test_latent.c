/* Latent attention against a computation from the definition, with and without channels of queries, in both forms of
 * the rotation; heads that are cut over tp; and wrong options. */
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/program.h"

#include <math.h>
#include <string.h>

enum { B = 2, S = 5, T = B * S, C = 8, HEADS = 2, Q = 6, KV = 5, OWN = 3, TURNED = 4, D = OWN + TURNED, V = 5 };
enum { PAIR = OWN + V, MOST = 64 };

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};

/* What a rank computes, and the numbers from which it does. */
typedef struct latent_result {
    double x[T * C], y[T * C];
    double q_down[Q * C], q_up[HEADS * D * C], kv_down[(KV + TURNED) * C], kv_up[HEADS * PAIR * KV];
    double out[C * HEADS * V];
} latent_result;

static const mega_rope halves = {.theta = 50.0}, neighbours = {.theta = 50.0, .interleaved = true};

static mega_latent_options latent_of(int64_t q_rank)
{
    return (mega_latent_options){.q_rank = q_rank,
                                 .kv_rank = KV,
                                 .own_dim = OWN,
                                 .rope_dim = TURNED,
                                 .value_dim = V,
                                 .norm_epsilon = 1e-6,
                                 .q_down = "q_down",
                                 .q_norm = "q_norm",
                                 .q_up = "q_up",
                                 .kv_down = "kv_down",
                                 .kv_norm = "kv_norm",
                                 .kv_up = "kv_up"};
}

static mega_tensor describe(const mega_builder *b, mega_tensor x, const mega_latent_options *l, const mega_rope *rope)
{
    const mega_attention_options o = {.num_heads = HEADS,
                                      .head_dim = D,
                                      .is_causal = true,
                                      .key_begin = "",
                                      .rope = rope,
                                      .qkv = &random_weights,
                                      .out = &random_weights,
                                      .latent = l};
    return mega_self_attention(b, "attn", x, &o);
}

static void copy_param(const mega_params *params, const char *name, double *to, int64_t count)
{
    const int p = mega_params_find(params, name);
    if (p < 0) return; /* without channels of queries there is no q_down */
    const int64_t held = mega_params_get(params, p)->count;
    assert_true(held <= count);
    memcpy(to, mega_params_master(params, p), (size_t)held * sizeof *to);
}

/* Computes the partial result of one rank of `size`. */
static void run(int64_t q_rank, const mega_rope *rope, int rank, int size, latent_result *r)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_program *p = NULL;
    float random[T * C];
    const mega_latent_options l = latent_of(q_rank);
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout layout = *one;
    layout.tp.rank = rank;
    layout.tp.size = size;
    need(mega_params_create(&layout, &params));
    mega_builder b = {.layout = &layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F64, params, &layout, &b.graph));
    mega_graph_output(b.graph, describe(&b, mega_input(&b, "x", MEGA_F64, S, C), &l, rope), "y");
    need(mega_graph_status(b.graph));
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(params, 6));
    const mega_program_options how = {.backend = MEGA_BACKEND_PLAIN, .name = "layer"};
    need(mega_program_build(b.graph, &how, &p));
    need(mega_program_allocate(p));
    mega_kit_normal(random, T * C, 3);
    for (int i = 0; i < T * C; i++) r->x[i] = (double)random[i];
    memcpy(mega_program_tensor(p, "x", 0), r->x, sizeof r->x);
    int32_t *at = mega_program_tensor(p, "position_ids", 0), *sample = mega_program_tensor(p, "sample_id", 0);
    for (int t = 0; t < T; t++) {
        at[t] = t % S;
        if (sample != NULL) sample[t] = t / S;
    }
    need(mega_program_forward(p, 0));
    memcpy(r->y, mega_program_tensor(p, "y", 0), sizeof r->y);
    copy_param(params, "m.q_down.weight", r->q_down, Q * C);
    copy_param(params, "m.q_up.weight", r->q_up, HEADS * D * C);
    copy_param(params, "m.kv_down.weight", r->kv_down, (KV + TURNED) * C);
    copy_param(params, "m.kv_up.weight", r->kv_up, HEADS * PAIR * KV);
    copy_param(params, "m.attn.c_proj.weight", r->out, C * HEADS * V);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* ---- the definition ---- */

static void multiply(const double *weight, int64_t rows, int64_t cols, const double *x, double *out)
{
    for (int64_t i = 0; i < rows; i++) {
        out[i] = 0.0;
        for (int64_t k = 0; k < cols; k++) out[i] += weight[i * cols + k] * x[k];
    }
}

static void normalize(double *x, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    for (int i = 0; i < n; i++) x[i] /= sqrt(sum / n + 1e-6);
}

static void turn(double *x, int position, bool interleaved)
{
    for (int k = 0; k < TURNED / 2; k++) {
        const double angle = position * pow(50.0, -2.0 * k / TURNED), c = cos(angle), s = sin(angle);
        double *a = &x[interleaved ? 2 * k : k], *b = &x[interleaved ? 2 * k + 1 : k + TURNED / 2];
        const double first = *a, second = *b;
        *a = c * first - s * second;
        *b = c * second + s * first;
    }
}

/* Writes queries, keys and values of row t. */
static void row_of(const latent_result *r, int64_t q_rank, bool interleaved, int t, double q[HEADS * D],
                   double k[HEADS * D], double v[HEADS * V])
{
    const double *x = &r->x[t * C];
    double few[MOST], both[MOST], pair[MOST];
    multiply(r->q_down, q_rank, C, x, few);
    normalize(few, (int)q_rank);
    multiply(r->q_up, HEADS * D, q_rank > 0 ? q_rank : C, q_rank > 0 ? few : x, q);
    multiply(r->kv_down, KV + TURNED, C, x, both);
    normalize(both, KV);
    turn(both + KV, t % S, interleaved);
    multiply(r->kv_up, HEADS * PAIR, KV, both, pair);
    for (int h = 0; h < HEADS; h++) {
        turn(&q[h * D + OWN], t % S, interleaved);
        memcpy(&k[h * D], &pair[h * PAIR], OWN * sizeof *k);
        memcpy(&k[h * D + OWN], both + KV, TURNED * sizeof *k);
        memcpy(&v[h * V], &pair[h * PAIR + OWN], V * sizeof *v);
    }
}

static void defined(const latent_result *r, int64_t q_rank, bool interleaved, double y[T * C])
{
    static double q[T][HEADS * D], k[T][HEADS * D], v[T][HEADS * V];
    for (int t = 0; t < T; t++) row_of(r, q_rank, interleaved, t, q[t], k[t], v[t]);
    for (int t = 0; t < T; t++) {
        double context[HEADS * V] = {0};
        for (int h = 0; h < HEADS; h++) {
            double sum = 0.0;
            for (int j = t / S * S; j <= t; j++) {
                double dot = 0.0;
                for (int d = h * D; d < (h + 1) * D; d++) dot += q[t][d] * k[j][d];
                const double weight = exp(dot / sqrt((double)D));
                for (int d = h * V; d < (h + 1) * V; d++) context[d] += weight * v[j][d];
                sum += weight;
            }
            for (int d = h * V; d < (h + 1) * V; d++) context[d] /= sum;
        }
        multiply(r->out, C, HEADS * V, context, &y[t * C]);
    }
}

static void agrees_with_the_definition(void **state)
{
    (void)state;
    static latent_result whole, part[2];
    for (int form = 0; form < 4; form++) {
        const int64_t q_rank = form % 2 == 0 ? Q : 0;
        const bool interleaved = form / 2 != 0;
        const mega_rope *rope = interleaved ? &neighbours : &halves;
        double expected[T * C], sum[T * C];
        run(q_rank, rope, 0, 1, &whole);
        defined(&whole, q_rank, interleaved, expected);
        const double error = mega_kit_relative_error_f64(whole.y, expected, T * C);
        if (!(error <= 1e-6)) fail_msg("form %d: error %g", form, error); /* angles are rounded to float */
        for (int rank = 0; rank < 2; rank++) run(q_rank, rope, rank, 2, &part[rank]);
        for (int i = 0; i < T * C; i++) sum[i] = part[0].y[i] + part[1].y[i];
        assert_true(mega_kit_relative_error_f64(part[0].y, whole.y, T * C) > 0.1);
        assert_true(mega_kit_relative_error_f64(sum, whole.y, T * C) <= 1e-13);
    }
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        mega_layout *one = NULL;
        mega_params *params = NULL;
        mega_latent_options l = latent_of(Q);
        if (i == 0) l.kv_rank = 0;
        if (i == 1) l.value_dim = D + 1;
        if (i == 2) l.own_dim = OWN + 1;
        if (i == 3) l.kv_up = NULL;
        need(mega_layout_create(NULL, NULL, &one));
        need(mega_params_create(one, &params));
        mega_builder b = {.layout = one, .samples = B, .positions = S, .path = "m"};
        need(mega_graph_create(MEGA_F64, params, one, &b.graph));
        describe(&b, mega_input(&b, "x", MEGA_F64, S, C), &l, &halves);
        assert_int_equal(mega_graph_status(b.graph), MEGA_ERR_USAGE);
        if (strstr(mega_error_message(), "layer \"m\", attn: latent attention of") == NULL)
            fail_msg("form %d: %s", i, mega_error_message());
        mega_graph_destroy(b.graph);
        mega_params_destroy(params);
        mega_layout_destroy(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
