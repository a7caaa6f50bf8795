/* Tests training under a curriculum of sequence length: a step is that of a model with shorter samples, bit for bit;
 * runs that are cut, and runs by micro-batches, have the same bits; evaluations read whole samples and disturb
 * nothing. */
#include "api_model.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include <string.h>

enum { STEPS = 7, SHORT = 3 };

static const int64_t lengths[STEPS] = {SHORT, SHORT, 5, 5, API_SEQ, API_SEQ, API_SEQ};

static char *curriculum[] = {API_ARGV,
                             "--curriculum-learning",
                             "--curriculum-schedule",
                             "fixed_discrete",
                             "--curriculum-difficulty",
                             "3",
                             "5",
                             "9", /* more than a sample has */
                             "--curriculum-max-step",
                             "2",
                             "4"};
static char *whole[] = {API_ARGV};

static mega_engine *open_engine(const mega_model *model, const mega_dataset *data, char **argv, int argc)
{
    mega_engine *e = NULL;
    need(mega_initialize(&(mega_setup){.model = model, .training_data = data, .argc = argc, .argv = argv}, &e));
    return e;
}

static mega_engine *open_curriculum(void)
{
    return open_engine(&api_model, &api_data, curriculum, (int)(sizeof curriculum / sizeof *curriculum));
}

static mega_engine *open_whole(void)
{
    return open_engine(&api_model, &api_data, whole, (int)(sizeof whole / sizeof *whole));
}

static void train(mega_engine *e, int from, int to, mega_step_result *r)
{
    for (int i = from; i < to; i++) need(mega_engine_train_batch(e, &r[i]));
}

static void assert_same(const mega_step_result *a, const mega_step_result *b, int from, int to)
{
    for (int i = from; i < to; i++)
        if (a[i].loss != b[i].loss || a[i].grad_norm != b[i].grad_norm || a[i].tokens != b[i].tokens)
            fail_msg("step %d: loss %.17g, norm %.17g, %lld tokens; %.17g, %.17g, %lld", i + 1, a[i].loss,
                     a[i].grad_norm, (long long)a[i].tokens, b[i].loss, b[i].grad_norm, (long long)b[i].tokens);
}

/* The first positions of a sample of api_read. */
static mega_status read_short(void *user, int64_t index, mega_sample *sample)
{
    int32_t token[SHORT], label[SHORT];
    float mask[SHORT];
    (void)user;
    for (int i = 0; i < SHORT; i++) {
        token[i] = (int32_t)((index * 7 + i * (1 + index % 3)) % API_IDS);
        label[i] = (int32_t)((index * 7 + (i + 1) * (1 + index % 3)) % API_IDS);
        mask[i] = 1.0F;
    }
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", token, SHORT));
    MEGA_TRY(mega_sample_set_f32(sample, "loss_mask", mask, SHORT));
    return mega_sample_set_i32(sample, "labels", label, SHORT);
}

/* The model has no attention: every position has as many operations. */
static void assert_cost(const mega_engine *e, int positions)
{
    mega_engine_cost whole_sample, c;
    mega_engine *plain = open_whole();
    mega_engine_cost_get(plain, &whole_sample);
    mega_engine_cost_get(e, &c);
    assert_true(c.flops > 0 && c.flops * API_SEQ == whole_sample.flops * positions);
    mega_engine_destroy(plain);
}

static void the_bits_of_shorter_samples(void **state)
{
    mega_model model = api_model;
    const mega_dataset data = {.count = API_SAMPLES, .read = read_short};
    mega_step_result x[STEPS], y[STEPS];
    (void)state;
    model.positions = SHORT;
    mega_engine *a = open_curriculum();
    mega_engine *b = open_engine(&model, &data, whole, (int)(sizeof whole / sizeof *whole));
    assert_cost(a, API_SEQ);
    train(a, 0, 2, x);
    train(b, 0, 2, y);
    assert_same(x, y, 0, 2);
    assert_cost(a, SHORT);
    assert_cost(b, SHORT);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void what_is_counted(void **state)
{
    mega_engine *e = open_curriculum();
    mega_step_result r[STEPS];
    int64_t tokens = 0;
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(mega_engine_step_positions(e), lengths[i]);
        train(e, i, i + 1, r);
        assert_int_equal(r[i].samples, 2);
        assert_int_equal(r[i].tokens, 2 * lengths[i]);
        tokens += r[i].tokens;
        assert_int_equal(mega_engine_progress_get(e)->consumed_tokens, tokens);
        assert_int_equal(mega_engine_progress_get(e)->consumed_samples, 2 * (i + 1));
    }
    assert_int_equal(mega_engine_positions(e), API_SEQ);
    mega_engine_destroy(e);
}

/* Cut after each step, also just before the length changes. */
static void cut_runs(void **state)
{
    mega_engine *e = open_curriculum();
    mega_step_result r[STEPS], cut[STEPS];
    (void)state;
    train(e, 0, STEPS, r);
    mega_engine_destroy(e);
    for (int at = 1; at < STEPS; at++) {
        const char *folder = mega_kit_temp_folder();
        bool found = false;
        e = open_curriculum();
        train(e, 0, at, cut);
        need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
        mega_engine_destroy(e);
        e = open_curriculum();
        need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
        assert_true(found);
        train(e, at, STEPS, cut);
        assert_int_equal(mega_engine_progress_get(e)->consumed_tokens, 2 * (3 + 3 + 5 + 5 + 8 + 8 + 8));
        mega_engine_destroy(e);
        assert_same(r, cut, 0, STEPS);
    }
}

/* An engine whose programs are of whole samples goes back to shorter ones when an earlier checkpoint is loaded. */
static void back_to_an_earlier_step(void **state)
{
    mega_engine *e = open_curriculum();
    const char *folder = mega_kit_temp_folder();
    mega_step_result r[STEPS], again[STEPS];
    bool found = false;
    (void)state;
    train(e, 0, 1, r);
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    train(e, 1, STEPS, r);
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    assert_true(found);
    train(e, 1, STEPS, again);
    assert_same(r, again, 1, STEPS);
    mega_engine_destroy(e);
}

static mega_engine *open_options(mega_curriculum c, double warmup_tokens, double decay_tokens)
{
    const mega_engine_options o = {.compute = MEGA_F64,
                                   .micro_batch = 1,
                                   .seq = API_SEQ,
                                   .batch = {.global_batch = 2, .micro_step = 1},
                                   .curriculum = c,
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_LINEAR,
                                                .max_lr = 1e-2,
                                                .decay = 100,
                                                .warmup_tokens = warmup_tokens,
                                                .decay_tokens = decay_tokens}};
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = &api_model, .training_data = &api_data, .options = &o}, &e));
    need(mega_engine_allocate(e));
    return e;
}

static void save(mega_engine *e, const char *folder)
{
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    mega_engine_destroy(e);
}

static void load(mega_engine *e, const char *folder)
{
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(e, c, &(mega_engine_load_options){.use_checkpoint_schedule = true}, &loaded));
    mega_checkpoint_close(c);
}

/* A run without a curriculum continues one with it, and its own checkpoint still has the tokens: of the progress, and
 * of the schedule, which it took from the checkpoint. */
static void tokens_outlive_the_curriculum(void **state)
{
    (void)state;
    const char *difficulty[] = {"3", "5"}, *max_step[] = {"4"};
    const mega_curriculum off = {.is_on = false};
    const mega_curriculum stairs = {
        .is_on = true, .kind = MEGA_CURRICULUM_DISCRETE, .difficulty = difficulty, .max_step = max_step, .stairs = 2};
    for (int has_schedule = 0; has_schedule <= 1; has_schedule++) {
        const char *folder[] = {mega_kit_temp_folder(), mega_kit_temp_folder()};
        mega_step_result r[4];
        mega_engine *e = open_options(stairs, 4.0 * has_schedule, 90.0 * has_schedule);
        need(mega_engine_initialize(e, 1234));
        train(e, 0, 2, r);
        save(e, folder[0]);
        e = open_options(off, 0, 0);
        load(e, folder[0]);
        train(e, 2, 3, r);
        const double lr = mega_engine_lr(e);
        save(e, folder[1]);
        e = open_options(off, 0, 0);
        load(e, folder[1]);
        assert_int_equal(mega_engine_progress_get(e)->consumed_tokens, 2 * (3 + 3 + 8));
        assert_int_equal(mega_engine_progress_get(e)->schedule_tokens, 2 * (3 + 3 + 8));
        assert_true(mega_engine_lr(e) == lr);
        assert_true(has_schedule == 0 || lr < 0.75e-2); /* not that of 6 of 100 samples */
        mega_engine_destroy(e);
    }
}

static void by_micro_batches(void **state)
{
    mega_engine *a = open_curriculum(), *b = open_curriculum();
    mega_step_result x[STEPS], y[STEPS];
    (void)state;
    train(a, 0, STEPS, x);
    for (int i = 0; i < STEPS; i++)
        for (int m = 0; m < 2; m++) {
            need(mega_engine_forward(b, NULL));
            need(mega_engine_backward(b));
            need(mega_engine_step(b, &y[i]));
        }
    assert_same(x, y, 0, STEPS);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void evaluations_between(void **state)
{
    mega_engine *a = open_curriculum(), *b = open_curriculum(), *c = open_whole();
    mega_step_result x[STEPS], y[STEPS], found, expected;
    (void)state;
    need(mega_engine_evaluate(b, &api_data, 4, &found));
    need(mega_engine_evaluate(c, &api_data, 4, &expected));
    assert_true(found.loss == expected.loss);
    train(a, 0, STEPS, x);
    for (int i = 0; i < STEPS; i++) {
        train(b, i, i + 1, y);
        need(mega_engine_evaluate(b, &api_data, 4, &found));
    }
    assert_same(x, y, 0, STEPS);
    need(mega_engine_evaluate(a, &api_data, 4, &expected));
    assert_true(found.loss == expected.loss);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
    mega_engine_destroy(c);
}

/* Tensors need no more memory than those of whole samples; only the records of a second program come on top. */
static void memory_of_the_largest(void **state)
{
    mega_engine *a = open_curriculum(), *b = open_whole();
    mega_engine_memory m, n;
    mega_step_result r[STEPS];
    (void)state;
    mega_engine_memory_get(a, &m);
    mega_engine_memory_get(b, &n);
    assert_int_equal(m.total - m.records, n.total - n.records);
    assert_true(m.records > n.records);
    train(a, 0, 3, r);
    mega_engine_memory_get(a, &n);
    assert_int_equal(m.total, n.total);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

/* Computes more in samples of 3 positions than in whole ones. */
static void embed_more(const mega_builder *b, const void *self, mega_flow *f)
{
    api_embed(b, self, f);
    for (int i = 0; b->positions == SHORT && i < 200; i++) f->x = mega_activation(b, f->x, MEGA_ACT_GELU_TANH);
}

/* What the programs of the first step need beyond those of whole samples is planned. */
static void memory_of_the_first_step(void **state)
{
    (void)state;
    const mega_layer layers[] = {{"net", embed_more, NULL, 1, "embed"}, api_layers[1], api_layers[2]};
    mega_model model = api_model;
    mega_engine_memory m, n;
    model.layer = layers;
    mega_engine *a = open_engine(&model, &api_data, curriculum, (int)(sizeof curriculum / sizeof *curriculum));
    mega_engine *b = open_engine(&model, &api_data, whole, (int)(sizeof whole / sizeof *whole));
    mega_engine_memory_get(a, &m);
    mega_engine_memory_get(b, &n);
    /* 200 activations are kept for the backward pass */
    assert_true(m.total - m.records >= n.total - n.records + 20 * SHORT * API_WIDTH * sizeof(double));
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void refuse(char **option, int count, const char *said)
{
    char *argv[40] = {API_ARGV, "--curriculum-learning"};
    int argc = 0;
    mega_engine *e = NULL;
    while (argv[argc] != NULL) argc++;
    for (int i = 0; i < count; i++) argv[argc++] = option[i];
    const mega_status st =
        mega_initialize(&(mega_setup){.model = &api_model, .training_data = &api_data, .argc = argc, .argv = argv}, &e);
    if (st == MEGA_OK || e != NULL || strstr(mega_error_message(), said) == NULL)
        fail_msg("expected \"%s\", found %s, \"%s\"", said, mega_status_name(st), mega_error_message());
}

#define REFUSE(said, ...) refuse((char *[]){__VA_ARGS__}, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), said)

static void mistakes(void **state)
{
    (void)state;
    REFUSE("missing: --curriculum-total-steps", "--curriculum-min-difficulty", "4");
    REFUSE("missing: --curriculum-min-difficulty", "--curriculum-total-steps", "4");
    REFUSE("custom", "--curriculum-schedule", "custom");
    REFUSE("missing: --curriculum-root-degree", "--curriculum-schedule", "fixed_root", "--curriculum-min-difficulty",
           "4", "--curriculum-total-steps", "4");
    REFUSE("missing: --curriculum-difficulty", "--curriculum-schedule", "fixed_discrete");
    REFUSE("number 2 is 2", "--curriculum-schedule", "fixed_discrete", "--curriculum-difficulty", "4", "2",
           "--curriculum-max-step", "3");
    REFUSE("would read no token", "--curriculum-min-difficulty", "2", "--curriculum-total-steps", "100");
    REFUSE("--curriculum-min-difficulty 9: expected at most", "--curriculum-min-difficulty", "9",
           "--curriculum-total-steps", "4");
}

static void embed_with_pairs(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)mega_input(b, "pairs", MEGA_F32, b->positions * b->positions, 0);
    api_embed(b, self, f);
}

/* A table of as many rows as a sample has positions. */
static void embed_places(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    f->x = mega_vocab_embedding(b, "wte", mega_input(b, "tokens", MEGA_I32, b->positions, 0),
                                API_IDS * b->positions / 8, API_WIDTH, &api_table);
}

/* Models whose samples have no beginning that could be trained alone are refused before the first step. */
static void models_without_shorter_samples(void **state)
{
    static const struct {
        void (*embed)(const mega_builder *b, const void *self, mega_flow *f);
        const char *said;
    } cases[] = {{embed_with_pairs, "input \"pairs\": a sample of 8 positions has 64 numbers, one of 3 has 9"},
                 {embed_places, "parameter net.wte"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mega_layer layers[] = {{"net", cases[i].embed, NULL, 1, "embed"}, api_layers[1], api_layers[2]};
        mega_model model = api_model;
        mega_engine *e = NULL;
        model.layer = layers;
        const mega_status st = mega_initialize(
            &(mega_setup){.model = &model, .argc = (int)(sizeof curriculum / sizeof *curriculum), .argv = curriculum},
            &e);
        if (st == MEGA_OK || e != NULL || strstr(mega_error_message(), cases[i].said) == NULL ||
            strstr(mega_error_message(), "samples of 3 positions") == NULL)
            fail_msg("expected \"%s\", found %s, \"%s\"", cases[i].said, mega_status_name(st), mega_error_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_shorter_samples),
        cmocka_unit_test(what_is_counted),
        cmocka_unit_test(cut_runs),
        cmocka_unit_test(back_to_an_earlier_step),
        cmocka_unit_test(tokens_outlive_the_curriculum),
        cmocka_unit_test(by_micro_batches),
        cmocka_unit_test(evaluations_between),
        cmocka_unit_test(memory_of_the_largest),
        cmocka_unit_test(memory_of_the_first_step),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(models_without_shorter_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
