/* Shared by the files of the document reader. */
#ifndef MEGA_DOCUMENTS_IMPL_H
#define MEGA_DOCUMENTS_IMPL_H

#include "megalith/documents.h"

/* ---- json_lines.c ---- */

enum { MEGA_JSON_KEYS_MAX = 64 };

/* Extracts the string values of `keys` from the one JSON object in `line` (num_keys <= MEGA_JSON_KEYS_MAX), and checks
 * the whole line. Returns false if it is invalid, with fault->column and fault->what, or if memory is short
 * (out[k].failed). */
bool mega_json_line_strings(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *out,
                            mega_document_fault *fault);
/* The same without copying: out[k] points into the line, or into space[k] if the string had to be unescaped. */
bool mega_json_line_views(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *space,
                          mega_document_text *out, mega_document_fault *fault);

/* ---- documents_stream.c: the decompressed bytes of a file ---- */

typedef struct mega_document_stream mega_document_stream;
/* Path "-" is standard input. stop: as in mega_documents_options. */
mega_status mega_document_stream_open(const char *path, const volatile sig_atomic_t *stop, mega_document_stream **out);
void mega_document_stream_close(mega_document_stream *s);
/* Reads up to n bytes; fewer only at the end. */
mega_status mega_document_stream_read(mega_document_stream *s, char *out, size_t n, size_t *out_got);
/* Returns the bytes of the file itself (before decompression) read so far. */
uint64_t mega_document_stream_position(const mega_document_stream *s);

/* ---- documents_find.c: the files that the inputs name ---- */

typedef struct mega_document_files {
    char **path;
    int64_t count, capacity;
    uint64_t bytes;
    bool has_stdin;
} mega_document_files;
mega_status mega_document_files_find(const char *const *inputs, int num_inputs, mega_document_files *out);
void mega_document_files_fini(mega_document_files *files);

#endif
