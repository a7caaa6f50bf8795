/* What the files of the document reader share. */
#ifndef MEGA_DOCUMENTS_IMPL_H
#define MEGA_DOCUMENTS_IMPL_H

#include "megalith/documents.h"

/* ---- json_lines.c ---- */

enum { MEGA_JSON_KEYS_MAX = 64 };

/* The string values of `keys` in the one JSON object that `line` holds (num_keys <= MEGA_JSON_KEYS_MAX). The whole line
 * is checked. false: broken, with fault->column and fault->what; or memory is short (out[k].failed). */
bool mega_json_line_strings(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *out,
                            mega_document_fault *fault);
/* The same without copying: out[k] points into the line, or into space[k] when the string had to be unescaped. */
bool mega_json_line_views(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *space,
                          mega_document_text *out, mega_document_fault *fault);

/* ---- documents_stream.c: the bytes of a file, unpacked ---- */

typedef struct mega_document_stream mega_document_stream;
/* "-" is standard input. stop: as in mega_documents_options. */
mega_status mega_document_stream_open(mega_document_stream **out, const char *path, const volatile sig_atomic_t *stop);
void mega_document_stream_close(mega_document_stream *s);
/* Up to n bytes; fewer only at the end. */
mega_status mega_document_stream_read(mega_document_stream *s, char *out, size_t n, size_t *out_got);
/* Bytes of the file itself (packed, if it is) taken so far. */
uint64_t mega_document_stream_position(const mega_document_stream *s);

/* ---- documents_find.c: the files that the inputs name ---- */

typedef struct mega_document_files {
    char **path;
    int64_t count, capacity;
    uint64_t bytes;
    bool has_stdin;
} mega_document_files;
mega_status mega_document_files_find(mega_document_files *out, const char *const *inputs, int num_inputs);
void mega_document_files_fini(mega_document_files *files);

#endif
