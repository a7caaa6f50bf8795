/* What an engine refuses: options out of range, rows that have been used before, and loads, which then change
 * nothing. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4 };

typedef struct rig {
    mega_transformer gpt;
    mega_engine *engine;
} rig;

static void rig_with(rig *r, const mega_engine_options *o)
{
    r->gpt = engine_run_gpt();
    need(gpt_engine_create(&r->engine, &r->gpt, o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, 1));
}

static void rig_open(rig *r)
{
    const mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    rig_with(r, &o);
}

static void fill(mega_engine *e)
{
    mega_batch *b = mega_engine_batch(e);
    assert_non_null(b);
    for (int64_t r = 0; r < mega_batch_num_samples(b); r++) engine_run_fill(b, r, r);
}

static double loss_of_a_step(rig *r)
{
    mega_step_result out;
    fill(r->engine);
    need(mega_engine_train_batch(r->engine, &out));
    return out.loss;
}

/* ---- wrong options, programs and batches ---- */

static mega_status create(const rig *r, const mega_engine_options *o)
{
    mega_engine *e = NULL;
    const mega_status st = gpt_engine_create(&e, &r->gpt, o);
    assert_null(e);
    return st;
}

/* Defines a call of mega_engine_create with one option changed. */
#define CREATE_WITH(name, change)                                   \
    static mega_status name(const rig *r)                           \
    {                                                               \
        mega_engine_options o = engine_run_options(BATCH, 2, 1e-2); \
        change;                                                     \
        return create(r, &o);                                       \
    }
CREATE_WITH(create_with_huge_rows, o.micro_batch = o.batch.micro_step = o.batch.global_batch = INT64_MAX / 2)
CREATE_WITH(create_with_huge_positions, o.seq = (int64_t)1 << 40)
CREATE_WITH(create_with_huge_batch, o.batch.global_batch = (int64_t)1 << 62)
CREATE_WITH(create_with_odd_ramp,
            o.batch = ((mega_batch_ramp){.start = 2, .samples = 10, .global_batch = 4, .micro_step = 2}))
CREATE_WITH(create_with_nan_clip, o.clip_grad = NAN)
CREATE_WITH(create_with_clip_minus_1, o.clip_grad = -1)
CREATE_WITH(create_with_nan_rate, o.schedule.max_lr = NAN)
CREATE_WITH(create_with_scheduler_99, o.step_schedule.kind = (mega_scheduler_kind)99)
CREATE_WITH(create_with_style_99, o.schedule.style = (mega_lr_style)99)
CREATE_WITH(create_with_unknown_kind, o.optimizer.kind = MEGA_OPTIMIZER_KINDS)
CREATE_WITH(create_with_beta_1, o.optimizer.beta1 = 1)
CREATE_WITH(create_with_buckets_of_minus_7, o.bucket_elements = -7)
CREATE_WITH(create_with_sums_of_minus_9, o.tp_sum_elements = -9)
CREATE_WITH(create_with_persistence_minus_9, o.zero_persistence = -9)
CREATE_WITH(create_with_prefetch_minus_1, o.place.prefetch_elements = -1)
CREATE_WITH(create_with_planned_minus_2, o.layout.planned_ranks = -2)
CREATE_WITH(create_with_tp_minus_2, o.layout.tp = -2)
CREATE_WITH(create_with_huge_layout, o.layout = ((mega_layout_sizes){.tp = INT32_MAX, .pp = 2, .cp = INT32_MAX}))

static const struct {
    const char *name;
    mega_status (*call)(const rig *r);
    const char *said;
} wrong[] = {
#define ROW(name, said)   \
    {                     \
#name, name, said \
    }
    ROW(create_with_huge_rows, "micro_batch 4611686018427387903, seq 16; expected at most 2147483647 tokens"),
    ROW(create_with_huge_positions, "seq 1099511627776; expected at most 2147483647 tokens"),
    ROW(create_with_huge_batch, "expected at most 16777216 micro-batches"),
    ROW(create_with_odd_ramp, "mega_engine_create: batch.increment 0"),
    ROW(create_with_nan_clip, "clip_grad nan; expected a finite number of at least 0"),
    ROW(create_with_clip_minus_1, "clip_grad -1; expected a finite number of at least 0"),
    ROW(create_with_nan_rate, "mega_engine_create: schedule.max_lr nan"),
    ROW(create_with_scheduler_99, "mega_engine_create: schedule.kind 99"),
    ROW(create_with_style_99, "mega_engine_create: schedule.style 99"),
    ROW(create_with_unknown_kind, "expected a value of mega_optimizer_kind"),
    ROW(create_with_beta_1, "optimizer.beta1 1"),
    ROW(create_with_buckets_of_minus_7, "bucket_elements -7; expected at least 0"),
    ROW(create_with_sums_of_minus_9, "tp_sum_elements -9; expected at least 0"),
    ROW(create_with_persistence_minus_9, "zero_persistence -9; expected at least 0"),
    ROW(create_with_prefetch_minus_1, "place.prefetch_elements -1; expected at least 0"),
    ROW(create_with_planned_minus_2, "layout.planned_ranks -2; expected at least 0"),
    ROW(create_with_tp_minus_2, "parallel-size -2"),
    ROW(create_with_huge_layout, "does not divide the world of 1 rank"),
#undef ROW
};

static void mistakes_are_refused(void **state)
{
    (void)state;
    rig r, fresh;
    rig_open(&r);
    rig_open(&fresh);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mega_error_clear();
        const mega_status st = wrong[i].call(&r);
        if (st != MEGA_ERR_USAGE || strstr(mega_error_message(), wrong[i].said) == NULL)
            fail_msg("%s: %s, \"%s\", expected \"%s\"", wrong[i].name, mega_status_name(st), mega_error_message(),
                     wrong[i].said);
    }
    if (loss_of_a_step(&r) != loss_of_a_step(&fresh)) fail_msg("a wrong call changed the engine");
    mega_engine_destroy(fresh.engine);
    mega_engine_destroy(r.engine);
}

/* ---- rows and loads ---- */

/* A step's rows can be used only once; an evaluation's rows may be evaluated again. */
static void rows_are_those_of_one_step(void **state)
{
    (void)state;
    rig r;
    mega_step_result out;
    mega_loss_sums once = {0}, twice = {0};
    rig_open(&r);
    loss_of_a_step(&r);
    assert_int_equal(mega_engine_train_batch(r.engine, &out), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), "call mega_engine_batch and fill") == NULL) fail_msg("%s", mega_error_message());
    fill(r.engine);
    need(mega_engine_evaluate_batch(r.engine, &once));
    need(mega_engine_evaluate_batch(r.engine, &twice));
    assert_true(once.loss == twice.loss);
    need(mega_engine_train_batch(r.engine, &out));
    mega_engine_destroy(r.engine);
}

static void expect_unchanged(rig *r, const float *weight, double loss)
{
    mega_params *p = mega_engine_params(r->engine);
    const mega_engine_progress *at = mega_engine_progress_get(r->engine);
    assert_true(device_is_equal(mega_params_flat_master(p), weight, mega_params_bytes(p, MEGA_PARAMS_WEIGHTS)));
    assert_int_equal(at->iteration, 0);
    assert_int_equal(at->consumed_samples, 0);
    if (loss_of_a_step(r) != loss) fail_msg("a load that was refused changed the engine");
}

/* A checkpoint with another optimizer, schedule or model is refused before anything is read. */
static void a_refused_load_changes_nothing(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    rig r;
    rig_open(&r);
    loss_of_a_step(&r);
    need(mega_engine_save(r.engine, &(mega_engine_save_options){.folder = folder, .save_dtype = MEGA_F32}));
    mega_engine_destroy(r.engine);
    for (int mistake = 0; mistake < 3; mistake++) {
        mega_engine_options o = engine_run_options(BATCH, 2, mistake == 0 ? 3e-2 : 1e-2);
        mega_checkpoint *c = NULL;
        mega_engine_loaded loaded = {.resumed = true};
        rig fresh;
        if (mistake == 1) o.optimizer.kind = MEGA_OPTIMIZER_SGD;
        rig_with(&r, &o);
        rig_with(&fresh, &o);
        const double loss = loss_of_a_step(&fresh);
        mega_engine_destroy(fresh.engine);
        mega_params *p = mega_engine_params(r.engine);
        float *kept = device_copy(mega_params_flat_master(p), mega_params_bytes(p, MEGA_PARAMS_WEIGHTS));
        if (mistake == 2) remove(mega_kit_path(folder, "iter_0000001/state/optimizer.safetensors"));
        const mega_status opened = mega_checkpoint_open(folder, false, &c);
        if (mistake < 2) assert_int_equal(opened, MEGA_OK);
        if (c != NULL) {
            const mega_status st = mega_engine_load(r.engine, c, &(mega_engine_load_options){0}, &loaded);
            assert_int_not_equal(st, MEGA_OK);
            assert_true(loaded.resumed); /* results are written only on success */
        }
        mega_checkpoint_close(c);
        expect_unchanged(&r, kept, loss);
        free(kept);
        mega_engine_destroy(r.engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(rows_are_those_of_one_step),
        cmocka_unit_test(a_refused_load_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
