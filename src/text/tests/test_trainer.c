/* Compares the trainer with a plain one that recounts everything for each merge; checks that the order of documents and
 * the number of workers do not matter, that saved tokenizers can be loaded, and that each failing allocation is
 * reported. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include "models/pretokenize.h"
#include "tokenizer/tokenizer_impl.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words over few letters, so that pairs overlap and tie. */
static void random_text(char *out, size_t n, int letters, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = mega_kit_next(state) >> 8;
        out[i] = r % 6 == 0 ? ' ' : (char)('a' + (int)(r / 6 % (uint64_t)letters));
    }
    out[n] = '\0';
}

static mega_tokenizer *train(const char *type, const char *const *documents, int count, int64_t vocab_size)
{
    mega_trainer *trainer;
    mega_tokenizer *t = NULL;
    const mega_trainer_options o = {.type = type, .vocab_size = vocab_size};
    assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(mega_trainer_add(trainer, documents[i], strlen(documents[i])), MEGA_OK);
    if (mega_trainer_finish(trainer, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    mega_trainer_destroy(trainer);
    return t;
}

enum { PLAIN_LIMIT = 4000, PLAIN_IDS = 400 };

/* Symbols of the whole text, -1 between words; ids as in the tokenizer under test. */
typedef struct plain_trainer {
    int32_t symbol[2 * PLAIN_LIMIT];
    int n, ids;
    int64_t count[PLAIN_IDS][PLAIN_IDS];
} plain_trainer;

static void plain_begin(plain_trainer *p, const mega_tokenizer *t, const char *text)
{
    const size_t n = strlen(text);
    p->n = 0;
    p->ids = 256;
    for (size_t at = 0, end; at < n; at = end) {
        end = mega_word_end((const uint8_t *)text, at, n);
        for (size_t i = at; i < end; i++) p->symbol[p->n++] = mega_tokenizer_find(t, text + i, 1);
        p->symbol[p->n++] = -1;
    }
}

/* Returns the most frequent pair, lower ids first, and its count. */
static int64_t plain_best(plain_trainer *p, int32_t *left, int32_t *right)
{
    int64_t best = 0;
    memset(p->count, 0, sizeof p->count);
    for (int i = 0; i + 1 < p->n; i++)
        if (p->symbol[i] >= 0 && p->symbol[i + 1] >= 0) p->count[p->symbol[i]][p->symbol[i + 1]]++;
    for (int32_t l = 0; l < p->ids; l++)
        for (int32_t r = 0; r < p->ids; r++)
            if (p->count[l][r] > best) {
                best = p->count[l][r];
                *left = l;
                *right = r;
            }
    return best;
}

static void plain_apply(plain_trainer *p, int32_t left, int32_t right, int32_t id)
{
    int to = 0;
    for (int from = 0; from < p->n; from++) {
        const bool here = p->symbol[from] == left && from + 1 < p->n && p->symbol[from + 1] == right;
        p->symbol[to++] = here ? id : p->symbol[from];
        from += here;
    }
    p->n = to;
    if (id >= p->ids) p->ids = id + 1;
}

static void equals_plain_counting(void **unused)
{
    (void)unused;
    static char text[PLAIN_LIMIT + 1];
    plain_trainer *p = mega_malloc(sizeof *p);
    uint64_t state = 0x9E3779B97F4A7C15ull;
    for (int round = 0; round < 12; round++) {
        random_text(text, round < 2 ? 200 : PLAIN_LIMIT / 2, 1 + round % 5, &state);
        const char *documents[] = {text};
        mega_tokenizer *t = train("GPT2BPETokenizer", documents, 1, 256 + 60 + 1);
        plain_begin(p, t, text);
        int32_t left = 0, right = 0;
        for (int64_t i = 0; i < t->merges.count; i++) {
            const mega_merge *merge = &t->merges.list[i];
            assert_true(plain_best(p, &left, &right) >= 2);
            assert_int_equal(merge->left, left);
            assert_int_equal(merge->right, right);
            plain_apply(p, left, right, merge->id);
        }
        if (mega_tokenizer_size(t) < 317) assert_true(plain_best(p, &left, &right) < 2);
        assert_int_equal(mega_tokenizer_eod(t), mega_tokenizer_size(t) - 1);
        mega_tokenizer_destroy(t);
    }
    mega_free(p);
}

static const char *const parts[] = {"one fish two fish, red fish blue fish", "the fish'll swim\n\n  2 fish 22 fishes",
                                    "日本語の魚 fish \xFF\xFE", "", "swimming, swimming, swimming"};

static void order_and_joining_do_not_matter(void **unused)
{
    (void)unused;
    const char *reversed[5];
    for (int i = 0; i < 5; i++) reversed[i] = parts[4 - i];
    mega_tokenizer *a = train("GPT2BPETokenizer", parts, 5, 290), *b = train("GPT2BPETokenizer", reversed, 5, 290);
    assert_true(mega_tokenizer_fingerprint(a) == mega_tokenizer_fingerprint(b));
    mega_tokenizer_destroy(b);

    mega_trainer *first, *second;
    const mega_trainer_options o = {.type = "GPT2BPETokenizer", .vocab_size = 290};
    assert_int_equal(mega_trainer_create(&o, &first), MEGA_OK);
    assert_int_equal(mega_trainer_create(&o, &second), MEGA_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(mega_trainer_add(i % 2 == 0 ? first : second, parts[i], strlen(parts[i])), MEGA_OK);
    assert_int_equal(mega_trainer_join(first, second), MEGA_OK);
    assert_int_equal(mega_trainer_finish(first, &b), MEGA_OK);
    assert_true(mega_tokenizer_fingerprint(a) == mega_tokenizer_fingerprint(b));
    mega_trainer_destroy(first);
    mega_trainer_destroy(second);
    mega_tokenizer_destroy(a);
    mega_tokenizer_destroy(b);
}

static void workers_do_not_matter(void **unused)
{
    (void)unused;
    const char *folder = mega_kit_temp_folder(), *file = mega_kit_path(folder, "text.txt");
    char text[8001];
    uint64_t state = 77, fingerprint = 0;
    random_text(text, 8000, 5, &state);
    for (size_t i = 399; i < 8000; i += 400) text[i] = text[i - 1] = '\n';
    mega_kit_write(file, text);
    for (int workers = 1; workers <= 4; workers++) {
        mega_trainer *trainer;
        const mega_trainer_options o = {.type = "GPT2BPETokenizer", .vocab_size = 300};
        const char *key = "text";
        const mega_trainer_input input = {
            .documents = {.inputs = &file, .num_inputs = 1, .split_on_blank_lines = true, .chunk_bytes = 1000},
            .keys = &key,
            .num_keys = 1,
            .workers = workers};
        mega_trainer_counts counts;
        mega_tokenizer *t;
        assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
        if (mega_trainer_read(trainer, &input, &counts) != MEGA_OK) fail_msg("%s", mega_error_message());
        assert_int_equal(counts.text_bytes, 8000);
        assert_int_equal(counts.documents, 20);
        assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_OK);
        if (workers == 1) fingerprint = mega_tokenizer_fingerprint(t);
        assert_true(mega_tokenizer_fingerprint(t) == fingerprint);
        mega_tokenizer_destroy(t);
        mega_trainer_destroy(trainer);
    }
}

/* The linker substitutes __wrap_mega_trainer_add for the trainer's function (cmake/tests.cmake). If `others` is above
 * 0, the thread that adds the first document waits until that many others have been added. */
mega_status __real_mega_trainer_add(mega_trainer *t, const char *text, size_t bytes);
mega_status __wrap_mega_trainer_add(mega_trainer *t, const char *text, size_t bytes);
static atomic_int others, added;
static atomic_bool is_held, was_late;

mega_status __wrap_mega_trainer_add(mega_trainer *t, const char *text, size_t bytes)
{
    if (atomic_load(&others) > 0 && !atomic_exchange(&is_held, true)) {
        const double late = mega_time_now() + 20;
        while (atomic_load(&added) < atomic_load(&others) && mega_time_now() < late) sched_yield();
        if (mega_time_now() >= late) atomic_store(&was_late, true);
    }
    atomic_fetch_add(&added, 1);
    return __real_mega_trainer_add(t, text, bytes);
}

/* A file with one document is split among the threads, with the same result as the whole. */
static void pieces_of_a_file_do_not_matter(void **unused)
{
    (void)unused;
    static const char *const parts_of_text[] = {"a", "bc", "'l", "'ll", "é",  "日",   "\u3000", "\u00a0",
                                                "7", "!?", " ",  "  ",  "\t", "\r\n", "\n",     "\n\n"};
    enum { PARTS = sizeof parts_of_text / sizeof parts_of_text[0] };
    const char *file = mega_kit_path(mega_kit_temp_folder(), "pieces.txt"), *key = "text";
    uint64_t state = 5;
    const int rounds = getenv("MEGA_UNDER_VALGRIND") != NULL ? 3 : 20; /* each size of chunks */
    for (int round = 0; round < rounds; round++) {
        mega_buffer text = {0};
        for (int i = 0; i < 4000; i++) mega_buffer_puts(&text, parts_of_text[mega_kit_next(&state) % PARTS]);
        mega_kit_write(file, text.data);
        const char *const whole = text.data;
        mega_tokenizer *wanted = train("GPT2BPETokenizer", &whole, 1, 330), *t;
        for (int workers = 1; workers <= 3; workers++) {
            mega_trainer *trainer;
            mega_trainer_counts counts;
            const mega_trainer_input input = {
                .documents = {.inputs = &file, .num_inputs = 1, .chunk_bytes = 1u << (2 * workers + round % 3)},
                .keys = &key,
                .num_keys = 1,
                .workers = workers};
            const mega_trainer_options o = {.type = "GPT2BPETokenizer", .vocab_size = 330};
            assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
            atomic_store(&added, 0);
            if (mega_trainer_read(trainer, &input, &counts) != MEGA_OK) fail_msg("%s", mega_error_message());
            assert_true(atomic_load(&added) > 20);
            assert_int_equal(counts.documents, 1);
            assert_int_equal(counts.text_bytes, text.size);
            assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_OK);
            assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(wanted));
            mega_tokenizer_destroy(t);
            mega_trainer_destroy(trainer);
        }
        mega_tokenizer_destroy(wanted);
        mega_buffer_fini(&text);
    }
}

/* A thread that is delayed in its chunk delays nobody: the others count all other chunks. */
static void a_thread_that_is_held_up(void **unused)
{
    (void)unused;
    enum { DOCUMENTS = 40 };
    const char *file = mega_kit_path(mega_kit_temp_folder(), "held.txt"), *key = "text";
    char text[DOCUMENTS * 8 + 1] = "";
    for (int i = 0; i < DOCUMENTS; i++) memcpy(text + i * 8, "a fish\n\n", 9);
    mega_kit_write(file, text);
    for (int workers = 2; workers <= 4; workers++) {
        mega_trainer *trainer;
        mega_trainer_counts counts;
        const mega_trainer_input input = {
            .documents = {.inputs = &file, .num_inputs = 1, .split_on_blank_lines = true, .chunk_bytes = 1},
            .keys = &key,
            .num_keys = 1,
            .workers = workers};
        assert_int_equal(mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer), MEGA_OK);
        atomic_store(&added, 0);
        atomic_store(&is_held, false);
        atomic_store(&others, DOCUMENTS - 2); /* the delayed thread may hold two documents: those of the second chunk */
        const mega_status st = mega_trainer_read(trainer, &input, &counts);
        atomic_store(&others, 0);
        assert_int_equal(st, MEGA_OK);
        assert_int_equal(counts.documents, DOCUMENTS);
        assert_false(atomic_load(&was_late));
        mega_trainer_destroy(trainer);
    }
}

/* Many threads meet many mistakes; the first one in the text is reported. */
static void first_mistake_is_reported(void **unused)
{
    (void)unused;
    const char *file = mega_kit_path(mega_kit_temp_folder(), "mistakes.jsonl"), *key = "text";
    char text[8192] = "";
    for (int i = 0; i < 200; i++) strcat(text, i < 16 ? "{\"text\": \"a fish\"}\n" : "{\"text\": 5}\n");
    mega_kit_write(file, text);
    const mega_trainer_input input = {
        .documents = {.inputs = &file, .num_inputs = 1, .chunk_bytes = 1}, .keys = &key, .num_keys = 1, .workers = 4};
    for (int i = 0; i < 20; i++) {
        mega_trainer *trainer;
        mega_trainer_counts counts;
        assert_int_equal(mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer), MEGA_OK);
        assert_int_equal(mega_trainer_read(trainer, &input, &counts), MEGA_ERR_FORMAT);
        assert_non_null(strstr(mega_error_message(), "mistakes.jsonl line 17 column 10"));
        mega_trainer_destroy(trainer);
    }
}

static void broken_lines(void **unused)
{
    (void)unused;
    const char *folder = mega_kit_temp_folder(), *file = mega_kit_path(folder, "text.jsonl"), *key = "text";
    mega_kit_write(file, "{\"text\": \"a fish\"}\n{\"text\": 5}\n{\"text\": \"b fish\"}\nnonsense\n");
    mega_trainer_input input = {
        .documents = {.inputs = &file, .num_inputs = 1}, .keys = &key, .num_keys = 1, .workers = 2};
    mega_trainer *trainer;
    mega_trainer_counts counts;
    assert_int_equal(mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer), MEGA_OK);
    assert_int_equal(mega_trainer_read(trainer, &input, &counts), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "text.jsonl line 2 column 10"));
    input.skip_bad_lines = true;
    assert_int_equal(mega_trainer_read(trainer, &input, &counts), MEGA_OK);
    assert_int_equal(counts.documents, 2);
    assert_int_equal(counts.bad_lines, 2);
    mega_trainer_destroy(trainer);
}

static void files_come_back(void **unused)
{
    (void)unused;
    mega_tokenizer *t = train("GPT2BPETokenizer", parts, 5, 290);
    const char *folder = mega_kit_temp_folder();
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    mega_tokenizer *json, *files;
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer",
                                      .vocab_file = mega_kit_path(folder, "vocab.json"),
                                      .merge_file = mega_kit_path(folder, "merges.txt")};
    if (mega_tokenizer_load(folder, &json) != MEGA_OK) fail_msg("%s", mega_error_message());
    if (mega_tokenizer_create(&o, &files) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(json));
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(files));
    mega_tokenizer_destroy(json);
    mega_tokenizer_destroy(files);
    mega_tokenizer_destroy(t);
}

static void characters(void **unused)
{
    (void)unused;
    const char *const documents[] = {"cab\n", "éa日", "😀b"};
    mega_tokenizer *t = train("CharTokenizer", documents, 3, 0);
    assert_int_equal(mega_tokenizer_size(t), 8);
    static const char *const wanted[] = {"\n", "a", "b", "c", "é", "日", "😀", "<|endoftext|>"};
    for (int32_t id = 0; id < 8; id++) assert_int_equal(mega_tokenizer_find(t, wanted[id], strlen(wanted[id])), id);
    assert_int_equal(mega_tokenizer_eod(t), 7);
    mega_tokenizer_destroy(t);
    mega_trainer *trainer;
    assert_int_equal(mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer), MEGA_OK);
    assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_ERR_USAGE); /* no document was added */
    assert_int_equal(mega_trainer_add(trainer, "ab\xFF", 3), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "byte 0xFF at byte 2"));
    mega_trainer_destroy(trainer);
}

static void wrong_options(void **unused)
{
    (void)unused;
    static const mega_trainer_options wrong[] = {{0},
                                                 {.type = "NullTokenizer"},
                                                 {.type = "GPT2BPETokenizer", .vocab_size = 256},
                                                 {.type = "GPT2BPETokenizer", .vocab_size = 300, .min_frequency = -1}};
    mega_trainer *trainer;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mega_trainer_create(&wrong[i], &trainer), MEGA_ERR_USAGE);
}

/* Train, save, load, encode, decode. */
static int whole_life(void *user)
{
    const char *folder = user;
    mega_trainer *trainer = NULL;
    mega_tokenizer *t = NULL, *again = NULL;
    mega_encoder *e = NULL;
    mega_ids ids = {0};
    mega_buffer text = {0};
    mega_status st =
        mega_trainer_create(&(mega_trainer_options){.type = "GPT2BPETokenizer", .vocab_size = 264}, &trainer);
    for (int i = 0; i < 5 && st == MEGA_OK; i++) st = mega_trainer_add(trainer, parts[i], strlen(parts[i]));
    if (st == MEGA_OK) st = mega_trainer_finish(trainer, &t);
    if (st == MEGA_OK) st = mega_tokenizer_save(t, folder);
    if (st == MEGA_OK) st = mega_tokenizer_load(folder, &again);
    if (st == MEGA_OK) st = mega_encoder_create(again, &e);
    for (int i = 0; i < 5 && st == MEGA_OK; i++) st = mega_encoder_encode_special(e, parts[i], strlen(parts[i]), &ids);
    if (st == MEGA_OK) st = mega_tokenizer_decode(again, ids.id, ids.count, &text);
    mega_buffer_fini(&text);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(again);
    mega_tokenizer_destroy(t);
    mega_trainer_destroy(trainer);
    return st;
}

static void failing_allocations(void **unused)
{
    (void)unused;
    char folder[256];
    snprintf(folder, sizeof folder, "%s", mega_kit_temp_folder());
    assert_true(mega_kit_fail_each_allocation(whole_life, folder) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_plain_counting),
        cmocka_unit_test(order_and_joining_do_not_matter),
        cmocka_unit_test(workers_do_not_matter),
        cmocka_unit_test(pieces_of_a_file_do_not_matter),
        cmocka_unit_test(a_thread_that_is_held_up),
        cmocka_unit_test(first_mistake_is_reported),
        cmocka_unit_test(broken_lines),
        cmocka_unit_test(files_come_back),
        cmocka_unit_test(characters),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
