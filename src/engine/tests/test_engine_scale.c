/* Tests fp16 and its loss scale: the losses of fp32 within rounding, steps that are skipped without a trace, the scale
 * in checkpoints, and the error where the scale is at its minimum. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "notes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4 };

/* valgrind looks for reads of memory that nobody wrote: two steps, and fewer searches from a large scale, read all of
 * it. */
static bool is_slow(void)
{
    return getenv("MEGA_UNDER_VALGRIND") != NULL;
}

/* An engine of two micro-batches a step whose learning rate warms up, so that a schedule that moved shows. */
static mega_engine *begin(mega_dtype compute, mega_loss_scale_options scale)
{
    static mega_transformer gpt;
    mega_engine *e;
    gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    o.schedule.warmup = 40;
    o.compute = compute;
    o.loss_scale = scale;
    need(gpt_engine_create(&e, &gpt, &o));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    return e;
}

static mega_status try_step(mega_engine *e, int64_t first, mega_step_result *out)
{
    mega_batch *b = mega_engine_batch(e);
    for (int64_t r = 0; r < BATCH; r++) engine_run_fill(b, r, first + r);
    return mega_engine_train_batch(e, out);
}

static void step(mega_engine *e, mega_step_result *out)
{
    need(try_step(e, mega_engine_progress_get(e)->consumed_samples, out));
}

static void fp16_trains_like_fp32(void **state)
{
    (void)state;
    mega_engine *one = begin(MEGA_F32, (mega_loss_scale_options){0});
    mega_engine *half = begin(MEGA_F16, (mega_loss_scale_options){.fixed = 1024});
    assert_true(mega_engine_loss_scale(one) == 1 && mega_engine_loss_scale(half) == 1024);
    for (int i = 0; i < (is_slow() ? 2 : 6); i++) {
        mega_step_result a, b;
        step(one, &a);
        step(half, &b);
        assert_true(a.loss_scale == 1 && b.loss_scale == 1024 && !b.skipped);
        if (!(fabs(a.loss - b.loss) <= 3e-3 * a.loss)) fail_msg("step %d: %.9g, in fp32 %.9g", i, b.loss, a.loss);
        if (!(fabs(a.grad_norm - b.grad_norm) <= 1e-2 * a.grad_norm))
            fail_msg("step %d: norm %.9g, in fp32 %.9g", i, b.grad_norm, a.grad_norm);
    }
    mega_engine_destroy(one);
    mega_engine_destroy(half);
}

static int64_t weight_bytes(const mega_engine *e)
{
    int64_t n = 0;
    for (int i = 0; i < mega_params_count(mega_engine_params(e)); i++)
        n += mega_params_get(mega_engine_params(e), i)->count;
    return n * (int64_t)sizeof(float);
}

/* Copies all masters. */
static float *masters(const mega_engine *e)
{
    float *copy = mega_malloc((size_t)weight_bytes(e)), *at = copy;
    for (int i = 0; i < mega_params_count(mega_engine_params(e)); i++) {
        const int64_t n = mega_params_get(mega_engine_params(e), i)->count;
        mega_device_read(at, mega_params_master(mega_engine_params(e), i), (size_t)n * sizeof *at);
        at += n;
    }
    return copy;
}

/* Runs steps until one is applied, and returns how many were skipped. */
static int64_t search(mega_engine *e, mega_step_result *out)
{
    float *before = masters(e);
    const double lr = mega_engine_lr(e);
    int64_t skipped = 0;
    for (;; skipped++) {
        step(e, out);
        assert_true(mega_engine_was_step_applied(e) == !out->skipped);
        assert_true(mega_engine_skipped_steps(e) == skipped + out->skipped);
        assert_true(mega_engine_global_steps(e) == skipped + 1);
        assert_true(mega_engine_progress_get(e)->consumed_samples == (skipped + 1) * BATCH);
        assert_true(out->lr == lr);
        if (!out->skipped) break;
        float *after = masters(e);
        assert_memory_equal(before, after, (size_t)weight_bytes(e));
        mega_free(after);
        assert_true(isnan(out->grad_norm) && mega_optimizer_updates(mega_engine_optimizer(e)) == 0);
        assert_true(mega_engine_lr(e) == lr && mega_engine_progress_get(e)->schedule_samples == 0);
        assert_true(skipped < 40);
    }
    mega_free(before);
    return skipped;
}

/* After skipped steps, the run equals one that began with the scale that was found, and with the samples after them. */
static void skipped_steps_leave_no_trace(void **state)
{
    (void)state;
    mega_step_result found, expected;
    mega_engine *e = begin(MEGA_F16, (mega_loss_scale_options){0});
    const int64_t skipped = search(e, &found);
    assert_true(skipped > 5);
    /* The first overflow takes the hysteresis, each later one halves the scale. */
    assert_true(mega_engine_loss_scale(e) == ldexp(1, (int)(32 - (skipped - 1))));
    mega_engine *other = begin(MEGA_F16, (mega_loss_scale_options){.fixed = mega_engine_loss_scale(e)});
    for (int i = 0; i < 4; i++) {
        if (i > 0) step(e, &found);
        need(try_step(other, (skipped + i) * BATCH, &expected));
        assert_true(!found.skipped && !expected.skipped);
        assert_true(found.loss == expected.loss && found.grad_norm == expected.grad_norm && found.lr == expected.lr);
    }
    float *a = masters(e), *b = masters(other);
    assert_memory_equal(a, b, (size_t)weight_bytes(e));
    mega_free(a);
    mega_free(b);
    mega_engine_destroy(e);
    mega_engine_destroy(other);
}

static void the_scale_grows_again(void **state)
{
    (void)state;
    mega_step_result r;
    mega_engine *e = begin(MEGA_F16, (mega_loss_scale_options){.initial = 4, .least = 1, .window = 2, .hysteresis = 1});
    for (int i = 0; i < 6; i++) {
        step(e, &r);
        assert_true(r.loss_scale == ldexp(4, i / 2) && mega_engine_loss_scale(e) == ldexp(4, (i + 1) / 2));
    }
    mega_engine_destroy(e);
}

/* At its minimum, the scale cannot help: the step names the op whose output overflowed, and nothing changes. */
static void an_overflow_at_the_minimum_names_the_op(void **state)
{
    (void)state;
    mega_step_result r;
    const double scale = ldexp(1, 40);
    mega_engine *e =
        begin(MEGA_F16, (mega_loss_scale_options){.initial = scale, .least = scale, .window = 10, .hysteresis = 2});
    float *before = masters(e);
    step(e, &r);
    assert_true(r.skipped);
    assert_int_equal(try_step(e, BATCH, &r), MEGA_ERR_NUMERIC);
    const char *said = mega_error_message();
    if (strstr(said, "at the smallest loss scale, 1.09951e+12") == NULL || strstr(said, "instruction") == NULL)
        fail_msg("%s", said);
    float *after = masters(e);
    assert_memory_equal(before, after, (size_t)weight_bytes(e));
    assert_true(mega_engine_loss_scale(e) == scale && mega_engine_skipped_steps(e) == 1);
    mega_free(before);
    mega_free(after);
    mega_engine_destroy(e);
}

/* A static scale skips such steps, too, and never changes. */
static void a_static_scale_skips(void **state)
{
    (void)state;
    mega_step_result r;
    mega_engine *e = begin(MEGA_F16, (mega_loss_scale_options){.fixed = ldexp(1, 40)});
    for (int i = 0; i < 4; i++) {
        step(e, &r);
        assert_true(r.skipped && r.loss_scale == ldexp(1, 40) && isfinite(r.loss));
    }
    assert_int_equal(mega_engine_skipped_steps(e), 4);
    mega_engine_destroy(e);
}

static void one_micro_batch_at_a_time_skips_alike(void **state)
{
    (void)state;
    mega_step_result whole, parts;
    mega_engine *a =
        begin(MEGA_F16, (mega_loss_scale_options){.initial = 65536 * 16.0, .least = 1, .window = 4, .hysteresis = 1});
    mega_engine *b =
        begin(MEGA_F16, (mega_loss_scale_options){.initial = 65536 * 16.0, .least = 1, .window = 4, .hysteresis = 1});
    int64_t skipped = 0;
    for (int i = 0; i < 12; i++) {
        step(a, &whole);
        for (int m = 0; m < 2; m++) {
            mega_batch *rows = mega_engine_micro_batch(b);
            for (int64_t r = 0; r < 2; r++) engine_run_fill(rows, r, i * BATCH + 2 * m + r);
            need(mega_engine_forward(b, NULL));
            need(mega_engine_backward(b));
            need(mega_engine_step(b, &parts));
        }
        assert_true(whole.skipped == parts.skipped && whole.loss == parts.loss);
        assert_true(mega_engine_was_step_applied(b) == !parts.skipped);
        assert_true(mega_engine_loss_scale(a) == mega_engine_loss_scale(b));
        skipped += whole.skipped;
    }
    assert_true(skipped > 0 && skipped < 12 && mega_engine_skipped_steps(b) == skipped);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void a_checkpoint_keeps_the_scale(void **state)
{
    (void)state;
    const double initial = ldexp(1, is_slow() ? 20 : 34);
    const mega_loss_scale_options o = {.initial = initial, .least = 1, .window = 3, .hysteresis = 2};
    const char *folder = mega_kit_temp_folder();
    mega_transformer gpt = engine_run_gpt();
    mega_model_shape shape;
    mega_step_result expected, found;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    mega_engine *e = begin(MEGA_F16, o);
    search(e, &found);
    step(e, &found);
    mega_transformer_to_shape(&gpt, 3, &shape);
    need(mega_engine_save(e, &(mega_engine_save_options){.folder = folder, .shape = &shape, .save_dtype = MEGA_F16}));
    mega_engine *other = begin(MEGA_F16, o);
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(other, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    assert_int_equal(mega_engine_skipped_steps(other), mega_engine_skipped_steps(e));
    for (int i = 0; i < (is_slow() ? 2 : 8); i++) {
        assert_true(mega_engine_loss_scale(other) == mega_engine_loss_scale(e));
        step(e, &expected);
        step(other, &found);
        assert_true(found.skipped == expected.skipped && found.loss == expected.loss);
    }
    mega_engine_destroy(other);
    /* A static scale is that of the options; a fine-tuning begins with the first scale. */
    other = begin(MEGA_F16, (mega_loss_scale_options){.fixed = 8});
    need(mega_engine_load(other, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    assert_true(mega_engine_loss_scale(other) == 8);
    mega_engine_destroy(other);
    other = begin(MEGA_F16, o);
    need(mega_engine_load(other, c, &(mega_engine_load_options){.finetune = true}, &loaded));
    assert_true(mega_engine_loss_scale(other) == initial && mega_engine_skipped_steps(other) == 0);
    mega_engine_destroy(other);
    mega_checkpoint_close(c);
    mega_engine_destroy(e);
}

static void deepspeed_says_what_it_does(void **state)
{
    (void)state;
    mega_step_result r;
    mega_engine *e =
        begin(MEGA_F16,
              (mega_loss_scale_options){
                  .rules = MEGA_SCALE_DEEPSPEED, .initial = ldexp(1, 40), .least = 1, .window = 1000, .hysteresis = 2});
    notes_begin();
    step(e, &r);
    step(e, &r);
    mega_log_set_sink(NULL, NULL);
    if (strstr(notes, "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1099511627776, but hysteresis "
                      "is 2. Reducing hysteresis to 1\n") == NULL ||
        strstr(notes, "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1099511627776, reducing to "
                      "549755813888\n") == NULL)
        fail_msg("%s", notes);
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp16_trains_like_fp32),        cmocka_unit_test(skipped_steps_leave_no_trace),
        cmocka_unit_test(the_scale_grows_again),        cmocka_unit_test(an_overflow_at_the_minimum_names_the_op),
        cmocka_unit_test(a_static_scale_skips),         cmocka_unit_test(one_micro_batch_at_a_time_skips_alike),
        cmocka_unit_test(a_checkpoint_keeps_the_scale), cmocka_unit_test(deepspeed_says_what_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
