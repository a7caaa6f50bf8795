/* What a step of training asks of a GPU's driver, when the first steps have loaded and recorded all: a graph for each
 * pass and two for the update, no memory, and one wait; with late results only one for the step before. On the software
 * device. */
#include "../../bench/bench_kit.h"
#include "kit.h"
#include "megalith/command_options.h"
#include "megalith/cuda.h"
#include "megalith/memory.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQ = 16, BATCH = 2, MICRO_BATCHES = 3, WARM = 3, STEPS = 4, VOCAB = 60, NOT_BUILT = 77 };

static uint64_t calls_of(const char *function)
{
    static uint64_t (*count)(const char *name);
    if (count == NULL) {
        void *symbol = dlsym(dlopen(MEGA_CUDA_SOFTWARE, RTLD_NOW), "mega_software_cuda_count");
        assert_non_null(symbol);
        memcpy(&count, &symbol, sizeof count);
    }
    return count(function);
}

static void good(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

/* Calls of these functions in STEPS steps; the first have a line each below. */
enum { ALLOC, HOST_ALLOC, LOAD, INSTANTIATE, GRAPHS, LAUNCHES, WAITS, EVENT_WAITS, FUNCTIONS };
static const char *const function[FUNCTIONS] = {
    "cuMemAlloc_v2", "cuMemHostAlloc", "cuModuleLoadDataEx",  "cuGraphInstantiateWithFlags",
    "cuGraphLaunch", "cuLaunchKernel", "cuStreamSynchronize", "cuEventSynchronize"};

static void train(mega_engine *e, int steps)
{
    for (int i = 0; i < steps; i++) {
        mega_step_result r;
        bench_fill(e, mega_engine_batch(e), SEQ, VOCAB);
        good(mega_engine_train_batch(e, &r));
        assert_true(r.loss > 0 && r.loss < 10);
        assert_true(isnan(r.forward_s) && isnan(r.backward_s) && isnan(r.optimizer_s)); /* nobody has waited */
    }
}

typedef struct how {
    mega_dtype dtype;
    bool has_graphs, is_late;
    double loss_scale; /* f16; 0: a dynamic one */
} how;

static void create(mega_engine **e, const how *h)
{
    const mega_transformer gpt = bench_gpt(2, 16, 2, SEQ, VOCAB);
    mega_command_options cfg;
    mega_engine_options o;
    good(mega_command_options_init(&cfg));
    cfg.train.seq_length = SEQ;
    cfg.train.engine.optim.micro_batch_size = BATCH;
    cfg.train.engine.optim.global_batch_size = BATCH * MICRO_BATCHES;
    cfg.train.engine.optim.train_iters = 100;
    cfg.train.engine.optim.lr = 1e-3;
    cfg.train.engine.optim.loss_scale = h->loss_scale;
    cfg.train.engine.optim.initial_loss_scale = 1 << 23;
    cfg.train.engine.optim.hysteresis = 1;
    cfg.train.engine.late_results = h->is_late;
    cfg.train.engine.optim.weight_decay = cfg.train.engine.optim.start_weight_decay =
        cfg.train.engine.optim.end_weight_decay = 0.1;
    cfg.train.engine.backend.params_dtype = h->dtype;
    cfg.train.engine.backend.backend = MEGA_BACKEND_CUDA;
    good(mega_train_engine_options(&cfg.train, &o));
    o.no_graphs = !h->has_graphs;
    o.no_evaluate = true;
    good(gpt_engine_create(e, &gpt, &o));
    good(mega_engine_allocate(*e));
    good(mega_engine_initialize(*e, 1));
    mega_command_options_fini(&cfg);
}

/* Returns the calls of STEPS steps. */
static void count_calls(mega_dtype dtype, bool has_graphs, uint64_t calls[FUNCTIONS])
{
    mega_engine *e;
    create(&e, &(how){.dtype = dtype, .has_graphs = has_graphs, .loss_scale = 64}); /* which skips no step */
    train(e, WARM);
    for (int i = 0; i < FUNCTIONS; i++) calls[i] = calls_of(function[i]);
    const uint64_t allocations = mega_alloc_count();
    train(e, STEPS);
    assert_int_equal(mega_alloc_count(), allocations);
    for (int i = 0; i < FUNCTIONS; i++) calls[i] = calls_of(function[i]) - calls[i];
    assert_int_equal(mega_engine_recorded(e).recordings, has_graphs ? 4 : 0);
    mega_engine_destroy(e);
}

static void a_step_launches_graphs(void **state)
{
    static const mega_dtype dtype[] = {MEGA_F32, MEGA_BF16, MEGA_F16};
    (void)state;
    for (int k = 0; k < 3; k++) {
        uint64_t graphs[FUNCTIONS], launches[FUNCTIONS];
        count_calls(dtype[k], true, graphs);
        count_calls(dtype[k], false, launches);
        for (int i = 0; i < GRAPHS; i++) assert_int_equal(graphs[i], 0);
        assert_int_equal(graphs[GRAPHS], (2 * MICRO_BATCHES + 2) * STEPS);
        assert_int_equal(launches[GRAPHS], 0);
        assert_true(launches[LAUNCHES] > 2 * graphs[LAUNCHES]);
        assert_int_equal(graphs[WAITS], STEPS); /* where the results of the step are read */
        assert_int_equal(launches[WAITS], STEPS);
        assert_int_equal(graphs[EVENT_WAITS] + launches[EVENT_WAITS], 0);
    }
}

/* Masks whose sum no float holds: the loss is not finite. */
static void fill_wrongly(mega_engine *e)
{
    mega_batch *b = mega_engine_batch(e);
    bench_fill(e, b, SEQ, VOCAB);
    for (int64_t row = 0; row < mega_batch_num_samples(b); row++) {
        float *mask = mega_sample_f32(mega_batch_sample(b, row), "loss_mask", SEQ);
        for (int i = 0; i < SEQ; i++) mask[i] = 3e38f;
    }
}

static void fail_a_step(mega_engine *e)
{
    mega_step_result r;
    fill_wrongly(e);
    assert_int_equal(mega_engine_train_batch(e, &r), MEGA_ERR_NUMERIC);
    if (strstr(mega_error_message(), "the loss is ") == NULL) fail_msg("%s", mega_error_message());
}

/* The host learns at the end of a step that its loss is not finite; the update has left all as it was. */
static void a_failed_step_changes_nothing(void **state)
{
    mega_step_result of[2];
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        mega_engine *e;
        create(&e, &(how){.dtype = MEGA_BF16, .has_graphs = true});
        train(e, WARM);
        if (fails > 0) fail_a_step(e);
        train(e, 1);
        bench_fill(e, mega_engine_batch(e), SEQ, VOCAB);
        good(mega_engine_train_batch(e, &of[fails]));
        mega_engine_destroy(e);
    }
    assert_memory_equal(&of[0].loss, &of[1].loss, sizeof of[0].loss);
    assert_memory_equal(&of[0].grad_norm, &of[1].grad_norm, sizeof of[0].grad_norm);
}

/* ---- late results ---- */

enum { LATE_STEPS = 6 };

static mega_status step(mega_engine *e, mega_step_result *r)
{
    bench_fill(e, mega_engine_batch(e), SEQ, VOCAB);
    return mega_engine_train_batch(e, r);
}

/* Writes the results of LATE_STEPS steps, and a parameter after them. */
static void train_to(const how *h, mega_step_result r[LATE_STEPS], float *weight)
{
    mega_engine *e;
    create(&e, h);
    for (int i = 0; i < LATE_STEPS; i++) {
        mega_step_result now;
        good(step(e, &now));
        assert_int_equal(mega_engine_global_steps(e), i + 1);
        assert_int_equal(now.iteration, h->is_late ? i : i + 1);
        if (now.iteration > 0) r[now.iteration - 1] = now;
        assert_int_equal(mega_engine_progress_told(e)->iteration, now.iteration);
    }
    if (h->is_late) good(mega_engine_await_step(e, &r[LATE_STEPS - 1]));
    good(mega_engine_get_param(e, "transformer.h.0.ln_1.weight", NULL, 16, weight));
    assert_int_equal(mega_engine_progress_told(e)->iteration, LATE_STEPS);
    mega_engine_destroy(e);
}

static void assert_alike(const mega_step_result *a, const mega_step_result *b)
{
    assert_int_equal(a->iteration, b->iteration);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->clip_factor, &b->clip_factor, sizeof a->clip_factor);
    assert_int_equal(a->skipped, b->skipped);
    assert_true(a->skipped || a->grad_norm == b->grad_norm);
    assert_true(a->lr == b->lr && a->loss_scale == b->loss_scale && a->samples == b->samples);
}

/* With fp16, steps are skipped in which gradients overflow: then the scale and the schedule are others. */
static void late_results_are_the_same(void **state)
{
    static const mega_dtype dtype[] = {MEGA_F32, MEGA_BF16, MEGA_F16};
    (void)state;
    for (int k = 0; k < 3; k++) {
        mega_step_result now[LATE_STEPS], late[LATE_STEPS];
        float weight[2][16];
        int skipped = 0;
        train_to(&(how){.dtype = dtype[k], .has_graphs = true}, now, weight[0]);
        train_to(&(how){.dtype = dtype[k], .has_graphs = true, .is_late = true}, late, weight[1]);
        for (int i = 0; i < LATE_STEPS; i++) {
            assert_alike(&now[i], &late[i]);
            skipped += late[i].skipped;
        }
        assert_memory_equal(weight[0], weight[1], sizeof weight[0]);
        assert_in_range(skipped, dtype[k] == MEGA_F16, dtype[k] == MEGA_F16 ? LATE_STEPS - 1 : 0);
    }
}

/* The one wait of a step is for the numbers of the step before, when this one was asked for; in fp16 before that. */
static void a_late_step_waits_for_the_one_before(void **state)
{
    static const mega_dtype dtype[] = {MEGA_F32, MEGA_F16};
    (void)state;
    for (int k = 0; k < 2; k++) {
        mega_engine *e;
        mega_step_result r;
        create(&e, &(how){.dtype = dtype[k], .has_graphs = true, .is_late = true, .loss_scale = 64});
        for (int i = 0; i < WARM; i++) good(step(e, &r));
        const uint64_t waits = calls_of("cuStreamSynchronize"), events = calls_of("cuEventSynchronize"),
                       allocations = mega_alloc_count();
        for (int i = 0; i < STEPS; i++) good(step(e, &r));
        assert_int_equal(calls_of("cuStreamSynchronize"), waits);
        assert_int_equal(calls_of("cuEventSynchronize"), events + STEPS);
        assert_int_equal(mega_alloc_count(), allocations);
        const uint64_t launches = calls_of("launches"); /* that have run */
        good(mega_engine_await_step(e, &r));
        assert_true(calls_of("launches") > launches);
        mega_engine_destroy(e);
    }
}

/* What a call returns that is not a step belongs to the state after the step that was asked for. */
static void other_calls_see_the_step_that_was_asked_for(void **state)
{
    float weight[2][16], now[16];
    mega_step_result r;
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        mega_engine *e;
        create(&e, &(how){.dtype = MEGA_F32, .has_graphs = true, .is_late = is_late > 0});
        good(step(e, &r));
        good(mega_engine_get_param(e, "transformer.h.0.ln_1.weight", NULL, 16, now));
        good(step(e, &r));
        assert_int_equal(r.iteration, is_late > 0 ? 1 : 2); /* also after a call that waited */
        good(mega_engine_get_param(e, "transformer.h.0.ln_1.weight", NULL, 16, weight[is_late]));
        assert_memory_not_equal(weight[is_late], now, sizeof now);
        if (is_late > 0) {
            good(mega_engine_await_step(e, &r));
            assert_int_equal(r.iteration, 2);
            good(mega_engine_await_step(e, &r));
            assert_int_equal(r.iteration, 0);
        }
        mega_engine_destroy(e);
    }
    assert_memory_equal(weight[0], weight[1], sizeof weight[0]);
}

/* Returns the message of a step that fails: in the next step, or in another call. */
static void fail_late(mega_engine *e, bool is_in_step, char *message, size_t size)
{
    mega_step_result r;
    float weight[16];
    fill_wrongly(e);
    good(mega_engine_train_batch(e, &r));
    const mega_status st =
        is_in_step ? step(e, &r) : mega_engine_get_param(e, "transformer.h.0.ln_1.weight", NULL, 16, weight);
    assert_int_equal(st, MEGA_ERR_NUMERIC);
    snprintf(message, size, "%s", mega_error_message());
}

/* The host learns of a failed step when it has asked for the next one: neither has changed anything, and the message
 * is that of a step that is waited for. */
static void a_late_failure_changes_nothing(void **state)
{
    enum { NOW, NONE, LATE_STEP, LATE_CALL, KINDS };
    char message[KINDS][1024] = {""};
    mega_step_result of[KINDS], r;
    (void)state;
    for (int kind = NOW; kind < KINDS; kind++) {
        mega_engine *e;
        create(&e, &(how){.dtype = MEGA_BF16, .has_graphs = true, .is_late = kind != NOW});
        for (int i = 0; i < WARM; i++) good(step(e, &r));
        if (kind == NOW) {
            fail_a_step(e);
            snprintf(message[NOW], sizeof message[NOW], "%s", mega_error_message());
        }
        if (kind >= LATE_STEP) fail_late(e, kind == LATE_STEP, message[kind], sizeof message[kind]);
        assert_int_equal(mega_engine_global_steps(e), WARM);
        for (int i = 0; i < 2; i++) good(step(e, &of[kind]));
        if (kind != NOW) good(mega_engine_await_step(e, &of[kind]));
        assert_alike(&of[NOW], &of[kind]);
        mega_engine_destroy(e);
    }
    assert_string_equal(message[LATE_STEP], message[NOW]);
    assert_string_equal(message[LATE_CALL], message[NOW]);
}

/* A batch that is refused changes nothing: the step before is good, and its result comes. */
static void a_refused_batch_leaves_the_step_before(void **state)
{
    mega_engine *e;
    mega_step_result r;
    (void)state;
    create(&e, &(how){.dtype = MEGA_F32, .has_graphs = true, .is_late = true});
    good(step(e, &r));
    mega_engine_batch(e); /* not filled */
    assert_int_equal(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE);
    assert_int_equal(mega_engine_global_steps(e), 1);
    good(mega_engine_await_step(e, &r));
    assert_int_equal(r.iteration, 1);
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_launches_graphs),
                                       cmocka_unit_test(a_failed_step_changes_nothing),
                                       cmocka_unit_test(late_results_are_the_same),
                                       cmocka_unit_test(a_late_step_waits_for_the_one_before),
                                       cmocka_unit_test(other_calls_see_the_step_that_was_asked_for),
                                       cmocka_unit_test(a_late_failure_changes_nothing),
                                       cmocka_unit_test(a_refused_batch_leaves_the_step_before)};
    char text[MEGA_CUDA_TEXT];
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    return mega_cuda_describe(0, text) == MEGA_OK ? cmocka_run_group_tests(tests, NULL, NULL) : NOT_BUILT;
}
