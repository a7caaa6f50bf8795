/* Trains models that are lists of layers through the engine, one row of `models` each (docs/recipes.md, "A model
 * of two layers"). Gradients must agree with finite differences in double, every micro-batch size must give the same
 * losses, and two equal runs the same bits. */
#include "engine_run.h"
#include "kinds_networks.h"
#include "kit.h"

#include <math.h>
#include <stdio.h>

enum { SEQ = ENGINE_RUN_SEQ, IDS = ENGINE_RUN_VOCAB, BATCH = 4, STEPS = 3, LARGEST = 1 << 16 };

/* ---- the models ---- */

typedef struct model_row {
    const char *name;
    mega_model (*make)(void);                            /* borrows what is static */
    mega_status (*read)(void *, int64_t, mega_sample *); /* fills a sample by its number */
    int num_params;
} model_row;

static mega_model make_gpt(void)
{
    static mega_transformer gpt;
    static mega_transformer_list list;
    gpt = engine_run_gpt();
    need(mega_transformer_list_create(&gpt, 1, &list));
    mega_model model = mega_transformer_model(&list);
    model.positions = SEQ;
    return model;
}

static mega_status read_gpt(void *user, int64_t index, mega_sample *sample)
{
    const mega_ltor_options options = {.eod = -1};
    int32_t row[SEQ + 1];
    (void)user;
    engine_run_sample(row, index);
    mega_ltor_sample(sample, row, SEQ, &options);
    return MEGA_OK;
}

/* A classifier: four sequences a sample, one of which is right. */
static mega_model make_choices(void)
{
    static mega_transformer gpt;
    static mega_transformer_list list;
    gpt = engine_run_gpt();
    gpt.net = choices;
    need(mega_transformer_list_create(&gpt, 1, &list));
    mega_model model = mega_transformer_model(&list);
    model.positions = SEQ;
    return model;
}

static mega_status read_choices(void *user, int64_t index, mega_sample *sample)
{
    enum { EACH = SEQ / 4 };
    int32_t row[SEQ + 1], types[SEQ], end[SEQ], position[SEQ], label;
    (void)user;
    engine_run_sample(row, index);
    for (int32_t k = 0; k < SEQ; k++) {
        types[k] = k % EACH > 1;
        end[k] = EACH - (int32_t)((index + k / EACH) % 2);
        position[k] = k % EACH;
    }
    label = row[3] % 4;
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", row, SEQ));
    MEGA_TRY(mega_sample_set_i32(sample, "token_types", types, SEQ));
    MEGA_TRY(mega_sample_set_i32(sample, "key_end", end, SEQ));
    MEGA_TRY(mega_sample_set_i32(sample, "position_ids", position, SEQ));
    return mega_sample_set_i32(sample, "label", &label, 1);
}

static const model_row models[] = {
    {"gpt", make_gpt, read_gpt, 28},
    {"choices", make_choices, read_choices, 33},
};
enum { MODELS = sizeof models / sizeof *models };

/* ---- runs ---- */

static mega_engine *open_engine(const model_row *m, mega_mode mode, int micro_batch)
{
    static mega_model model;
    char micro[8], accumulated[8];
    char *argv[] = {"model",         "--micro-batch-size",
                    micro,           "--gradient-accumulation-steps",
                    accumulated,     "--lr",
                    "0.01",          "--fp64",
                    "--seed",        "3",
                    "--num-threads", "1",
                    "--clip-grad",   "0"};
    mega_engine *e = NULL;
    snprintf(micro, sizeof micro, "%d", micro_batch);
    snprintf(accumulated, sizeof accumulated, "%d", BATCH / micro_batch);
    model = m->make();
    const mega_setup setup = {.model = &model, .mode = mode, .argc = sizeof argv / sizeof *argv, .argv = argv};
    need(mega_initialize(&setup, &e));
    return e;
}

static void fill(const model_row *m, mega_engine *e, mega_batch *batch, int64_t first)
{
    assert_non_null(batch);
    for (int64_t i = 0; i < mega_batch_num_samples(batch); i++)
        need(m->read(NULL, first + mega_engine_sample(e, i), mega_batch_sample(batch, i)));
}

static double loss_of(const model_row *m, mega_engine *e)
{
    double loss = NAN;
    fill(m, e, mega_engine_micro_batch(e), 0);
    need(mega_engine_forward(e, &loss));
    return loss;
}

/* d loss / d element, by two evaluations. */
static double slope(const model_row *m, mega_engine *e, const char *name, int64_t count, float *values, int64_t element)
{
    const float middle = values[element], step = 1.0F / 1024;
    values[element] = middle + step;
    const double above = values[element];
    need(mega_engine_set_param(e, name, NULL, count, values));
    const double high = loss_of(m, e);
    values[element] = middle - step;
    const double below = values[element];
    need(mega_engine_set_param(e, name, NULL, count, values));
    const double low = loss_of(m, e);
    values[element] = middle;
    need(mega_engine_set_param(e, name, NULL, count, values));
    return (high - low) / (above - below);
}

static void check_gradients(const model_row *m)
{
    static float values[LARGEST], gradient[LARGEST];
    mega_engine *training = open_engine(m, MEGA_TRAIN, BATCH), *evaluation = open_engine(m, MEGA_EVAL, BATCH);
    const char *name;
    int64_t rows, columns;
    int params = 0;
    fill(m, training, mega_engine_micro_batch(training), 0);
    need(mega_engine_forward(training, NULL));
    need(mega_engine_backward(training));
    for (; mega_engine_param_info(training, params, &name, &rows, &columns) == MEGA_OK; params++) {
        const int64_t count = rows * (columns > 0 ? columns : 1);
        assert_true(count <= LARGEST);
        need(mega_engine_get_param(evaluation, name, NULL, count, values));
        need(mega_engine_get_param(training, name, "grad", count, gradient));
        for (int64_t k = 0; k < 4; k++) {
            const int64_t element = (k * 7919 + 13) % count;
            const double found = slope(m, evaluation, name, count, values, element);
            if (!(fabs(found - (double)gradient[element]) <= 1e-5 + 1e-4 * fabs(found)))
                fail_msg("%s: %s, element %d: gradient %g, by differences %g", m->name, name, (int)element,
                         (double)gradient[element], found);
        }
    }
    if (params != m->num_params) fail_msg("%s has %d parameters, expected %d", m->name, params, m->num_params);
    mega_engine_destroy(training);
    mega_engine_destroy(evaluation);
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) check_gradients(&models[i]);
}

static void train(const model_row *m, int micro_batch, double loss[STEPS])
{
    mega_engine *e = open_engine(m, MEGA_TRAIN, micro_batch);
    mega_step_result r;
    for (int step = 0; step < STEPS; step++) {
        fill(m, e, mega_engine_batch(e), mega_engine_global_samples(e));
        need(mega_engine_train_batch(e, &r));
        loss[step] = r.loss;
    }
    mega_engine_destroy(e);
}

static void losses_do_not_depend_on_micro_batches(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        double whole[STEPS], again[STEPS], single[STEPS];
        train(&models[i], BATCH, whole);
        train(&models[i], BATCH, again);
        train(&models[i], 1, single);
        assert_memory_equal(whole, again, sizeof whole);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(whole[step] - single[step]) <= 1e-9))
                fail_msg("%s, step %d: loss %.17g, in micro-batches of one %.17g", models[i].name, step, whole[step],
                         single[step]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(losses_do_not_depend_on_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
