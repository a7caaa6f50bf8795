/* Splits input files into chunks of whole records. A record ends where the format says; whether it is a valid document
 * is found out later, by mega_document_texts on any thread. */
#include "megalith/documents.h"
#include "documents_impl.h"
#include "megalith/encoding.h"
#include "megalith/file_kind.h"
#include "megalith/log.h"
#include "megalith/utf8.h"
#include "unicode/unicode.h"
#include <ctype.h>
#include <string.h>

enum { CHUNK_BYTES = 256 * 1024, DETECT_BYTES = 64 * 1024 };

struct mega_documents {
    mega_document_files files;
    mega_document_format wanted;
    bool split_on_blank_lines, cut_files;
    size_t chunk_bytes;
    const volatile sig_atomic_t *stop;
    int64_t next; /* index of the file to open next */
    /* the open file */
    mega_document_stream *stream;
    mega_document_format format;
    const char *path;
    mega_buffer carry;                      /* bytes that were read and belong to the next chunk */
    int64_t line;                           /* line number of the first byte of carry */
    bool is_inside;                         /* carry continues a document that was split */
    uint64_t before;                        /* bytes of all earlier files */
    int taken;                              /* kinds of files, MEGA_KIND_… */
    bool is_first_look, has_told_line_ends; /* that warning is given for one file only */
};

mega_status mega_documents_open(const mega_documents_options *o, mega_documents **out)
{
    mega_documents *d = mega_calloc(1, sizeof *d);
    if (d == NULL) return MEGA_NO_MEMORY("--input", "its reader");
    d->wanted = o->format;
    d->split_on_blank_lines = o->split_on_blank_lines;
    d->cut_files = o->cut_files;
    d->chunk_bytes = o->chunk_bytes > 0 ? o->chunk_bytes : CHUNK_BYTES;
    d->stop = o->stop;
    /* What the user calls text or JSON lines is read as that. */
    d->taken = o->format == MEGA_DOCUMENT_TEXT         ? MEGA_KIND_TABLE | MEGA_KIND_MARKUP
               : o->format == MEGA_DOCUMENT_JSON_LINES ? MEGA_KIND_TABLE
                                                       : 0;
    const mega_status st = mega_document_files_find(o->inputs, o->num_inputs, &d->files);
    if (st != MEGA_OK) {
        mega_documents_close(d);
        return st;
    }
    *out = d;
    return MEGA_OK;
}

void mega_documents_close(mega_documents *d)
{
    if (d == NULL) return;
    mega_document_stream_close(d->stream);
    mega_buffer_fini(&d->carry);
    mega_document_files_fini(&d->files);
    mega_free(d);
}

int64_t mega_documents_files(const mega_documents *d)
{
    return d->files.count;
}

void mega_documents_look_first(mega_documents *d)
{
    d->is_first_look = true;
}

void mega_documents_drop_line_ends(mega_documents *d)
{
    d->has_told_line_ends = true;
}

void mega_documents_take_kinds(mega_documents *d, int taken)
{
    d->taken = taken;
}

const char *mega_documents_path(const mega_documents *d, int64_t file)
{
    return strcmp(d->files.path[file], "-") == 0 ? "standard input" : d->files.path[file];
}

uint64_t mega_documents_total_bytes(const mega_documents *d)
{
    return d->files.has_stdin ? 0 : d->files.bytes;
}

void mega_document_chunk_fini(mega_document_chunk *chunk)
{
    mega_buffer_fini(&chunk->bytes);
    mega_free(chunk->record);
    *chunk = (mega_document_chunk){0};
}

/* ---- recognising the format ---- */

static bool name_says_json_lines(const char *path)
{
    static const char *const ending[] = {".jsonl",   ".ndjson",    ".json",    ".jsonl.gz",
                                         ".json.gz", ".jsonl.zst", ".json.zst"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        const size_t m = strlen(ending[i]);
        if (n > m && strcmp(path + n - m, ending[i]) == 0) return true;
    }
    return false;
}

/* Returns the first byte at or after `at` that is not white space; 0 if there is none. */
static char first_behind(const mega_buffer *b, size_t at, size_t *where)
{
    while (at < b->size && isspace((unsigned char)b->data[at])) at++;
    *where = at < b->size ? at : b->size;
    return at < b->size ? b->data[at] : '\0';
}

static mega_status detect_format(mega_documents *d)
{
    const bool by_name =
        d->wanted == MEGA_DOCUMENT_JSON_LINES || (d->wanted == MEGA_DOCUMENT_AUTO && name_says_json_lines(d->path));
    d->format = d->wanted == MEGA_DOCUMENT_TEXT ? MEGA_DOCUMENT_TEXT : MEGA_DOCUMENT_JSON_LINES;
    if (d->wanted == MEGA_DOCUMENT_TEXT) return MEGA_OK;
    const size_t bom = d->carry.size >= 3 && memcmp(d->carry.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t at, behind;
    const char first = first_behind(&d->carry, bom, &at), second = first_behind(&d->carry, at + 1, &behind);
    if (first == '[' && (by_name || second == '{' || second == '"'))
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s: found a JSON array, expected JSON lines (one object per line). Create them with: jq -c '.[]' %s > "
            "lines.jsonl (or give --input-format text if this is plain text)",
            d->path, d->path);
    const bool object = first == '{' && (second == '"' || second == '}');
    if (!by_name && !object) d->format = MEGA_DOCUMENT_TEXT;
    if (d->format == MEGA_DOCUMENT_JSON_LINES && bom > 0) {
        memmove(d->carry.data, d->carry.data + bom, d->carry.size - bom);
        d->carry.size -= bom;
    }
    return MEGA_OK;
}

/* ---- reading ---- */

static mega_status documents_no_memory(const mega_documents *d, size_t bytes)
{
    return MEGA_FAIL(
        MEGA_ERR_MEMORY,
        "%s: no memory for a document of more than %zu bytes; split it (plain text: --split-on-blank-lines)", d->path,
        bytes);
}

/* Appends up to n bytes to b. *end: the end of the file is reached. */
static mega_status read_into(mega_documents *d, mega_buffer *b, size_t n, bool *end)
{
    size_t got = 0;
    if (!mega_buffer_reserve(b, n + 1)) return documents_no_memory(d, b->size);
    MEGA_TRY(mega_document_stream_read(d->stream, b->data + b->size, n, &got));
    b->size += got;
    *end = got < n;
    return MEGA_OK;
}

/* Such a text may be meant, so that it is read; with the ending .csv it would have been refused. */
static void note_table(const mega_documents *d)
{
    char separator;
    const int columns = d->carry.size > 0 ? mega_file_table_columns(d->carry.data, d->carry.size, &separator) : 0;
    if (columns > 0)
        mega_warn(
            "%s looks like a %s file of %d columns, and is read as plain text, with the names of the columns%s; if "
            "only a column is meant, write it as JSON lines",
            d->path, separator == '\t' ? "TSV" : "CSV", columns, separator == '\t' ? "" : " and all separators");
}

static mega_status documents_open_next(mega_documents *d)
{
    d->path = mega_documents_path(d, d->next);
    MEGA_TRY(mega_document_stream_open(d->files.path[d->next], d->stop, &d->stream));
    d->next++;
    d->line = 1;
    d->is_inside = false;
    d->carry.size = 0;
    /* The first two bytes that are not white space (nor a byte order mark) identify the format. */
    bool end = false;
    size_t at;
    do {
        MEGA_TRY(read_into(d, &d->carry, d->chunk_bytes, &end));
        (void)first_behind(&d->carry, 0, &at);
        (void)first_behind(&d->carry, at + 4, &at);
    } while (!end && at == d->carry.size && d->carry.size < DETECT_BYTES);
    MEGA_TRY(
        mega_file_kind_check(d->path, d->carry.data, d->carry.size, "JSON lines or plain text in UTF-8", d->taken));
    MEGA_TRY(detect_format(d));
    if (d->format != MEGA_DOCUMENT_TEXT || d->is_first_look) return MEGA_OK;
    if ((d->taken & MEGA_KIND_TABLE) == 0) note_table(d);
    if (!d->has_told_line_ends)
        d->has_told_line_ends = mega_encoding_note_line_ends(d->path, d->carry.data, d->carry.size);
    return MEGA_OK;
}

static void close_current(mega_documents *d)
{
    d->before += mega_document_stream_position(d->stream);
    mega_document_stream_close(d->stream);
    d->stream = NULL;
}

static mega_status documents_add_record(const mega_documents *d, mega_document_chunk *c, size_t begin, size_t end,
                                        int64_t line)
{
    if (!mega_array_reserve(&c->record, &c->capacity, c->count + 1, sizeof *c->record))
        return documents_no_memory(d, c->bytes.size);
    c->record[c->count++] = (struct mega_document_record){begin, end - begin, line, d->is_inside};
    return MEGA_OK;
}

static bool line_is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r' && p[i] != '\n') return false;
    }
    return true;
}

/* Splits the bytes of the chunk into records; *rest is the offset of the first incomplete one. Skips lines without a
 * document (blank lines between JSON lines). */
static mega_status cut_lines(mega_documents *d, mega_document_chunk *c, bool end, size_t *rest)
{
    size_t at = 0;
    int64_t line = d->line;
    while (at < c->bytes.size) {
        const char *p = c->bytes.data + at;
        const char *newline = memchr(p, '\n', c->bytes.size - at);
        if (newline == NULL && !end) break;
        const size_t n = newline != NULL ? (size_t)(newline - p) : c->bytes.size - at;
        if (!line_is_blank(p, n)) MEGA_TRY(documents_add_record(d, c, at, at + n, line));
        at += n + (newline != NULL);
        line++;
    }
    d->line = line;
    *rest = at;
    return MEGA_OK;
}

/* In plain text, a line with text that follows one or more blank lines begins a new document. */
static mega_status cut_paragraphs(mega_documents *d, mega_document_chunk *c, bool end, size_t *rest)
{
    size_t begin = 0, at = 0;
    int64_t begin_line = d->line, line = d->line;
    bool has_text = false, has_gap = false;
    while (at < c->bytes.size) {
        const char *p = c->bytes.data + at;
        const char *newline = memchr(p, '\n', c->bytes.size - at);
        if (newline == NULL && !end) break;
        const size_t n = newline != NULL ? (size_t)(newline - p) + 1 : c->bytes.size - at;
        const bool blank = line_is_blank(p, n);
        if (!blank && has_gap) {
            MEGA_TRY(documents_add_record(d, c, begin, at, begin_line));
            begin = at;
            begin_line = line;
        }
        has_text = has_text || !blank;
        has_gap = has_text && blank;
        at += n;
        line++;
    }
    if (end && begin < c->bytes.size) {
        MEGA_TRY(documents_add_record(d, c, begin, c->bytes.size, begin_line));
        begin = c->bytes.size;
    }
    d->line = begin_line;
    *rest = begin;
    return MEGA_OK;
}

static bool ends_with_space(const uint8_t *text, size_t n)
{
    size_t at = n - 1;
    uint32_t code_point = 0;
    while (at > 0 && n - at < 4 && (text[at] & 0xC0) == 0x80) at--;
    return mega_utf8_decode(text + at, n - at, &code_point) != 0 && unicode_class(code_point) == MEGA_CLASS_SPACE;
}

/* Returns the end of the last complete line, before its white space; 0: there is none. */
static size_t last_line_end(const mega_buffer *b)
{
    for (size_t at = b->size; at > 0;) {
        const char *newline = memrchr(b->data, '\n', at);
        if (newline == NULL) return 0;
        at = (size_t)(newline - b->data);
        while (at > 0 && line_is_blank(b->data + at - 1, 1)) at--;
        if (at > 0 && !ends_with_space((const uint8_t *)b->data, at)) return at;
    }
    return 0;
}

static int64_t count_lines(const char *text, size_t n)
{
    int64_t lines = 0;
    for (const char *end = text + n; (text = memchr(text, '\n', (size_t)(end - text))) != NULL; text++) lines++;
    return lines;
}

static mega_status cut_whole(mega_documents *d, mega_document_chunk *c, bool end, size_t *rest)
{
    *rest = end ? c->bytes.size : d->cut_files ? last_line_end(&c->bytes) : 0;
    if (*rest == 0) return MEGA_OK;
    MEGA_TRY(documents_add_record(d, c, 0, *rest, d->line));
    d->is_inside = !end;
    if (!end) d->line += count_lines(c->bytes.data, *rest);
    return MEGA_OK;
}

static mega_status cut_records(mega_documents *d, mega_document_chunk *c, bool end, size_t *rest)
{
    if (d->format == MEGA_DOCUMENT_JSON_LINES) return cut_lines(d, c, end, rest);
    return d->split_on_blank_lines ? cut_paragraphs(d, c, end, rest) : cut_whole(d, c, end, rest);
}

/* Reads records of the open file, none if it has no more. While no record is complete it doubles the amount read, so
 * that a long record is not scanned again and again. */
static mega_status read_some(mega_documents *d, mega_document_chunk *c)
{
    c->path = d->path;
    c->format = d->format;
    c->bytes.size = 0;
    if (d->carry.size > 0 && !mega_buffer_append(&c->bytes, d->carry.data, d->carry.size))
        return documents_no_memory(d, d->carry.size);
    d->carry.size = 0;
    bool end = false;
    while (c->count == 0 && !end) {
        const size_t more = c->bytes.size > d->chunk_bytes ? c->bytes.size : d->chunk_bytes;
        size_t rest;
        MEGA_TRY(read_into(d, &c->bytes, more, &end));
        MEGA_TRY(cut_records(d, c, end, &rest));
        const size_t left = c->bytes.size - rest;
        if (c->count == 0) { /* only blank lines so far, or nothing */
            memmove(c->bytes.data, c->bytes.data + rest, left);
            c->bytes.size = left;
        } else if (left > 0 && !mega_buffer_append(&d->carry, c->bytes.data + rest, left)) {
            return documents_no_memory(d, left);
        }
    }
    c->position = d->before + mega_document_stream_position(d->stream);
    if (end && d->carry.size == 0) close_current(d);
    return MEGA_OK;
}

mega_status mega_documents_read(mega_documents *d, mega_document_chunk *chunk)
{
    chunk->count = 0;
    while (chunk->count == 0) {
        if (d->stream == NULL) {
            if (d->next == d->files.count) return MEGA_OK;
            MEGA_TRY(documents_open_next(d));
        }
        MEGA_TRY(read_some(d, chunk));
    }
    return MEGA_OK;
}

/* ---- texts of a record ---- */

mega_status mega_document_refuse(const char *path, const mega_document_fault *fault)
{
    char *remedy = strstr(fault->what, "UTF-8") != NULL ? mega_format(MEGA_ENCODING_REMEDY, path) : NULL;
    const mega_status st = MEGA_FAIL(
        MEGA_ERR_FORMAT, "%s: line %lld, column %lld: %s; %s, or skip such lines with --on-bad-line skip", path,
        (long long)fault->line, (long long)fault->column, fault->what, remedy != NULL ? remedy : "correct it");
    mega_free(remedy);
    return st;
}

static bool text_of_record(const char *text, size_t bytes, int64_t line, int num_keys, mega_document_fault *fault)
{
    *fault = (mega_document_fault){.line = line, .column = 1};
    if (num_keys != 1) {
        strcpy(fault->what, "plain text has one text per document; expected JSON lines for several keys");
        return false;
    }
    size_t valid = mega_utf8_valid_bytes(text, bytes);
    const char *zero = valid > 0 ? memchr(text, '\0', valid) : NULL;
    if (valid == bytes && zero == NULL) return true;
    if (zero != NULL) valid = (size_t)(zero - text);
    size_t line_begin = 0;
    for (size_t i = 0; i < valid; i++) {
        if (text[i] != '\n') continue;
        fault->line++;
        line_begin = i + 1;
    }
    fault->column = mega_utf8_count(text + line_begin, valid - line_begin) + 1;
    strcpy(fault->what, zero != NULL ? "a zero byte, which no text has" : "bytes that are not UTF-8");
    return false;
}

bool mega_document_views(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *space, mega_document_text *text, mega_document_fault *fault)
{
    const struct mega_document_record *r = &chunk->record[record];
    const char *bytes = chunk->bytes.data + r->begin;
    if (chunk->format == MEGA_DOCUMENT_TEXT) {
        text[0] = (mega_document_text){bytes, r->size};
        return text_of_record(bytes, r->size, r->line, num_keys, fault);
    }
    const bool ok = mega_json_line_views(bytes, r->size, keys, num_keys, space, text, fault);
    fault->line = r->line;
    return ok;
}

bool mega_document_texts(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *out, mega_document_fault *fault)
{
    const struct mega_document_record *r = &chunk->record[record];
    const char *bytes = chunk->bytes.data + r->begin;
    if (chunk->format == MEGA_DOCUMENT_TEXT) {
        out[0].size = 0;
        return text_of_record(bytes, r->size, r->line, num_keys, fault) && mega_buffer_append(&out[0], bytes, r->size);
    }
    const bool ok = mega_json_line_strings(bytes, r->size, keys, num_keys, out, fault);
    fault->line = r->line;
    return ok;
}
