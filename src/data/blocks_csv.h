/* One column of a CSV file, byte by byte (blocks_csv.c). */
#ifndef MEGA_BLOCKS_CSV_H
#define MEGA_BLOCKS_CSV_H

#include "megalith/memory.h"
#include "megalith/status.h"

typedef enum blocks_csv_state { CSV_FIELD_BEGINS, CSV_PLAIN, CSV_QUOTED, CSV_QUOTE_ENDS } blocks_csv_state;

typedef struct blocks_csv {
    const char *path, *key;
    bool any; /* without a column `key` the first is read */
    blocks_csv_state state;
    bool has_begun, has_head, after_return;
    int field, columns,
        wanted;          /* fields of this record so far; columns of the file; the one that is read, -1: unknown */
    int64_t line, begin; /* line of the next byte; line in which the record began */
    mega_buffer text, names;
} blocks_csv;

typedef mega_status blocks_csv_text(void *user, const char *text, size_t bytes);
void blocks_csv_begin(blocks_csv *c, const char *path, const char *key, bool any); /* borrows both */
/* Call `text` for each whole record. Return MEGA_ERR_FORMAT, MEGA_ERR_MEMORY, or what `text` returns. */
mega_status blocks_csv_read(blocks_csv *c, const char *bytes, size_t count, blocks_csv_text *text, void *user);
mega_status blocks_csv_end(blocks_csv *c, blocks_csv_text *text, void *user);
void blocks_csv_fini(blocks_csv *c);

#endif
