/* Tests engines that only run forward: generating a text token by token gives the results of one forward pass over the
 * whole text, and wrong calls return a status. */
#include "engine_text.h"
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/graph.h"
#include "megalith/layers.h"
#include "megalith/threads.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 3 };

static mega_engine *open_engine(mega_mode mode, mega_dtype compute)
{
    const mega_transformer gpt = engine_run_gpt();
    const mega_engine_options o = text_options(compute, mode);
    mega_engine *e = NULL;
    need(text_engine(&e, &gpt, mode, &o));
    return e;
}

/* ---- generation ---- */

static void a_text_is_that_of_the_whole_forward(void **state)
{
    (void)state;
    static const mega_dtype computes[] = {MEGA_F64, MEGA_F32};
    for (size_t k = 0; k < sizeof computes / sizeof *computes; k++) {
        mega_engine *e = open_engine(MEGA_GENERATE, computes[k]), *whole = open_engine(MEGA_EVAL, computes[k]);
        engine_text t;
        int32_t likely[TEXT_TOKENS];
        text_begin(&t, 5);
        need(text_generate(&t, e));
        /* the longer prompt has three chunks; then both texts grow by one token per run, the shorter one for longer */
        assert_int_equal(t.runs, 3 + TEXT_SEQ - text_prompt[0] - 3);
        need(text_most_likely(&t, whole, likely));
        for (int b = 0; b < TEXT_SAMPLES; b++) {
            assert_int_equal(t.length[b], TEXT_SEQ);
            for (int i = text_prompt[b]; i < TEXT_SEQ; i++)
                assert_int_equal(t.token[b][i], likely[b * TEXT_SEQ + i - 1]);
        }
        mega_engine_destroy(e);
        mega_engine_destroy(whole);
    }
}

/* If `filled` is 0 the cache counts as empty: a second text does not see the first. */
static void a_new_text_does_not_see_the_old_one(void **state)
{
    (void)state;
    mega_engine *e = open_engine(MEGA_GENERATE, MEGA_F32);
    engine_text first, other, again;
    text_begin(&first, 5);
    text_begin(&other, 20);
    text_begin(&again, 5);
    need(text_generate(&first, e));
    need(text_generate(&other, e));
    need(text_generate(&again, e));
    assert_memory_equal(first.token, again.token, sizeof first.token);
    assert_memory_not_equal(first.token, other.token, sizeof first.token);
    mega_engine_destroy(e);
}

static void an_engine_of_arguments_generates(void **state)
{
    (void)state;
    char *argv[] = {"test", "--micro-batch-size", "2", "--seed", "11"};
    const mega_transformer gpt = engine_run_gpt();
    mega_transformer_list list;
    mega_engine *e = NULL, *of_options = open_engine(MEGA_GENERATE, MEGA_F32);
    need(mega_transformer_list_create(&gpt, 1, &list));
    mega_model model = mega_transformer_model(&list);
    model.positions = TEXT_SEQ;
    need(mega_initialize(&(mega_setup){.model = &model, .mode = MEGA_GENERATE, .argc = 5, .argv = argv}, &e));
    assert_int_equal(mega_engine_run_rows(e, MEGA_RUN_PREFILL), TEXT_SEQ);
    assert_int_equal(mega_engine_run_rows(of_options, MEGA_RUN_PREFILL), TEXT_PREFILL);
    assert_int_equal(mega_engine_run_rows(e, MEGA_RUN_DECODE), 1);
    assert_int_equal(mega_engine_positions(e), TEXT_SEQ);
    assert_true(mega_engine_is_first_stage(e) && mega_engine_is_last_stage(e));
    engine_text a, b;
    text_begin(&a, 5);
    text_begin(&b, 5);
    need(text_generate(&a, e));
    need(text_generate(&b, of_options));
    assert_int_equal(a.runs, 1 + TEXT_SEQ - text_prompt[0] - 1);
    assert_memory_equal(a.token, b.token, sizeof a.token);
    mega_engine_destroy(of_options);
    mega_engine_destroy(e);
    mega_transformer_list_destroy(&list);
}

static void memory_is_planned(void **state)
{
    (void)state;
    mega_engine_memory one, many;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = text_options(MEGA_F32, MEGA_GENERATE);
    mega_engine *e = NULL;
    need(text_engine(&e, &gpt, MEGA_GENERATE, &o));
    mega_engine_memory_get(e, &one);
    mega_engine_destroy(e);
    o.micro_batch = o.batch.global_batch = o.batch.micro_step = 64;
    need(text_engine(&e, &gpt, MEGA_GENERATE, &o));
    mega_engine_memory_get(e, &many);
    mega_engine_destroy(e);
    const size_t cache = (size_t)(2 * gpt.num_layers * gpt.hidden) * sizeof(float) * (TEXT_SEQ + TEXT_PREFILL);
    assert_int_equal(one.gradients + one.moments, 0);
    assert_true(one.inputs >= TEXT_SAMPLES * cache && many.inputs - one.inputs >= (64 - TEXT_SAMPLES) * cache);
    assert_true(many.data > one.data && many.total > one.total + 62 * cache);
}

static volatile sig_atomic_t stop;

static void a_signal_ends_the_wait(void **state)
{
    (void)state;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = text_options(MEGA_F32, MEGA_GENERATE);
    mega_engine *e = NULL;
    engine_text t, expected;
    need(mega_team_create(1, &o.team));
    mega_team_stop_on(o.team, &stop);
    need(text_engine(&e, &gpt, MEGA_GENERATE, &o));
    text_begin(&expected, 5);
    need(text_generate(&expected, e));
    stop = SIGTERM;
    text_begin(&t, 5);
    need_error(text_generate(&t, e), MEGA_ERR_INTERRUPTED, "generation was interrupted by a signal");
    stop = 0;
    text_begin(&t, 5);
    need(text_generate(&t, e));
    assert_memory_equal(t.token, expected.token, sizeof t.token);
    mega_engine_destroy(e);
    mega_team_destroy(o.team);
}

/* ---- beams ---- */

enum { BEAMS = 6, BEAMS_BATCH = 3, BEAMS_READ = TEXT_PREFILL };

/* Every sample reads the prompt of this number, receives the cache of its source, and reads one token more. */
static void run_beams(mega_engine *e, const int32_t prompt[BEAMS], const int32_t source[BEAMS], float *out)
{
    static const int32_t zeros[BEAMS] = {0}, filled[BEAMS] = {4, 4, 4, 4, 4, 4};
    for (int k = 0; k < 2; k++) {
        const mega_run program = k == 0 ? MEGA_RUN_PREFILL : MEGA_RUN_DECODE;
        const int rows = k == 0 ? BEAMS_READ : 1;
        mega_batch *batch = mega_engine_run_batch(e, program);
        for (int b = 0; b < BEAMS; b++) {
            int32_t token[BEAMS_READ], position[BEAMS_READ];
            const int32_t last = b % BEAMS_BATCH * rows + rows - 1;
            for (int i = 0; i < rows; i++) {
                token[i] = k == 0 ? (5 + 7 * prompt[b] + 3 * i * i) % TEXT_VOCAB : 1;
                position[i] = k * BEAMS_READ + i;
            }
            mega_sample *s = mega_batch_sample(batch, b);
            need(mega_sample_set_i32(s, "tokens", token, rows));
            need(mega_sample_set_i32(s, "position_ids", position, rows));
            need(mega_sample_set_i32(s, "last_rows", &last, 1));
        }
        need(mega_engine_run(e, program, k == 0 ? zeros : filled));
        need(mega_engine_wait(e));
        if (k == 0) need(mega_engine_select_caches(e, source, 0, BEAMS_READ));
    }
    for (int m = 0; m < BEAMS / BEAMS_BATCH; m++) {
        mega_run_value logits;
        assert_true(mega_engine_run_output_of(e, MEGA_RUN_DECODE, "logits", m, &logits));
        assert_true(logits.count >= BEAMS_BATCH * TEXT_VOCAB);
        for (int b = 0; b < BEAMS_BATCH; b++)
            need(mega_run_value_read(&logits, b * (logits.count / BEAMS_BATCH), TEXT_VOCAB,
                                     out + (m * BEAMS_BATCH + b) * TEXT_VOCAB));
    }
}

static double most_difference(const float *a, const float *b)
{
    double most = 0;
    for (int i = 0; i < BEAMS * TEXT_VOCAB; i++)
        if (fabs((double)a[i] - (double)b[i]) > most) most = fabs((double)a[i] - (double)b[i]);
    return most;
}

/* Samples exchange their caches as if each had read the other's prompt: by chains, cycles, and many of one source. */
static void caches_are_exchanged(void **state)
{
    (void)state;
    static const int32_t same[BEAMS] = {0, 1, 2, 3, 4, 5};
    static const int32_t sources[][BEAMS] = {{1, 0, 3, 4, 2, 5}, {5, 4, 3, 2, 1, 0}, {1, 2, 3, 4, 5, 0},
                                             {0, 0, 1, 2, 3, 4}, {3, 3, 3, 3, 3, 3}, {1, 2, 0, 0, 3, 1},
                                             {1, 2, 3, 4, 5, 5}};
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = text_options(MEGA_F32, MEGA_GENERATE);
    float moved[BEAMS * TEXT_VOCAB], read[BEAMS * TEXT_VOCAB], still[BEAMS * TEXT_VOCAB];
    mega_engine *e = NULL;
    o.micro_batch = BEAMS_BATCH;
    o.micro_batches = BEAMS / BEAMS_BATCH;
    o.batch = (mega_batch_ramp){.global_batch = BEAMS, .micro_step = BEAMS_BATCH};
    need(text_engine(&e, &gpt, MEGA_GENERATE, &o));
    run_beams(e, same, same, still);
    for (size_t k = 0; k < sizeof sources / sizeof *sources; k++) {
        run_beams(e, same, sources[k], moved);
        run_beams(e, sources[k], same, read);
        assert_true(most_difference(moved, read) < 1e-5);
        assert_true(most_difference(moved, still) > 1e-3);
    }
    mega_engine_destroy(e);
}

/* ---- wrong calls ---- */

/* Makes a wrong run and checks what mega_engine_wait reports. */
static void wrong_run(mega_engine *e, mega_run program, const int32_t *filled, const char *said)
{
    need(mega_engine_run(e, program, filled));
    need_error(mega_engine_wait(e), MEGA_ERR_USAGE, said);
    need(mega_engine_wait(e)); /* it is reported once */
}

static void wrong_runs_are_told_by_the_wait(void **state)
{
    (void)state;
    mega_engine *e = open_engine(MEGA_GENERATE, MEGA_F32);
    const int32_t none[TEXT_SAMPLES] = {0}, negative[TEXT_SAMPLES] = {0, -1}, many[TEXT_SAMPLES] = {TEXT_SEQ + 1, 0};
    const int32_t id = TEXT_VOCAB + 1000;
    engine_text t, expected;
    text_begin(&expected, 5);
    need(text_generate(&expected, e));
    wrong_run(e, MEGA_RUN_DECODE, none, "is not filled");
    text_begin(&t, 5);
    assert_int_equal(text_fill(&t, e), MEGA_RUN_PREFILL);
    wrong_run(e, MEGA_RUN_PREFILL, NULL, "filled is NULL");
    text_fill(&t, e);
    wrong_run(e, MEGA_RUN_PREFILL, negative, "sample 1 has -1 positions in its cache; expected 0 to 16");
    text_fill(&t, e);
    wrong_run(e, MEGA_RUN_PREFILL, many, "sample 0 has 17 positions in its cache; expected 0 to 16");
    mega_engine_run_batch(e, MEGA_RUN_DECODE);
    wrong_run(e, MEGA_RUN_DECODE, none, "input \"tokens\" of sample 0");
    text_fill(&t, e);
    need(mega_sample_set_i32(mega_batch_sample(mega_engine_run_batch(e, MEGA_RUN_DECODE), 1), "tokens", &id, 1));
    wrong_run(e, MEGA_RUN_DECODE, none, "is not filled");
    assert_int_equal(text_fill(&t, e), MEGA_RUN_PREFILL);
    need(mega_engine_run(e, MEGA_RUN_PREFILL, none)); /* a correct run after a wrong one does not clear the failure */
    need(mega_engine_run(e, MEGA_RUN_PREFILL, none));
    assert_int_equal(text_fill(&t, e), MEGA_RUN_PREFILL);
    need(mega_engine_run(e, MEGA_RUN_PREFILL, none));
    need_error(mega_engine_wait(e), MEGA_ERR_USAGE, "is not filled");
    text_begin(&t, 5);
    need(text_generate(&t, e));
    assert_memory_equal(t.token, expected.token, sizeof t.token);
    mega_engine_destroy(e);
}

static void ids_out_of_range_are_told_by_the_wait(void **state)
{
    (void)state;
    mega_engine *e = open_engine(MEGA_EVAL, MEGA_F32);
    engine_text t;
    double a[TEXT_TOKENS], b[TEXT_TOKENS];
    text_begin(&t, 5);
    need(text_losses(&t, e, -1, a));
    t.token[1][4] = TEXT_VOCAB;
    need_error(text_losses(&t, e, -1, b), MEGA_ERR_USAGE, "input \"tokens\": number 4 of sample 1");
    text_begin(&t, 5);
    need(text_losses(&t, e, -1, b));
    assert_memory_equal(a, b, sizeof a);
    mega_engine_destroy(e);
}

static void programs_that_are_not_there(void **state)
{
    (void)state;
    mega_engine *generates = open_engine(MEGA_GENERATE, MEGA_F32), *evaluates = open_engine(MEGA_EVAL, MEGA_F32);
    mega_run_value v = {.count = -7};
    mega_step_result r;
    mega_loss_sums sums = {0};
    double loss;
    need_error(mega_engine_run(NULL, MEGA_RUN_DECODE, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_wait(NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_run(evaluates, MEGA_RUN_DECODE, NULL), MEGA_ERR_USAGE, "create one in mode MEGA_GENERATE");
    need_error(mega_engine_run(generates, MEGA_RUN_EVALUATE, NULL), MEGA_ERR_USAGE, "create one in mode MEGA_EVAL");
    need_error(mega_engine_run(generates, (mega_run)9, NULL), MEGA_ERR_USAGE, "expected a mega_run");
    assert_null(mega_engine_run_batch(generates, MEGA_RUN_EVALUATE));
    assert_null(mega_engine_run_batch(NULL, MEGA_RUN_EVALUATE));
    assert_int_equal(mega_engine_run_rows(evaluates, MEGA_RUN_PREFILL), -1);
    assert_int_equal(mega_engine_positions(NULL), -1);
    assert_false(mega_engine_is_first_stage(NULL) || mega_engine_is_last_stage(NULL));
    assert_false(mega_engine_run_output(generates, MEGA_RUN_EVALUATE, "logits", &v));
    assert_false(mega_engine_run_output(generates, MEGA_RUN_DECODE, "tokens", &v)); /* an input */
    assert_false(mega_engine_run_output(generates, MEGA_RUN_DECODE, NULL, &v));
    assert_false(mega_engine_run_output(generates, MEGA_RUN_DECODE, "logits", NULL));
    assert_int_equal(v.count, -7);
    need_error(mega_engine_forward(generates, &loss), MEGA_ERR_USAGE, "call mega_engine_run");
    need_error(mega_engine_train_batch(generates, &r), MEGA_ERR_USAGE, "so it cannot train");
    need_error(mega_engine_evaluate_batch(generates, &sums), MEGA_ERR_USAGE, "so it cannot evaluate");
    assert_int_equal(mega_engine_output_count(generates, "logits"), 0);
    mega_engine_destroy(generates);
    mega_engine_destroy(evaluates);
}

/* A run is refused if it would overwrite what a backward pass reads, or if there are no weights. */
static void runs_out_of_order(void **state)
{
    (void)state;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine *e = NULL;
    mega_engine_options o = engine_run_options(2, 2, 1e-2);
    need(gpt_engine_create(&e, &gpt, &o));
    need_error(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL), MEGA_ERR_USAGE, "call mega_engine_allocate first");
    need_error(mega_engine_wait(e), MEGA_ERR_USAGE, "call mega_engine_allocate first");
    assert_null(mega_engine_run_batch(e, MEGA_RUN_EVALUATE));
    need(mega_engine_allocate(e));
    need_error(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL), MEGA_ERR_USAGE, "the parameters have no values");
    need(mega_engine_initialize(e, 11));
    mega_batch *b = mega_engine_micro_batch(e);
    for (int i = 0; i < 2; i++) engine_run_fill(b, i, i);
    need(mega_engine_forward(e, NULL));
    need_error(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL), MEGA_ERR_USAGE, "call mega_engine_backward first");
    need(mega_engine_backward(e));
    need(mega_engine_step(e, NULL));
    engine_text t;
    double losses[TEXT_TOKENS];
    text_begin(&t, 5);
    need(text_losses(&t, e, -1, losses)); /* an engine that trains can run its evaluation too */
    mega_engine_destroy(e);
    o = text_options(MEGA_F32, MEGA_GENERATE);
    o.prefill = TEXT_SEQ + 1;
    need_error(text_engine(&e, &gpt, MEGA_GENERATE, &o), MEGA_ERR_USAGE, "prefill 17; expected at most seq (16)");
    o.prefill = -1;
    need_error(text_engine(&e, &gpt, MEGA_GENERATE, &o), MEGA_ERR_USAGE, "prefill -1; expected at least 0");
    o = text_options(MEGA_F32, MEGA_GENERATE);
    o.micro_batches = 65;
    need_error(text_engine(&e, &gpt, MEGA_GENERATE, &o), MEGA_ERR_USAGE,
               "65 micro_batches of a run; expected at most 64");
}

/* Keeps the first row of each sample, as attention keeps a source of one position, and adds it to later rows. */
static void describe_kept(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    const int64_t dims[2] = {b->samples, WIDTH};
    const mega_tensor rows = mega_input(b, "rows", MEGA_F32, b->positions, WIDTH);
    const mega_tensor kept = mega_graph_state(b->graph, "kept", mega_graph_dtype(b->graph), 2, dims);
    if (b->positions > 1) mega_op_keep(b->graph, mega_first_position(b, rows), kept);
    mega_output(b, "y", b->positions > 1 ? rows : mega_add(b, rows, kept));
    f->x = mega_none();
}

static void run_kept(mega_engine *e, mega_run program, int32_t filled, float out[TEXT_SAMPLES * WIDTH])
{
    const int32_t before[TEXT_SAMPLES] = {filled, filled};
    const int64_t rows = mega_engine_run_rows(e, program);
    mega_batch *batch = mega_engine_run_batch(e, program);
    mega_run_value y;
    for (int i = 0; i < TEXT_SAMPLES; i++) {
        float value[2 * WIDTH];
        for (int k = 0; k < rows * WIDTH; k++) value[k] = program == MEGA_RUN_PREFILL ? (float)(1 + i * WIDTH + k) : 0;
        need(mega_sample_set_f32(mega_batch_sample(batch, i), "rows", value, rows * WIDTH));
    }
    need(mega_engine_run(e, program, before));
    need(mega_engine_wait(e));
    assert_true(mega_engine_run_output(e, program, "y", &y));
    assert_int_equal(y.count, TEXT_SAMPLES * rows * WIDTH);
    if (program == MEGA_RUN_DECODE) need(mega_run_value_read(&y, 0, TEXT_SAMPLES * WIDTH, out));
}

/* A state [samples, C] is not a cache of C positions: what is kept of a source is not moved. */
static void a_source_stays_where_it_is(void **state)
{
    (void)state;
    const mega_layer layer = {.path = "net", .describe = describe_kept};
    const mega_model model = {.name = "kept", .layer = &layer, .num_layers = 1};
    mega_engine_options o = text_options(MEGA_F32, MEGA_GENERATE);
    float before[TEXT_SAMPLES * WIDTH], after[TEXT_SAMPLES * WIDTH];
    mega_engine *e = NULL;
    o.prefill = 2;
    need(mega_engine_create(&(mega_setup){.model = &model, .mode = MEGA_GENERATE, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 11));
    run_kept(e, MEGA_RUN_PREFILL, 0, before);
    run_kept(e, MEGA_RUN_DECODE, 2, before);
    need(mega_engine_select_caches(e, (const int32_t[TEXT_SAMPLES]){1, 0}, 0, 3));
    run_kept(e, MEGA_RUN_DECODE, 3, after);
    for (int i = 0; i < TEXT_SAMPLES * WIDTH; i++) assert_true(before[i] == (float)(1 + i) && after[i] == before[i]);
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_text_is_that_of_the_whole_forward),
                                       cmocka_unit_test(a_new_text_does_not_see_the_old_one),
                                       cmocka_unit_test(an_engine_of_arguments_generates),
                                       cmocka_unit_test(memory_is_planned),
                                       cmocka_unit_test(caches_are_exchanged),
                                       cmocka_unit_test(a_signal_ends_the_wait),
                                       cmocka_unit_test(wrong_runs_are_told_by_the_wait),
                                       cmocka_unit_test(ids_out_of_range_are_told_by_the_wait),
                                       cmocka_unit_test(programs_that_are_not_there),
                                       cmocka_unit_test(runs_out_of_order),
                                       cmocka_unit_test(a_source_stays_where_it_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
