/* Reads one column of a CSV file (RFC 4180): its first record names the columns. A field in quotation marks may contain
 * commas, line ends and doubled quotation marks. As pandas reads it for the original: empty lines are no records, and a
 * quotation mark inside of a field that begins without one is part of it. */
#include "blocks_csv.h"
#include "megalith/encoding.h"
#include <string.h>

static const char byte_order_mark[] = "\xef\xbb\xbf";

void blocks_csv_begin(blocks_csv *c, const char *path, const char *key, bool any)
{
    *c = (blocks_csv){.path = path, .key = key, .any = any, .line = 1, .begin = 1, .wanted = -1};
}

void blocks_csv_fini(blocks_csv *c)
{
    mega_buffer_fini(&c->text);
    mega_buffer_fini(&c->names);
}

/* Returns whether bytes of the field that is being read are kept: those of the column, and every name of the head. */
static bool is_kept(const blocks_csv *c)
{
    return !c->has_head || c->field == c->wanted;
}

static mega_status end_name(blocks_csv *c)
{
    const bool is_key = c->text.size == strlen(c->key) && memcmp(c->text.data, c->key, c->text.size) == 0;
    if (is_key && c->wanted < 0) c->wanted = c->field;
    if (!mega_buffer_printf(&c->names, "%s%.*s", c->field > 0 ? ", " : "", (int)c->text.size, c->text.data))
        return MEGA_NO_MEMORY("tokenizing", "the columns of a CSV file");
    c->text.size = 0;
    return MEGA_OK;
}

static mega_status end_field(blocks_csv *c)
{
    if (!c->has_head) {
        if (!mega_buffer_reserve(&c->text, 1)) return MEGA_NO_MEMORY("tokenizing", "the columns of a CSV file");
        MEGA_TRY(end_name(c));
    }
    c->field++;
    c->state = CSV_FIELD_BEGINS;
    return MEGA_OK;
}

static mega_status end_head(blocks_csv *c, int fields)
{
    if (c->wanted < 0 && c->any) c->wanted = 0;
    if (c->wanted < 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: the first line names no column %s, but %s; give --text_column_name",
                         c->path, c->key, c->names.data);
    c->columns = fields;
    c->has_head = true;
    return MEGA_OK;
}

static mega_status end_record(blocks_csv *c, blocks_csv_text *text, void *user)
{
    MEGA_TRY(end_field(c));
    const int fields = c->field;
    const int64_t begin = c->begin;
    c->field = 0;
    c->begin = c->line;
    if (!c->has_head) return end_head(c, fields);
    if (fields != c->columns)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: line %lld: expected %d fields, as in the first line, but found %d; a field with a comma "
                         "or a line end stands in quotation marks",
                         c->path, (long long)begin, c->columns, fields);
    mega_status st = mega_encoding_check_line(c->path, begin, c->text.data, c->text.size);
    if (st == MEGA_OK) st = text(user, c->text.data != NULL ? c->text.data : "", c->text.size);
    c->text.size = 0;
    return st;
}

static mega_status csv_keep_byte(blocks_csv *c, char byte)
{
    if (!is_kept(c) || mega_buffer_append(&c->text, &byte, 1)) return MEGA_OK;
    return MEGA_NO_MEMORY("tokenizing", "a field");
}

/* A byte outside of quotation marks. */
static mega_status read_plain(blocks_csv *c, char byte, blocks_csv_text *text, void *user)
{
    const bool was_return = c->after_return;
    c->after_return = byte == '\r';
    if (byte == ',') return end_field(c);
    if (byte == '"' && c->state == CSV_FIELD_BEGINS) {
        c->state = CSV_QUOTED;
        return MEGA_OK;
    }
    if (byte != '\n' && byte != '\r') {
        c->state = CSV_PLAIN;
        return csv_keep_byte(c, byte);
    }
    if (byte == '\n' && was_return) { /* the second half of a line end */
        c->begin = c->line;
        return MEGA_OK;
    }
    if (c->field > 0 || c->state != CSV_FIELD_BEGINS) return end_record(c, text, user);
    c->begin = c->line; /* an empty line */
    return MEGA_OK;
}

static mega_status read_byte(blocks_csv *c, char byte, blocks_csv_text *text, void *user)
{
    if (byte == '\n') c->line++;
    if (c->state == CSV_QUOTED) {
        if (byte != '"') return csv_keep_byte(c, byte);
        c->state = CSV_QUOTE_ENDS;
        return MEGA_OK;
    }
    if (c->state == CSV_QUOTE_ENDS && byte == '"') {
        c->state = CSV_QUOTED;
        return csv_keep_byte(c, byte);
    }
    return read_plain(c, byte, text, user);
}

mega_status blocks_csv_read(blocks_csv *c, const char *bytes, size_t count, blocks_csv_text *text, void *user)
{
    const size_t mark = sizeof byte_order_mark - 1;
    const bool is_marked = !c->has_begun && count >= mark && memcmp(bytes, byte_order_mark, mark) == 0;
    c->has_begun = true;
    for (size_t i = is_marked ? mark : 0; i < count; i++) MEGA_TRY(read_byte(c, bytes[i], text, user));
    return MEGA_OK;
}

mega_status blocks_csv_end(blocks_csv *c, blocks_csv_text *text, void *user)
{
    if (c->state == CSV_QUOTED)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: line %lld: a field in quotation marks does not end; close it", c->path,
                         (long long)c->begin);
    if (c->field > 0 || c->state != CSV_FIELD_BEGINS) MEGA_TRY(end_record(c, text, user));
    if (c->has_head) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found no line; expected the names of the columns, and a text in each line",
                     c->path);
}
