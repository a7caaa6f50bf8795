/* Reads the texts of files, lines, JSON records or a column of CSV, and tokenizes each by itself. One thread reads; a
 * portion of texts is then tokenized by all threads of the team, and the tokens are joined in the order of the
 * texts. */
#include "blocks_csv.h"
#include "data_impl.h"
#include "megalith/blocks.h"
#include "megalith/documents.h"
#include "megalith/encoding.h"
#include "megalith/file_kind.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include <string.h>

enum { PORTION_BYTES = 1 << 20 };

/* The tokens of one share of a portion. */
typedef struct blocks_share {
    mega_encoder *encoder;
    mega_ids ids;
    int64_t *end;     /* for each text of the share, the tokens up to its end */
    int64_t capacity; /* of `end` */
    mega_status status;
    mega_error_record why;
} blocks_share;

typedef struct blocks_reader {
    const mega_blocks_options *o;
    mega_blocks_text *out;
    const char *path;
    int64_t line_number;    /* of the file that is read, lines whose end is still to be read left out */
    mega_buffer text, line; /* a portion of texts; the beginning of a line whose end is still to be read */
    int64_t *end;           /* bytes of `text` up to the end of each of its texts */
    int64_t texts, capacity;
    blocks_share *share;
    int shares;
    blocks_csv *csv; /* of the file that is read; NULL: it is no CSV file */
} blocks_reader;

/* ---- tokenizing a portion ---- */

static mega_status blocks_encode_text(const blocks_reader *r, blocks_share *s, int64_t text, int64_t place)
{
    const size_t begin = text > 0 ? (size_t)r->end[text - 1] : 0, bytes = (size_t)r->end[text] - begin;
    if (bytes > 0) MEGA_TRY(mega_encoder_encode(s->encoder, r->text.data + begin, bytes, &s->ids));
    s->end[place] = s->ids.count;
    return MEGA_OK;
}

static void blocks_encode_shares(void *user, int thread, int64_t first, int64_t last)
{
    blocks_reader *r = user;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        blocks_share *s = &r->share[i];
        const int64_t begin = r->texts * i / r->shares, end = r->texts * (i + 1) / r->shares;
        s->ids.count = 0;
        s->status = mega_array_reserve(&s->end, &s->capacity, end - begin, sizeof *s->end)
                        ? MEGA_OK
                        : MEGA_NO_MEMORY("tokenizing", "the ends of texts");
        for (int64_t k = begin; k < end && s->status == MEGA_OK; k++)
            s->status = blocks_encode_text(r, s, k, k - begin);
        if (s->status != MEGA_OK) mega_error_get_of(s->status, &s->why);
    }
}

/* Appends tokens, in as many pieces as they need. */
static mega_status blocks_append(mega_blocks_text *out, const int32_t *id, int64_t count)
{
    while (count > 0) {
        const int64_t used = out->tokens % MEGA_BLOCKS_PIECE, left = MEGA_BLOCKS_PIECE - used,
                      n = count < left ? count : left;
        if (used == 0) {
            void *pages;
            if (!mega_array_reserve(&out->piece, &out->most_pieces, out->pieces + 1, sizeof *out->piece))
                return MEGA_NO_MEMORY("tokenizing", "its tokens");
            MEGA_TRY(mega_pages_alloc(&pages, MEGA_BLOCKS_PIECE * sizeof *id, "tokens of texts"));
            out->piece[out->pieces++] = pages;
        }
        memcpy(out->piece[out->pieces - 1] + used, id, (size_t)n * sizeof *id);
        out->tokens += n;
        id += n;
        count -= n;
    }
    return MEGA_OK;
}

static mega_status blocks_join_share(blocks_reader *r, const blocks_share *s, int64_t texts)
{
    mega_blocks_text *out = r->out;
    if (!mega_array_reserve(&out->end, &out->capacity, out->texts + texts, sizeof *out->end))
        return MEGA_NO_MEMORY("tokenizing", "the ends of texts");
    for (int64_t k = 0; k < texts; k++) out->end[out->texts + k] = out->tokens + s->end[k];
    out->texts += texts;
    return blocks_append(out, s->ids.id, s->ids.count);
}

static mega_status blocks_encode_portion(blocks_reader *r)
{
    if (r->texts == 0) return MEGA_OK;
    mega_team_for(r->o->team, r->shares, 1, blocks_encode_shares, r);
    for (int i = 0; i < r->shares; i++) {
        const int64_t begin = r->texts * i / r->shares, end = r->texts * (i + 1) / r->shares;
        if (r->share[i].status != MEGA_OK) return mega_error_restore(&r->share[i].why);
        MEGA_TRY(blocks_join_share(r, &r->share[i], end - begin));
    }
    r->text.size = 0;
    r->texts = 0;
    return MEGA_OK;
}

/* ---- reading ---- */

static mega_status blocks_end_text(blocks_reader *r)
{
    if (!mega_array_reserve(&r->end, &r->capacity, r->texts + 1, sizeof *r->end))
        return MEGA_NO_MEMORY("tokenizing", "the ends of texts");
    r->end[r->texts++] = (int64_t)r->text.size;
    return r->text.size >= PORTION_BYTES ? blocks_encode_portion(r) : MEGA_OK;
}

static mega_status blocks_add_text(blocks_reader *r, const char *text, size_t bytes)
{
    if (!mega_buffer_append(&r->text, text, bytes)) return MEGA_NO_MEMORY("tokenizing", "a text");
    return blocks_end_text(r);
}

/* Adds a line that may have begun in an earlier record; bytes includes its newline, if it has one. */
static mega_status blocks_add_line(blocks_reader *r, const char *text, size_t bytes)
{
    const size_t newline = bytes > 0 && text[bytes - 1] == '\n', before = r->text.size;
    if (!mega_buffer_append(&r->text, r->line.data != NULL ? r->line.data : "", r->line.size) ||
        !mega_buffer_append(&r->text, text, r->o->drops_line_ends ? bytes - newline : bytes))
        return MEGA_NO_MEMORY("tokenizing", "a line");
    r->line.size = 0;
    const char *begin = r->text.data != NULL ? r->text.data + before : NULL;
    MEGA_TRY(mega_encoding_check_line(r->path, ++r->line_number, begin, r->text.size - before));
    return blocks_end_text(r);
}

static mega_status add_csv_text(void *user, const char *text, size_t bytes)
{
    return blocks_add_text(user, text, bytes);
}

static mega_status blocks_end_file(blocks_reader *r)
{
    if (r->csv != NULL) return blocks_csv_end(r->csv, add_csv_text, r);
    return r->line.size > 0 ? blocks_add_line(r, "", 0) : MEGA_OK;
}

static mega_status blocks_add_lines(blocks_reader *r, const char *at, size_t bytes)
{
    while (bytes > 0) {
        const char *newline = memchr(at, '\n', bytes);
        if (newline == NULL)
            return mega_buffer_append(&r->line, at, bytes) ? MEGA_OK : MEGA_NO_MEMORY("tokenizing", "a line");
        const size_t n = (size_t)(newline - at) + 1;
        MEGA_TRY(blocks_add_line(r, at, n));
        at += n;
        bytes -= n;
    }
    return MEGA_OK;
}

static mega_status blocks_add_record(blocks_reader *r, const mega_document_chunk *chunk, int64_t record,
                                     mega_buffer *space)
{
    mega_document_text text;
    mega_document_fault fault;
    if (r->csv != NULL)
        return blocks_csv_read(r->csv, chunk->bytes.data + chunk->record[record].begin, chunk->record[record].size,
                               add_csv_text, r);
    if (chunk->format == MEGA_DOCUMENT_TEXT) {
        if (!chunk->record[record].continues) MEGA_TRY(blocks_end_file(r));
        return blocks_add_lines(r, chunk->bytes.data + chunk->record[record].begin, chunk->record[record].size);
    }
    if (!mega_document_views(chunk, record, &r->o->key, 1, space, &text, &fault))
        return space->failed
                   ? MEGA_NO_MEMORY("tokenizing", "a record")
                   : MEGA_FAIL(MEGA_ERR_FORMAT,
                               "%s: line %lld, column %lld: %s; expected JSON lines with the key %s "
                               "(--text_column_name), or a name that ends in .txt for plain text",
                               chunk->path, (long long)fault.line, (long long)fault.column, fault.what, r->o->key);
    return blocks_add_text(r, text.text, text.bytes);
}

static mega_status blocks_read_files(blocks_reader *r, mega_documents *files)
{
    mega_document_chunk chunk = {0};
    mega_buffer space = {0};
    mega_progress shown;
    mega_status st = MEGA_OK;
    mega_progress_begin(&shown, "tokenizing", "texts", mega_documents_total_bytes(files), 0);
    do {
        st = mega_documents_read(files, &chunk);
        for (int64_t i = 0; i < chunk.count && st == MEGA_OK; i++) st = blocks_add_record(r, &chunk, i, &space);
        mega_progress_update(&shown, chunk.position, (uint64_t)r->out->texts);
    } while (st == MEGA_OK && chunk.count > 0);
    if (st == MEGA_OK) st = blocks_end_file(r);
    if (st == MEGA_OK) st = blocks_encode_portion(r);
    mega_progress_end(&shown, mega_documents_total_bytes(files), (uint64_t)r->out->texts);
    mega_document_chunk_fini(&chunk);
    mega_buffer_fini(&space);
    return st;
}

static mega_status blocks_open_shares(blocks_reader *r)
{
    const int shares = mega_team_size(r->o->team);
    r->share = mega_calloc((size_t)shares, sizeof *r->share);
    if (r->share == NULL) return MEGA_NO_MEMORY("tokenizing", "its threads");
    r->shares = shares;
    for (int i = 0; i < shares; i++) MEGA_TRY(mega_encoder_create(r->o->tokenizer, &r->share[i].encoder));
    return MEGA_OK;
}

static void blocks_reader_fini(blocks_reader *r)
{
    for (int i = 0; i < r->shares; i++) {
        mega_encoder_destroy(r->share[i].encoder);
        mega_ids_fini(&r->share[i].ids);
        mega_free(r->share[i].end);
    }
    MEGA_FREE(r->share, r->end);
    mega_buffer_fini(&r->text);
    mega_buffer_fini(&r->line);
}

/* The ending of its name says what a file is, whatever it contains, as in the original. */
static bool has_ending(const char *path, const char *const *ending)
{
    while (*ending != NULL && !mega_path_ends_with(path, *ending)) ending++;
    return *ending != NULL;
}

static mega_status blocks_read_file(blocks_reader *r, const char *const *path)
{
    static const char *const text[] = {".txt", ".text", ".raw", ".tokens", ".txt.gz", ".txt.zst", NULL},
                             *const table[] = {".csv", ".csv.gz", ".csv.zst", NULL};
    const bool is_csv = has_ending(*path, table), is_text = is_csv || has_ending(*path, text);
    const mega_documents_options d = {.inputs = path,
                                      .num_inputs = 1,
                                      .format = is_text ? MEGA_DOCUMENT_TEXT : MEGA_DOCUMENT_AUTO,
                                      .cut_files = true,
                                      .stop = r->o->stop};
    mega_documents *documents;
    blocks_csv csv;
    MEGA_TRY(mega_documents_open(&d, &documents));
    blocks_csv_begin(&csv, *path, r->o->key, r->o->any_column);
    r->csv = is_csv ? &csv : NULL;
    r->path = *path;
    r->line_number = 0;
    if (is_csv) mega_documents_drop_line_ends(documents);
    mega_documents_take_kinds(documents, is_csv ? MEGA_KIND_TABLE : 0);
    const mega_status st = blocks_read_files(r, documents);
    blocks_csv_fini(&csv);
    r->csv = NULL;
    mega_documents_close(documents);
    return st;
}

mega_status mega_blocks_tokenize(const mega_blocks_options *o, const mega_list *files, mega_blocks_text *out)
{
    blocks_reader r = {.o = o, .out = out};
    if (files->count == 0) return MEGA_OK;
    mega_status st = blocks_open_shares(&r);
    for (size_t i = 0; i < files->count && st == MEGA_OK; i++)
        st = blocks_read_file(&r, (const char *const *)&files->item[i]);
    blocks_reader_fini(&r);
    return st;
}

static void blocks_free_piece(int32_t *piece)
{
    mega_pages_free(piece, MEGA_BLOCKS_PIECE * sizeof *piece);
}

void mega_blocks_text_move(mega_blocks_text *t, int32_t *out)
{
    for (int64_t i = 0; i < t->pieces; i++, out += MEGA_BLOCKS_PIECE) {
        const int64_t left = t->tokens - i * MEGA_BLOCKS_PIECE, n = left < MEGA_BLOCKS_PIECE ? left : MEGA_BLOCKS_PIECE;
        memcpy(out, t->piece[i], (size_t)n * sizeof *out);
        blocks_free_piece(t->piece[i]);
    }
    t->pieces = t->tokens = 0;
}

void mega_blocks_text_fini(mega_blocks_text *t)
{
    for (int64_t i = 0; i < t->pieces; i++) blocks_free_piece(t->piece[i]);
    MEGA_FREE(t->piece, t->end);
    *t = (mega_blocks_text){.end = NULL};
}
