/* Tests training data that a thread of the engine reads ahead of the steps: results have the same bits as in a run that
 * reads data when it needs them, whatever the caller does between steps. */
#include "api_engine.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

typedef struct source {
    atomic_int reads;
    atomic_llong fails_at; /* index; -1: none */
    int slow_ms;
} source;

/* Between two looks of a loop that ends by what it sees; as the time of a slow read; and before it is asserted that
 * nothing more was read, where a slow machine can hide a read too many but not make the test fail. */
static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static mega_status read_one(void *user, int64_t index, mega_sample *sample)
{
    source *s = user;
    if (s->slow_ms > 0) sleep_ms(s->slow_ms);
    atomic_fetch_add(&s->reads, 1);
    if (index == atomic_load(&s->fails_at)) return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    return api_read(NULL, index, sample);
}

static source *source_of(mega_dataset *d, source *s)
{
    *s = (source){.slow_ms = 0};
    atomic_store(&s->fails_at, -1);
    d->read = read_one;
    d->user = s;
    return s;
}

static mega_engine *open_engine(const mega_dataset *data, mega_mode mode)
{
    mega_engine *e;
    need(api_try_open(&e, (mega_setup){.training_data = data, .mode = mode},
                      "--micro-batch-size 1 --global-batch-size 4 --rampup-batch-size 2 1 9 --lr 0.01 --fp64 --seed 3 "
                      "--num-threads 1"));
    return e;
}

typedef struct history {
    double number[MOST];
    int count;
} history;

static void note(history *h, double number)
{
    assert_true(h->count < MOST);
    h->number[h->count++] = number;
}

static void train(mega_engine *e, history *h, int steps)
{
    mega_step_result r;
    for (int i = 0; i < steps; i++) {
        need(mega_engine_train_batch(e, &r));
        note(h, r.loss);
        note(h, r.grad_norm);
        note(h, (double)r.samples);
    }
}

/* Two of these micro-batches end a step, whatever the settings are. */
static void train_micro_batches(mega_engine *e, history *h, int count)
{
    mega_step_result r = {.loss = 0};
    for (int i = 0; i < count; i++) {
        double loss;
        need(mega_engine_set_accumulation_boundary(e, i % 2 == 1));
        need(mega_engine_forward(e, &loss));
        need(mega_engine_backward(e));
        need(mega_engine_step(e, &r));
        note(h, loss);
        note(h, r.grad_norm);
    }
}

static void evaluate(mega_engine *e, const mega_dataset *d, history *h)
{
    mega_step_result r;
    need(mega_engine_evaluate(e, d, 2, &r));
    note(h, r.loss);
}

/* Runs with a growing batch, micro-batches, evaluations, a checkpoint that is loaded when later samples have already
 * been read, and a position that the caller sets. */
static void run(bool is_thread_safe, history *h)
{
    source s;
    bool found;
    mega_dataset d = {.count = API_SAMPLES, .is_thread_safe = is_thread_safe};
    (void)source_of(&d, &s);
    mega_engine *e = open_engine(&d, MEGA_TRAIN);
    const char *folder = mega_kit_path(mega_kit_temp_folder(), is_thread_safe ? "ahead" : "when_needed");
    train(e, h, 2);
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    evaluate(e, &d, h);
    train(e, h, 3);
    train_micro_batches(e, h, 4);
    train(e, h, 1);
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    assert_true(found);
    train(e, h, 2);
    mega_engine_progress_get(e)->consumed_samples = 31;
    train(e, h, 2);
    mega_engine_destroy(e);
}

static void the_bits_of_data_that_are_read_when_needed(void **state)
{
    (void)state;
    history needed = {.count = 0}, ahead = {.count = 0};
    run(false, &needed);
    run(true, &ahead);
    assert_int_equal(needed.count, ahead.count);
    for (int i = 0; i < needed.count; i++)
        if (needed.number[i] != ahead.number[i])
            fail_msg("number %d: %.17g, and %.17g read ahead", i, needed.number[i], ahead.number[i]);
}

/* The first three steps have two samples each, the fourth has three; no sample is read twice. */
static void two_steps_ahead_and_no_more(void **state)
{
    (void)state;
    source s;
    history h = {.count = 0};
    mega_dataset d = {.count = API_SAMPLES, .is_thread_safe = true};
    (void)source_of(&d, &s);
    mega_engine *e = open_engine(&d, MEGA_TRAIN);
    assert_int_equal(atomic_load(&s.reads), 0);
    train(e, &h, 1);
    for (int i = 0; i < 5000 && atomic_load(&s.reads) < 6; i++) sleep_ms(1);
    sleep_ms(5);
    assert_int_equal(atomic_load(&s.reads), 6);
    train(e, &h, 1);
    for (int i = 0; i < 5000 && atomic_load(&s.reads) < 9; i++) sleep_ms(1);
    sleep_ms(5);
    assert_int_equal(atomic_load(&s.reads), 9);
    mega_engine_destroy(e);
}

static void a_failed_read_ends_the_step_that_needs_it(void **state)
{
    (void)state;
    source s;
    history h = {.count = 0}, expected = {.count = 0};
    mega_step_result r;
    mega_dataset d = {.count = API_SAMPLES, .in_order = true, .is_thread_safe = true};
    (void)source_of(&d, &s);
    mega_engine *e = open_engine(&d, MEGA_TRAIN), *whole = open_engine(&d, MEGA_TRAIN);
    train(whole, &expected, 3);
    mega_engine_destroy(whole);
    atomic_store(&s.fails_at, 5);
    train(e, &h, 2); /* samples 0 to 3 */
    for (int i = 0; i < 2; i++) {
        mega_error_clear();
        assert_int_equal(mega_engine_train_batch(e, &r), MEGA_ERR_IO);
        assert_non_null(strstr(mega_error_message(), "sample 5 of the run, index 5 of the data set: page 5 is torn"));
        assert_int_equal(mega_engine_global_steps(e), 2);
    }
    atomic_store(&s.fails_at, -1);
    train(e, &h, 1);
    for (int i = 0; i < h.count; i++) assert_true(h.number[i] == expected.number[i]);
    mega_engine_destroy(e);
}

static void forward_alone_advances(void **state)
{
    (void)state;
    source s;
    double loss[2][6];
    for (int ahead = 0; ahead < 2; ahead++) {
        mega_dataset d = {.count = API_SAMPLES, .is_thread_safe = ahead == 1};
        (void)source_of(&d, &s);
        mega_engine *e = open_engine(&d, MEGA_EVAL);
        for (int i = 0; i < 6; i++) need(mega_engine_forward(e, &loss[ahead][i]));
        mega_engine_destroy(e);
    }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    assert_true(loss[0][0] != loss[0][1]);
}

static void destroying_while_data_are_read(void **state)
{
    (void)state;
    source s;
    history h = {.count = 0};
    mega_dataset d = {.count = API_SAMPLES, .is_thread_safe = true};
    source_of(&d, &s)->slow_ms = 5;
    mega_engine *e = open_engine(&d, MEGA_TRAIN);
    train(e, &h, 1);
    mega_engine_destroy(e);
    const int reads = atomic_load(&s.reads);
    sleep_ms(20);
    assert_int_equal(atomic_load(&s.reads), reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_data_that_are_read_when_needed),
        cmocka_unit_test(two_steps_ahead_and_no_more),
        cmocka_unit_test(a_failed_read_ends_the_step_that_needs_it),
        cmocka_unit_test(forward_alone_advances),
        cmocka_unit_test(destroying_while_data_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
