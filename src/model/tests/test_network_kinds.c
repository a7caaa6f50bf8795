/* Options of the network that no model of transformers has, each against an equal network without it, whose weights are
 * computed from the same ones; the frequencies of YaRN against Megatron's formulas; and mixtures of experts. */
#include "gpt_run.h"
#include "megalith/family.h"
#include "megalith/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 8 };
static const gpt_run_options train_f64 = {
    .dtype = MEGA_F64, .backend = MEGA_BACKEND_PLAIN, .batch = BATCH, .seq = LENGTH};

static mega_transformer small(void)
{
    mega_transformer m = gpt_run_tiny();
    m.net = (mega_network_shape){.family = mega_family_find("megalith_gpt"), .untied = true};
    return m;
}

/* Sets the weights of b from those of a. */
typedef void convert(const gpt_run *a, const mega_param *p, double *weight);

static double *find_weight(const gpt_run *r, const char *name)
{
    for (int i = 0; i < mega_params_count(r->params); i++)
        if (strcmp(mega_params_get(r->params, i)->name, name) == 0) return mega_params_master(r->params, i);
    return NULL;
}

/* Random weights for all parameters of a, and those converted for b. */
static void give_weights(const gpt_run *a, const gpt_run *b, convert *f)
{
    for (int i = 0; i < mega_params_count(a->params); i++) {
        const mega_param *p = mega_params_get(a->params, i);
        double *w = mega_params_master(a->params, i);
        float *drawn = malloc((size_t)p->count * sizeof *drawn);
        mega_kit_normal(drawn, p->count, 11 + (uint32_t)i);
        for (int64_t k = 0; k < p->count; k++) w[k] += 0.2 * (double)drawn[k];
        free(drawn);
    }
    for (int i = 0; i < mega_params_count(b->params); i++) {
        const mega_param *p = mega_params_get(b->params, i);
        double *w = mega_params_master(b->params, i);
        const double *from = find_weight(a, p->name);
        if (from != NULL) memcpy(w, from, (size_t)p->count * sizeof *w);
        f(a, p, w);
    }
}

static void forward(gpt_run *r)
{
    gpt_run_fill(r, 0, 0);
    gpt_run_zero_gradients(r);
    GPT_RUN_OK(mega_params_publish(r->params));
    GPT_RUN_OK(mega_program_forward(r->program, 0));
    GPT_RUN_OK(mega_program_backward(r->program, 0));
}

/* Losses of all positions and the gradient of the last norm's weight are the same; without the conversion they are not,
 * so that the two networks do differ. */
static void expect_equal(const char *what, const mega_transformer *m, const mega_transformer *n, convert *f)
{
    gpt_run a = gpt_run_make(m, &train_f64), b = gpt_run_make(n, &train_f64);
    give_weights(&a, &b, f);
    forward(&a);
    forward(&b);
    const double *x = mega_program_tensor(a.program, "token_loss", 0),
                 *y = mega_program_tensor(b.program, "token_loss", 0);
    for (int i = 0; i < BATCH * LENGTH; i++)
        if (!(fabs(x[i] - y[i]) <= 1e-12 * fabs(y[i])))
            fail_msg("%s: loss %d is %.17g, expected %.17g", what, i, x[i], y[i]);
    for (int i = 0; i < mega_params_count(a.params); i++) {
        const mega_param *p = mega_params_get(a.params, i);
        if (strcmp(p->name, "model.norm.weight") != 0) continue;
        const double *g = mega_params_grad(a.params, i), *h = NULL;
        for (int k = 0; k < mega_params_count(b.params); k++)
            if (strcmp(mega_params_get(b.params, k)->name, p->name) == 0) h = mega_params_grad(b.params, k);
        for (int64_t k = 0; k < p->count; k++) assert_true(fabs(g[k] - h[k]) <= 1e-12);
    }
    gpt_run_free(&a);
    gpt_run_free(&b);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static void add_one(const gpt_run *a, const mega_param *p, double *w)
{
    (void)a;
    for (int64_t k = 0; k < p->count && ends_with(p->name, "norm.weight"); k++) w[k] += 1.0;
}

static void norms_of_one_plus_weight(void **state)
{
    (void)state;
    for (int rms = 0; rms < 2; rms++) {
        mega_transformer m = small(), n = m;
        m.net.rms = n.net.rms = rms == 1;
        m.net.query_norm = n.net.query_norm = MEGA_QUERY_NORM_HEAD;
        m.net.norm_plus_one = true;
        expect_equal("1 + weight", &m, &n, add_one);
    }
}

/* Rows of Q and K of each head: first those of even channels, then those of odd ones. */
static void apart(const gpt_run *a, const mega_param *p, double *w)
{
    const int64_t d = a->gpt.head_dim, rows = 2 * a->gpt.heads * d;
    const double *from = find_weight(a, p->name);
    if (strstr(p->name, "qkv_proj") == NULL) return;
    const int64_t cols = p->count / (3 * a->gpt.heads * d);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t head = r / d, j = r % d, of = j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1;
        memcpy(w + r * cols, from + (head * d + of) * cols, (size_t)cols * sizeof *w);
    }
}

static void pairs_of_neighbours(void **state)
{
    (void)state;
    mega_transformer m = small();
    m.net.positions = MEGA_POSITIONS_ROPE;
    m.net.rope = (mega_rope_settings){.theta = 100.0};
    mega_transformer n = m;
    m.net.rope.interleaved = true;
    expect_equal("interleaved", &m, &n, apart);
}

static void no_table(const gpt_run *a, const mega_param *p, double *w)
{
    (void)a;
    if (strstr(p->name, "embed_positions") != NULL) memset(w, 0, (size_t)p->count * sizeof *w);
}

static void no_positions(void **state)
{
    (void)state;
    mega_transformer m = small(), n = m;
    m.net.positions = MEGA_POSITIONS_NONE;
    expect_equal("none", &m, &n, no_table);
    n.net.positions = MEGA_POSITIONS_ROPE; /* no layer of which rotates */
    n.net.rope.theta = 100.0;
    for (int64_t i = 0; i < n.num_layers; i++) mega_shape_set_bit(n.net.no_rope, i);
    expect_equal("no layer", &m, &n, no_table);
}

/* Megatron's frequencies, by its formulas in double. */
static void megatron_yarn(const mega_model_options *o, int dims, double *out, double *factor)
{
    const double pi = acos(-1.0), base = o->rotary_base, length = (double)o->yarn_original_max_position_embeddings;
    double low = dims * log(length / (o->yarn_beta_fast * 2 * pi)) / (2 * log(base));
    double high = dims * log(length / (o->yarn_beta_slow * 2 * pi)) / (2 * log(base));
    if (o->yarn_correction_range_round_to_int) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, dims - 1);
    for (int k = 0; k < dims / 2; k++) {
        const double extra = pow(base, -2.0 * k / dims), inter = extra / o->rotary_scaling_factor;
        const double ramp = fmin(fmax((k - low) / (high - low), 0), 1);
        out[k] = inter * ramp + extra * (1 - ramp);
    }
    const double s = log(o->rotary_scaling_factor);
    *factor = (0.1 * o->mscale * s + 1) / (0.1 * o->mscale_all_dim * s + 1);
}

static void yarn_is_that_of_megatron(void **state)
{
    (void)state;
    enum { DIMS = 16 };
    static const mega_model_options given[] = {
        {.rotary_scaling_factor = 4, .yarn_beta_fast = 32, .yarn_beta_slow = 1, .mscale = 1},
        {.rotary_scaling_factor = 40, .yarn_beta_fast = 20, .yarn_beta_slow = 2, .mscale = 0.707, .mscale_all_dim = 1},
        {.rotary_scaling_factor = 8, .yarn_beta_fast = 16, .yarn_beta_slow = 3, .mscale = 2},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        mega_model_options o = given[i];
        mega_network_shape net;
        double expected[DIMS / 2], factor, found_factor;
        float found[DIMS / 2];
        o.num_layers = 1, o.hidden_size = 32, o.num_attention_heads = 2, o.kv_channels = DIMS;
        o.position_embedding_type = "rope", o.rope_type = "yarn", o.rotary_percent = 1, o.rotary_base = 10000;
        o.yarn_original_max_position_embeddings = 4096, o.yarn_correction_range_round_to_int = i != 2;
        GPT_RUN_OK(mega_network_from_options(&o, &net));
        const mega_rope r = {.theta = net.rope.theta,
                             .scaling = MEGA_ROPE_YARN,
                             .factor = net.rope.factor,
                             .beta_fast = net.rope.beta_fast,
                             .beta_slow = net.rope.beta_slow,
                             .attention_factor = net.rope.attention_factor,
                             .no_truncate = net.rope.no_truncate,
                             .original_positions = net.rope.original_positions,
                             .max_positions = 8192};
        assert_int_equal(net.rope.scaling, MEGA_ROPE_YARN);
        GPT_RUN_OK(mega_rope_frequencies(&r, DIMS, 8192, found, &found_factor));
        megatron_yarn(&o, DIMS, expected, &factor);
        assert_true(fabs(found_factor - factor) <= 1e-12);
        for (int k = 0; k < DIMS / 2; k++)
            if (!(fabs((double)found[k] - expected[k]) <= 1e-6 * expected[k]))
                fail_msg("row %zu, pair %d: frequency %.9g, expected %.9g", i, k, (double)found[k], expected[k]);
    }
}

/* ---- mixtures of experts ---- */

static const char *six[] = {"6"};
static mega_model_options mixture(void)
{
    return (mega_model_options){.num_layers = 4,
                                .hidden_size = 32,
                                .ffn_hidden_size = 48,
                                .num_attention_heads = 4,
                                .kv_channels = 8,
                                .max_position_embeddings = 16,
                                .padded_vocab_size = 40,
                                .layernorm_epsilon = 1e-5,
                                .init_method_std = 0.02,
                                .normalization = "RMSNorm",
                                .position_embedding_type = "rope",
                                .rotary_percent = 1,
                                .rotary_base = 10000,
                                .swiglu = true,
                                .untie_embeddings_and_output_weights = true,
                                .num_experts = {six, 1},
                                .moe_router_topk = 2};
}

static void expect_family(const char *type, const mega_model_options *o)
{
    mega_transformer m;
    GPT_RUN_OK(mega_transformer_from_options(o, 37, NULL, &m));
    if (strcmp(mega_family_of(&m.net)->model_type, type) != 0)
        fail_msg("%s, expected %s", mega_family_of(&m.net)->model_type, type);
}

/* The folder is that of the family of transformers that computes the same, or else our own. */
static void mixtures_of_options_have_families(void **state)
{
    (void)state;
    mega_model_options o = mixture();
    expect_family("mixtral", &o);
    o.moe_ffn_hidden_size = 24;
    expect_family("mixtral", &o);
    o.moe_router_pre_softmax = true;
    expect_family("megalith_gpt", &o);
    o.qk_layernorm = true;
    expect_family("qwen3_moe", &o);
    o.moe_layer_freq = "([0]+[1])*2";
    expect_family("qwen3_moe", &o);
    o.moe_router_topk_scaling_factor = 2.5;
    expect_family("megalith_gpt", &o);
    o = mixture(), o.moe_layer_freq = "2";
    expect_family("megalith_gpt", &o);
    o = mixture(), o.moe_router_score_function = "sigmoid";
    expect_family("megalith_gpt", &o);
    o.moe_router_num_groups = 3, o.moe_router_group_topk = 2;
    expect_family("megalith_gpt", &o);
    o.moe_router_enable_expert_bias = true;
    expect_family("megalith_gpt", &o);
    o = mixture(), o.swiglu = false, o.normalization = "LayerNorm", o.position_embedding_type = "learned_absolute",
    o.add_position_embedding = true;
    expect_family("megalith_gpt", &o);
    o = mixture(), o.add_bias_linear = true;
    expect_family("megalith_gpt", &o);
    o = mixture(), o.mlp_type = "residual";
    expect_family("megalith_gpt", &o);
}

static const char *numbers[] = {"4", "6", "2", "3", "x", "0", "2049", ""};

/* Several numbers are those of the layers with experts, in order. */
static void layers_have_numbers_of_their_own(void **state)
{
    static const int64_t expected[2][4] = {{0, 4, 0, 6}, {4, 0, 6, 0}};
    (void)state;
    mega_model_options o = mixture();
    mega_network_shape net;
    o.num_experts = (mega_list){numbers, 2};
    assert_int_equal(mega_model_num_experts(&o), 6);
    for (int k = 0; k < 2; k++) {
        if (k == 0) o.expert_interval = 2;
        else
            o.expert_interval = 0, o.moe_layer_freq = "2";
        GPT_RUN_OK(mega_network_from_options(&o, &net));
        for (int i = 0; i < 4; i++) assert_int_equal(mega_shape_experts(&net.experts, i), expected[k][i]);
        expect_family("megalith_gpt", &o);
    }
    o.num_experts = (mega_list){numbers + 1, 1};
    GPT_RUN_OK(mega_network_from_options(&o, &net));
    assert_int_equal(mega_shape_experts(&net.experts, 2), 6);
    o.num_experts.count = 0;
    assert_int_equal(mega_model_num_experts(&o), 0);
}

static double sum_of_losses(const mega_transformer *m)
{
    gpt_run a = gpt_run_make(m, &train_f64);
    double sum = 0;
    forward(&a);
    const double *x = mega_program_tensor(a.program, "token_loss", 0);
    for (int i = 0; i < BATCH * LENGTH; i++) sum += x[i];
    gpt_run_free(&a);
    return sum;
}

/* One expert has the weight 1 whatever its router reads, so that only noise in what it reads itself changes a loss. */
static void jitter_of_routers_and_of_experts(void **state)
{
    (void)state;
    mega_transformer m = small();
    m.net.no_mlp_bias = m.net.gated = true, m.init_std = 0.5;
    m.net.experts = (mega_experts_shape){.count = 1, .choices = 1, .hidden = 12, .normalized = true};
    const double alone = sum_of_losses(&m);
    m.router.jitter = 0.3;
    assert_true(sum_of_losses(&m) == alone);
    m.router.jitter = 0, m.net.experts.jitter = 0.3;
    assert_true(fabs(sum_of_losses(&m) - alone) > 1e-6);
    m.net.experts.jitter = 0, m.net.experts.count = 4, m.net.experts.choices = 2;
    const double four = sum_of_losses(&m);
    m.router.jitter = 0.3;
    assert_true(fabs(sum_of_losses(&m) - four) > 1e-6);
}

static void expect_refused(const mega_model_options *o, const char *message)
{
    mega_network_shape net;
    assert_true(mega_network_from_options(o, &net) != MEGA_OK);
    if (strstr(mega_error_message(), message) == NULL)
        fail_msg("\"%s\"; expected \"%s\"", mega_error_message(), message);
}

/* A folder says how its experts are chosen; Sinkhorn's iterations replace that only where logits alone decide. */
static void sinkhorn_is_refused_beside_biases_and_groups(void **state)
{
    mega_network_shape net = {.experts = {.count = 6, .choices = 2, .hidden = 8, .normalized = true}};
    mega_model_options o = mixture();
    mega_transformer m;
    (void)state;
    o.moe_router_load_balancing_type = "sinkhorn";
    GPT_RUN_OK(mega_transformer_from_options(&o, 37, &net, &m));
    assert_true(m.router.sinkhorn && m.router.balance == 0.0 && m.net.experts.normalized);
    for (int i = 0; i < 2; i++) {
        net.experts.choice_bias = i == 0, net.experts.groups = i == 1 ? 2 : 0;
        assert_int_equal(mega_transformer_from_options(&o, 37, &net, &m), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "in this model biases or groups of experts do"));
    }
}

static void wrong_mixtures_are_refused(void **state)
{
    static const char *const wrong[] = {
        "0",    "-1",    "2x",   "[0,1,2,1]", "[0,1",         "[0,1,1,1]]",           "([0,1]",
        "[]*4", "[1]*0", "[1]+", "",          "[1]*99999999", "((((((((((1))))))))))"};
    (void)state;
    mega_model_options o = mixture();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.moe_layer_freq = wrong[i];
        expect_refused(&o, "expected N, for the first layer and every N-th after it");
    }
    o.moe_layer_freq = "[0,1,1]";
    expect_refused(&o, "--moe-layer-freq [0,1,1]: a list of 3 layers, and --num-layers is 4");
    o.moe_layer_freq = "[0]*4";
    expect_refused(&o, "no layer has experts");
    o = mixture(), o.moe_router_topk = 7;
    expect_refused(&o, "--moe-router-topk 7 of --num-experts 6: expected at most all of them");
    o = mixture(), o.moe_router_topk = 1;
    expect_refused(&o, "give --moe-router-pre-softmax");
    o = mixture(), o.moe_router_enable_expert_bias = true;
    expect_refused(&o, "give --moe-router-score-function sigmoid");
    for (int i = 4; i < 8; i++) {
        o = mixture(), o.num_experts = (mega_list){numbers + i, 1};
        expect_refused(&o, "expected a whole number from 1 to 2048");
        assert_int_equal(mega_model_num_experts(&o), -1);
    }
    o = mixture(), o.num_experts = (mega_list){numbers, 3};
    expect_refused(&o, "--num-experts: 3 numbers, and 4 layers have experts");
    o.expert_interval = 2;
    expect_refused(&o, "--num-experts: 3 numbers, and 2 layers have experts");
    o.num_experts.count = 2, o.moe_router_topk = 5;
    expect_refused(&o, "--num-experts: 4 in layer 1, of which a token chooses 5");
    o = mixture(), o.expert_interval = 5;
    expect_refused(&o, "--expert-interval 5 of 4 layers: no layer has experts");
    o = mixture(), o.moe_router_num_groups = 3;
    expect_refused(&o, "belong together");
    o.moe_router_group_topk = 2;
    expect_refused(&o, "groups are chosen by scores, not by logits");
    o.moe_router_pre_softmax = true, o.moe_router_num_groups = 4;
    expect_refused(&o, "expected groups that divide the experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures_of_options_have_families),
        cmocka_unit_test(layers_have_numbers_of_their_own),
        cmocka_unit_test(wrong_mixtures_are_refused),
        cmocka_unit_test(sinkhorn_is_refused_beside_biases_and_groups),
        cmocka_unit_test(jitter_of_routers_and_of_experts),
        cmocka_unit_test(norms_of_one_plus_weight),
        cmocka_unit_test(pairs_of_neighbours),
        cmocka_unit_test(no_positions),
        cmocka_unit_test(yarn_is_that_of_megatron),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
