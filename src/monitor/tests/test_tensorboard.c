/* Event files: golden records, an independent reader, and the real tensorboard if it is installed. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void close_whole(mega_tensorboard *t)
{
    mega_missing missing;
    need(mega_tensorboard_close(t, &missing));
    assert_int_equal(missing.pieces, 0);
}

/* This reader shares no code with the writer: a bitwise CRC, and a cursor over bytes. */
static uint32_t bitwise_crc32c(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static uint64_t take_varint(cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(c->at < c->end && shift < 70);
        v |= (uint64_t)(*c->at & 0x7f) << shift;
        if ((*c->at++ & 0x80) == 0) return v;
    }
}

/* Reads the next field of a message: its number, and its bytes (fixed and length-delimited) or its value (varint). */
static bool take_field(cursor *c, unsigned *number, cursor *bytes, uint64_t *value)
{
    if (c->at == c->end) return false;
    const uint64_t key = take_varint(c);
    *number = (unsigned)(key >> 3);
    const unsigned wire = key & 7;
    size_t n = 0;
    if (wire == 0) *value = take_varint(c);
    else if (wire == 1)
        n = 8;
    else if (wire == 5)
        n = 4;
    else if (wire == 2)
        n = take_varint(c);
    else
        fail_msg("wire type %u", wire);
    assert_true(n <= (size_t)(c->end - c->at));
    *bytes = (cursor){c->at, c->at + n};
    c->at += n;
    return true;
}

typedef struct event {
    double wall_time;
    int64_t step;
    char version[32], tag[64], plugin[16], text[256];
    float value;
    bool has_value, has_text;
    uint64_t text_dtype, text_dims;
} event;

static void copy_text(char *to, size_t room, cursor from)
{
    const size_t n = (size_t)(from.end - from.at);
    assert_true(n < room);
    memcpy(to, from.at, n);
    to[n] = '\0';
}

static void read_tensor(cursor c, event *e)
{
    unsigned number;
    cursor bytes;
    uint64_t value = 0;
    while (take_field(&c, &number, &bytes, &value)) {
        if (number == 1) e->text_dtype = value;
        if (number == 8) {
            copy_text(e->text, sizeof e->text, bytes);
            e->has_text = true;
        }
        if (number == 2) { /* shape: one dimension of some size */
            cursor dim;
            uint64_t size = 0;
            assert_true(take_field(&bytes, &number, &dim, &size));
            assert_true(take_field(&dim, &number, &bytes, &e->text_dims));
        }
    }
}

static void read_value(cursor c, event *e)
{
    unsigned number;
    cursor bytes, inner;
    uint64_t value = 0;
    while (take_field(&c, &number, &bytes, &value)) {
        if (number == 1) copy_text(e->tag, sizeof e->tag, bytes);
        if (number == 2) {
            memcpy(&e->value, bytes.at, 4);
            e->has_value = true;
        }
        if (number == 8) read_tensor(bytes, e);
        if (number == 9) {
            assert_true(take_field(&bytes, &number, &inner, &value));
            assert_true(take_field(&inner, &number, &bytes, &value));
            copy_text(e->plugin, sizeof e->plugin, bytes);
        }
    }
}

static event read_event(cursor c)
{
    event e;
    memset(&e, 0, sizeof e);
    unsigned number;
    cursor bytes, inner;
    uint64_t value = 0;
    while (take_field(&c, &number, &bytes, &value)) {
        if (number == 1) memcpy(&e.wall_time, bytes.at, 8);
        if (number == 2) e.step = (int64_t)value;
        if (number == 3) copy_text(e.version, sizeof e.version, bytes);
        if (number == 5) {
            assert_true(take_field(&bytes, &number, &inner, &value));
            assert_int_equal(number, 1);
            read_value(inner, &e);
        }
    }
    return e;
}

/* Reads all events of a file; fails the test on a wrong checksum or an incomplete record. */
static int read_events(const char *path, event *out, int room)
{
    char *bytes = NULL;
    size_t n = 0;
    int count = 0;
    need(mega_file_read(path, &bytes, &n));
    const uint8_t *at = (const uint8_t *)bytes, *end = at + n;
    while (at < end) {
        uint64_t length = 0;
        uint32_t sum = 0;
        assert_true(end - at >= 16);
        memcpy(&length, at, 8);
        memcpy(&sum, at + 8, 4);
        assert_true(sum == mask(bitwise_crc32c(at, 8)));
        assert_true(length <= (uint64_t)(end - at - 16));
        memcpy(&sum, at + 12 + length, 4);
        assert_true(sum == mask(bitwise_crc32c(at + 12, length)));
        assert_true(count < room);
        out[count++] = read_event((cursor){at + 12, at + 12 + length});
        at += 16 + length;
    }
    mega_free(bytes);
    return count;
}

static void reader_is_right(void **state)
{
    (void)state;
    assert_true(bitwise_crc32c((const uint8_t *)"123456789", 9) == 0xe3069283u);
    assert_true(mask(bitwise_crc32c((const uint8_t *)"\x1a\x11"
                                                     "CRC test, one two",
                                    19)) == 0x5794d08au);
}

static void append_hex(mega_buffer *b, const char *hex)
{
    for (; hex[0] != '\0'; hex += 2) {
        unsigned byte;
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        const uint8_t one = (uint8_t)byte;
        mega_buffer_append(b, &one, 1);
    }
}

static void golden_records(void **state)
{
    (void)state;
    mega_tensorboard *t = NULL;
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "a/b");
    need(mega_tensorboard_open(folder, 1700000000.0, &t));
    char *path = mega_strdup(mega_tensorboard_path(t));
    assert_non_null(strstr(path, "/events.out.tfevents.1700000000."));
    need(mega_tensorboard_scalar(t, "lm loss", 300, 2.5, 1700000001.5));
    need(mega_tensorboard_text(t, "args", "hello", 0, 1700000002.0));
    close_whole(t);
    mega_buffer expected = {0};
    append_hex(&expected, "1800000000000000a37f4b22090000004"
                          "0fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
    append_hex(&expected,
               "1e00000000000000d9dc12320900006040fc54d94110ac022a100a0e0a076c6d206c6f73731500002040b27d3837");
    const char *text = "0900008040fc54d94110002a300a2e0a11617267732f746578745f73756d6d6172794a080a060a047465787442"
                       "0f0807120412020801420568656c6c6f";
    char *bytes = NULL;
    size_t n = 0;
    need(mega_file_read(path, &bytes, &n));
    const size_t before = expected.size;
    assert_true(n > before + 16);
    assert_memory_equal(bytes, expected.data, before);
    append_hex(&expected, text);
    assert_int_equal(n, expected.size + 16);
    assert_memory_equal(bytes + before + 12, expected.data + before, expected.size - before);
    mega_free(bytes);
    mega_free(path);
    mega_buffer_fini(&expected);
}

static void read_back(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_tensorboard *a = NULL, *b = NULL;
    need(mega_tensorboard_open(folder, 1.0, &a));
    need(mega_tensorboard_open(folder, 1.0, &b)); /* in the same second: another file name */
    assert_string_not_equal(mega_tensorboard_path(a), mega_tensorboard_path(b));
    close_whole(b);
    event *e = mega_malloc(4096 * sizeof *e);
    assert_int_equal(read_events(mega_tensorboard_path(a), e, 4096), 1);
    assert_string_equal(e[0].version, "brain.Event:2");
    for (int i = 0; i < 3000; i++)
        need(mega_tensorboard_scalar(a, i % 2 == 0 ? "lm loss" : "grad-norm", (int64_t)1 << (i % 40), 0.1 * i, i));
    const int early = read_events(mega_tensorboard_path(a), e, 4096); /* whole records only, flushed or not */
    assert_true(early > 1 && early < 3001);
    need(mega_tensorboard_scalar(a, "nan", 1, NAN, 1.0));
    need(mega_tensorboard_text(a, "shape", "| a | b |\n", 7, 2.0));
    need(mega_tensorboard_flush(a));
    assert_int_equal(read_events(mega_tensorboard_path(a), e, 4096), 3003);
    for (int i = 0; i < 3000; i++) {
        assert_true(e[i + 1].has_value && e[i + 1].value == (float)(0.1 * i) && e[i + 1].wall_time == i);
        assert_true(e[i + 1].step == (int64_t)1 << (i % 40));
        assert_string_equal(e[i + 1].tag, i % 2 == 0 ? "lm loss" : "grad-norm");
    }
    assert_true(isnan(e[3001].value));
    const event *text = &e[3002];
    assert_true(text->has_text && text->step == 7 && text->text_dtype == 7 && text->text_dims == 1);
    assert_string_equal(text->tag, "shape/text_summary");
    assert_string_equal(text->plugin, "text");
    assert_string_equal(text->text, "| a | b |\n");
    close_whole(a);
    mega_free(e);
}

static int attempt(void *user)
{
    static int number; /* a new folder each time, in which the first name is free */
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%d", (const char *)user, number++);
    mega_tensorboard *t = NULL;
    mega_missing missing;
    mega_status st = mega_tensorboard_open(folder, 1.0, &t);
    if (st == MEGA_OK) st = mega_tensorboard_scalar(t, "a", 1, 2.0, 3.0);
    if (st == MEGA_OK) st = mega_tensorboard_text(t, "b", "text", 1, 3.0);
    event e[4];
    if (st != MEGA_OK && t != NULL) {
        need(mega_tensorboard_flush(t)); /* earlier records must still be whole */
        assert_true(read_events(mega_tensorboard_path(t), e, 4) < 4);
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "as before");
        mega_error_record why;
        mega_error_get(&why);
        mega_tensorboard_close(t, &missing);
        return (int)mega_error_restore(&why);
    }
    const mega_status closed = mega_tensorboard_close(t, &missing);
    return (int)(st != MEGA_OK ? st : closed);
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    assert_true(mega_kit_fail_each_allocation(attempt, (void *)(uintptr_t)folder) > 10);
}

static void refuses(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *file = mega_kit_path(folder, "file");
    mega_tensorboard *t = NULL;
    mega_kit_write(file, "x");
    assert_int_not_equal(mega_tensorboard_open(file, 1.0, &t), MEGA_OK);
    assert_non_null(strstr(mega_error_message(), file));
    assert_null(t);
}

static void peers_read_it(void **state)
{
    (void)state;
    const char *python = mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder(), *script = mega_kit_path(mega_kit_temp_folder(), "read.py");
    mega_tensorboard *t = NULL;
    need(mega_tensorboard_open(folder, mega_tensorboard_now(), &t));
    for (int i = 1; i <= 20; i++) need(mega_tensorboard_scalar(t, "lm loss", i, 1.0 / i, mega_tensorboard_now()));
    need(mega_tensorboard_text(t, "args", "**bold**", 0, mega_tensorboard_now()));
    close_whole(t);
    mega_kit_write(script, "import sys, numpy as np\n"
                           "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
                           "e = EventAccumulator(sys.argv[1]); e.Reload()\n"
                           "s = e.Scalars('lm loss')\n"
                           "assert [x.step for x in s] == list(range(1, 21)), s\n"
                           "assert [x.value for x in s] == [float(np.float32(1 / i)) for i in range(1, 21)], s\n"
                           "x = e.Tensors('args/text_summary')\n"
                           "assert len(x) == 1 and x[0].tensor_proto.string_val[0] == b'**bold**', x\n"
                           "assert e.SummaryMetadata('args/text_summary').plugin_data.plugin_name == 'text'\n");
    char *command = mega_format("%s %s %s 2>&1", python, script, folder);
    assert_int_equal(system(command), 0);
    mega_free(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_is_right), cmocka_unit_test(golden_records), cmocka_unit_test(read_back),
        cmocka_unit_test(out_of_memory),   cmocka_unit_test(refuses),        cmocka_unit_test(peers_read_it),
    };
    return cmocka_run_group_tests_name("tensorboard", tests, NULL, NULL);
}
