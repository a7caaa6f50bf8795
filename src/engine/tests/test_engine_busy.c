/* Tests calls of an engine from its callbacks: numbers are answered, all other calls are refused, and the training has
 * the bits of one whose callbacks call nothing. */
#include "api_model.h"
#include "kit.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 4 };

/* What the callbacks call, and what they have seen. Callbacks may run on other threads, where cmocka cannot fail. */
typedef struct caller {
    mega_engine *_Atomic engine; /* NULL: call nothing */
    const mega_dataset *data;
    const char *folder, *part; /* of the message of a refused call */
    mega_team *team;
    atomic_int refused, allowed, numbers;
} caller;

static caller calls;

static void expect_refused(mega_status st)
{
    const bool is_right = st == MEGA_ERR_USAGE && strstr(mega_error_message(), calls.part) != NULL;
    atomic_fetch_add(is_right ? &calls.refused : &calls.allowed, 1);
    if (!is_right) printf("not refused as expected: status %d, \"%s\"\n", st, mega_error_message());
    mega_error_clear();
}

static void expect_null(const void *pointer)
{
    expect_refused(pointer == NULL ? MEGA_ERR_USAGE : MEGA_OK);
}

static void call_to_train(mega_engine *e)
{
    mega_step_result r;
    double loss;
    expect_refused(mega_engine_train_batch(e, &r));
    expect_refused(mega_engine_forward(e, &loss));
    expect_refused(mega_engine_backward(e));
    expect_refused(mega_engine_backward_from(e, "x", NULL, 0, 1));
    expect_refused(mega_engine_step(e, &r));
    expect_refused(mega_engine_set_accumulation_boundary(e, true));
    expect_refused(mega_engine_evaluate(e, calls.data, 1, &r));
    expect_null(mega_engine_batch(e));
    expect_null(mega_engine_micro_batch(e));
    expect_refused(mega_engine_allocate(e));
    expect_refused(mega_engine_initialize(e, 1));
    mega_engine_destroy(e);
    expect_null(NULL);
}

static void call_for_state(mega_engine *e)
{
    float one[API_IDS * API_WIDTH] = {0};
    bool found;
    expect_refused(mega_engine_get_param(e, "net.wte.weight", NULL, API_IDS * API_WIDTH, one));
    expect_refused(mega_engine_set_param(e, "net.wte.weight", NULL, API_IDS * API_WIDTH, one));
    expect_refused(mega_engine_read_output(e, "x", 1, one));
    expect_refused(mega_engine_write_event(e, "x", 1));
    expect_refused(mega_engine_log_exchanges(e, false));
    expect_refused(mega_engine_save_checkpoint(e, calls.folder, NULL, NULL));
    expect_refused(mega_engine_load_checkpoint(e, calls.folder, NULL, NULL, &found, NULL));
    expect_null(mega_engine_run_batch(e, MEGA_RUN_EVALUATE));
    expect_refused(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL));
    expect_refused(mega_engine_wait(e));
}

static void expect_kept(const char *call)
{
    const char *said = mega_error_message();
    const bool is_right = strstr(said, call) != NULL && strstr(said, "nothing was freed") != NULL;
    atomic_fetch_add(is_right ? &calls.refused : &calls.allowed, 1);
    if (!is_right) printf("%s is not refused: \"%s\"\n", call, said);
    mega_error_clear();
}

/* What the engine uses, its own or lent to it. */
static void call_to_destroy(const mega_engine *e)
{
    mega_world_destroy(mega_engine_world(e));
    expect_kept("mega_world_destroy");
    mega_layout_destroy((mega_layout *)mega_engine_layout(e)); /* Python knows no const */
    expect_kept("mega_layout_destroy");
    mega_team_destroy(calls.team);
    expect_kept("mega_team_destroy");
}

enum { REFUSED = 25 }; /* of the calls above */

static void call_all(void)
{
    mega_engine *e = atomic_load(&calls.engine);
    mega_engine_memory memory;
    if (e == NULL) return;
    call_to_train(e);
    call_for_state(e);
    call_to_destroy(e);
    mega_engine_memory_get(e, &memory);
    const bool are_right = mega_engine_global_steps(e) >= 0 && mega_engine_global_samples(e) >= 0 &&
                           mega_engine_lr(e) == 0.01 && mega_engine_loss_scale(e) == 1 &&
                           mega_engine_num_metrics(e) == 1 && mega_engine_is_busy(e) && memory.total > 0;
    if (are_right) atomic_fetch_add(&calls.numbers, 1);
}

static mega_status read_and_call(void *user, int64_t index, mega_sample *sample)
{
    call_all();
    return api_read(user, index, sample);
}

static void same_shape(const void *self, const int64_t *rows, const int64_t *channels, int64_t *out_rows,
                       int64_t *out_channels)
{
    (void)self;
    *out_rows = *rows;
    *out_channels = *channels;
}

static mega_status copy_and_call(const void *const *from, void *const *to, const mega_custom_call *c)
{
    call_all();
    if (c->thread == 0 && to[0] != NULL)
        memcpy(to[0], from[0], (size_t)(c->rows[0] * c->channels[0]) * mega_dtype_size(c->dtype));
    return MEGA_OK;
}

static mega_status op_forward(const void *self, const mega_custom_call *c)
{
    (void)self;
    return copy_and_call(c->in, c->out, c);
}

static mega_status op_backward(const void *self, const mega_custom_call *c)
{
    (void)self;
    return copy_and_call(c->d_out, c->d_in, c);
}

static const mega_custom_op calling_op = {
    .name = "calling", .num_in = 1, .num_out = 1, .shape = same_shape, .forward = op_forward, .backward = op_backward};

static void embed_with_op(const mega_builder *b, const void *self, mega_flow *f)
{
    api_embed(b, self, f);
    mega_custom(b, &calling_op, NULL, &f->x, &f->x);
}

static void calling_sgd(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    double *p = c->param;
    const double *g = c->grad;
    call_all();
    for (int64_t i = begin; i < end; i++) p[i] -= c->lr * g[i] * c->grad_factor;
}

typedef struct setting {
    bool from_read, is_thread_safe, from_op, from_optimizer;
} setting;

static mega_engine *open_engine(const setting *s, mega_dataset *data, mega_team *team)
{
    static const mega_optimizer_row row = {.name = "calling", .update = calling_sgd};
    static const mega_layer layers[] = {{"net", embed_with_op, NULL, 1, "embed"},
                                        {"net.h.%d", api_block, NULL, 2, "block"},
                                        {"net", api_head, NULL, 1, "head"}};
    static mega_model model;
    char *argv[] = {API_ARGV};
    mega_engine *e = NULL;
    model = api_model;
    if (s->from_op) model.layer = layers;
    *data = api_data;
    data->is_thread_safe = s->is_thread_safe;
    if (s->from_read) data->read = read_and_call;
    need(mega_initialize(&(mega_setup){.model = &model,
                                       .training_data = data,
                                       .optimizer = s->from_optimizer ? &row : NULL,
                                       .team = team,
                                       .argc = (int)(sizeof argv / sizeof *argv),
                                       .argv = argv},
                         &e));
    return e;
}

static void run(const setting *s, bool is_calling, double loss[STEPS])
{
    mega_dataset data;
    mega_step_result r;
    mega_team *team = NULL;
    need(mega_team_create(2, &team));
    mega_engine *e = open_engine(s, &data, team);
    calls = (caller){.team = team,
                     .data = &api_data,
                     .folder = mega_kit_path(mega_kit_temp_folder(), "busy"),
                     .part = s->is_thread_safe ? "thread that reads the training data ahead"
                                               : "busy with mega_engine_train_batch"};
    need(mega_engine_save_checkpoint(e, calls.folder, NULL, NULL));
    atomic_store(&calls.engine, is_calling ? e : NULL);
    for (int i = 0; i < STEPS; i++) {
        need(mega_engine_train_batch(e, &r));
        loss[i] = r.loss;
    }
    mega_engine_destroy(e);
    mega_team_destroy(team);
    atomic_store(&calls.engine, NULL);
}

static void compare(setting s)
{
    double quiet[STEPS], called[STEPS];
    run(&s, false, quiet);
    run(&s, true, called);
    assert_int_equal(atomic_load(&calls.allowed), 0);
    assert_true(atomic_load(&calls.numbers) >= STEPS);
    assert_int_equal(atomic_load(&calls.refused), REFUSED * atomic_load(&calls.numbers));
    assert_memory_equal(quiet, called, sizeof quiet);
    assert_true(quiet[0] != quiet[1]);
}

static void from_read(void **state)
{
    (void)state;
    compare((setting){.from_read = true});
}

static void from_the_thread_that_reads_ahead(void **state)
{
    (void)state;
    compare((setting){.from_read = true, .is_thread_safe = true});
}

static void from_an_op(void **state)
{
    (void)state;
    compare((setting){.from_op = true});
}

static void from_an_optimizer(void **state)
{
    (void)state;
    compare((setting){.from_optimizer = true});
}

/* ---- other calls that run callbacks ---- */

static mega_status fails_with_refusal(void *user, int64_t index, mega_sample *sample)
{
    mega_step_result r;
    mega_engine *e = *(mega_engine **)user;
    if (e != NULL) return mega_engine_train_batch(e, &r);
    return api_read(NULL, index, sample);
}

/* The call that reads returns the refusal that its callback returns, and the engine is free again. */
static void from_an_evaluation_and_a_forward(void **state)
{
    (void)state;
    mega_engine *e = NULL, *inner = NULL;
    mega_step_result r;
    double loss;
    char *argv[] = {API_ARGV};
    const mega_dataset data = {.count = API_SAMPLES, .read = fails_with_refusal, .user = &inner};
    need(mega_initialize(
        &(mega_setup){
            .model = &api_model, .training_data = &data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv},
        &e));
    inner = e;
    assert_int_equal(mega_engine_evaluate(e, &data, 1, &r), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "busy with mega_engine_evaluate"));
    assert_int_equal(mega_engine_forward(e, &loss), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "busy with mega_engine_forward"));
    assert_false(mega_engine_is_busy(e));
    inner = NULL;
    need(mega_engine_evaluate(e, &data, 1, &r));
    need(mega_engine_train_batch(e, &r));
    mega_engine_destroy(e);
}

typedef struct asker {
    mega_engine *e;   /* NULL: not made yet */
    bool asks_itself; /* the function asks for the rate that it is to return */
} asker;

static double lr_that_calls(const void *user, int64_t step, int64_t samples)
{
    const asker *a = user;
    mega_step_result r;
    (void)step;
    (void)samples;
    if (a->e == NULL) return 0.01;
    assert_true(mega_engine_is_busy(a->e));
    expect_refused(mega_engine_evaluate(a->e, &api_data, 1, &r));
    mega_engine_destroy(a->e); /* warns, and does nothing */
    return a->asks_itself ? mega_engine_lr(a->e) : 0.01;
}

static void from_a_schedule(void **state)
{
    (void)state;
    asker a = {0};
    mega_step_result r;
    char *argv[] = {API_ARGV};
    const mega_lr_scheduler scheduler = {.name = "own", .lr = lr_that_calls, .user = &a};
    calls = (caller){.part = "busy with mega_engine_train_batch"};
    need(mega_initialize(&(mega_setup){.model = &api_model,
                                       .training_data = &api_data,
                                       .lr_scheduler = &scheduler,
                                       .argc = (int)(sizeof argv / sizeof *argv),
                                       .argv = argv},
                         &a.e));
    need(mega_engine_train_batch(a.e, &r));
    assert_true(atomic_load(&calls.refused) > 0 && atomic_load(&calls.allowed) == 0);
    calls = (caller){.part = "busy with mega_engine_lr"};
    assert_float_equal(mega_engine_lr(a.e), 0.01, 0);
    assert_true(atomic_load(&calls.refused) == 1 && atomic_load(&calls.allowed) == 0);
    a.asks_itself = true; /* for ever */
    assert_true(isnan(mega_engine_lr(a.e)));
    assert_non_null(strstr(mega_error_message(), "schedule \"own\" asks for the learning rate"));
    mega_engine_destroy(a.e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_read),
        cmocka_unit_test(from_the_thread_that_reads_ahead),
        cmocka_unit_test(from_an_op),
        cmocka_unit_test(from_an_optimizer),
        cmocka_unit_test(from_an_evaluation_and_a_forward),
        cmocka_unit_test(from_a_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
