/* Documents out of text files: JSON lines or plain text, plain or compressed (gzip, zstd), from files, glob patterns,
 * folders and standard input. The format is found from the content.
 *
 * Reading is in two steps, so that a pipeline can share the work: one thread reads *chunks* of whole records, any
 * thread takes the texts out of a record. */
#ifndef MEGALITH_DOCUMENTS_H
#define MEGALITH_DOCUMENTS_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_document_format {
    MEGA_DOCUMENT_AUTO = 0,
    MEGA_DOCUMENT_JSON_LINES,
    MEGA_DOCUMENT_TEXT
} mega_document_format;

typedef struct mega_documents_options {
    const char *const *inputs; /* files, glob patterns, folders, "-" */
    int num_inputs;
    mega_document_format format;
    bool split_on_blank_lines; /* text: a document ends with the blank lines after it; else one document a file */
    size_t chunk_bytes;        /* a chunk is closed once it holds this much; 0: 256 KiB */
    const volatile sig_atomic_t *stop; /* not NULL: reading ends with MEGA_ERR_INTERRUPTED once it is not 0 */
    /* Text, one document a file: records of about chunk_bytes that continue each other. The next one begins with the
     * white space at the end of a line. */
    bool cut_files;
} mega_documents_options;

typedef struct mega_documents mega_documents;
/* Finds the files (all that is wrong with the names is known now); contents are opened one by one while reading. */
mega_status mega_documents_open(mega_documents **out, const mega_documents_options *o);
void mega_documents_close(mega_documents *d);
int64_t mega_documents_files(const mega_documents *d);
const char *mega_documents_path(const mega_documents *d, int64_t file); /* borrowed */
/* Bytes of all files as they lie on disk; 0 when standard input is among them. */
uint64_t mega_documents_total_bytes(const mega_documents *d);

/* Whole records of one file. Zero-initialised is valid and empty; reading into it again reuses its memory. */
typedef struct mega_document_chunk {
    const char *path; /* borrowed from the reader */
    mega_document_format format;
    mega_buffer bytes;
    struct mega_document_record {
        size_t begin, size; /* in bytes */
        int64_t line;       /* of its first byte, from 1 */
        bool continues;     /* the document of the record before, which an earlier chunk may hold */
    } * record;
    int64_t count, capacity;
    uint64_t position; /* bytes of the files, as they lie on disk, read so far */
} mega_document_chunk;
/* chunk->count 0: all is read. */
mega_status mega_documents_read(mega_documents *d, mega_document_chunk *chunk);
void mega_document_chunk_fini(mega_document_chunk *chunk);

/* Why a record is no document: the place and the reason, for a person. */
typedef struct mega_document_fault {
    int64_t line, column; /* from 1; columns count characters, not bytes */
    char what[240];
} mega_document_fault;

/* The error for it: where and what it is, and what to do. */
mega_status mega_document_refuse(const char *path, const mega_document_fault *fault);

/* Texts of a record: for JSON lines the string values of the keys, for text the record itself (one key). out[k] is
 * emptied and filled with UTF-8. false: the record is broken and *fault says why, or memory is short (out[k].failed).
 */
bool mega_document_texts(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *out, mega_document_fault *fault);

/* The same without copying: text[k] lies in the chunk where the record holds it as it is, else in space[k] (its JSON
 * was unescaped). It lasts as long as both are left alone. false with space[k].failed: memory is short. */
typedef struct mega_document_text {
    const char *text; /* not terminated by NUL */
    size_t bytes;
} mega_document_text;
bool mega_document_views(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *space, mega_document_text *text, mega_document_fault *fault);

#ifdef __cplusplus
}
#endif

#endif
