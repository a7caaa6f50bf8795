/* A token data set on disk, in Megatron's format: PREFIX.bin holds the token ids of all sequences one after the other,
 * PREFIX.idx says where each sequence and each document begins. docs/formats.md has the byte table.
 *
 * A *sequence* is one stored token array (a whole document unless sentences were split), a *document* consists of
 * consecutive sequences. Both are counted from 0. */
#ifndef MEGALITH_INDEXED_H
#define MEGALITH_INDEXED_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mega_indexed mega_indexed; /* both files mapped read-only; any number of threads may read */

/* Reads and checks the whole .idx; .bin is mapped and not read. If a process died while it replaced the pair, first
 * gives the new, complete pair its names; this needs write permission. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT,
 * MEGA_ERR_IO or MEGA_ERR_MEMORY. */
mega_status mega_indexed_open(const char *prefix, mega_indexed **out);
void mega_indexed_close(mega_indexed *ix);

const char *mega_indexed_prefix(const mega_indexed *ix);
int64_t mega_indexed_sequences(const mega_indexed *ix);
int64_t mega_indexed_documents(const mega_indexed *ix);
int64_t mega_indexed_tokens(const mega_indexed *ix);
mega_dtype mega_indexed_dtype(const mega_indexed *ix); /* MEGA_U8, I8, I16, U16, I32 or I64 */
/* Returns a hash of the whole .idx: equal for equal content, wherever and whenever it was written. */
uint64_t mega_indexed_hash(const mega_indexed *ix);

/* Computes a hash of the size of the .bin file and of `blocks` blocks of 4 KiB spread evenly over it (of the whole file
 * if it is not longer), which detects data changed in place at little cost. Reads the file and not the mapping, whose
 * pages would count as memory of this process. Returns MEGA_ERR_IO if it cannot be read. */
mega_status mega_indexed_sample_hash(const mega_indexed *ix, int blocks, uint64_t *out);

int32_t mega_indexed_size(const mega_indexed *ix, int64_t sequence); /* number of tokens */
/* Returns the first sequence of a document; for document == documents, the number of sequences. */
int64_t mega_indexed_document(const mega_indexed *ix, int64_t document);
/* Returns whether a sequence has these tokens; false only if the files have changed since they were opened. */
bool mega_indexed_has(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length);
/* Copies tokens offset … offset+length-1 of a sequence. Ids that do not fit int32 (files of 8-byte ids) saturate. */
void mega_indexed_get(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length, int32_t *out);

/* Reads every byte of both files and checks that ids are in [0, vocab_size) (vocab_size 0: not negative). Returns
 * MEGA_ERR_FORMAT, naming the first wrong token. */
mega_status mega_indexed_verify(const mega_indexed *ix, int64_t vocab_size);

/* Writes a pair, one process at a time: create returns MEGA_ERR_BUSY, naming the other process, if PREFIX.lock is held
 * (lock.h). The bytes go to temporary files; finish renames them such that a crash at any instant leaves the old pair
 * or the new one. Not thread-safe. */
typedef struct mega_indexed_writer mega_indexed_writer;
mega_status mega_indexed_writer_create(const char *prefix, mega_dtype dtype, mega_indexed_writer **out);
/* Adds a document with one sequence; with none if length is 0 (Megatron stores empty documents like that). */
mega_status mega_indexed_writer_add(mega_indexed_writer *w, const int32_t *tokens, int64_t length);
/* Adds a document of `count` sequences whose tokens are consecutive. */
mega_status mega_indexed_writer_add_document(mega_indexed_writer *w, const int32_t *tokens, const int32_t *sizes,
                                             int64_t count);
/* Appends all of another pair; the number types must be equal. */
mega_status mega_indexed_writer_merge(mega_indexed_writer *w, const mega_indexed *other);
int64_t mega_indexed_writer_tokens(const mega_indexed_writer *w);
int64_t mega_indexed_writer_documents(const mega_indexed_writer *w);
/* Both free the writer. After abandon, or a finish that failed, no file of this writer is left. */
mega_status mega_indexed_writer_finish(mega_indexed_writer *w);
void mega_indexed_writer_abandon(mega_indexed_writer *w);

/* Returns the type that Megatron's preprocessor uses for a vocabulary of this size: MEGA_U16 below 65500, otherwise
 * MEGA_I32. */
mega_dtype mega_indexed_dtype_for(int64_t vocab_size);

#endif
