/* The fast ways of SentencePiece's Unigram against their definitions: every character of a text by its replacement, and
 * one search for the whole text. Random texts from a fixed seed. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer.h"
#include "models/encoder.h"
#include "sentencepiece_kit.h"
#include <stdio.h>

enum { TEXTS = 200, UNITS = 80 * 256 };

static uint32_t next_random(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 4) * below >> 28);
}

/* ---- a table of replacements ---- */

typedef struct map_maker {
    uint32_t unit[UNITS];
    uint32_t blocks; /* of 256 units: the children of one place each */
    mega_buffer text;
} map_maker;

static uint32_t children_of(const map_maker *m, uint32_t at)
{
    return at ^ m->unit[at] >> 10;
}

static void open_children(map_maker *m, uint32_t at)
{
    if (m->unit[at] >> 10 == 0) m->unit[at] |= (at ^ m->blocks++ * 256) << 10;
    assert_true(m->blocks * 256 <= UNITS);
}

static void add_replacement(map_maker *m, const char *from, const char *to)
{
    uint32_t at = 0;
    for (; *from != 0; from++) {
        open_children(m, at);
        at = children_of(m, at) ^ (uint8_t)*from;
        m->unit[at] |= (uint8_t)*from;
    }
    open_children(m, at);
    m->unit[at] |= 256;
    m->unit[children_of(m, at)] = (uint32_t)m->text.size | UINT32_C(1) << 31;
    mega_buffer_append(&m->text, to, strlen(to) + 1);
}

static void put_map(mega_buffer *spec)
{
    static const char *const rule[][2] = {{"\n", " "},
                                          {"\t", " "},
                                          {"\xC2\xA0", " "},
                                          {"\xEF\xBC\x8C", ","},
                                          {"e\xCC\x81", "é"},
                                          {"o\xCC\x88", "ö"},
                                          {"\x01", ""},
                                          {"か\xE3\x82\x99", "が"},
                                          {"ê\xCC\x81", "ế"},
                                          {"\xF0\x9D\x90\x80", "A"},
                                          {"\xEF\xAC\x81", "fi"},
                                          {"ö\xCC\x84x", "y"},
                                          {"\xE3\x80\x80", "  "},
                                          {"x\xF0\x9F\x98\x80", "z"}};
    map_maker *m = mega_calloc(1, sizeof *m);
    mega_buffer map = {0};
    m->blocks = 1;
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++) add_replacement(m, rule[i][0], rule[i][1]);
    const uint32_t size = m->blocks * 256 * 4;
    mega_buffer_append(&map, &size, 4);
    mega_buffer_append(&map, m->unit, size);
    mega_buffer_append(&map, m->text.data, m->text.size);
    put_bytes(spec, 2, map.data, map.size);
    mega_buffer_fini(&map);
    mega_buffer_fini(&m->text);
    mega_free(m);
}

/* ---- models and texts ---- */

typedef struct model_options {
    bool map, remove_extra, fallback, crossing, user;
} model_options;

static mega_tokenizer *make_model(int type, model_options o)
{
    static const struct {
        const char *text;
        float score;
    } piece[] = {{"xö", -7},    {"▁", -3},     {"a", -2.1f}, {"b", -2.1f},    {"ab", -4.2000003f}, {"ba", -4.2f},
                 {"▁a", -3.3f}, {"aa", -4.2f}, {",", -2.1f}, {"1", -2.5f},    {"b1", -4.6f},       {"1,", -4.6f},
                 {"é", -2},     {"a.", -3},    {"日", -5},   {"日本", -9.5f}, {"本", -4.5f},       {"。", -3},
                 {"aé", -4.1f}, {"éb", -4.1f}, {"▁日", -7},  {"x", -6},       {"😀", -8},           {"が", -3},
                 {"e", -2},     {"o", -3},     {"か", -4},   {".", -3.5f}};
    const char *path = mega_kit_path(mega_kit_temp_folder(), "fast.model");
    mega_tokenizer *t;
    mega_buffer b = {0}, spec = {0};
    put_model_piece(&b, "<unk>", 0, 2);
    put_model_piece(&b, "<s>", 0, 3);
    put_model_piece(&b, "</s>", 0, 3);
    for (int i = 0; i < 256 && o.fallback; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_model_piece(&b, name, 0, 6);
    }
    for (size_t i = type == 2; i < sizeof piece / sizeof piece[0];
         i++) /* BPE has no piece with a character that is none */
        put_model_piece(&b, piece[i].text, piece[i].score, 1);
    if (o.crossing) put_model_piece(&b, "a▁b", -6, 1);
    if (o.user) put_model_piece(&b, "<a  b>", 0, 4);
    put_value(&spec, 3, (uint64_t)type);
    put_value(&spec, 35, o.fallback);
    put_bytes(&b, 2, spec.data, spec.size);
    spec.size = 0;
    if (o.map) put_map(&spec);
    put_value(&spec, 4, o.remove_extra);
    put_bytes(&b, 3, spec.data, spec.size);
    assert_int_equal(mega_file_write_atomic(path, b.data, b.size), MEGA_OK);
    if (mega_tokenizer_load(path, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    mega_buffer_fini(&b);
    mega_buffer_fini(&spec);
    return t;
}

/* Mostly words of letters and blanks, sometimes rows of one part. */
static void make_text(uint32_t *state, size_t parts, mega_buffer *out)
{
    static const char *const part[] = {"a",
                                       "b",
                                       "ab",
                                       " ",
                                       "  ",
                                       "\n",
                                       "x",
                                       "1,",
                                       "é",
                                       "日本",
                                       "日",
                                       "。",
                                       "か\xE3\x82\x99",
                                       "e\xCC\x81",
                                       "か",
                                       "ê",
                                       "ö",
                                       "\xCC\x81",
                                       "\xCC\x84x",
                                       "😀",
                                       "𝐀",
                                       "\xEF\xBC\x8C",
                                       "▁",
                                       "▁▁",
                                       "\xFF",
                                       "\xC3",
                                       "\x80",
                                       "\xE3\x81",
                                       "\xF0\x9F",
                                       "\x01",
                                       "ж",
                                       "жук",
                                       "中文字",
                                       "ﬁ",
                                       "<a  b>",
                                       "\xE3\x80\x80",
                                       "\t",
                                       "abba abab, ab1, baab. aab",
                                       "e",
                                       "o",
                                       "b1 a",
                                       "a.b",
                                       ".",
                                       "\x7F",
                                       "\xED\xA0\x80"};
    enum { PARTS = sizeof part / sizeof part[0] };
    out->size = 0;
    for (size_t i = 0; i < parts; i++) {
        const char *chosen = part[next_random(state, next_random(state, 3) == 0 ? PARTS : 6)];
        for (uint32_t k = next_random(state, 40) == 0 ? next_random(state, 100) : 0; k < 100; k = k == 0 ? 100 : k - 1)
            mega_buffer_puts(out, chosen);
        if (next_random(state, 50) == 0) mega_buffer_append(out, "", 1); /* U+0000 */
    }
}

static void characters_stay_as_replaced_one_by_one(void **state)
{
    (void)state;
    uint32_t random = 5;
    mega_buffer text = {0}, fast = {0}, plain = {0};
    for (int kind = 0; kind < 16; kind++) {
        const model_options o = {
            .map = kind & 1, .remove_extra = (kind & 2) != 0, .user = (kind & 4) != 0, .fallback = true};
        mega_tokenizer *t = make_model(kind & 8 ? 1 : 2, o);
        mega_pipeline *p = t->pipe, slow = *p;
        slow.printable_stays = false; /* every character is looked for in the table, */
        slow.charsmap.kind = mega_malloc(MEGA_CHARSMAP_KINDS);
        memset(slow.charsmap.kind, MEGA_CHAR_REPLACED, MEGA_CHARSMAP_KINDS);
        if (o.map) memset(slow.charsmap.begins, true, sizeof slow.charsmap.begins);
        mega_text none = {0};
        if (p->num_kept == 0) { /* also those of a model that only marks blanks */
            slow.kept = &none;
            slow.num_kept = 1;
        }
        for (int i = 0; i < TEXTS; i++) {
            make_text(&random, 1 + (size_t)i / 4, &text);
            const mega_span in = {(const uint8_t *)text.data, text.size};
            fast.size = plain.size = 0;
            mega_sentencepiece_normalize(p, in, &fast);
            mega_sentencepiece_normalize(&slow, in, &plain);
            assert_int_equal(fast.size, plain.size);
            if (fast.size > 0) assert_memory_equal(fast.data, plain.data, fast.size);
        }
        mega_free(slow.charsmap.kind);
        mega_tokenizer_destroy(t);
    }
    mega_buffer_fini(&text);
    mega_buffer_fini(&fast);
    mega_buffer_fini(&plain);
}

/* Encodes with all ways that save a search, or without. */
static void encode(mega_tokenizer *t, const mega_buffer *text, bool plain, mega_ids *out)
{
    mega_pipeline *p = t->pipe;
    uint64_t joined[1024];
    const bool splits = p->splits_at_mark;
    uint8_t *characters = p->characters;
    mega_encoder *e;
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    memcpy(joined, p->joined, sizeof joined);
    if (plain) {
        p->splits_at_mark = false;
        p->characters = NULL;
        memset(p->joined, 0xFF, sizeof joined);
    }
    for (int repeat = plain; repeat < 2; repeat++) { /* the second time the words come from the cache */
        out->count = 0;
        assert_int_equal(mega_encoder_encode(e, text->data, text->size, out), MEGA_OK);
    }
    p->splits_at_mark = splits;
    p->characters = characters;
    memcpy(p->joined, joined, sizeof joined);
    mega_encoder_destroy(e);
}

static void words_are_those_of_one_search(void **state)
{
    (void)state;
    uint32_t random = 3;
    mega_buffer text = {0};
    mega_ids fast = {0}, plain = {0};
    for (int kind = 0; kind < 8; kind++) {
        const model_options o = {.map = true,
                                 .remove_extra = true,
                                 .fallback = kind & 1,
                                 .crossing = (kind & 2) != 0,
                                 .user = (kind & 4) != 0};
        mega_tokenizer *t = make_model(1, o);
        assert_non_null(t->pipe->characters);
        for (int i = 0; i < 40; i++) { /* the longest pass the least sum that SentencePiece allows */
            make_text(&random, i < 39 ? 1 + 3 * (size_t)i : 20000, &text);
            encode(t, &text, false, &fast);
            encode(t, &text, true, &plain);
            assert_int_equal(fast.count, plain.count);
            if (fast.count > 0) assert_memory_equal(fast.id, plain.id, (size_t)fast.count * sizeof *fast.id);
        }
        mega_tokenizer_destroy(t);
    }
    mega_buffer_fini(&text);
    mega_ids_fini(&fast);
    mega_ids_fini(&plain);
}

/* Words of which the cache keeps records in a ring: more of them than fit, and then the oldest again. */
static void displaced_words_are_searched_again(void **state)
{
    (void)state;
    enum { WORDS = 90000, LETTERS = 14 }; /* each takes some 13 of 2^20 places */
    mega_tokenizer *t = make_model(1, (model_options){.remove_extra = true});
    mega_buffer text = {0};
    mega_ids fast = {0}, plain = {0};
    for (int again = 0; again < 2; again++) {
        uint32_t random = 9;
        for (int i = 0; i < (again ? WORDS / 5 : WORDS); i++) {
            for (int k = 0; k < LETTERS; k++) mega_buffer_append(&text, &"abx"[next_random(&random, 3)], 1);
            mega_buffer_puts(&text, " ");
        }
    }
    encode(t, &text, false, &fast);
    encode(t, &text, true, &plain);
    assert_int_equal(fast.count, plain.count);
    assert_memory_equal(fast.id, plain.id, (size_t)fast.count * sizeof *fast.id);
    mega_tokenizer_destroy(t);
    mega_buffer_fini(&text);
    mega_ids_fini(&fast);
    mega_ids_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_stay_as_replaced_one_by_one),
        cmocka_unit_test(words_are_those_of_one_search),
        cmocka_unit_test(displaced_words_are_searched_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
