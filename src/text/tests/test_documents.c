/* Reading documents: which files are found, which format is recognised, where records are split, compressed input, and
 * what is refused. */
#include "kit.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* All documents of the inputs, each followed by a '|'. */
typedef struct reading {
    mega_status st;
    int64_t documents, chunks;
    mega_buffer text;
    mega_document_fault fault; /* fault of the first invalid record */
    int64_t lines[64];         /* first line of each record */
} reading;

static reading read_inputs(const mega_documents_options *o)
{
    reading r = {0};
    mega_documents *d;
    r.st = mega_documents_open(o, &d);
    if (r.st != MEGA_OK) return r;
    mega_document_chunk chunk = {0};
    const char *key = "text";
    mega_buffer text = {0};
    while ((r.st = mega_documents_read(d, &chunk)) == MEGA_OK && chunk.count > 0) {
        r.chunks++;
        for (int64_t i = 0; i < chunk.count; i++) {
            mega_document_fault fault;
            if (r.documents < 64) r.lines[r.documents] = chunk.record[i].line;
            r.documents++;
            if (mega_document_texts(&chunk, i, &key, 1, &text, &fault)) {
                mega_buffer_append(&r.text, text.data, text.size);
                mega_buffer_puts(&r.text, "|");
            } else if (r.fault.line == 0) {
                r.fault = fault;
            }
        }
    }
    mega_buffer_fini(&text);
    mega_document_chunk_fini(&chunk);
    mega_documents_close(d);
    return r;
}

static void expect_documents(const mega_documents_options *o, const char *text)
{
    reading r = read_inputs(o);
    if (r.st != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(r.fault.line, 0);
    assert_string_equal(r.text.size > 0 ? r.text.data : "", text);
    mega_buffer_fini(&r.text);
}

static void expect_one_file(const char *name, const char *content, bool split, const char *text)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), name);
    mega_kit_write(path, content);
    /* every small chunk size splits the file somewhere else */
    for (size_t chunk = 1; chunk < 40; chunk++)
        expect_documents(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, split, chunk, NULL, false}, text);
}

static void formats_by_content(void **state)
{
    (void)state;
    expect_one_file("a", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n", false, "one|two|");
    expect_one_file("b.jsonl", "\n{\"text\":\"one\"}\r\n\n  \n{\"text\":\"two\"}", false, "one|two|");
    expect_one_file("c", "\xef\xbb\xbf{\"text\":\"one\"}\n", false, "one|");
    expect_one_file("d.txt", "Some text.\n\nMore.\n", false, "Some text.\n\nMore.\n|");
    expect_one_file("e.txt", "{braces} in text\n", false, "{braces} in text\n|");
    expect_one_file("f.txt", "[Verse 1]\nla\n", false, "[Verse 1]\nla\n|");
    expect_one_file("g.txt", "", false, "");
    expect_one_file("h.jsonl", "", false, "");
}

static void blank_lines_split(void **state)
{
    (void)state;
    expect_one_file("a", "one\none\n\ntwo\n\n\nthree\n", true, "one\none\n\n|two\n\n\n|three\n|");
    expect_one_file("b", "\n\none\n \t\r\ntwo", true, "\n\none\n \t\r\n|two|");
    expect_one_file("c", "one\n\n", true, "one\n\n|");
    expect_one_file("d", "\n\n", true, "\n\n|");
    expect_one_file("e", "one", true, "one|");
}

/* Records of a file that is split continue each other, begin with the white space after a character, and know their
 * line; text without line ends is not split. */
static void long_texts_are_cut(void **state)
{
    (void)state;
    static const char text[] =
        "one fish\ntwo \r\n\r\n \tthree\n\n日本。\n blue\u3000\n\u3000\n\nred\nthe last of the lines is long";
    const char *file = mega_kit_path(mega_kit_temp_folder(), "long.txt"), *key = "text";
    mega_kit_write(file, text);
    for (size_t bytes = 1; bytes < sizeof text + 3; bytes++) {
        mega_documents *d;
        mega_document_chunk chunk = {0};
        mega_document_fault fault;
        mega_buffer all = {0}, piece = {0};
        int64_t pieces = 0, line = 1;
        const mega_documents_options o = {.inputs = &file, .num_inputs = 1, .chunk_bytes = bytes, .cut_files = true};
        assert_int_equal(mega_documents_open(&o, &d), MEGA_OK);
        while (mega_documents_read(d, &chunk) == MEGA_OK && chunk.count > 0) {
            assert_int_equal(chunk.count, 1);
            assert_int_equal(chunk.record[0].continues, pieces > 0);
            assert_int_equal(chunk.record[0].line, line);
            assert_true(mega_document_texts(&chunk, 0, &key, 1, &piece, &fault));
            if (pieces++ > 0) {
                assert_non_null(strchr(" \r\n", piece.data[0]));
                assert_null(strchr(" \t\r\n", all.data[all.size - 1]));
                assert_true(all.size < 3 || memcmp(all.data + all.size - 3, "\u3000", 3) != 0);
            }
            mega_buffer_append(&all, piece.data, piece.size);
            for (size_t i = 0; i < piece.size; i++) line += piece.data[i] == '\n';
        }
        assert_string_equal(all.data, text);
        if (bytes == 1) assert_int_equal(pieces, 6);
        if (bytes > sizeof text) assert_int_equal(pieces, 1);
        mega_buffer_fini(&all);
        mega_buffer_fini(&piece);
        mega_document_chunk_fini(&chunk);
        mega_documents_close(d);
    }
}

static void forced_formats(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "x.jsonl");
    mega_kit_write(path, "{\"text\":\"one\"}\n");
    expect_documents(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_TEXT, false, 0, NULL, false},
                     "{\"text\":\"one\"}\n|");
    path = mega_kit_path(mega_kit_temp_folder(), "x.txt");
    mega_kit_write(path, "plain\n");
    reading r = read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_JSON_LINES, false, 0, NULL, false});
    assert_int_equal(r.fault.line, 1);
    mega_buffer_fini(&r.text);
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void note_warning(void *user, mega_log_level level, const char *line)
{
    char *said = user;
    const size_t used = strlen(said);
    if (level == MEGA_LOG_WARN) snprintf(said + used, 1024 - used, "%s\n", line);
}

/* Text that is not UTF-8 by its first bytes is refused with the command that converts it. */
static void other_encodings(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *found; /* NULL: read as UTF-8 */
    } cases[] = {
        {"\xff\xfeT\0e\0x\0t\0\n\0", 12,
         "UTF-16LE (its byte order mark), expected JSON lines or plain text in UTF-8; convert it: iconv -f UTF-16 "},
        {"\xfe\xff\0T\0e\0x\0t\0\n", 12, "UTF-16BE (its byte order mark)"},
        {"\xff\xfe\0\0T\0\0\0", 8,
         "UTF-32LE (its byte order mark), expected JSON lines or plain text in UTF-8; convert it: iconv -f UTF-32 "},
        {"\0\0\xfe\xff\0\0\0T", 8, "UTF-32BE"},
        {"T\0e\0x\0t\0 \0m\0\n\0", 14,
         "UTF-16LE (zeros are second bytes), expected JSON lines or plain text in UTF-8; convert it: iconv -f "
         "UTF-16LE "},
        {"\0T\0e\0x\0t\0 \0m\0\n", 14, "UTF-16BE (zeros are first bytes)"},
        {"{\0\"\0t\0e\0x\0t\0\"\0", 14, "UTF-16LE"},
        {"a text with one \0 in it\n", 24, NULL},
    };
    const char *path = mega_kit_path(mega_kit_temp_folder(), "x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_bytes(path, cases[i].bytes, cases[i].size);
        reading r = read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false});
        assert_int_equal(r.st, cases[i].found == NULL ? MEGA_OK : MEGA_ERR_FORMAT);
        if (cases[i].found != NULL && strstr(mega_error_message(), cases[i].found) == NULL)
            fail_msg("case %zu: %s", i, mega_error_message());
        mega_buffer_fini(&r.text);
    }
}

/* Windows line ends stay in plain text, with one warning; in JSON lines they have no effect. */
static void windows_line_ends(void **state)
{
    (void)state;
    char said[1024] = "";
    const char *paths[3];
    mega_log_set_sink(note_warning, said);
    for (int i = 0; i < 3; i++) {
        paths[i] = mega_kit_path(mega_kit_temp_folder(), i == 0 ? "a.jsonl" : "b.txt");
        mega_kit_write(paths[i], i == 0 ? "{\"text\":\"one\"}\r\n" : "two\r\nthree\r\n");
    }
    expect_documents(&(mega_documents_options){paths, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}, "one|");
    assert_string_equal(said, "");
    expect_documents(&(mega_documents_options){paths, 3, MEGA_DOCUMENT_AUTO, false, 0, NULL, false},
                     "one|two\r\nthree\r\n|two\r\nthree\r\n|");
    mega_log_set_sink(NULL, NULL);
    const char *first = strstr(said, "b.txt: lines end in CR LF");
    assert_non_null(first);
    assert_null(strstr(first + 1, "b.txt"));
}

/* Files hidden by permissions are not reported as missing. */
static void hidden_inputs(void **state)
{
    (void)state;
    static const char *const names[] = {"locked/a.txt", "locked/*.txt", "locked"};
    const char *folder = mega_kit_temp_folder(), *locked = mega_kit_path(folder, "locked");
    const bool is_root = geteuid() == 0;
    assert_int_equal(mkdir(locked, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = mega_kit_path(folder, names[i]);
        if (is_root) assert_int_equal(seteuid(65534), 0);
        reading r = read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false});
        if (is_root) assert_int_equal(seteuid(0), 0);
        assert_int_equal(r.st, MEGA_ERR_IO);
        assert_non_null(strstr(mega_error_message(), "Permission denied; check the permissions"));
        mega_buffer_fini(&r.text);
    }
    assert_int_equal(chmod(locked, 0700), 0);
}

static void lines_of_faults(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "x.jsonl");
    mega_kit_write(path, "{\"text\":\"one\"}\n\n{\"text\":\"two\"}\n{\"text\": oops}\n{\"text\":\"four\"}\n");
    for (size_t chunk = 1; chunk < 60; chunk++) {
        reading r = read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, false, chunk, NULL, false});
        assert_int_equal(r.documents, 4);
        assert_int_equal(r.fault.line, 4);
        assert_int_equal(r.fault.column, 10);
        const int64_t lines[4] = {1, 3, 4, 5};
        assert_memory_equal(r.lines, lines, sizeof lines);
        mega_buffer_fini(&r.text);
    }
    path = mega_kit_path(mega_kit_temp_folder(), "x.txt");
    mega_kit_write(path, "one\n\n\xc3\xa9\xc3\xa9two\xff\n");
    for (int split = 0; split < 2; split++) {
        reading r = read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, split == 1, 3, NULL, false});
        assert_int_equal(r.fault.line, 3);
        assert_int_equal(r.fault.column, 6);
        mega_buffer_fini(&r.text);
    }
}

static void arrays_are_named(void **state)
{
    (void)state;
    const struct {
        const char *name, *content;
    } cases[] = {{"a", "[{\"text\":\"x\"}]"}, {"b", "\n [ \"x\" ]"}, {"c.json", "[1]"}};
    for (int i = 0; i < 3; i++) {
        const char *path = mega_kit_path(mega_kit_temp_folder(), cases[i].name);
        mega_kit_write(path, cases[i].content);
        assert_int_equal(read_inputs(&(mega_documents_options){&path, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}).st,
                         MEGA_ERR_FORMAT);
        assert_non_null(strstr(mega_error_message(), "jq -c"));
    }
}

static void folders_globs_and_order(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *sub = mega_kit_path(folder, "sub");
    assert_int_equal(mega_folder_create(sub), MEGA_OK);
    mega_kit_write(mega_kit_path(folder, "b.txt"), "B");
    mega_kit_write(mega_kit_path(folder, "a.jsonl"), "{\"text\":\"A\"}");
    mega_kit_write(mega_kit_path(folder, ".hidden"), "H");
    mega_kit_write(mega_kit_path(sub, "c.txt"), "C");
    expect_documents(&(mega_documents_options){&folder, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}, "A|B|C|");
    const char *two[2] = {mega_kit_path(folder, "s*"), mega_kit_path(folder, "[ab].*")};
    expect_documents(&(mega_documents_options){two, 2, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}, "C|A|B|");
    const char *bad[3] = {mega_kit_path(folder, "nothing*"), folder, mega_kit_path(folder, "no.txt")};
    assert_int_equal(read_inputs(&(mega_documents_options){bad, 3, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}).st,
                     MEGA_ERR_NOT_FOUND);
    assert_true(strstr(mega_error_message(), "nothing*") != NULL && strstr(mega_error_message(), "no.txt") != NULL);
    const char *empty = mega_kit_temp_folder();
    assert_int_equal(read_inputs(&(mega_documents_options){&empty, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}).st,
                     MEGA_ERR_NOT_FOUND);
}

/* ---- compressed input ---- */

enum { LINES = 20000 };

static char *many_lines(size_t *size)
{
    mega_buffer b = {0};
    for (int i = 0; i < LINES; i++) mega_buffer_printf(&b, "{\"id\": %d, \"text\": \"line %d of many\"}\n", i, i * i);
    assert_false(b.failed);
    *size = b.size;
    return b.data;
}

static size_t pack(bool gzip, const char *text, size_t n, char *out, size_t room)
{
    if (!gzip) {
        const size_t packed = ZSTD_compress(out, room, text, n, 3);
        assert_false(ZSTD_isError(packed));
        return packed;
    }
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t packed = room - z.avail_out;
    deflateEnd(&z);
    return packed;
}

static void packed_files(void **state)
{
    (void)state;
    size_t n;
    char *text = many_lines(&n);
    char *packed = mega_malloc(n + 1000);
    const char *plain_path = mega_kit_path(mega_kit_temp_folder(), "plain");
    write_bytes(plain_path, text, n);
    reading plain = read_inputs(&(mega_documents_options){&plain_path, 1, MEGA_DOCUMENT_AUTO, false, 0, NULL, false});
    assert_int_equal(plain.documents, LINES);
    for (int gzip = 0; gzip < 2; gzip++) {
        const char *path = mega_kit_path(mega_kit_temp_folder(), "packed");
        /* two consecutive members, the first of which ends inside a line */
        const size_t half = n / 2 + 7, first = pack(gzip == 1, text, half, packed, n + 1000);
        const size_t both = first + pack(gzip == 1, text + half, n - half, packed + first, n + 1000 - first);
        write_bytes(path, packed, both);
        const mega_documents_options o = {&path, 1, MEGA_DOCUMENT_AUTO, false, 10000, NULL, false};
        reading r = read_inputs(&o);
        assert_int_equal(r.st, MEGA_OK);
        assert_int_equal(r.text.size, plain.text.size);
        assert_memory_equal(r.text.data, plain.text.data, plain.text.size);
        mega_buffer_fini(&r.text);
        write_bytes(path, packed, both - 5);
        r = read_inputs(&o);
        assert_int_equal(r.st, MEGA_ERR_FORMAT);
        assert_non_null(strstr(mega_error_message(), "cut short"));
        mega_buffer_fini(&r.text);
        packed[first / 2] ^= 0x55;
        packed[first / 2 + 1] ^= 0x55;
        write_bytes(path, packed, both);
        r = read_inputs(&o);
        assert_int_equal(r.st, MEGA_ERR_FORMAT);
        assert_non_null(strstr(mega_error_message(), "damaged"));
        mega_buffer_fini(&r.text);
    }
    mega_buffer_fini(&plain.text);
    mega_free(packed);
    mega_free(text);
}

static void standard_input(void **state)
{
    (void)state;
    const int saved = dup(STDIN_FILENO);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "{\"text\":\"from a pipe\"}\n", 23), 23);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    const char *dash[2] = {"-", "-"};
    const volatile sig_atomic_t go = 0, stop = 1;
    expect_documents(&(mega_documents_options){dash, 1, MEGA_DOCUMENT_AUTO, false, 0, &go, false}, "from a pipe|");
    assert_int_equal(read_inputs(&(mega_documents_options){dash, 2, MEGA_DOCUMENT_AUTO, false, 0, NULL, false}).st,
                     MEGA_ERR_USAGE);
    assert_int_equal(read_inputs(&(mega_documents_options){dash, 1, MEGA_DOCUMENT_AUTO, false, 0, &stop, false}).st,
                     MEGA_ERR_INTERRUPTED);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "a.jsonl"), "{\"t\\u0065xt\":\"\\u00e9\"}\n{\"text\":\"two\"}\n");
    mega_kit_write(mega_kit_path(folder, "b.txt"), "b");
    const mega_documents_options o = {&folder, 1, MEGA_DOCUMENT_AUTO, false, 8, NULL, false};
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        assert_true(n < 500);
        mega_alloc_fail_at(n);
        reading r = read_inputs(&o);
        mega_alloc_fail_at(0);
        assert_true(r.st == MEGA_OK || r.st == MEGA_ERR_MEMORY);
        done = r.st == MEGA_OK && r.text.size == strlen("\xc3\xa9|two|b|") && !r.text.failed;
        mega_buffer_fini(&r.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_by_content),  cmocka_unit_test(blank_lines_split),
        cmocka_unit_test(hidden_inputs),       cmocka_unit_test(other_encodings),
        cmocka_unit_test(windows_line_ends),   cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(forced_formats),      cmocka_unit_test(lines_of_faults),
        cmocka_unit_test(arrays_are_named),    cmocka_unit_test(folders_globs_and_order),
        cmocka_unit_test(packed_files),        cmocka_unit_test(standard_input),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
