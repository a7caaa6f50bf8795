/* PREFIX.bin/.idx: the bytes of the format, what a reader refuses, and that no incomplete file passes for a complete
 * one. */
#include "data_impl.h"
#include "kit.h"
#include "megalith/memory.h"
#include <stdio.h>
#include <stdlib.h>

static const char golden_idx[] = "4d4d494449445800000100000000000000080200000000000000030000000000"
                                 "0000030000000200000000000000000000000600000000000000000000000000"
                                 "000001000000000000000200000000000000";

static const char *path_of(const char *prefix, const char *ending)
{
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s%s", prefix, ending);
    return path[next];
}

/* Writes two documents of 3 and 2 tokens. */
static void write_golden(const char *prefix, mega_dtype dtype)
{
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(prefix, dtype, &w), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, (const int32_t[]){7, 65499, 9}, 3), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, (const int32_t[]){1, 2}, 2), MEGA_OK);
    assert_int_equal(mega_indexed_writer_tokens(w), 5);
    assert_int_equal(mega_indexed_writer_documents(w), 2);
    assert_false(mega_file_exists(path_of(prefix, ".bin")) || mega_file_exists(path_of(prefix, ".idx")));
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    assert_false(mega_file_exists(path_of(prefix, ".lock")));
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static size_t from_hex(const char *hex, uint8_t *out)
{
    const size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
    return n;
}

static void bytes_of_the_format(void **state)
{
    (void)state;
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "a");
    write_golden(prefix, MEGA_U16);
    char *text;
    size_t size;
    uint8_t expected[256];
    assert_int_equal(mega_file_read(path_of(prefix, ".idx"), &text, &size), MEGA_OK);
    assert_int_equal(size, from_hex(golden_idx, expected));
    assert_memory_equal(text, expected, size);
    mega_free(text);
    const uint16_t tokens[5] = {7, 65499, 9, 1, 2};
    assert_int_equal(mega_file_read(path_of(prefix, ".bin"), &text, &size), MEGA_OK);
    assert_int_equal(size, sizeof tokens);
    assert_memory_equal(text, tokens, size);
    mega_free(text);
}

static void every_type_reads_back(void **state)
{
    (void)state;
    const mega_dtype types[] = {MEGA_U8, MEGA_I8, MEGA_I16, MEGA_U16, MEGA_I32, MEGA_I64};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const char *prefix = mega_kit_path(mega_kit_temp_folder(), mega_dtype_name(types[t]));
        mega_indexed_writer *w;
        assert_int_equal(mega_indexed_writer_create(prefix, types[t], &w), MEGA_OK);
        int32_t tokens[20000];
        for (int i = 0; i < 20000; i++) tokens[i] = i % 128;
        assert_int_equal(mega_indexed_writer_add(w, tokens, 20000), MEGA_OK);
        assert_int_equal(mega_indexed_writer_add(w, tokens, 0), MEGA_OK);
        assert_int_equal(mega_indexed_writer_add_document(w, tokens, (const int32_t[]){3, 0, 4}, 3), MEGA_OK);
        assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);

        mega_indexed *ix;
        assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
        assert_int_equal(mega_indexed_dtype(ix), types[t]);
        assert_int_equal(mega_indexed_sequences(ix), 4);
        assert_int_equal(mega_indexed_documents(ix), 3);
        assert_int_equal(mega_indexed_tokens(ix), 20007);
        const int64_t begin[4] = {0, 1, 1, 4};
        for (int i = 0; i < 4; i++) assert_int_equal(mega_indexed_document(ix, i), begin[i]);
        int32_t got[20000];
        mega_indexed_get(ix, 0, 0, 20000, got);
        assert_memory_equal(got, tokens, sizeof got);
        mega_indexed_get(ix, 0, 777, 3, got);
        assert_memory_equal(got, tokens + 777, 12);
        mega_indexed_get(ix, 3, 1, 3, got);
        assert_memory_equal(got, tokens + 4, 12);
        assert_int_equal(mega_indexed_tokens_between(ix, 1, 4), 7);
        assert_int_equal(mega_indexed_verify(ix, 128), MEGA_OK);
        assert_int_equal(mega_indexed_verify(ix, 127), MEGA_ERR_FORMAT);
        mega_indexed_close(ix);
    }
}

static void expect_open_fails(const char *prefix, mega_status st, const char *what)
{
    mega_indexed *ix = NULL;
    assert_int_equal(mega_indexed_open(prefix, &ix), st);
    assert_null(ix);
    if (strstr(mega_error_message(), what) == NULL)
        fail_msg("expected \"%s\" in the message, found \"%s\"", what, mega_error_message());
}

/* Every single wrong byte of the header and of the arrays is noticed, and every truncation. */
static void damage_is_noticed(void **state)
{
    (void)state;
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "d");
    write_golden(prefix, MEGA_U16);
    const char *idx = path_of(prefix, ".idx");
    uint8_t good[256], bad[256];
    const size_t n = from_hex(golden_idx, good);
    mega_indexed *ix;
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] ^= 0x41;
        write_bytes(idx, bad, n);
        assert_int_not_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    }
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes(idx, good, cut);
        expect_open_fails(prefix, MEGA_ERR_FORMAT, idx);
    }
    write_bytes(idx, good, n);
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    mega_indexed_close(ix);
    write_bytes(path_of(prefix, ".bin"), good, 1);
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), ".bin: found 1 bytes"));
}

static void messages_name_the_place(void **state)
{
    (void)state;
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "m");
    expect_open_fails(prefix, MEGA_ERR_NOT_FOUND, "m.idx");
    expect_open_fails(mega_kit_path(mega_kit_temp_folder(), "m.idx"), MEGA_ERR_NOT_FOUND, "without its ending");
    write_golden(prefix, MEGA_U16);
    const char *idx = path_of(prefix, ".idx");
    uint8_t good[256], bad[256];
    const size_t n = from_hex(golden_idx, good);
    const struct {
        size_t at;
        uint8_t value;
        const char *what;
    } cases[] = {{0, 'X', "byte 0"},
                 {9, 2, "found version 2, expected 1"},
                 {17, 7, "byte 17: found dtype code 7"},
                 {18, 90, "announce"},
                 {34, 200, "byte 50: sequence 1 begins at byte 6 of the .bin file, expected 400"},
                 {37, 0x80, "byte 34: sequence 0 has -"},
                 {38, 9, "m.bin: found 10 bytes, expected 24"},
                 {50, 1, "byte 50: sequence 1 begins at byte 1"},
                 {58, 1, "byte 58: document entry 0 is 1"},
                 {74, 1, "byte 74: document entry 2 is 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(bad, good, n);
        bad[cases[i].at] = cases[i].value;
        write_bytes(idx, bad, n);
        expect_open_fails(prefix, MEGA_ERR_FORMAT, cases[i].what);
    }
    write_bytes(idx, "TNTIDX\0\0\1\0\0\0\0\0\0\0", 16);
    expect_open_fails(prefix, MEGA_ERR_UNSUPPORTED, "TNTIDX");
    write_bytes(idx, good, n);
    write_bytes(path_of(prefix, ".bin"), good, 9);
    expect_open_fails(prefix, MEGA_ERR_FORMAT, "m.bin: found 9 bytes, expected 10");
}

static void merge_appends(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *a = mega_kit_path(folder, "a"), *b = mega_kit_path(folder, "b");
    const char *both = mega_kit_path(folder, "both"), *other = mega_kit_path(folder, "other");
    write_golden(a, MEGA_U16);
    write_golden(other, MEGA_I32);
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(b, MEGA_U16, &w), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, NULL, 0), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, (const int32_t[]){5}, 1), MEGA_OK);
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);

    mega_indexed *ix[3], *merged;
    assert_int_equal(mega_indexed_open(a, &ix[0]), MEGA_OK);
    assert_int_equal(mega_indexed_open(b, &ix[1]), MEGA_OK);
    assert_int_equal(mega_indexed_open(other, &ix[2]), MEGA_OK);
    assert_int_equal(mega_indexed_writer_create(both, MEGA_U16, &w), MEGA_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(mega_indexed_writer_merge(w, ix[i]), MEGA_OK);
    assert_int_equal(mega_indexed_writer_merge(w, ix[2]), MEGA_ERR_USAGE);
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    assert_int_equal(mega_indexed_open(both, &merged), MEGA_OK);
    assert_int_equal(mega_indexed_documents(merged), 4);
    assert_int_equal(mega_indexed_sequences(merged), 3);
    assert_int_equal(mega_indexed_tokens(merged), 6);
    const int64_t begin[5] = {0, 1, 2, 2, 3};
    for (int i = 0; i < 5; i++) assert_int_equal(mega_indexed_document(merged, i), begin[i]);
    int32_t last;
    mega_indexed_get(merged, 2, 0, 1, &last);
    assert_int_equal(last, 5);
    for (int i = 0; i < 3; i++) mega_indexed_close(ix[i]);
    mega_indexed_close(merged);
}

static void abandon_leaves_nothing(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(mega_kit_path(folder, "x"), MEGA_U16, &w), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, (const int32_t[]){5}, 1), MEGA_OK);
    mega_indexed_writer_abandon(w);
    mega_indexed_writer_abandon(NULL);
    mega_names names;
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 0);
    mega_names_fini(&names);
    assert_int_not_equal(mega_indexed_writer_create(mega_kit_path(folder, "no/such/x"), MEGA_U16, &w), MEGA_OK);
}

/* A pair that Megatron's own preprocessor wrote. */
static void original_pair_opens(void **state)
{
    (void)state;
    const char *bin = mega_kit_need_data("megatron-indexed/meg-gpt2-openwebtext_text_document.bin");
    char prefix[1024];
    snprintf(prefix, sizeof prefix, "%.*s", (int)strlen(bin) - 4, bin);
    mega_indexed *ix;
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    assert_int_equal(mega_indexed_documents(ix), 1000);
    assert_int_equal(mega_indexed_tokens(ix), 1361845);
    assert_int_equal(mega_indexed_verify(ix, 5000), MEGA_OK);
    int32_t last;
    mega_indexed_get(ix, 999, mega_indexed_size(ix, 999) - 1, 1, &last);
    assert_int_equal(last, 4999);
    mega_indexed_close(ix);
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "f");
    write_golden(prefix, MEGA_U16);
    mega_indexed *ix;
    mega_status st = MEGA_ERR_MEMORY;
    for (uint64_t n = 1; st != MEGA_OK; n++) {
        mega_alloc_fail_at(n);
        st = mega_indexed_open(prefix, &ix);
        mega_alloc_fail_at(0);
        assert_true(st == MEGA_OK || st == MEGA_ERR_MEMORY);
        assert_true(n < 100);
    }
    mega_indexed_close(ix);
    st = MEGA_ERR_MEMORY;
    for (uint64_t n = 1; st != MEGA_OK; n++) {
        mega_indexed_writer *w;
        mega_alloc_fail_at(n);
        st = mega_indexed_writer_create(prefix, MEGA_U16, &w);
        if (st == MEGA_OK) {
            st = mega_indexed_writer_add(w, (const int32_t[]){1, 2}, 2);
            if (st == MEGA_OK) {
                st = mega_indexed_writer_finish(w);
            } else {
                mega_indexed_writer_abandon(w);
            }
        }
        mega_alloc_fail_at(0);
        assert_true(st == MEGA_OK || st == MEGA_ERR_MEMORY);
        assert_true(n < 100);
    }
}

static uint64_t sample_of(const mega_indexed *ix, int blocks)
{
    uint64_t hash;
    assert_int_equal(mega_indexed_sample_hash(ix, blocks, &hash), MEGA_OK);
    return hash;
}

static void flip_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
    assert_int_equal(fclose(f), 0);
}

/* 16 blocks, the last of which is 2 bytes shorter: which changes a hash of 4 blocks, or of all, detects. */
static void samples_see_changed_bytes(void **state)
{
    (void)state;
    enum { BLOCK = 4096, TOKENS = 16 * BLOCK / 2 - 1 };
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "sampled");
    static int32_t tokens[TOKENS];
    mega_indexed_writer *w;
    mega_indexed *ix;
    for (int i = 0; i < TOKENS; i++) tokens[i] = i % 1000;
    assert_int_equal(mega_indexed_writer_create(prefix, MEGA_U16, &w), MEGA_OK);
    assert_int_equal(mega_indexed_writer_add(w, tokens, TOKENS), MEGA_OK);
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    const uint64_t four = sample_of(ix, 4), all = sample_of(ix, 1024);
    assert_true(sample_of(ix, 4) == four && four != all);
    for (int block = 0; block < 16; block++) {
        flip_byte(path_of(prefix, ".bin"), block * BLOCK + (block == 15 ? BLOCK - 3 : 7));
        assert_int_equal(sample_of(ix, 4) != four, block % 5 == 0);
        assert_true(sample_of(ix, 1024) != all);
        flip_byte(path_of(prefix, ".bin"), block * BLOCK + (block == 15 ? BLOCK - 3 : 7));
    }
    assert_true(sample_of(ix, 4) == four && sample_of(ix, 1024) == all);
    write_bytes(path_of(prefix, ".bin"), tokens, 5000); /* truncated while it is open */
    uint64_t hash;
    assert_int_equal(mega_indexed_sample_hash(ix, 1024, &hash), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "sampled.bin: byte 4096"));
    mega_indexed_close(ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_the_format),       cmocka_unit_test(every_type_reads_back),
        cmocka_unit_test(damage_is_noticed),         cmocka_unit_test(messages_name_the_place),
        cmocka_unit_test(samples_see_changed_bytes), cmocka_unit_test(merge_appends),
        cmocka_unit_test(abandon_leaves_nothing),    cmocka_unit_test(original_pair_opens),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
