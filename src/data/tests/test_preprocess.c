/* The preprocessor: the same files for any number of workers, what is stored for each kind of document, and how it
 * stops. */
#include "data_impl.h"
#include "kit.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/preprocess.h"
#include <sched.h>
#include <stdio.h>

static const char *const text_key[1] = {"text"};

static mega_tokenizer *tokenizer_of(const char *type, int64_t vocab_size)
{
    mega_tokenizer *t;
    assert_int_equal(mega_tokenizer_create(&(mega_tokenizer_options){.type = type, .vocab_size = vocab_size}, &t),
                     MEGA_OK);
    return t;
}

static void open_output(mega_indexed **out, const char *prefix, const char *key)
{
    char path[600];
    snprintf(path, sizeof path, "%s_%s_document", prefix, key);
    if (mega_indexed_open(path, out) != MEGA_OK) fail_msg("%s", mega_error_message());
}

static void expect_tokens(const mega_indexed *ix, int64_t sequence, const int32_t *tokens, int64_t count)
{
    int32_t got[64];
    assert_int_equal(mega_indexed_size(ix, sequence), count);
    mega_indexed_get(ix, sequence, 0, count, got);
    assert_memory_equal(got, tokens, (size_t)count * 4);
}

static void expect_empty_folder(const char *folder, size_t but)
{
    mega_names names;
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, but);
    mega_names_fini(&names);
}

/* An empty document is an entry without a sequence, and gets no end-of-document token. */
static void documents_and_ends(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.jsonl");
    mega_kit_write(input, "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"\\u0000\"}\n");
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    for (int eod = 0; eod < 2; eod++) {
        const mega_preprocess_job job = {.inputs = &input,
                                         .num_inputs = 1,
                                         .keys = text_key,
                                         .num_keys = 1,
                                         .tokenizer = t,
                                         .append_eod = eod == 1,
                                         .output_prefix = mega_kit_path(folder, "new/folder/out"),
                                         .workers = 2};
        mega_preprocess_result r;
        assert_int_equal(mega_preprocess(&job, &r), MEGA_OK);
        assert_int_equal(r.documents, 3);
        assert_int_equal(r.empty_documents, 1);
        assert_int_equal(r.text_bytes, 3);
        assert_int_equal(r.tokens[0], eod == 1 ? 5 : 3);
        mega_indexed *ix;
        open_output(&ix, job.output_prefix, "text");
        assert_int_equal(mega_indexed_documents(ix), 3);
        assert_int_equal(mega_indexed_sequences(ix), 2);
        assert_int_equal(mega_indexed_dtype(ix), MEGA_U16);
        expect_tokens(ix, 0, (const int32_t[]){'a', 'b', 256}, 2 + eod);
        expect_tokens(ix, 1, (const int32_t[]){0, 256}, 1 + eod);
        mega_indexed_close(ix);
    }
    mega_tokenizer_destroy(t);
}

static void several_keys_and_wide_ids(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.jsonl");
    mega_kit_write(input, "{\"a\":\"1 69999\",\"b\":\"\"}\n{\"b\":\"7\",\"a\":\"\"}\n");
    mega_tokenizer *t = tokenizer_of("NullTokenizer", 70000);
    const char *const keys[2] = {"b", "a"};
    const mega_preprocess_job job = {.inputs = &input,
                                     .num_inputs = 1,
                                     .keys = keys,
                                     .num_keys = 2,
                                     .tokenizer = t,
                                     .output_prefix = mega_kit_path(folder, "out"),
                                     .workers = 1};
    mega_preprocess_result r;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_OK);
    assert_int_equal(r.documents, 2);
    assert_int_equal(r.empty_documents, 0);
    mega_indexed *ix;
    open_output(&ix, job.output_prefix, "a");
    assert_int_equal(mega_indexed_dtype(ix), MEGA_I32);
    expect_tokens(ix, 0, (const int32_t[]){1, 69999}, 2);
    mega_indexed_close(ix);
    open_output(&ix, job.output_prefix, "b");
    assert_int_equal(mega_indexed_documents(ix), 2);
    expect_tokens(ix, 0, (const int32_t[]){7}, 1);
    mega_indexed_close(ix);
    mega_tokenizer_destroy(t);
}

static uint64_t hash_file(const char *prefix, const char *ending)
{
    char path[600], *text;
    size_t size;
    snprintf(path, sizeof path, "%s_text_document%s", prefix, ending);
    assert_int_equal(mega_file_read(path, &text, &size), MEGA_OK);
    const uint64_t hash = mega_hash64(MEGA_HASH_START, text, size);
    mega_free(text);
    return hash;
}

/* Documents of very different lengths, some empty, in several chunks. */
static const char *uneven_input(const char *folder)
{
    mega_buffer b = {0};
    for (int i = 0; i < 4000; i++) {
        const int words = i % 500 == 0 ? 20000 : i % 37;
        mega_buffer_puts(&b, "{\"text\":\"");
        for (int w = 0; w < words; w++) mega_buffer_printf(&b, "%d ", (i * 31 + w) % 1000);
        mega_buffer_puts(&b, "\"}\n");
    }
    assert_false(b.failed);
    const char *path = mega_kit_path(folder, "uneven.jsonl");
    mega_kit_write(path, b.data);
    mega_buffer_fini(&b);
    return path;
}

/* Restricts this thread to one core, on which a single worker uses no threads; *all receives the original mask. */
static void keep_one_core(cpu_set_t *all)
{
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof *all, all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, all)) CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void any_number_of_workers(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = uneven_input(folder);
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    uint64_t expected[2] = {0, 0};
    const int workers[] = {1, 1, 2, 3, 7}; /* first time on one core */
    cpu_set_t all;
    keep_one_core(&all);
    for (int i = 0; i < 5; i++) {
        const mega_preprocess_job job = {.inputs = &input,
                                         .num_inputs = 1,
                                         .keys = text_key,
                                         .num_keys = 1,
                                         .tokenizer = t,
                                         .append_eod = true,
                                         .output_prefix = mega_kit_path(folder, "out"),
                                         .workers = workers[i]};
        mega_preprocess_result r;
        assert_int_equal(mega_preprocess(&job, &r), MEGA_OK);
        assert_int_equal(r.documents, 4000);
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        const uint64_t bin = hash_file(job.output_prefix, ".bin"), idx = hash_file(job.output_prefix, ".idx");
        if (i > 0) assert_true(bin == expected[0] && idx == expected[1]);
        expected[0] = bin;
        expected[1] = idx;
    }
    mega_tokenizer_destroy(t);
}

static void bad_lines(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.jsonl");
    mega_kit_write(input, "{\"text\":\"ab\"}\n{\"txt\":\"\"}\n{\"text\":\"c\"}\n{\"text\": 1}\nnot json\n");
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    mega_preprocess_job job = {.inputs = &input,
                               .num_inputs = 1,
                               .keys = text_key,
                               .num_keys = 1,
                               .tokenizer = t,
                               .output_prefix = mega_kit_path(folder, "out"),
                               .workers = 3};
    mega_preprocess_result r;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "in.jsonl: line 2, column 1: no key \"text\""));
    expect_empty_folder(folder, 1);
    job.skip_bad_lines = true;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_OK);
    assert_int_equal(r.documents, 2);
    assert_int_equal(r.bad_lines, 3);
    mega_indexed *ix;
    open_output(&ix, job.output_prefix, "text");
    expect_tokens(ix, 1, (const int32_t[]){'c'}, 1);
    mega_indexed_close(ix);
    mega_tokenizer_destroy(t);
}

/* A job that cannot work fails before a file is touched, or leaves none. */
static void refusals(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.jsonl");
    mega_kit_write(input, "{\"text\":\"ab\"}\n{\"text\":\"x");
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    const char *const twice[2] = {"a", "a"}, *const slash[1] = {"a/b"};
    mega_preprocess_job job = {.inputs = &input,
                               .num_inputs = 1,
                               .keys = twice,
                               .num_keys = 2,
                               .tokenizer = t,
                               .output_prefix = mega_kit_path(folder, "out"),
                               .workers = 1};
    mega_preprocess_result r;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_USAGE);
    job.keys = slash, job.num_keys = 1;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_USAGE);
    job.keys = text_key, job.num_keys = 0;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_USAGE);
    job.num_keys = 1;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_FORMAT);
    mega_kit_write(input, "\n");
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "no document"));
    const volatile sig_atomic_t stop = 1;
    job.stop = &stop;
    mega_kit_write(input, "{\"text\":\"ab\"}\n");
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_INTERRUPTED);
    job.stop = NULL;
    job.output_prefix = mega_kit_path(input, "out"); /* the path leads through a file */
    assert_int_not_equal(mega_preprocess(&job, &r), MEGA_OK);
    expect_empty_folder(folder, 1);
    mega_tokenizer_destroy(t);
}

/* A late failure stops everything, and is reported in the order of the input. */
static void a_damaged_second_file(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *input[2] = {mega_kit_path(folder, "a.jsonl"), mega_kit_path(folder, "b.json")};
    mega_kit_write(input[0], "{\"text\":\"ab\"}\n");
    mega_kit_write(input[1], "[{\"text\":\"ab\"}]\n");
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    const mega_preprocess_job job = {.inputs = input,
                                     .num_inputs = 2,
                                     .keys = text_key,
                                     .num_keys = 1,
                                     .tokenizer = t,
                                     .output_prefix = mega_kit_path(folder, "out"),
                                     .workers = 2};
    mega_preprocess_result r;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "JSON array"));
    expect_empty_folder(folder, 2);
    mega_tokenizer_destroy(t);
}

static void text_files(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.txt");
    mega_kit_write(input, "one\n\ntwo\n");
    const char *vocab = mega_kit_path(folder, "chars.json");
    mega_preprocess_job job = {.inputs = &input,
                               .num_inputs = 1,
                               .keys = text_key,
                               .num_keys = 1,
                               .split_on_blank_lines = true,
                               .output_prefix = mega_kit_path(folder, "out"),
                               .workers = 2};
    assert_int_equal(mega_preprocess_char_vocabulary(&job, vocab), MEGA_OK);
    mega_tokenizer *t;
    assert_int_equal(mega_tokenizer_create(&(mega_tokenizer_options){.type = "CharTokenizer", .vocab_file = vocab}, &t),
                     MEGA_OK);
    job.tokenizer = t;
    mega_preprocess_result r;
    assert_int_equal(mega_preprocess(&job, &r), MEGA_OK);
    assert_int_equal(r.documents, 2);
    assert_int_equal(r.tokens[0], 9); /* the concatenated documents equal the file */
    mega_indexed *ix;
    open_output(&ix, job.output_prefix, "text");
    mega_buffer text = {0};
    for (int64_t s = 0; s < 2; s++) {
        int32_t tokens[16];
        mega_indexed_get(ix, s, 0, mega_indexed_size(ix, s), tokens);
        assert_int_equal(mega_tokenizer_decode(t, tokens, mega_indexed_size(ix, s), &text), MEGA_OK);
    }
    assert_string_equal(text.data, "one\n\ntwo\n");
    mega_buffer_fini(&text);
    mega_indexed_close(ix);
    const char *dash = "-";
    job.inputs = &dash;
    assert_int_equal(mega_preprocess_char_vocabulary(&job, vocab), MEGA_ERR_USAGE);
    mega_tokenizer_destroy(t);
}

typedef struct attempt {
    const mega_preprocess_job *job;
} attempt;

static int run_once(void *user)
{
    const attempt *a = user;
    mega_preprocess_result r;
    return (int)mega_preprocess(a->job, &r);
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *input = mega_kit_path(folder, "in.jsonl");
    mega_kit_write(input, "{\"text\":\"ab\"}\n{\"t\\u0065xt\":\"c d\"}\n");
    mega_tokenizer *t = tokenizer_of("ByteTokenizer", 0);
    const mega_preprocess_job job = {.inputs = &input,
                                     .num_inputs = 1,
                                     .keys = text_key,
                                     .num_keys = 1,
                                     .tokenizer = t,
                                     .append_eod = true,
                                     .output_prefix = mega_kit_path(folder, "out"),
                                     .workers = 1};
    attempt a = {&job};
    assert_true(mega_kit_fail_each_allocation(run_once, &a) > 10);
    cpu_set_t all;
    keep_one_core(&all);
    assert_true(mega_kit_fail_each_allocation(run_once, &a) > 10);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    mega_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_and_ends),
        cmocka_unit_test(several_keys_and_wide_ids),
        cmocka_unit_test(any_number_of_workers),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_damaged_second_file),
        cmocka_unit_test(text_files),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
