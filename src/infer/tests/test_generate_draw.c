/* The ids that a generator draws from: all ids of the model, or only those of a smaller tokenizer. */
#include "device.h"
#include "generate_kit.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 13, KNOWN = 5, NEW = 40, TEXTS = 8, POSITIONS = NEW + 1 };

static void model_open(generating *m, mega_team *team)
{
    const mega_engine_options o = {
        .team = team, .micro_batch = 1, .seq = POSITIONS, .batch = {.global_batch = 1, .micro_step = 1}};
    const gpt_size size = {
        .layers = 1, .heads = 2, .head_dim = 4, .positions = POSITIONS, .vocab = VOCAB, .init_std = 0.2};
    generating_open(m, size, &o);
}

/* Returns the highest id in some generated texts. */
static int32_t highest(const generating *m, int64_t draw_vocab, const mega_sampling *sampling)
{
    mega_generator *g = NULL;
    const mega_generator_options o = {.draw_vocab = draw_vocab};
    int32_t most = 0, tokens[NEW];
    need(mega_generator_create(m->engine, &m->language, &o, &g));
    for (int32_t i = 0; i < TEXTS; i++) {
        const int32_t prompt = VOCAB - 1 - i; /* a prompt may contain any id of the model */
        mega_generation text = {
            .prompt = &prompt, .prompt_count = 1, .max_new = NEW, .index = (uint64_t)i, .tokens = tokens};
        need(mega_generator_run(g, &text, 1, &(mega_generation_rules){.sampling = *sampling}));
        assert_int_equal(text.count, NEW);
        for (int t = 0; t < NEW; t++) most = tokens[t] > most ? tokens[t] : most;
    }
    mega_generator_destroy(g);
    return most;
}

static void ids_without_a_text_are_not_drawn(void **state)
{
    (void)state;
    generating m;
    model_open(&m, NULL);
    static const mega_sampling ways[] = {{.temperature = 1.0},
                                         {.temperature = 5.0, .seed = 3},
                                         {.temperature = 5.0, .top_k = 12},
                                         {.temperature = 5.0, .top_p = 0.95},
                                         {.greedy = true}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_true(highest(&m, KNOWN, &ways[i]) < KNOWN);
        assert_true(highest(&m, 0, &ways[i]) >= KNOWN);
        assert_int_equal(highest(&m, 0, &ways[i]), highest(&m, VOCAB, &ways[i]));
    }
    generating_close(&m);
}

static void count_columns(void *user, int row, const float *logits, int64_t vocab)
{
    (void)row;
    *(double *)user = (double)vocab + 0.0 * (double)logits[vocab - 1];
}

/* Ids that cannot be drawn have a probability as well: what is told is the model's own. */
static void probabilities_are_the_models(void **state)
{
    (void)state;
    generating m;
    model_open(&m, NULL);
    mega_generator *few = NULL, *all = NULL;
    need(mega_generator_create(m.engine, &m.language, &(mega_generator_options){.draw_vocab = KNOWN, .has_beams = true},
                               &few));
    need(mega_generator_create(m.engine, &m.language, &(mega_generator_options){.draw_vocab = 0}, &all));
    int32_t text[1 + NEW] = {VOCAB - 1}, tokens[NEW];
    float told[NEW], logprobs[NEW];
    double columns = 0.0, sum = 0.0;
    const mega_generation_rules rules = {.sampling.greedy = true, .logits = count_columns, .user = &columns};
    mega_generation made = {.prompt = text, .prompt_count = 1, .max_new = 4, .tokens = tokens, .logprobs = told};
    need(mega_generator_run(few, &made, 1, &rules));
    assert_true(columns == VOCAB);
    memcpy(text + 1, tokens, sizeof *tokens * 4);
    mega_generation read = {.prompt = text, .prompt_count = 5, .logprobs = logprobs};
    need(mega_generator_run(all, &read, 1, &rules));
    for (int i = 0; i < 4; i++) assert_true(told[i] == logprobs[i]);

    mega_beam_text found = {.tokens = text + 1};
    int count = 0;
    need(mega_generator_beams(few, text, 1, 4, &(mega_beam_options){.width = 1, .stop = -1}, &found, &count));
    need(mega_generator_run(all, &read, 1, &rules));
    for (int i = 0; i < 4; i++) sum += (double)logprobs[i];
    assert_true(fabs(found.score - sum) < 1e-5);
    mega_generator_destroy(few);
    mega_generator_destroy(all);
    generating_close(&m);
}

/* NaN and infinite weights draw nothing: the error tells the token and the folder; with good weights g goes on. */
static void logits_that_are_not_finite(void **state)
{
    (void)state;
    static const mega_sampling ways[] = {{.greedy = true}, {.temperature = 1.0}, {.temperature = 1.0, .top_k = 3}};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    generating m;
    mega_generator *g = NULL;
    model_open(&m, NULL);
    const mega_generator_options o = {.has_beams = true, .folder = "some/folder"};
    need(mega_generator_create(m.engine, &m.language, &o, &g));
    int32_t tokens[NEW];
    float told[NEW + 2];
    void *weight = mega_params_flat_master(mega_engine_params(m.engine));
    const double good = device_number(weight, MEGA_F32, 0);
    mega_beam_text found = {.tokens = tokens};
    int count = 0;
    const mega_beam_options beams = {.width = 1, .stop = -1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        device_set(weight, MEGA_F32, 0, (double)bad[i]);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            mega_generation text = {
                .prompt = (const int32_t[]){1, 2}, .prompt_count = 2, .max_new = w == 2 ? 0 : 3, .tokens = tokens};
            if (w == 2) text.logprobs = told; /* nothing is drawn, the prompt is read */
            const mega_generation_rules rules = {.sampling = ways[w]};
            assert_int_equal(mega_generator_run(g, &text, 1, &rules), MEGA_ERR_NUMERIC);
            assert_non_null(strstr(mega_error_message(), w == 2 ? "the logits of token 1 are not finite"
                                                                : "the logits of token 2 are not finite"));
            assert_non_null(strstr(mega_error_message(), "the weights of some/folder have NaN or Inf"));
        }
        assert_int_equal(mega_generator_beams(g, (const int32_t[]){1, 2}, 2, 3, &beams, &found, &count),
                         MEGA_ERR_NUMERIC);
        assert_non_null(strstr(mega_error_message(), "the logits of token 2 are not finite"));
    }
    device_set(weight, MEGA_F32, 0, good);
    need(mega_generator_beams(g, (const int32_t[]){1, 2}, 2, 3, &beams, &found, &count));
    mega_generator_destroy(g);
    generating_close(&m);
}

static volatile sig_atomic_t stop;

static bool stop_at_third(void *user, int row, int32_t token)
{
    (void)row;
    (void)token;
    if (++*(int *)user == 3) stop = SIGTERM;
    return true;
}

static void a_signal_stops_behind_the_token(void **state)
{
    (void)state;
    generating m;
    mega_generator *g = NULL;
    mega_team *team = NULL;
    int32_t tokens[NEW];
    int told = 0;
    need(mega_team_create(1, &team));
    mega_team_stop_on(team, &stop);
    model_open(&m, team);
    const mega_generator_options o = {.no_cache = false};
    need(mega_generator_create(m.engine, &m.language, &o, &g));
    const mega_generation_rules greedy = {.sampling.greedy = true};
    const mega_generation_rules stopped = {.sampling.greedy = true, .token = stop_at_third, .user = &told};
    mega_generation text = {.prompt = (const int32_t[]){1}, .prompt_count = 1, .max_new = NEW, .tokens = tokens};
    assert_int_equal(mega_generator_run(g, &text, 1, &stopped), MEGA_ERR_INTERRUPTED);
    assert_int_equal(text.count, 3);
    stop = 0;
    need(mega_generator_run(g, &text, 1, &greedy));
    assert_int_equal(text.count, NEW);
    mega_generator_destroy(g);
    generating_close(&m);
    mega_team_destroy(team);
}

typedef struct caller {
    mega_generator *g;
    mega_generation *text;
    const mega_generation_rules *rules;
    int refused;
} caller;

static bool call_again(void *user)
{
    caller *c = user;
    const mega_beam_options beams = {.width = 1, .stop = -1};
    mega_beam_text found = {.tokens = c->text->tokens};
    int count;
    c->refused += mega_generator_run(c->g, c->text, 1, c->rules) == MEGA_ERR_USAGE &&
                  strstr(mega_error_message(), "the generator is busy with mega_generator_") != NULL;
    c->refused += mega_generator_beams(c->g, c->text->prompt, 1, NEW, &beams, &found, &count) == MEGA_ERR_USAGE;
    mega_generator_destroy(c->g);
    c->refused += strstr(mega_error_message(), "nothing was freed") != NULL;
    return true;
}

static bool call_again_for(void *user, int row, int32_t token)
{
    return row == 0 && token >= 0 && call_again(user);
}

static void a_callback_may_not_call_again(void **state)
{
    (void)state;
    generating m;
    int32_t tokens[2][NEW];
    int count = 0;
    model_open(&m, NULL);
    caller c = {.g = NULL};
    const mega_generator_options o = {.has_beams = true};
    need(mega_generator_create(m.engine, &m.language, &o, &c.g));
    const mega_generation_rules greedy = {.sampling.greedy = true};
    const mega_generation_rules calling = {.sampling.greedy = true, .token = call_again_for, .user = &c};
    mega_generation quiet = {.prompt = (const int32_t[]){1}, .prompt_count = 1, .max_new = NEW, .tokens = tokens[0]};
    mega_generation called = quiet, other = quiet;
    int32_t others[NEW];
    called.tokens = tokens[1];
    other.tokens = others;
    c.text = &other;
    c.rules = &greedy;
    need(mega_generator_run(c.g, &quiet, 1, &greedy));
    need(mega_generator_run(c.g, &called, 1, &calling));
    assert_int_equal(c.refused, 3 * NEW);
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
    const mega_beam_options beams = {.width = 1, .stop = -1, .step = call_again, .user = &c};
    mega_beam_text found = {.tokens = tokens[1]};
    need(mega_generator_beams(c.g, quiet.prompt, 1, NEW, &beams, &found, &count));
    assert_true(c.refused >= 3 * NEW + 3 * (NEW - 1));
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
    mega_generator_destroy(c.g);
    generating_close(&m);
}

static void more_ids_than_the_model_has(void **state)
{
    (void)state;
    generating m;
    model_open(&m, NULL);
    mega_generator *g = NULL;
    mega_generator_options o = {.draw_vocab = VOCAB + 1};
    assert_int_equal(mega_generator_create(m.engine, &m.language, &o, &g), MEGA_ERR_USAGE);
    o.draw_vocab = -1;
    assert_int_equal(mega_generator_create(m.engine, &m.language, &o, &g), MEGA_ERR_USAGE);
    assert_null(g);
    generating_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_that_are_not_finite),    cmocka_unit_test(ids_without_a_text_are_not_drawn),
        cmocka_unit_test(probabilities_are_the_models),  cmocka_unit_test(a_signal_stops_behind_the_token),
        cmocka_unit_test(a_callback_may_not_call_again), cmocka_unit_test(more_ids_than_the_model_has)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
