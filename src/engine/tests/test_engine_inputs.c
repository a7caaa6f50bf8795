/* Tests what the engine reads: the samples of a data set, and the weights of a loss per token. */
#include "engine_run.h"
#include "kit.h"
#include <math.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4, STEPS = 3 };

static mega_engine *open_engine_of(const mega_engine_options *o, const mega_dataset *data)
{
    const mega_transformer gpt = engine_run_gpt();
    mega_engine *e = NULL;
    need(gpt_engine_create_with(&e, &gpt, o, data));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    return e;
}

static mega_engine *open_engine(const mega_engine_options *o)
{
    return open_engine_of(o, NULL);
}

/* Records the indices that the engine reads. */
static mega_status read_sample(void *user, int64_t index, mega_sample *sample)
{
    const mega_ltor_options o = {.eod = -1};
    int32_t row[SEQ + 1];
    ((int64_t *)user)[mega_sample_index(sample)] = index;
    engine_run_sample(row, index);
    mega_ltor_sample(sample, row, SEQ, &o);
    return MEGA_OK;
}

/* The engine reads the samples that its caller would fill, in the first and in the following steps. */
static void a_data_set_fills_the_steps(void **state)
{
    (void)state;
    const mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    int64_t read[2 * BATCH];
    const mega_dataset d = {.first = 2, .count = BATCH + 2, .read = read_sample, .user = read};
    mega_step_result filled, reads;
    mega_engine *a = open_engine_of(&o, &d), *b = open_engine(&o);
    for (int step = 0; step < 2; step++) {
        need(mega_engine_train_batch(a, &reads));
        mega_batch *batch = mega_engine_batch(b);
        for (int64_t i = 0; i < BATCH; i++) {
            const int64_t n = step * BATCH + i;
            assert_int_equal(read[n], mega_dataset_index(&d, o.dropout_seed, n));
            engine_run_fill(batch, i, read[n]);
        }
        need(mega_engine_train_batch(b, &filled));
        assert_true(filled.loss == reads.loss && filled.grad_norm == reads.grad_norm);
    }
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

/* The engine evaluates the samples of a data set as if the caller had filled them. */
static void parts_of_a_data_set_are_evaluated(void **state)
{
    (void)state;
    const mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    int64_t read[3 * BATCH];
    const mega_dataset d = {.count = 3 * BATCH, .read = read_sample, .user = read};
    mega_loss_sums filled = {0}, reads = {0};
    mega_engine *e = open_engine(&o);
    for (int64_t first = 0; first < 3 * BATCH; first += BATCH) {
        need(mega_engine_evaluate_part(e, &d, first, BATCH, &reads));
        mega_batch *batch = mega_engine_evaluation_batch(e, BATCH, first);
        for (int64_t i = 0; i < BATCH; i++) {
            assert_int_equal(read[first + i], mega_dataset_index(&d, o.dropout_seed, first + i));
            engine_run_fill(batch, i, read[first + i]);
        }
        need(mega_engine_evaluate_batch(e, &filled));
    }
    assert_true(reads.loss == filled.loss && reads.count == filled.count);
    mega_engine_destroy(e);
}

/* Trains steps of one micro-batch with half of its positions masked. Uses SGD, because Adam does not depend on the size
 * of gradients. */
static void train(bool per_token, mega_step_result out[STEPS])
{
    const mega_ltor_options ends = {.eod = 3, .eod_mask_loss = true};
    mega_engine_options o = engine_run_options(BATCH, BATCH, 1e-1);
    o.compute = MEGA_F64;
    o.per_token_loss = per_token;
    o.optimizer = (mega_optimizer_options){.kind = MEGA_OPTIMIZER_SGD};
    mega_engine *e = open_engine(&o);
    for (int i = 0; i < STEPS; i++) {
        mega_batch *b = mega_engine_batch(e);
        for (int64_t r = 0; r < BATCH; r++) {
            int32_t row[SEQ + 1];
            engine_run_sample(row, i * BATCH + r);
            for (int t = 0; t < SEQ; t += 2) row[t] = ends.eod;
            mega_ltor_sample(mega_batch_sample(b, r), row, SEQ, &ends);
        }
        need(mega_engine_train_batch(e, &out[i]));
    }
    mega_engine_destroy(e);
}

/* With one micro-batch per step, the mean over the tokens of the step equals the mean of the micro-batch. */
static void a_loss_per_token_is_divided_by_its_weight(void **state)
{
    (void)state;
    mega_step_result mean[STEPS], token[STEPS];
    train(false, mean);
    train(true, token);
    for (int i = 0; i < STEPS; i++) {
        assert_true(fabs(token[i].loss / mean[i].loss - 1) < 1e-12);
        assert_true(fabs(token[i].grad_norm / mean[i].grad_norm - 1) < 1e-12);
        assert_true(fabs(token[i].clip_factor / mean[i].clip_factor - 1) < 1e-12);
    }
    assert_true(token[0].loss != token[1].loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_data_set_fills_the_steps),
        cmocka_unit_test(parts_of_a_data_set_are_evaluated),
        cmocka_unit_test(a_loss_per_token_is_divided_by_its_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
