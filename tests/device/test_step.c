/* What a step of training asks of a GPU's driver, when the first steps have loaded and recorded all: a graph for each
 * pass, no memory, and one wait. On the software device. */
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

static void create(mega_engine **e, mega_dtype dtype, bool has_graphs)
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
    cfg.train.engine.optim.loss_scale = 64; /* f16 skips no step */
    cfg.train.engine.optim.weight_decay = cfg.train.engine.optim.start_weight_decay =
        cfg.train.engine.optim.end_weight_decay = 0.1;
    cfg.train.engine.backend.params_dtype = dtype;
    cfg.train.engine.backend.backend = MEGA_BACKEND_CUDA;
    good(mega_train_engine_options(&cfg.train, &o));
    o.no_graphs = !has_graphs;
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
    create(&e, dtype, has_graphs);
    train(e, WARM);
    for (int i = 0; i < FUNCTIONS; i++) calls[i] = calls_of(function[i]);
    const uint64_t allocations = mega_alloc_count();
    train(e, STEPS);
    assert_int_equal(mega_alloc_count(), allocations);
    for (int i = 0; i < FUNCTIONS; i++) calls[i] = calls_of(function[i]) - calls[i];
    assert_int_equal(mega_engine_recorded(e).recordings, has_graphs ? 2 : 0);
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
        assert_int_equal(graphs[GRAPHS], 2 * MICRO_BATCHES * STEPS);
        assert_int_equal(launches[GRAPHS], 0);
        assert_true(launches[LAUNCHES] > 2 * graphs[LAUNCHES]);
        assert_int_equal(graphs[WAITS], STEPS); /* where the results of the step are read */
        assert_int_equal(launches[WAITS], STEPS);
        assert_int_equal(graphs[EVENT_WAITS] + launches[EVENT_WAITS], 0);
    }
}

/* Masks whose sum no float holds: the loss is not finite. */
static void fail_a_step(mega_engine *e)
{
    mega_step_result r;
    mega_batch *b = mega_engine_batch(e);
    bench_fill(e, b, SEQ, VOCAB);
    for (int64_t row = 0; row < mega_batch_num_samples(b); row++) {
        float *mask = mega_sample_f32(mega_batch_sample(b, row), "loss_mask", SEQ);
        for (int i = 0; i < SEQ; i++) mask[i] = 3e38f;
    }
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
        create(&e, MEGA_BF16, true);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_launches_graphs),
                                       cmocka_unit_test(a_failed_step_changes_nothing)};
    char text[MEGA_CUDA_TEXT];
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    return mega_cuda_describe(0, text) == MEGA_OK ? cmocka_run_group_tests(tests, NULL, NULL) : NOT_BUILT;
}
