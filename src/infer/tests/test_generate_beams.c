/* Generation with an engine: beams with caches that move find the texts of beams without caches; prompts of several
 * lengths in a batch; probabilities of tokens; nothing is allocated for a token. */
#include "generate_kit.h"
#include "megalith/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 29, BATCH = 5, POSITIONS = 40, NEW = 18, PREFILL = 4 };

typedef struct model {
    generating of;
    mega_generator *cached, *plain; /* plain: reads the whole text for each token */
} model;

static void model_open(model *m, int64_t micro_batches)
{
    const int64_t samples = (BATCH + micro_batches - 1) / micro_batches;
    const mega_engine_options o = {.micro_batch = samples,
                                   .micro_batches = micro_batches,
                                   .seq = POSITIONS,
                                   .prefill = PREFILL,
                                   .batch = {.global_batch = samples, .micro_step = samples}};
    const gpt_size size = {
        .layers = 2, .heads = 2, .head_dim = 8, .positions = POSITIONS, .vocab = VOCAB, .init_std = 0.4};
    generating_open(&m->of, size, &o);
    mega_generator_options g = {.has_beams = true};
    need(mega_generator_create(m->of.engine, &m->of.language, &g, &m->cached));
    g.no_cache = true;
    need(mega_generator_create(m->of.engine, &m->of.language, &g, &m->plain));
}

static void model_close(model *m)
{
    mega_generator_destroy(m->cached);
    mega_generator_destroy(m->plain);
    generating_close(&m->of);
}

typedef struct found {
    int32_t tokens[BATCH][NEW];
    mega_beam_text text[BATCH];
    int count;
} found;

static void search(mega_generator *g, const int32_t *prompt, int64_t count, const mega_beam_options *o, found *f)
{
    for (int i = 0; i < BATCH; i++) f->text[i] = (mega_beam_text){.tokens = f->tokens[i]};
    need(mega_generator_beams(g, prompt, count, NEW, o, f->text, &f->count));
}

static void beams_move(int64_t micro_batches)
{
    static const int32_t prompt[] = {1, 5, 9, 3, 7, 2, 20};
    model m;
    model_open(&m, micro_batches);
    const bool is_slow =
        getenv("MEGA_UNDER_VALGRIND") != NULL; /* the fewest and the most beams, the shortest and the longest prompt */
    for (int width = 2; width <= BATCH; width += is_slow ? BATCH - 2 : 1)
        for (int rules = 0; rules < 2; rules++)
            for (int64_t n = 1; n <= 7; n += is_slow ? 6 : 3) {
                const mega_beam_options o = {.width = width,
                                             .length_penalty = 1,
                                             .stop = 4,
                                             .rules = rules == 0 ? MEGA_BEAMS_MEGATRON : MEGA_BEAMS_TRANSFORMERS};
                found a, b;
                search(m.plain, prompt, n, &o, &a);
                const uint64_t before = mega_alloc_count();
                search(m.cached, prompt, n, &o, &b);
                assert_int_equal(mega_alloc_count(), before);
                assert_int_equal(a.count, b.count);
                assert_int_equal(a.count, width);
                for (int i = 0; i < a.count; i++) {
                    assert_true(fabs(a.text[i].score - b.text[i].score) < 1e-4);
                    assert_int_equal(a.text[i].count, b.text[i].count);
                    assert_memory_equal(a.tokens[i], b.tokens[i], (size_t)a.text[i].count * sizeof(int32_t));
                }
            }
    model_close(&m);
}

static void beams_move_their_caches(void **state)
{
    (void)state;
    beams_move(1);
    beams_move(3); /* beams of several micro-batches continue each other */
}

/* Each of several ids ends a beam: none of the texts goes on behind one. */
static void several_ids_end_a_beam(void **state)
{
    (void)state;
    static const int32_t prompt[] = {1, 5, 9};
    model m;
    model_open(&m, 1);
    mega_beam_options o = {.width = 3, .length_penalty = 1, .stop = -1};
    found open, f;
    search(m.cached, prompt, 3, &o, &open);
    const int32_t stops[] = {open.tokens[0][1], open.tokens[0][3]};
    o.more_stops = stops;
    o.num_more_stops = 2;
    int ended = 0;
    for (int rules = 0; rules < 2; rules++) {
        o.rules = rules == 0 ? MEGA_BEAMS_MEGATRON : MEGA_BEAMS_TRANSFORMERS;
        search(m.cached, prompt, 3, &o, &f);
        for (int i = 0; i < f.count; i++) {
            const int32_t *t = f.tokens[i];
            const int64_t n = f.text[i].count;
            for (int64_t k = 0; k + 1 < n; k++) assert_true(t[k] != stops[0] && t[k] != stops[1]);
            const bool is_stop = t[n - 1] == stops[0] || t[n - 1] == stops[1];
            assert_int_equal(f.text[i].finished, is_stop);
            ended += is_stop;
        }
    }
    assert_true(ended > 0);
    model_close(&m);
}

static void wrong_searches_are_refused(void **state)
{
    (void)state;
    model m;
    model_open(&m, 1);
    const int32_t prompt[] = {1, VOCAB};
    const mega_beam_options right = {.width = 2, .length_penalty = 1, .stop = -1};
    found f;
    search(m.cached, prompt, 1, &right, &f);
    mega_beam_options wrong[] = {right, right, right, right, right};
    wrong[0].width = 0;
    wrong[1].width = BATCH + 1;
    wrong[2].stop = VOCAB;
    wrong[3].length_penalty = NAN;
    wrong[4].num_more_stops = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mega_generator_beams(m.cached, prompt, 1, NEW, &wrong[i], f.text, &f.count), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_beams(m.cached, prompt, 2, NEW, &right, f.text, &f.count), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_beams(m.cached, prompt, 0, NEW, &right, f.text, &f.count), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_beams(m.cached, prompt, 1, POSITIONS, &right, f.text, &f.count), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_beams(m.cached, prompt, 1, 0, &right, f.text, &f.count), MEGA_ERR_USAGE);
    const int32_t source[BATCH] = {0, 1, 2, 3, BATCH};
    assert_int_equal(mega_engine_select_caches(m.of.engine, source, 0, 1), MEGA_ERR_USAGE);
    assert_int_equal(mega_engine_select_caches(m.of.engine, (const int32_t[BATCH]){0}, 2, 1), MEGA_ERR_USAGE);
    assert_int_equal(mega_engine_select_caches(m.of.engine, (const int32_t[BATCH]){0}, 0, POSITIONS + 1),
                     MEGA_ERR_USAGE);
    model_close(&m);
}

typedef struct texts {
    int32_t prompt[3][8], tokens[3][NEW];
    float logprobs[3][8 + NEW];
    mega_generation text[3];
} texts;

static void texts_begin(texts *t, bool has_logprobs)
{
    static const int64_t length[3] = {8, 1, 3};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++) t->prompt[i][k] = (3 + 5 * i + 7 * k) % VOCAB;
        t->text[i] = (mega_generation){.prompt = t->prompt[i],
                                       .prompt_count = length[i],
                                       .max_new = NEW,
                                       .index = (uint64_t)i,
                                       .tokens = t->tokens[i],
                                       .logprobs = has_logprobs ? t->logprobs[i] : NULL};
    }
}

/* The texts and probabilities of a batch are those of each prompt by itself, with and without caches. */
static void probabilities(int64_t micro_batches)
{
    model m;
    model_open(&m, micro_batches);
    const mega_generation_rules rules = {.sampling = {.temperature = 0.8, .top_p = 0.95, .seed = 2}};
    texts all, quick, alone;
    texts_begin(&all, true);
    need(mega_generator_run(m.cached, all.text, 3, &rules));
    texts_begin(&quick, false);
    const uint64_t before = mega_alloc_count();
    need(mega_generator_run(m.cached, quick.text, 3, &rules));
    assert_int_equal(mega_alloc_count(), before);
    for (int i = 0; i < 3; i++) {
        texts_begin(&alone, true);
        need(mega_generator_run(m.plain, &alone.text[i], 1, &rules));
        assert_memory_equal(all.tokens[i], alone.tokens[i], sizeof all.tokens[i]);
        assert_memory_equal(all.tokens[i], quick.tokens[i], sizeof all.tokens[i]);
        for (int64_t k = 0; k < all.text[i].prompt_count - 1 + NEW; k++) {
            assert_true(all.logprobs[i][k] < 0.0f);
            assert_true(fabsf(all.logprobs[i][k] - alone.logprobs[i][k]) < 1e-4f);
        }
    }
    /* of a prompt alone, without new tokens */
    texts_begin(&quick, true);
    quick.text[0].max_new = 0;
    need(mega_generator_run(m.cached, quick.text, 1, &rules));
    assert_int_equal(quick.text[0].count, 0);
    for (int k = 0; k < 7; k++) assert_true(fabsf(all.logprobs[0][k] - quick.logprobs[0][k]) < 1e-4f);
    model_close(&m);
}

static void probabilities_of_a_batch(void **state)
{
    (void)state;
    probabilities(1);
    probabilities(BATCH); /* each text is a micro-batch */
}

static void ids_in_a_row_end_a_text(void **state)
{
    (void)state;
    model m;
    model_open(&m, 1);
    texts t;
    mega_generation_rules rules = {.sampling = {.temperature = 3, .seed = 1}};
    texts_begin(&t, false);
    need(mega_generator_run(m.cached, t.text, 3, &rules));
    const int32_t row[2] = {t.tokens[0][5], t.tokens[0][6]};
    const mega_id_sequence end = {.id = row, .count = 2};
    rules.end = &end;
    rules.num_ends = 1;
    need(mega_generator_run(m.cached, t.text, 1, &rules));
    assert_true(t.text[0].finished && t.text[0].count <= 7);
    assert_int_equal(t.tokens[0][t.text[0].count - 1], row[1]);
    assert_int_equal(t.tokens[0][t.text[0].count - 2], row[0]);
    static const char *const stop[] = {"x"};
    rules.stop = stop;
    rules.num_stops = 1;
    assert_int_equal(mega_generator_run(m.cached, t.text, 1, &rules), MEGA_ERR_USAGE); /* without a tokenizer */
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beams_move_their_caches), cmocka_unit_test(several_ids_end_a_beam),
        cmocka_unit_test(wrong_searches_are_refused), cmocka_unit_test(probabilities_of_a_batch),
        cmocka_unit_test(ids_in_a_row_end_a_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
