/* Reads documents from text files: JSON lines or plain text, plain or compressed (gzip, zstd), from files, glob
 * patterns, folders and standard input. Recognises the format by the content.
 *
 * Reading has two steps, so that a pipeline can share the work: one thread reads *chunks* of whole records; any thread
 * extracts the texts of a record. */
#ifndef MEGALITH_DOCUMENTS_H
#define MEGALITH_DOCUMENTS_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mega_document_format {
    MEGA_DOCUMENT_AUTO = 0,
    MEGA_DOCUMENT_JSON_LINES,
    MEGA_DOCUMENT_TEXT
} mega_document_format;

typedef struct mega_documents_options {
    const char *const *inputs; /* files, glob patterns, folders, "-" */
    int num_inputs;
    mega_document_format format;
    bool split_on_blank_lines;         /* text: blank lines end a document; otherwise each file is one document */
    size_t chunk_bytes;                /* a chunk ends when it has this many bytes; 0: 256 KiB */
    const volatile sig_atomic_t *stop; /* if not NULL: reading returns MEGA_ERR_INTERRUPTED once *stop is not 0 */
    /* Plain text with one document per file: splits files into records of about chunk_bytes that continue each other. A
     * record begins with the white space at the end of a line. */
    bool cut_files;
} mega_documents_options;

typedef struct mega_documents mega_documents;
/* Finds the files, and reports everything that is wrong with their names; opens them one by one while reading. Returns
 * MEGA_ERR_NOT_FOUND, MEGA_ERR_USAGE, MEGA_ERR_IO or MEGA_ERR_MEMORY. */
mega_status mega_documents_open(const mega_documents_options *o, mega_documents **out);
void mega_documents_close(mega_documents *d);
/* For a caller that drops the CR of line ends itself: nothing warns of them. */
void mega_documents_drop_line_ends(mega_documents *d);
/* For a caller after whom another one reads the files: warnings of their form are left to that one. */
void mega_documents_look_first(mega_documents *d);
/* For a caller whose format is not said by the user: the kinds of files, MEGA_KIND_…, that it reads as text. */
void mega_documents_take_kinds(mega_documents *d, int taken);
int64_t mega_documents_files(const mega_documents *d);
const char *mega_documents_path(const mega_documents *d, int64_t file); /* borrowed */
/* Returns the size of all files on disk; 0 if standard input is among them. */
uint64_t mega_documents_total_bytes(const mega_documents *d);

/* Whole records of one file. All zero is valid and empty; reading into it again reuses its memory. */
typedef struct mega_document_chunk {
    const char *path; /* borrowed from the reader */
    mega_document_format format;
    mega_buffer bytes;
    struct mega_document_record {
        size_t begin, size; /* in bytes */
        int64_t line;       /* line number of its first byte, from 1 */
        bool continues;     /* continues the document of the previous record, which may be in an earlier chunk */
    } * record;
    int64_t count, capacity;
    uint64_t position; /* bytes of the files on disk read so far */
} mega_document_chunk;
/* Reads the next chunk; chunk->count is 0 at the end. Returns MEGA_ERR_FORMAT, MEGA_ERR_IO, MEGA_ERR_INTERRUPTED or
 * MEGA_ERR_MEMORY. */
mega_status mega_documents_read(mega_documents *d, mega_document_chunk *chunk);
void mega_document_chunk_fini(mega_document_chunk *chunk);

/* Why a record is not a valid document: position and reason, for messages. */
typedef struct mega_document_fault {
    int64_t line, column; /* from 1; columns count characters, not bytes */
    char what[240];
    bool is_repeated; /* also of a valid record: it has one of the keys twice, and the last one counts */
} mega_document_fault;

/* Returns MEGA_ERR_FORMAT with a message: position, what is wrong, and what to do. */
mega_status mega_document_refuse(const char *path, const mega_document_fault *fault);

/* Extracts the texts of a record: for JSON lines the string values of the keys, for plain text the record itself (one
 * key). Overwrites out[k] with UTF-8. Returns false if the record is invalid (*fault says why) or memory is short
 * (out[k].failed). */
bool mega_document_texts(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *out, mega_document_fault *fault);

/* The same without copying: text[k] points into the chunk, or into space[k] if JSON escapes had to be decoded. It stays
 * valid as long as both are unchanged. Returns false with space[k].failed if memory is short. */
typedef struct mega_document_text {
    const char *text; /* without a terminating NUL */
    size_t bytes;
} mega_document_text;
bool mega_document_views(const mega_document_chunk *chunk, int64_t record, const char *const *keys, int num_keys,
                         mega_buffer *space, mega_document_text *text, mega_document_fault *fault);

#endif
