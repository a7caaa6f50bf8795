/* safetensors: reference bytes, round trips, and every error by its name. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file in memory: eight bytes of length, the header, and `data` zero bytes. */
typedef struct image {
    uint8_t bytes[4096];
    size_t size;
} image;

static image file_of(const char *header, size_t pad, size_t data)
{
    image f = {{0}, 0};
    const size_t n = strlen(header) + pad;
    for (int i = 0; i < 8; i++) f.bytes[i] = (uint8_t)(n >> (8 * i));
    memcpy(f.bytes + 8, header, strlen(header));
    memset(f.bytes + 8 + strlen(header), ' ', pad);
    f.size = 8 + n + data;
    return f;
}

static void write_zeros(const char *path, const mega_st_entry *entries, int count, const mega_st_pair *pairs,
                        int num_pairs)
{
    static const uint8_t zeros[256];
    mega_st_writer *w = NULL;
    assert_int_equal(mega_st_writer_create(path, entries, count, pairs, num_pairs, &w), MEGA_OK);
    for (int i; (i = mega_st_writer_next(w)) >= 0;) {
        size_t n = (size_t)mega_st_dtype_bits(entries[i].dtype);
        for (int d = 0; d < entries[i].num_dims; d++) n *= entries[i].shape[d];
        assert_int_equal(mega_st_writer_write(w, zeros, n / 8), MEGA_OK);
    }
    uint32_t crc = 0;
    int64_t size = 0;
    assert_int_equal(mega_st_writer_close(w, false, &crc, &size), MEGA_OK);
    char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(mega_file_read(path, &bytes, &n), MEGA_OK);
    assert_int_equal(n, size);
    assert_int_equal(mega_crc32c(0, bytes, n), crc);
    mega_free(bytes);
}

static void assert_file(const char *path, const image *expected)
{
    char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(mega_file_read(path, &bytes, &n), MEGA_OK);
    assert_int_equal(n, expected->size);
    assert_memory_equal(bytes, expected->bytes, n);
    mega_free(bytes);
}

/* The files of the format's own tests, byte for byte. */
static void reference_bytes(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.safetensors");
    static const uint8_t empty[16] = {8, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7d, 32, 32, 32, 32, 32, 32};
    write_zeros(path, NULL, 0, NULL, 0);
    image f = {{0}, 16};
    memcpy(f.bytes, empty, 16);
    assert_file(path, &f);

    write_zeros(path, NULL, 0, &(mega_st_pair){"framework", "pt"}, 1);
    f = file_of("{\"__metadata__\":{\"framework\":\"pt\"}}", 5, 0);
    assert_int_equal(f.bytes[0], 40);
    assert_file(path, &f);

    write_zeros(path, &(mega_st_entry){"test", MEGA_ST_I32, 2, {2, 2}}, 1, NULL, 0);
    f = file_of("{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 4, 16);
    assert_int_equal(f.bytes[0], 64);
    assert_file(path, &f);

    const mega_st_entry a = {"test1", MEGA_ST_I32, 2, {2, 2}}, b = {"test2", MEGA_ST_F16, 2, {2, 2}};
    f = file_of("{\"test1\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                "\"test2\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[16,24]}}",
                6, 24);
    assert_int_equal(f.bytes[0], 0x80);
    write_zeros(path, (mega_st_entry[]){a, b}, 2, NULL, 0);
    assert_file(path, &f);
    write_zeros(path, (mega_st_entry[]){b, a}, 2, NULL, 0);
    assert_file(path, &f);

    write_zeros(path, &a, 1, &(mega_st_pair){"framework", "pt"}, 1);
    f = file_of("{\"__metadata__\":{\"framework\":\"pt\"},\"test1\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_"
                "offsets\":[0,16]}}",
                1, 16);
    assert_int_equal(f.bytes[0], 0x60);
    assert_file(path, &f);
}

/* Wide types first, then by name; strange names survive; every type has its size. */
static void order_and_escapes(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "b.safetensors");
    mega_st_entry e[MEGA_ST_DTYPE_COUNT + 3];
    char names[MEGA_ST_DTYPE_COUNT][16];
    for (int i = 0; i < MEGA_ST_DTYPE_COUNT; i++) {
        const int from = MEGA_ST_DTYPE_COUNT - 1 - i;
        snprintf(names[i], sizeof names[i], "t%d", from);
        e[i] = (mega_st_entry){names[i], (mega_st_dtype)from, 1, {8}};
    }
    int count = MEGA_ST_DTYPE_COUNT;
    e[count++] = (mega_st_entry){"\"a\\\b\f\n\r\t\x01/\xc3\xa9", MEGA_ST_U8, 2, {3, 1}};
    e[count++] = (mega_st_entry){"scalar", MEGA_ST_F32, 0, {0}};
    e[count++] = (mega_st_entry){"empty", MEGA_ST_F64, 2, {0, 5}};
    write_zeros(path, e, count, (mega_st_pair[]){{"z", "1"}, {"format", "pt"}}, 2);

    char *text = NULL;
    assert_int_equal(mega_file_read(path, &text, NULL), MEGA_OK);
    assert_non_null(strstr(text + 8, "{\"__metadata__\":{\"format\":\"pt\",\"z\":\"1\"},\"t0\":"));
    assert_non_null(strstr(text + 8, "\"\\\"a\\\\\\b\\f\\n\\r\\t\\u0001/\xc3\xa9\":{"));
    mega_free(text);

    mega_safetensors *s = NULL;
    assert_int_equal(mega_safetensors_open(path, &s), MEGA_OK);
    assert_int_equal(mega_safetensors_count(s), count);
    for (int i = 1; i < count; i++) {
        const mega_safetensor *before = mega_safetensors_get(s, (size_t)i - 1), *t = mega_safetensors_get(s, (size_t)i);
        assert_true(before->end == t->begin);
        assert_true(before->dtype <= t->dtype);
        if (t->end > t->begin) assert_true(before->dtype < t->dtype || strcmp(before->name, t->name) < 0);
    }
    for (int i = 0; i < count; i++) {
        const mega_safetensor *t = mega_safetensors_find(s, e[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, e[i].dtype);
        assert_int_equal(t->num_dims, e[i].num_dims);
        for (int d = 0; d < t->num_dims; d++) assert_true(t->shape[d] == e[i].shape[d]);
    }
    assert_null(mega_safetensors_find(s, "nothing"));
    assert_string_equal(mega_safetensors_metadata(s, "format"), "pt");
    assert_null(mega_safetensors_metadata(s, "framework"));
    mega_safetensors_close(s);
}

/* What other writers may do and readers must accept. */
static void accepts(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{}",
        " \t\n {\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}} \n",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},\"a\":{\"shape\":[2],\"data_offsets\":[0,2],"
        "\"dtype\":\"U8\"}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"extra\":{\"x\":[1,-2.5e3,null,true,\"y\",{}]},\"data_offsets\":[0,4]}"
        "}",
        "{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]},\"__metadata__\":{}}",
        "{\"\\u00e9\\ud83d\\ude00\\/"
        "\":{\"dtype\":\"BOOL\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"I8\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]},"
        "\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const image f = file_of(headers[i], 0, i == 0 ? 0 : 4);
        mega_safetensors *s = NULL;
        if (mega_safetensors_parse(f.bytes, f.size, "x", &s) != MEGA_OK)
            fail_msg("%s: %s", headers[i], mega_error_message());
        if (i == 5) assert_non_null(mega_safetensors_find(s, "\xc3\xa9\xf0\x9f\x98\x80/"));
        mega_safetensors_close(s);
    }
}

static void refuse(const image *f, const char *name)
{
    mega_safetensors *s = NULL;
    const mega_status st = mega_safetensors_parse(f->bytes, f->size, "x.safetensors", &s);
    if (st == MEGA_OK) fail_msg("%s was not seen", name);
    assert_int_equal(st, MEGA_ERR_FORMAT);
    assert_null(s);
    if (strstr(mega_error_message(), name) == NULL) fail_msg("expected %s, got: %s", name, mega_error_message());
    assert_non_null(strstr(mega_error_message(), "x.safetensors"));
}

/* Headers that are refused, the size of the data after them, and the error of the reference implementation. */
static const struct {
    const char *header;
    size_t data;
    const char *name;
} wrong_file[] = {
    {"", 0, "InvalidHeaderDeserialization"},
    {"[]", 0, "InvalidHeaderDeserialization"},
    {"{", 0, "InvalidHeaderDeserialization"},
    {"{}x", 0, "InvalidHeaderDeserialization"},
    {"{\"\xff\":1}", 0, "InvalidHeader:"},
    {"{\"\xc0\xaf\":1}", 0, "InvalidHeader:"},
    {"{\"\xed\xa0\x80\":1}", 0, "InvalidHeader:"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]}}", 4,
     "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     4, "InvalidHeaderDeserialization"},
    {"{\"\\ud800\":1}", 0, "InvalidHeaderDeserialization"},
    {"{\"a\\u0000\":1}", 0, "InvalidHeaderDeserialization"},
    {"{\"a\nb\":1}", 0, "InvalidHeaderDeserialization"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "InvalidHeaderDeserialization"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "InvalidHeaderDeserialization"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, "InvalidOffset(a)"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, "InvalidOffset(a)"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
     "offsets\":[0,4]}}",
     8, "InvalidOffset(b)"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
     "offsets\":[5,9]}}",
     9, "InvalidOffset(b)"},
    {"{\"a\":{\"dtype\":\"I32\",\"shape\":[2,18446744073709551614],\"data_offsets\":[0,16]}}", 16,
     "ValidationOverflow"},
    {"{\"a\":{\"dtype\":\"I32\",\"shape\":[2305843009213693952],\"data_offsets\":[0,16]}}", 16, "ValidationOverflow"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "MisalignedSlice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "TensorInvalidInfo"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9,
     "MetadataIncompleteBuffer: found 9 bytes of tensors, but the header requires 8; the file is too long"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 6, "cut short?"},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_file / sizeof *wrong_file; i++) {
        const image f = file_of(wrong_file[i].header, 0, wrong_file[i].data);
        refuse(&f, wrong_file[i].name);
    }
    image f = file_of("{}", 0, 0);
    f.size = 7;
    refuse(&f, "HeaderTooSmall");
    f.size = 10;
    f.bytes[0] = 3;
    refuse(&f, "InvalidHeaderLength");
    memcpy(f.bytes, "\x3c\0\0\0\0\xff\xff\xff", 8);
    refuse(&f, "HeaderTooLarge");
    f = file_of("{}", 0, 0);
    memcpy(f.bytes + 8, "\0\0", 2);
    refuse(&f, "InvalidHeaderDeserialization");

    char deep[1200] = "{\"a\":{\"x\":";
    memset(deep + strlen(deep), '[', 1000);
    f = file_of(deep, 0, 0);
    refuse(&f, "nested too deep");
}

/* A file with one byte changed is read or refused, but never crashes the reader (the sanitizers watch). */
static void survives_any_byte(void **state)
{
    (void)state;
    const image whole =
        file_of("{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
                "\"\\u00e9\":{\"dtype\":\"F32\",\"shape\":[1],\"x\":[{}],\"data_offsets\":[4,8]}}",
                2, 8);
    int refused = 0, total = 0;
    for (size_t at = 0; at < whole.size; at++) {
        for (int value = 0; value < 256; value += value < 128 ? 1 : 13) {
            image f = whole;
            f.bytes[at] = (uint8_t)value;
            mega_safetensors *s = NULL;
            refused += mega_safetensors_parse(f.bytes, f.size, "x", &s) != MEGA_OK;
            mega_safetensors_close(s);
            total++;
        }
    }
    assert_true(refused > total / 2);
    for (size_t size = 0; size < whole.size; size++) {
        image f = whole;
        f.size = size;
        mega_safetensors *s = NULL;
        assert_int_equal(mega_safetensors_parse(f.bytes, f.size, "x", &s), MEGA_ERR_FORMAT);
    }
}

static void writer_refuses(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "c.safetensors");
    const mega_st_entry twice[] = {{"a", MEGA_ST_F32, 1, {1}}, {"a", MEGA_ST_F16, 1, {1}}};
    mega_st_writer *w = NULL;
    assert_int_equal(mega_st_writer_create(path, twice, 2, NULL, 0, &w), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "named a"));
    assert_int_equal(mega_st_writer_create(path, &(mega_st_entry){"a", MEGA_ST_F4, 1, {3}}, 1, NULL, 0, &w),
                     MEGA_ERR_FORMAT);

    assert_int_equal(mega_st_writer_create(path, twice, 1, NULL, 0, &w), MEGA_OK);
    assert_int_equal(mega_st_writer_next(w), 0);
    assert_int_equal(mega_st_writer_write(w, "12345", 5), MEGA_ERR_FORMAT);
    assert_int_equal(mega_st_writer_close(w, false, NULL, NULL), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "1 bytes more"));
    assert_false(mega_file_exists(path));

    assert_int_equal(mega_st_writer_create(path, twice, 1, NULL, 0, &w), MEGA_OK);
    assert_int_equal(mega_st_writer_next(w), 0);
    assert_int_equal(mega_st_writer_write(w, "123", 3), MEGA_OK);
    assert_int_equal(mega_st_writer_close(w, false, NULL, NULL), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "lacks 1 bytes"));

    assert_int_equal(mega_st_writer_create(path, twice, 1, NULL, 0, &w), MEGA_OK);
    assert_int_equal(mega_st_writer_close(w, false, NULL, NULL), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "0 of 1 tensors"));
}

/* Each allocation fails once: the error says so, and nothing leaks. */
static void out_of_memory(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "d.safetensors");
    const mega_st_entry e[] = {{"a", MEGA_ST_F32, 1, {2}}, {"b", MEGA_ST_F32, 1, {2}}};
    mega_status st = MEGA_ERR_MEMORY;
    for (uint64_t n = 1; st == MEGA_ERR_MEMORY; n++) {
        mega_st_writer *w = NULL;
        mega_alloc_fail_at(n);
        st = mega_st_writer_create(path, e, 2, &(mega_st_pair){"format", "pt"}, 1, &w);
        mega_alloc_fail_at(0);
        if (st != MEGA_OK) continue;
        while (mega_st_writer_next(w) >= 0) assert_int_equal(mega_st_writer_write(w, "12345678", 8), MEGA_OK);
        assert_int_equal(mega_st_writer_close(w, false, NULL, NULL), MEGA_OK);
        assert_true(n > 4);
    }
    st = MEGA_ERR_MEMORY;
    for (uint64_t n = 1; st == MEGA_ERR_MEMORY; n++) {
        mega_safetensors *s = NULL;
        mega_alloc_fail_at(n);
        st = mega_safetensors_open(path, &s);
        mega_alloc_fail_at(0);
        assert_true((st == MEGA_OK) == (s != NULL));
        mega_safetensors_close(s);
        if (st == MEGA_OK) assert_true(n > 4);
    }
    assert_int_equal(st, MEGA_OK);
}

/* The reference's own writer produces the same bytes. */
static void peers_write_the_same(void **state)
{
    (void)state;
    const char *python = mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder();
    const char *mine = mega_kit_path(folder, "mine.safetensors"), *theirs = mega_kit_path(folder, "theirs.safetensors");
    const mega_st_entry e[] = {
        {"z", MEGA_ST_F32, 2, {2, 3}}, {"a", MEGA_ST_BF16, 1, {3}}, {"k\"\xc3\xa9", MEGA_ST_I64, 1, {1}},
        {"m", MEGA_ST_BOOL, 1, {3}},   {"b", MEGA_ST_F16, 1, {5}},  {"s", MEGA_ST_F32, 0, {0}},
        {"u", MEGA_ST_U8, 2, {0, 4}},  {"d", MEGA_ST_F64, 1, {1}},  {"e", MEGA_ST_F8_E4M3, 1, {2}}};
    write_zeros(mine, e, 9, &(mega_st_pair){"format", "pt"}, 1);
    const char *script = mega_kit_path(folder, "write.py");
    mega_kit_write(
        script,
        "import sys, torch\nfrom safetensors.torch import save_file\n"
        "t = dict(z=(torch.float32, (2, 3)), a=(torch.bfloat16, (3,)), m=(torch.bool, (3,)), b=(torch.float16, (5,)),\n"
        "         s=(torch.float32, ()), u=(torch.uint8, (0, 4)), d=(torch.float64, (1,)), e=(torch.float8_e4m3fn, "
        "(2,)))\n"
        "t['k\"\\u00e9'] = (torch.int64, (1,))\n"
        "save_file({k: torch.zeros(s, dtype=d) for k, (d, s) in t.items()}, sys.argv[1], metadata={'format': 'pt'})\n");
    char *command = mega_format("%s %s %s", python, script, theirs);
    assert_int_equal(system(command), 0);
    mega_free(command);
    char *a = NULL, *b = NULL;
    size_t size_a = 0, size_b = 0;
    assert_int_equal(mega_file_read(mine, &a, &size_a), MEGA_OK);
    assert_int_equal(mega_file_read(theirs, &b, &size_b), MEGA_OK);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(a, b, size_a);
    mega_free(a);
    mega_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_bytes), cmocka_unit_test(order_and_escapes),    cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),         cmocka_unit_test(survives_any_byte),    cmocka_unit_test(writer_refuses),
        cmocka_unit_test(out_of_memory),   cmocka_unit_test(peers_write_the_same),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
