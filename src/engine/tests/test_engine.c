/* Tests the engine as a library: steps do not allocate, results do not depend on the micro-batch size, runs are
 * deterministic, and checkpoints restore them. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/file.h"
#include "megalith/gpt_data.h"
#include "megalith/memory.h"
#include "megalith/transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQ = ENGINE_RUN_SEQ, VOCAB = ENGINE_RUN_VOCAB, BATCH = 4, STEPS = 4 };

typedef struct setting {
    mega_dtype compute;
    int64_t micro_batch;
    double dropout;
    bool per_token, masked, plain, recompute;
    int threads;
    uint32_t more_seed; /* added to the seed of dropout */
    bool still;         /* the learning rate is 0 */
} setting;

typedef struct rig {
    mega_transformer gpt;
    mega_team *team;
    mega_engine *engine;
} rig;

static void rig_open(rig *r, const setting *s)
{
    r->gpt = engine_run_gpt();
    r->gpt.attention_dropout = r->gpt.hidden_dropout = s->dropout;
    r->gpt.recompute = s->recompute ? MEGA_TRANSFORMER_RECOMPUTE_FULL : MEGA_TRANSFORMER_RECOMPUTE_NONE;
    need(mega_team_create(s->threads > 0 ? s->threads : 1, &r->team));
    mega_engine_options o = engine_run_options(BATCH, s->micro_batch, s->still ? 0 : 1e-2);
    o.loss_scale.fixed = 1024; /* of fp16 */
    o.dropout_seed += s->more_seed;
    o.compute = s->compute;
    o.backend = s->plain ? MEGA_BACKEND_PLAIN : MEGA_BACKEND_CPU;
    o.team = r->team;
    o.per_token_loss = s->per_token;
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, 1234));
}

static void rig_close(rig *r)
{
    mega_engine_destroy(r->engine);
    mega_team_destroy(r->team);
}

/* Sample n of the run depends only on n. */
static void fill(mega_batch *b, int64_t first, bool masked)
{
    const mega_ltor_options o = {
        .eod = 3, .eod_mask_loss = masked, .reset_position_ids = masked, .reset_attention_mask = masked};
    for (int64_t r = 0; r < mega_batch_num_samples(b); r++) {
        int32_t row[SEQ + 1];
        engine_run_sample(row, first + r);
        for (int i = 0; masked && i < (first + r) % 5 * 2; i++)
            row[i] = 3; /* the number of masked tokens depends on the sample */
        mega_ltor_sample(mega_batch_sample(b, r), row, SEQ, &o);
    }
}

static void step(rig *r, const setting *s, mega_step_result *out)
{
    fill(mega_engine_batch(r->engine), mega_engine_progress_get(r->engine)->consumed_samples, s->masked);
    need(mega_engine_train_batch(r->engine, out));
}

/* valgrind looks for reads of memory that nobody wrote: a second step reads what the first one left. */
static bool is_slow(void)
{
    return getenv("MEGA_UNDER_VALGRIND") != NULL;
}

static int compared_steps(void)
{
    return is_slow() ? 2 : STEPS;
}

static void run(const setting *s, mega_step_result out[STEPS], int steps)
{
    rig r;
    rig_open(&r, s);
    for (int i = 0; i < steps; i++) step(&r, s, &out[i]);
    rig_close(&r);
}

static void same(const setting *a, const setting *b, double tolerance)
{
    mega_step_result x[STEPS], y[STEPS];
    const int steps = compared_steps();
    run(a, x, steps);
    run(b, y, steps);
    for (int i = 0; i < steps; i++) {
        if (!(fabs(x[i].loss - y[i].loss) <= tolerance * y[i].loss))
            fail_msg("step %d: losses %.17g and %.17g", i + 1, x[i].loss, y[i].loss);
        if (!(fabs(x[i].grad_norm - y[i].grad_norm) <= tolerance * y[i].grad_norm))
            fail_msg("step %d: gradient norms %.17g and %.17g", i + 1, x[i].grad_norm, y[i].grad_norm);
    }
}

static void micro_batches_change_nothing(void **state)
{
    (void)state;
    const setting one = {.compute = MEGA_F64, .micro_batch = 1, .dropout = 0.2, .plain = true};
    setting four = one;
    four.micro_batch = 4;
    same(&one, &four, 1e-12); /* dropout masks, too, depend only on the sample */
}

/* Different seeds give different losses. In a model that does not learn, two steps on the same samples differ too. */
static void masks_follow_the_seed_and_the_step(void **state)
{
    (void)state;
    const setting one = {.compute = MEGA_F32, .micro_batch = 4, .dropout = 0.2, .still = true};
    setting other = one;
    mega_step_result a[STEPS], b[STEPS];
    rig r;
    other.more_seed = 1;
    run(&one, a, compared_steps());
    run(&other, b, compared_steps());
    for (int i = 0; i < compared_steps(); i++) assert_true(a[i].loss != b[i].loss);
    rig_open(&r, &one);
    for (int i = 0; i < 2; i++) {
        fill(mega_engine_batch(r.engine), 0, false);
        need(mega_engine_train_batch(r.engine, &a[i]));
    }
    rig_close(&r);
    assert_true(a[0].loss != a[1].loss);
}

static void per_token_loss_does_not_see_micro_batches(void **state)
{
    (void)state;
    const setting one = {.compute = MEGA_F64, .micro_batch = 1, .plain = true, .masked = true, .per_token = true};
    setting two = one;
    two.micro_batch = 2;
    same(&one, &two, 1e-12);
    /* Megatron's mean of means does depend on it: the default must differ here, or this test shows nothing. */
    setting mean_one = one, mean_two = two;
    mega_step_result x[STEPS], y[STEPS];
    mean_one.per_token = mean_two.per_token = false;
    run(&mean_one, x, 1);
    run(&mean_two, y, 1);
    assert_true(fabs(x[0].loss - y[0].loss) > 1e-6);
}

static void threads_and_repetition_change_no_bit(void **state)
{
    (void)state;
    static const mega_dtype type[] = {MEGA_F32, MEGA_BF16, MEGA_F16};
    for (int i = 0; i < 3; i++) {
        const setting one = {.compute = type[i], .micro_batch = 2, .dropout = 0.1, .threads = 1};
        setting three = one;
        three.threads = 3;
        same(&one, &one, 0);
        same(&one, &three, 0);
    }
}

static void recomputation_changes_no_bit(void **state)
{
    (void)state;
    const setting kept = {.compute = MEGA_F32, .micro_batch = 2, .dropout = 0.1};
    setting again = kept;
    again.recompute = true;
    same(&kept, &again, 0);
}

static void fast_kernels_are_the_plain_ones(void **state)
{
    (void)state;
    const setting fast = {.compute = MEGA_F32, .micro_batch = 2, .dropout = 0.1};
    setting plain = fast, exact = fast;
    plain.plain = true;
    exact.compute = MEGA_F64;
    same(&fast, &plain, 2e-5); /* four Adam steps of 1e-2 amplify rounding errors of 1e-7 */
    same(&fast, &exact, 2e-5);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_BF16, .micro_batch = 2, .dropout = 0.1, .threads = 2};
    mega_step_result result;
    mega_loss_sums sums = {0};
    rig r;
    rig_open(&r, &s);
    const uint64_t before = mega_alloc_count();
    for (int i = 0; i < STEPS; i++) step(&r, &s, &result);
    fill(mega_engine_evaluation_batch(r.engine, 2, 0), 0, false);
    need(mega_engine_evaluate_batch(r.engine, &sums));
    assert_int_equal(mega_alloc_count(), before);
    assert_true(sums.count == 1);
    rig_close(&r);
}

/* A signal ends an evaluation, but never a training step. */
static void a_signal_ends_an_evaluation(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    volatile sig_atomic_t stop = SIGTERM;
    mega_loss_sums sums = {0};
    mega_step_result first, second;
    rig r;
    rig_open(&r, &s);
    mega_team_stop_on(r.team, &stop);
    fill(mega_engine_evaluation_batch(r.engine, 2, 0), 0, false);
    assert_int_equal(mega_engine_evaluate_batch(r.engine, &sums), MEGA_ERR_INTERRUPTED);
    assert_true(sums.count == 0);
    fill(mega_engine_batch(r.engine), 0, false);
    need(mega_engine_train_batch(r.engine, &first));
    fill(mega_engine_batch(r.engine), BATCH, false);
    need(mega_engine_train_batch(r.engine, &second));
    assert_true(first.loss > 0 && second.loss > 0 && first.loss != second.loss);
    stop = 0;
    fill(mega_engine_evaluation_batch(r.engine, 2, 0), 0, false);
    need(mega_engine_evaluate_batch(r.engine, &sums));
    assert_true(sums.count == 1);
    rig_close(&r);
}

static void it_learns(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 4};
    mega_step_result result = {0};
    double first = 0;
    rig r;
    rig_open(&r, &s);
    for (int i = 0; i < (is_slow() ? 2 : 40); i++) {
        fill(mega_engine_batch(r.engine), 0, false); /* the same four samples */
        need(mega_engine_train_batch(r.engine, &result));
        if (i == 0) first = result.loss;
    }
    if (!(result.loss < (is_slow() ? 1 : 0.3) * first)) fail_msg("the loss went from %g to %g", first, result.loss);
    rig_close(&r);
}

static mega_status try_save(rig *r, const char *folder)
{
    mega_model_shape shape;
    mega_transformer_to_shape(&r->gpt, 3, &shape);
    const mega_engine_save_options o = {
        .folder = folder, .shape = &shape, .save_dtype = MEGA_F32, .extra_json = "{\"a\": 1}", .keep = 1};
    return mega_engine_save(r->engine, &o);
}

static void save(rig *r, const char *folder)
{
    need(try_save(r, folder));
}

static int64_t bytes_of(const char *folder, const char *name)
{
    char path[512];
    int64_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return mega_file_exists(path) && mega_file_size(path, &bytes) == MEGA_OK ? bytes : 0;
}

/* The planned size of a checkpoint equals the size of its tensors; the files' headers are not included. */
static void bytes_of_a_checkpoint_are_known_before(void **state)
{
    (void)state;
    const struct {
        mega_dtype save_dtype;
        bool no_optim;
    } how[] = {{MEGA_F32, false}, {MEGA_BF16, false}, {MEGA_F32, true}, {MEGA_F16, true}, {MEGA_F64, false}};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *folder = mega_kit_temp_folder();
        const setting s = {.compute = MEGA_F32, .micro_batch = 2};
        mega_model_shape shape;
        char at[256];
        rig r;
        rig_open(&r, &s);
        mega_transformer_to_shape(&r.gpt, 3, &shape);
        const mega_engine_save_options o = {
            .folder = folder, .shape = &shape, .save_dtype = how[i].save_dtype, .no_optim = how[i].no_optim};
        const int64_t planned = mega_engine_save_bytes(r.engine, &o);
        need(mega_engine_save(r.engine, &o));
        snprintf(at, sizeof at, "%s/iter_0000000", folder);
        const int64_t taken = bytes_of(at, "model.safetensors") + bytes_of(at, "state/optimizer.safetensors") +
                              bytes_of(at, "state/masters.safetensors");
        if (taken < planned || taken - planned > 3 * 8192)
            fail_msg("row %zu: planned %lld, taken %lld", i, (long long)planned, (long long)taken);
        rig_close(&r);
    }
}

static void a_loaded_engine_goes_on(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_BF16, .micro_batch = 2, .dropout = 0.1};
    const char *folder = mega_kit_temp_folder();
    mega_step_result expected[STEPS], found;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    rig r, other;
    run(&s, expected, STEPS);
    rig_open(&r, &s);
    for (int i = 0; i < 2; i++) step(&r, &s, &found);
    mega_engine_progress_get(r.engine)->consumed_valid_samples = 24;
    save(&r, folder);
    rig_close(&r);
    rig_open(&other, &s);
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(other.engine, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    mega_checkpoint_close(c);
    assert_true(loaded.optimizer && loaded.resumed);
    assert_int_equal(mega_engine_progress_get(other.engine)->consumed_samples, 2 * BATCH);
    assert_int_equal(mega_engine_progress_get(other.engine)->consumed_valid_samples, 24);
    for (int i = 2; i < STEPS; i++) {
        step(&other, &s, &found);
        assert_true(found.loss == expected[i].loss);
        assert_true(found.grad_norm == expected[i].grad_norm);
    }
    rig_close(&other);
}

static void finetuning_takes_weights_alone(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    const char *folder = mega_kit_temp_folder();
    mega_step_result after, found;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    rig r, other;
    rig_open(&r, &s);
    for (int i = 0; i < 2; i++) step(&r, &s, &after);
    save(&r, folder);
    fill(mega_engine_batch(r.engine), 0, false);
    need(mega_engine_train_batch(r.engine, &after));
    rig_close(&r);
    rig_open(&other, &s);
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(other.engine, c, &(mega_engine_load_options){.finetune = true}, &loaded));
    mega_checkpoint_close(c);
    assert_false(loaded.optimizer || loaded.resumed);
    assert_int_equal(mega_engine_progress_get(other.engine)->iteration, 0);
    step(&other, &s, &found);
    assert_true(found.loss == after.loss); /* same weights, same samples */
    assert_true(mega_optimizer_updates(mega_engine_optimizer(other.engine)) == 1);
    rig_close(&other);
}

/* Loads a folder into an engine with a different schedule: a constant learning rate of 1. */
static mega_status load_otherwise(rig *r, const char *folder, const mega_engine_load_options *how)
{
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    r->gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(BATCH, 2, 1.0);
    r->team = NULL;
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
    need(mega_engine_allocate(r->engine));
    need(mega_checkpoint_open(folder, false, &c));
    const mega_status st = mega_engine_load(r->engine, c, how, &loaded);
    mega_checkpoint_close(c);
    return st;
}

/* A WSD schedule is saved and loaded, for resuming and, starting from its first sample, for fine-tuning. */
static void the_schedule_of_a_checkpoint(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    const char *folder = mega_kit_temp_folder();
    mega_step_result found;
    rig r = {.gpt = engine_run_gpt()}, other;
    mega_engine_options o = engine_run_options(BATCH, 2, 1e-3);
    o.schedule.style = MEGA_LR_WSD; /* 4 samples at the peak, then decay over 8 */
    o.schedule.wsd_style = MEGA_LR_WSD_LINEAR;
    o.schedule.decay = 12;
    o.schedule.wsd_decay = 8;
    need(gpt_engine_create(&r.engine, &r.gpt, &o));
    need(mega_engine_allocate(r.engine));
    need(mega_engine_initialize(r.engine, 1234));
    for (int i = 0; i < 2; i++) step(&r, &s, &found);
    save(&r, folder);
    rig_close(&r);

    assert_int_equal(load_otherwise(&other, folder, &(mega_engine_load_options){0}), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "constant here, WSD in the checkpoint"));
    rig_close(&other);
    need(load_otherwise(&other, folder, &(mega_engine_load_options){.use_checkpoint_schedule = true}));
    step(&other, &s, &found);
    assert_true(fabs(found.lr - 0.5e-3) < 1e-15);
    rig_close(&other);
    need(
        load_otherwise(&other, folder, &(mega_engine_load_options){.finetune = true, .use_checkpoint_schedule = true}));
    assert_int_equal(mega_engine_progress_get(other.engine)->iteration, 0);
    for (int i = 0; i < 3; i++) step(&other, &s, &found);
    assert_true(fabs(found.lr - 0.5e-3) < 1e-15);
    rig_close(&other);

    /* a checkpoint of weights only has no schedule */
    const char *state_of = mega_kit_path(folder, "iter_0000002/state"), *away = mega_kit_path(folder, "elsewhere");
    assert_int_equal(rename(state_of, away), 0);
    for (int finetune = 0; finetune < 2; finetune++) {
        assert_int_equal(
            load_otherwise(&other, mega_kit_path(folder, "iter_0000002"),
                           &(mega_engine_load_options){.finetune = finetune == 1, .use_checkpoint_schedule = true}),
            MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "holds weights alone"));
        rig_close(&other);
    }
}

static void nonfinite_names_the_op(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    mega_step_result result;
    rig r;
    rig_open(&r, &s);
    mega_params *params = mega_engine_params(r.engine);
    step(&r, &s, &result);
    const int p = mega_params_find(params, "transformer.h.1.ln_2.weight");
    assert_true(p >= 0);
    device_set(mega_params_master(params, p), MEGA_F32, 3, (double)NAN);
    fill(mega_engine_batch(r.engine), BATCH, false);
    assert_int_equal(mega_engine_train_batch(r.engine, &result), MEGA_ERR_NUMERIC);
    assert_non_null(strstr(mega_error_message(), "iteration 2, samples 4 to 5"));
    assert_non_null(strstr(mega_error_message(), "layer_norm"));
    assert_non_null(strstr(mega_error_message(), "h.1"));
    assert_int_equal(mega_engine_progress_get(r.engine)->iteration, 1);
    assert_true(mega_optimizer_updates(mega_engine_optimizer(r.engine)) == 1);
    rig_close(&r);
}

static void evaluation_names_the_op(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    mega_step_result result;
    mega_loss_sums sums = {0};
    rig r;
    rig_open(&r, &s);
    mega_params *params = mega_engine_params(r.engine);
    step(&r, &s, &result);
    const int p = mega_params_find(params, "transformer.h.1.ln_2.weight");
    device_set(mega_params_master(params, p), MEGA_F32, 3, (double)NAN);
    fill(mega_engine_evaluation_batch(r.engine, BATCH, 100), 100, false);
    assert_int_equal(mega_engine_evaluate_batch(r.engine, &sums), MEGA_ERR_NUMERIC);
    const char *said = mega_error_message();
    if (strstr(said,
               "evaluation after iteration 1, samples 100 to 101 (micro-batch 0 of the batch): the loss is nan") ==
            NULL ||
        strstr(said, "op layer_norm") == NULL || strstr(said, "h.1") == NULL)
        fail_msg("%s", said);
    rig_close(&r);
}

/* Weights that no step can continue from do not replace a checkpoint. */
static void bad_weights_are_not_saved(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_F32, .micro_batch = 2};
    const char *folder = mega_kit_temp_folder();
    mega_step_result result;
    rig r;
    rig_open(&r, &s);
    mega_params *params = mega_engine_params(r.engine);
    const int p = mega_params_find(params, "transformer.h.1.ln_2.weight");
    step(&r, &s, &result);
    save(&r, folder);
    step(&r, &s, &result);
    void *const values[] = {mega_params_master(params, p), mega_params_master(params, p),
                            mega_optimizer_moment(mega_engine_optimizer(r.engine), 1, p)};
    const float bad[] = {NAN, 1e20F, INFINITY};
    const char *const said[] = {"transformer.h.1.ln_2.weight has values that are infinite or not a number",
                                "transformer.h.1.ln_2.weight has a norm of 1e+20",
                                "exp_avg_sq.transformer.h.1.ln_2.weight has values that are infinite"};
    for (int i = 0; i < 3; i++) {
        const double good = device_number(values[i], MEGA_F32, 3);
        device_set(values[i], MEGA_F32, 3, (double)bad[i]);
        assert_int_equal(try_save(&r, folder), MEGA_ERR_NUMERIC);
        const char *text = mega_error_message();
        if (strstr(text, said[i]) == NULL || strstr(text, "iteration 2 is not saved") == NULL ||
            strstr(text, "keeps the checkpoint of iteration 1.") == NULL)
            fail_msg("%s", text);
        assert_int_equal(mega_checkpoint_latest(folder), 1);
        device_set(values[i], MEGA_F32, 3, good);
    }
    save(&r, folder);
    assert_int_equal(mega_checkpoint_latest(folder), 2);
    rig_close(&r);
}

static void planned_memory_is_what_is_taken(void **state)
{
    (void)state;
    const setting s = {.compute = MEGA_BF16, .micro_batch = 2};
    mega_engine_memory m;
    rig r;
    rig_open(&r, &s);
    mega_engine_memory_get(r.engine, &m);
    const size_t elements = (size_t)mega_params_elements(mega_engine_params(r.engine));
    assert_int_equal(m.weights, elements * 2);
    assert_int_equal(m.masters, elements * 4);
    assert_int_equal(m.gradients, elements * 4);
    assert_in_range(m.moments, elements * 8, elements * 8 + 65536);
    assert_true(m.saved > 0 && m.scratch > 0);
    assert_int_equal(m.total, m.weights + m.masters + m.gradients + m.moments + m.saved + m.scratch + m.inputs +
                                  m.packed + m.data + m.records + m.libraries);
    rig_close(&r);
}

/* Builds a small engine and trains one step. */
static int short_life(void *user)
{
    (void)user;
    const mega_transformer gpt =
        gpt_of((gpt_size){.layers = 1, .heads = 2, .head_dim = 8, .positions = SEQ, .vocab = VOCAB, .init_std = 0.02});
    const mega_engine_options o = {.micro_batch = 1,
                                   .seq = SEQ,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.max_lr = 1e-2, .decay = 100}};
    mega_engine *e = NULL;
    mega_step_result result;
    mega_status st = gpt_engine_create(&e, &gpt, &o);
    if (st == MEGA_OK) st = mega_engine_allocate(e);
    if (st == MEGA_OK) st = mega_engine_initialize(e, 1);
    if (st == MEGA_OK) {
        fill(mega_engine_batch(e), 0, false);
        st = mega_engine_train_batch(e, &result);
    }
    mega_engine_destroy(e);
    return (int)st;
}

static void short_memory_is_told(void **state)
{
    (void)state;
    const int count = mega_kit_fail_each_allocation(short_life, NULL);
    assert_true(count > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_change_nothing),
        cmocka_unit_test(masks_follow_the_seed_and_the_step),
        cmocka_unit_test(per_token_loss_does_not_see_micro_batches),
        cmocka_unit_test(threads_and_repetition_change_no_bit),
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(fast_kernels_are_the_plain_ones),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_signal_ends_an_evaluation),
        cmocka_unit_test(it_learns),
        cmocka_unit_test(bytes_of_a_checkpoint_are_known_before),
        cmocka_unit_test(a_loaded_engine_goes_on),
        cmocka_unit_test(finetuning_takes_weights_alone),
        cmocka_unit_test(the_schedule_of_a_checkpoint),
        cmocka_unit_test(nonfinite_names_the_op),
        cmocka_unit_test(evaluation_names_the_op),
        cmocka_unit_test(bad_weights_are_not_saved),
        cmocka_unit_test(planned_memory_is_what_is_taken),
        cmocka_unit_test(short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
