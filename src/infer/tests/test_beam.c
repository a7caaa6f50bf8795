/* The rules of a beam search over a table of logits: tests/golden/beams.json, made by tools/make_beams_golden.py with
 * transformers, and with Megatron-LM's rules written in Python. */
#include "beam.h"
#include "kit.h"
#include "megalith/memory.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { VOCAB = 13, MOST = 16, WIDTH = 8 };

typedef struct search {
    float table[VOCAB][VOCAB];
    beams *b;
    int32_t prompt;
} search;

static int32_t last_of(void *user, int beam)
{
    const search *s = user;
    return s->b->made == 0 ? s->prompt : s->b->open.token[beam * s->b->most + s->b->made - 1];
}

static const float *row_of(void *user, int beam)
{
    search *s = user;
    return s->table[(last_of(user, beam) + s->b->made) % VOCAB];
}

static int run(search *s, const mega_beam_options *o, int64_t max_new, mega_beam_text *texts)
{
    bool is_done = false;
    beams_begin(s->b, o, max_new);
    while (!is_done && s->b->made < max_new) {
        assert_int_equal(beams_rank(s->b, VOCAB, VOCAB, row_of, last_of, s), beams_candidates(s->b));
        is_done = beams_step(s->b, beams_candidates(s->b));
        for (int i = 0; !is_done && i < o->width; i++) assert_in_range(s->b->source[i], 0, o->width - 1);
    }
    return beams_finish(s->b, is_done, texts);
}

static int64_t whole(const json_t *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

static mega_beam_options options_of(const json_t *c)
{
    const char *rules = json_string_value(json_object_get(c, "rules")),
               *early = json_string_value(json_object_get(c, "early"));
    mega_beam_options o = {.width = (int)whole(c, "width"),
                           .length_penalty = json_number_value(json_object_get(c, "penalty"))};
    if (strcmp(rules, "megatron") == 0) return o;
    o.rules = MEGA_BEAMS_TRANSFORMERS;
    o.early_stopping = strcmp(early, "true") == 0    ? MEGA_EARLY_STOPPING_TRUE
                       : strcmp(early, "never") == 0 ? MEGA_EARLY_STOPPING_NEVER
                                                     : MEGA_EARLY_STOPPING_FALSE;
    return o;
}

/* transformers computes in float32. */
static void compare(size_t number, const mega_beam_text *texts, int count, const json_t *expected)
{
    size_t i, k;
    json_t *text, *token;
    if ((size_t)count != json_array_size(expected))
        fail_msg("case %zu: %d texts, expected %zu", number, count, json_array_size(expected));
    json_array_foreach(expected, i, text)
    {
        const json_t *tokens = json_object_get(text, "tokens");
        const double score = json_number_value(json_object_get(text, "score"));
        if (fabs(texts[i].score - score) > 1e-5)
            fail_msg("case %zu, text %zu: score %.9g, expected %.9g", number, i, texts[i].score, score);
        if ((size_t)texts[i].count != json_array_size(tokens))
            fail_msg("case %zu, text %zu: %lld tokens, expected %zu", number, i, (long long)texts[i].count,
                     json_array_size(tokens));
        json_array_foreach(tokens, k, token) if (texts[i].tokens[k] != (int32_t)json_integer_value(token))
            fail_msg("case %zu, text %zu, token %zu: %d, expected %lld", number, i, k, texts[i].tokens[k],
                     (long long)json_integer_value(token));
        assert_int_equal(texts[i].finished, texts[i].tokens[texts[i].count - 1] == 0);
    }
}

static void fill_table(search *s, const json_t *root, int64_t number)
{
    const json_t *table = json_array_get(json_object_get(root, "tables"), (size_t)number);
    for (size_t i = 0; i < VOCAB; i++)
        for (size_t v = 0; v < VOCAB; v++)
            s->table[i][v] = (float)json_number_value(json_array_get(json_array_get(table, i), v));
}

static void texts_and_scores_are_those_of_the_originals(void **state)
{
    (void)state;
    json_error_t error;
    size_t number;
    json_t *c, *root = json_load_file(mega_kit_source("tests/golden/beams.json"), 0, &error);
    if (root == NULL) fail_msg("beams.json: %s", error.text);
    int32_t tokens[WIDTH][MOST];
    mega_beam_text texts[WIDTH];
    for (int i = 0; i < WIDTH; i++) texts[i] = (mega_beam_text){.tokens = tokens[i]};
    search s = {.prompt = 0};
    assert_int_equal(beams_create(WIDTH, MOST, &s.b), MEGA_OK);
    json_array_foreach(json_object_get(root, "cases"), number, c)
    {
        const mega_beam_options o = options_of(c);
        fill_table(&s, root, whole(c, "table"));
        s.prompt = (int32_t)whole(c, "prompt");
        const uint64_t before = mega_alloc_count();
        const int count = run(&s, &o, whole(c, "max_new"), texts);
        assert_int_equal(mega_alloc_count(), before);
        compare(number, texts, count, json_object_get(c, "texts"));
    }
    assert_true(number > 400);
    beams_destroy(s.b);
    json_decref(root);
}

static void a_forbidden_token_does_not_follow(void **state)
{
    (void)state;
    search s = {.prompt = 1};
    int32_t tokens[2][MOST];
    mega_beam_text texts[2] = {{.tokens = tokens[0]}, {.tokens = tokens[1]}};
    const mega_beam_options o = {
        .width = 2, .length_penalty = 1, .stop = -1, .forbids = true, .forbidden = 4, .forbidden_after = 1};
    assert_int_equal(beams_create(WIDTH, MOST, &s.b), MEGA_OK);
    s.table[1][4] = 9.0f;
    s.table[1][5] = 8.0f;
    assert_int_equal(run(&s, &o, 1, texts), 2);
    assert_int_equal(tokens[0][0], 5);
    /* and has no part in the other probabilities */
    assert_true(fabs(texts[0].score + log(1.0 + 11.0 * exp(-8.0))) < 1e-6);
    beams_destroy(s.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_and_scores_are_those_of_the_originals),
                                       cmocka_unit_test(a_forbidden_token_does_not_follow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
