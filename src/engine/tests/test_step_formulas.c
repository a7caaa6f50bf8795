/* Whole steps of the engine against formulas written here, from options as typed to the files of a checkpoint.
 *
 * Gradients come from differences of the evaluation loss in float64, so the backward pass, the optimizer and the
 * schedules are never compared with themselves. */
#include "device.h"
#include "gpt_engine.h"
#include "kit.h"
#include "megalith/command_options.h"
#include "megalith/gpt_data.h"
#include "megalith/log.h"
#include "megalith/philox.h"
#include "megalith/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQ = 3, VOCAB = 6, PADDED = 8, PARAMS = 256, STEPS = 3, MOST_ROWS = 6 };

/* The settings of the command line below, as constants of the formulas. The global batch is 2, then 4, then 6, with 2
 * samples at each of the first two sizes. */
static const double PEAK = 0.1, FLOOR = 0.01, WARM_FROM = 0.02, CLIP = 0.05, BETA1 = 0.8, BETA2 = 0.95, EPS = 1e-3;
static const double WARMUP = 3, DECAY = 20; /* in samples */
#define COMMON                                                                                    \
    "--num-layers 1 --hidden-size 4 --ffn-hidden-size 8 --num-attention-heads 2 --seq-length 3 "  \
    "--max-position-embeddings 3 "                                                                \
    "--micro-batch-size 2 --global-batch-size 6 --rampup-batch-size 2 2 4 --train-samples 20 "    \
    "--lr 0.1 --min-lr 0.01 --lr-decay-style cosine --lr-warmup-samples 3 --lr-warmup-init 0.02 " \
    "--clip-grad 0.05 --adam-beta1 0.8 --adam-beta2 0.95 --adam-eps 1e-3 --hidden-dropout 0 "     \
    "--attention-dropout 0 --init-method-std 0.5 --backend plain --fp64 "

typedef struct recipe {
    const char *options;
    bool sgd, l2;
    double momentum, first_decay, last_decay;
} recipe;

/* The state of a training, computed by the formulas. The elements of all parameters are concatenated. */
typedef struct truth {
    double p[PARAMS], g[PARAMS], m[PARAMS], v[PARAMS];
    double loss, norm, clip_factor, lr, weight_decay;
    int64_t updates, samples; /* completed */
} truth;

static void near(const char *what, int64_t index, double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%s, element %lld: found %.12g, expected %.12g", what, (long long)index, found, expected);
}

/* ---- engines ---- */

static void parse(mega_command_options *cfg, const char *more)
{
    static char text[1024], name[] = "plan";
    char *argv[128] = {name}, *rest = text, *word;
    int argc = 1;
    assert_true(snprintf(text, sizeof text, COMMON "%s", more) < (int)sizeof text);
    while ((word = strsep(&rest, " ")) != NULL)
        if (*word != '\0' && argc < 127) argv[argc++] = word;
    need(mega_command_options_init(cfg));
    need(mega_options_parse(cfg->train.engine.options, "plan", argc, argv));
    cfg->train.model.padded_vocab_size = PADDED;
}

typedef struct rig {
    mega_command_options cfg;
    mega_transformer gpt;
    mega_engine *engine;
    mega_params *params;
} rig;

static void rig_open(rig *r, const recipe *of, mega_dtype compute, bool trains)
{
    mega_engine_options o;
    parse(&r->cfg, of->options);
    need(mega_transformer_from_options(&r->cfg.train.model, VOCAB, NULL, &r->gpt));
    need(mega_train_engine_options(&r->cfg.train, &o));
    o.compute = compute;
    o.backend = o.optimizer.backend = compute == MEGA_F64 ? MEGA_BACKEND_PLAIN : MEGA_BACKEND_CPU;
    o.no_train = !trains;
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, 1234));
    r->params = mega_engine_params(r->engine);
}

static void rig_close(rig *r)
{
    mega_engine_destroy(r->engine);
    mega_command_options_fini(&r->cfg);
}

static double get(const rig *r, const void *at, int64_t i)
{
    return device_number(at, mega_params_acc_dtype(r->params), i);
}

static void put_params(rig *r, const double *p)
{
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const int64_t count = mega_params_get(r->params, i)->count;
        void *master = mega_params_master(r->params, i);
        for (int64_t k = 0; k < count; k++, p++) device_set(master, mega_params_acc_dtype(r->params), k, *p);
    }
    need(mega_params_publish(r->params));
}

/* Sample n depends only on n. */
static void fill(mega_batch *b, int64_t first)
{
    const mega_ltor_options o = {.eod = -1};
    for (int64_t r = 0; r < mega_batch_num_samples(b); r++) {
        int32_t row[SEQ + 1];
        for (uint32_t at = 0; at <= SEQ; at++)
            row[at] = (int32_t)(mega_philox4x32((mega_philox){{at, (uint32_t)(first + r), 0, 0}}, 5, 6).v[0] % VOCAB);
        mega_ltor_sample(mega_batch_sample(b, r), row, SEQ, &o);
    }
}

/* ---- formulas ---- */

static double loss_of(rig *oracle, int64_t first, int64_t rows)
{
    mega_loss_sums sums = {0};
    mega_batch *b = mega_engine_evaluation_batch(oracle->engine, rows, first);
    fill(b, first);
    need(mega_engine_evaluate_batch(oracle->engine, &sums));
    return sums.loss / sums.count;
}

/* Computes the gradient from differences of the loss; their error is of order h^4. */
static void differentiate(rig *oracle, truth *t, int64_t rows)
{
    static const double weight[] = {1, -8, 8, -1}, step[] = {-2, -1, 1, 2}, h = 1e-3;
    int64_t at = 0;
    put_params(oracle, t->p);
    t->loss = loss_of(oracle, t->samples, rows);
    for (int i = 0; i < mega_params_count(oracle->params); i++) {
        void *p = mega_params_master(oracle->params, i);
        for (int64_t k = 0; k < mega_params_get(oracle->params, i)->count; k++, at++) {
            const double here = device_number(p, MEGA_F64, k);
            t->g[at] = 0;
            for (int s = 0; s < 4; s++) {
                device_set(p, MEGA_F64, k, here + step[s] * h);
                t->g[at] += weight[s] * loss_of(oracle, t->samples, rows) / (12 * h);
            }
            device_set(p, MEGA_F64, k, here);
        }
    }
}

static int64_t batch_at(int64_t samples)
{
    return samples < 2 ? 2 : samples <= 4 ? 4 : 6;
}

static double learning_rate(int64_t n)
{
    if ((double)n <= WARMUP) return WARM_FROM + (PEAK - WARM_FROM) * (double)n / WARMUP;
    const double done = ((double)n - WARMUP) / (DECAY - WARMUP);
    return FLOOR + (PEAK - FLOOR) * (1 + cos(acos(-1) * done)) / 2;
}

static bool has_decay(const char *name)
{
    const size_t n = strlen(name);
    const bool is_bias = n > 5 && strcmp(name + n - 5, ".bias") == 0, is_norm = strstr(name, ".ln_") != NULL;
    return !is_bias && !is_norm;
}

static void update_element(truth *t, const recipe *of, int64_t i, double decay)
{
    double g = t->g[i] * t->clip_factor;
    if (of->sgd) {
        g += decay * t->p[i];
        t->m[i] = t->updates == 1 ? g : of->momentum * t->m[i] + g;
        t->p[i] -= t->lr * t->m[i];
        return;
    }
    if (of->l2) g += decay * t->p[i];
    t->m[i] = BETA1 * t->m[i] + (1 - BETA1) * g;
    t->v[i] = BETA2 * t->v[i] + (1 - BETA2) * g * g;
    const double mean = t->m[i] / (1 - pow(BETA1, (double)t->updates));
    const double square = t->v[i] / (1 - pow(BETA2, (double)t->updates));
    const double shrink = of->l2 ? 0 : t->lr * decay * t->p[i];
    t->p[i] -= t->lr * mean / (sqrt(square) + EPS) + shrink;
}

static void true_step(rig *oracle, truth *t, const recipe *of)
{
    const int64_t rows = batch_at(t->samples);
    double squares = 0;
    differentiate(oracle, t, rows);
    int64_t at = 0;
    for (int i = 0; i < PARAMS; i++) squares += t->g[i] * t->g[i];
    t->norm = sqrt(squares);
    t->clip_factor = CLIP / (t->norm + 1e-6);
    t->lr = learning_rate(t->samples);
    t->weight_decay = of->first_decay + (of->last_decay - of->first_decay) * (double)t->samples / 20;
    t->updates++;
    for (int i = 0; i < mega_params_count(oracle->params); i++) {
        const mega_param *record = mega_params_get(oracle->params, i);
        const double decay = has_decay(record->name) ? t->weight_decay : 0;
        for (int64_t k = 0; k < record->count; k++) update_element(t, of, at++, decay);
    }
    t->samples += rows;
}

/* ---- comparisons ---- */

static void check_result(const mega_step_result *r, const truth *t, double tolerance)
{
    assert_true(t->norm > 10 * CLIP); /* otherwise clipping has little effect */
    near("loss", t->updates, r->loss, t->loss, tolerance);
    near("gradient norm", t->updates, r->grad_norm, t->norm, tolerance);
    near("clip factor", t->updates, r->clip_factor, t->clip_factor, tolerance);
    near("learning rate", t->updates, r->lr, t->lr, 1e-14);
    near("weight decay", t->updates, r->weight_decay, t->weight_decay, 1e-14);
}

static void check_state(const rig *r, const recipe *of, const truth *t, double tolerance)
{
    const mega_optimizer *o = mega_engine_optimizer(r->engine);
    char what[160];
    int64_t at = 0;
    assert_int_equal(mega_optimizer_num_moments(o), of->sgd ? 1 : 2);
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const mega_param *record = mega_params_get(r->params, i);
        snprintf(what, sizeof what, "step %lld, %s", (long long)t->updates, record->name);
        for (int64_t k = 0; k < record->count; k++, at++) {
            near(what, k, get(r, mega_params_master(r->params, i), k), t->p[at], tolerance);
            near(what, k, get(r, mega_optimizer_moment(o, 0, i), k), t->m[at], tolerance);
            if (!of->sgd) near(what, k, get(r, mega_optimizer_moment(o, 1, i), k), t->v[at], tolerance);
        }
    }
}

/* Checks one tensor of a file: it has no rows beyond the vocabulary, and Conv1D's weights are transposed. */
static void check_tensor(const mega_safetensors *file, const char *prefix, const mega_param *p, const double *expected)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const mega_safetensor *found = mega_safetensors_find(file, name);
    if (found == NULL) fail_msg("%s: not in the file", name);
    assert_true(found->dtype == MEGA_ST_F32);
    const int64_t rows = p->true_shape[0], cols = p->num_dims == 2 ? p->true_shape[1] : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            float x;
            memcpy(&x, found->data + 4 * (p->transposed_in_file ? c * rows + r : r * cols + c), 4);
            near(name, r * cols + c, (double)x, expected[r * cols + c], 1e-6);
        }
}

static void check_file(const char *path, const rig *r, const char *prefix, const double *expected)
{
    mega_safetensors *file;
    need(mega_safetensors_open(path, &file));
    for (int i = 0; i < mega_params_count(r->params); i++) {
        check_tensor(file, prefix, mega_params_get(r->params, i), expected);
        expected += mega_params_get(r->params, i)->count;
    }
    mega_safetensors_close(file);
}

static void check_checkpoint(rig *r, const recipe *of, const truth *t)
{
    const char *folder = mega_kit_temp_folder();
    const char *weights = mega_kit_path(folder, "iter_0000003/model.safetensors");
    const char *moments = mega_kit_path(folder, "iter_0000003/state/optimizer.safetensors");
    mega_model_shape shape;
    mega_transformer_to_shape(&r->gpt, VOCAB - 1, &shape);
    need(mega_engine_save(r->engine,
                          &(mega_engine_save_options){.folder = folder, .shape = &shape, .save_dtype = MEGA_F32}));
    check_file(weights, r, "", t->p);
    check_file(moments, r, of->sgd ? "momentum_buffer." : "exp_avg.", t->m);
    if (!of->sgd) check_file(moments, r, "exp_avg_sq.", t->v);
}

static void step_and_check(rig *r, const recipe *of, const truth *t, double tolerance)
{
    mega_step_result result;
    const int64_t first = mega_engine_progress_get(r->engine)->consumed_samples;
    mega_batch *b = mega_engine_batch(r->engine);
    fill(b, first);
    need(mega_engine_train_batch(r->engine, &result));
    assert_int_equal(first + mega_batch_num_samples(b), t->samples);
    assert_int_equal(result.samples, mega_batch_num_samples(b));
    assert_int_equal(mega_engine_progress_get(r->engine)->consumed_samples, t->samples);
    check_result(&result, t, tolerance);
    check_state(r, of, t, tolerance);
}

/* Compares three steps with the formulas: plain kernels in float64, fast kernels in float32. */
static void three_steps(const recipe *of)
{
    static truth t;
    rig oracle, exact, fast;
    t = (truth){0};
    rig_open(&oracle, of, MEGA_F64, false);
    rig_open(&exact, of, MEGA_F64, true);
    rig_open(&fast, of, MEGA_F32, true);
    int64_t at = 0;
    for (int i = 0; i < mega_params_count(oracle.params); i++)
        for (int64_t k = 0; k < mega_params_get(oracle.params, i)->count; k++) {
            assert_true(at < PARAMS);
            const double drawn = device_number(mega_params_master(oracle.params, i), MEGA_F64, k);
            t.p[at++] = drawn + (drawn == 0 && !strstr(mega_params_get(oracle.params, i)->name, "wte") ? 0.25 : 0);
        }
    put_params(&exact, t.p); /* nonzero biases, so that their decay shows */
    put_params(&fast, t.p);
    for (int i = 0; i < STEPS; i++) {
        true_step(&oracle, &t, of);
        step_and_check(&exact, of, &t, 1e-9);
        step_and_check(&fast, of, &t, 1e-6);
    }
    assert_int_equal(t.samples, 12);
    check_checkpoint(&fast, of, &t);
    rig_close(&fast);
    rig_close(&exact);
    rig_close(&oracle);
}

static void adamw(void **state)
{
    (void)state;
    three_steps(&(recipe){.options = "--weight-decay 0.3", .first_decay = 0.3, .last_decay = 0.3});
}

static void adam_with_l2(void **state)
{
    (void)state;
    three_steps(&(recipe){.options = "--weight-decay 0.3 --no-decoupled-weight-decay",
                          .l2 = true,
                          .first_decay = 0.3,
                          .last_decay = 0.3});
}

static void sgd_without_momentum(void **state)
{
    (void)state;
    three_steps(&(recipe){.options = "--optimizer sgd --sgd-momentum 0 --weight-decay 0.3",
                          .sgd = true,
                          .first_decay = 0.3,
                          .last_decay = 0.3});
}

static void sgd_with_momentum_and_growing_decay(void **state)
{
    (void)state;
    three_steps(&(recipe){.options = "--optimizer sgd --sgd-momentum 0.7 --weight-decay-incr-style linear "
                                     "--start-weight-decay 0.3 --end-weight-decay 0.9",
                          .sgd = true,
                          .momentum = 0.7,
                          .first_decay = 0.3,
                          .last_decay = 0.9});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw),
        cmocka_unit_test(adam_with_l2),
        cmocka_unit_test(sgd_without_momentum),
        cmocka_unit_test(sgd_with_momentum_and_growing_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
