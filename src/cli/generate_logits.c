/* The file of --return-logits. How many rows there will be is known at the end, and the texts of a batch take turns; so
 * the rows go to a temporary file first, in the order in which they were drawn. */
#include "generate.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/npy.h"
#include "megalith/output.h"
#include "megalith/safetensors.h"

#include <stdlib.h>
#include <string.h>

typedef struct drawn_row {
    uint64_t text;
    int64_t row; /* in the temporary file */
    int32_t token;
} drawn_row;

struct generate_logits {
    const char *path; /* borrowed */
    char *rows_path, *whole_path;
    mega_writer *rows;
    int64_t vocab, count, capacity;
    drawn_row *drawn; /* [count] */
    mega_status status;
};

mega_status generate_logits_open(generate_logits **out, const char *path, int64_t vocab)
{
    generate_logits *l = mega_calloc(1, sizeof *l);
    if (l == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--return-logits %s: no memory", path);
    *out = l;
    l->path = path;
    l->vocab = vocab;
    char *rows = mega_format("%s.rows", path);
    l->rows_path = rows == NULL ? NULL : mega_temporary_path(rows);
    l->whole_path = mega_temporary_path(path);
    mega_free(rows);
    if (l->rows_path == NULL || l->whole_path == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "--return-logits %s: no memory for a name", path);
    return mega_writer_create(l->rows_path, &l->rows);
}

void generate_logits_row(generate_logits *l, const float *logits)
{
    if (l->status == MEGA_OK) l->status = mega_writer_write(l->rows, logits, (size_t)l->vocab * sizeof *logits);
}

void generate_logits_token(generate_logits *l, uint64_t text, int32_t token)
{
    if (l->status != MEGA_OK) return;
    if (mega_array_reserve(&l->drawn, &l->capacity, l->count + 1, sizeof *l->drawn)) {
        l->drawn[l->count] = (drawn_row){.text = text, .row = l->count, .token = token};
        l->count++;
    } else {
        l->status = MEGA_FAIL(MEGA_ERR_MEMORY, "--return-logits %s: no memory for a token", l->path);
    }
}

static int logits_by_text(const void *left, const void *right)
{
    const drawn_row *a = left, *b = right;
    if (a->text != b->text) return a->text < b->text ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static const float *logits_row(const generate_logits *l, const mega_map *rows, int64_t i)
{
    return (const float *)(const void *)rows->data + l->drawn[i].row * l->vocab;
}

static mega_status write_npy(const generate_logits *l, const mega_map *rows)
{
    mega_writer *w;
    char header[MEGA_NPY_HEADER_MAX];
    MEGA_TRY(mega_writer_create(l->whole_path, &w));
    mega_status st = mega_writer_write(w, header, mega_npy_header(header, MEGA_NPY_F4, l->count, l->vocab));
    for (int64_t i = 0; st == MEGA_OK && i < l->count; i++)
        st = mega_writer_write(w, logits_row(l, rows, i), (size_t)l->vocab * sizeof(float));
    const mega_status closed = mega_writer_close(w, true);
    return st != MEGA_OK ? st : closed;
}

enum { LOGITS, TEXTS, TOKENS, TENSORS };

static mega_status write_tensor(const generate_logits *l, const mega_map *rows, int tensor, mega_st_writer *w)
{
    mega_status st = MEGA_OK;
    for (int64_t i = 0; st == MEGA_OK && i < l->count; i++) {
        const int64_t number = tensor == TEXTS ? (int64_t)l->drawn[i].text : l->drawn[i].token;
        st = tensor == LOGITS ? mega_st_writer_write(w, logits_row(l, rows, i), (size_t)l->vocab * sizeof(float))
                              : mega_st_writer_write(w, &number, sizeof number);
    }
    return st;
}

static mega_status write_safetensors(const generate_logits *l, const mega_map *rows)
{
    const mega_st_entry entry[TENSORS] = {
        [LOGITS] = {"logits", MEGA_ST_F32, 2, {(uint64_t)l->count, (uint64_t)l->vocab}},
        [TEXTS] = {"texts", MEGA_ST_I64, 1, {(uint64_t)l->count}},
        [TOKENS] = {"tokens", MEGA_ST_I64, 1, {(uint64_t)l->count}}};
    const mega_st_pair mark = {MEGA_OUTPUT_LOGITS_KEY, "1"};
    mega_st_writer *w;
    MEGA_TRY(mega_st_writer_create(l->whole_path, entry, TENSORS, &mark, 1, &w));
    mega_status st = MEGA_OK;
    for (int i; st == MEGA_OK && (i = mega_st_writer_next(w)) >= 0;) st = write_tensor(l, rows, i, w);
    if (st == MEGA_OK) return mega_st_writer_close(w, true, NULL, NULL);
    mega_st_writer_abandon(w);
    return st;
}

static mega_status write_logits(const generate_logits *l, const mega_map *rows)
{
    const size_t n = strlen(l->path);
    const bool is_npy = n > 4 && strcmp(l->path + n - 4, ".npy") == 0;
    MEGA_TRY(is_npy ? write_npy(l, rows) : write_safetensors(l, rows));
    return mega_file_rename(l->whole_path, l->path);
}

mega_status generate_logits_finish(generate_logits *l)
{
    mega_map rows = {0};
    mega_writer *w = l->rows;
    l->rows = NULL;
    const mega_status closed = mega_writer_close(w, false);
    MEGA_TRY(l->status);
    MEGA_TRY(closed);
    qsort(l->drawn, (size_t)l->count, sizeof *l->drawn, logits_by_text);
    MEGA_TRY(mega_map_open(l->rows_path, &rows));
    mega_status st = write_logits(l, &rows);
    if (st == MEGA_OK) st = mega_map_check();
    mega_map_close(&rows);
    MEGA_TRY(st);
    mega_info("logits of %lld tokens are in %s", (long long)l->count, l->path);
    return MEGA_OK;
}

void generate_logits_close(generate_logits *l)
{
    if (l == NULL) return;
    if (l->rows != NULL) mega_writer_abandon(l->rows);
    if (l->rows_path != NULL) mega_file_discard(l->rows_path);
    if (l->whole_path != NULL) mega_file_discard(l->whole_path);
    MEGA_FREE(l->rows_path, l->whole_path, l->drawn, l);
}
