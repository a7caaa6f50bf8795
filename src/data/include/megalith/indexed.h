/* A token data set on disk, as Megatron stores it: PREFIX.bin holds the token ids of all sequences one after the other,
 * PREFIX.idx says where each sequence and each document begins. docs/data.md has the byte table.
 *
 * A *sequence* is one stored token array (a whole document unless sentences were split), a *document* a run of
 * sequences. Both are counted from 0. */
#ifndef MEGALITH_INDEXED_H
#define MEGALITH_INDEXED_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_indexed mega_indexed; /* both files mapped read-only; any number of threads may read */

/* Reads and checks the whole .idx once; .bin is mapped and not read. Where a process died while it replaced the pair,
 * the new one, which is whole, gets its names first; this needs the right to write there. */
mega_status mega_indexed_open(mega_indexed **out, const char *prefix);
void mega_indexed_close(mega_indexed *ix);

const char *mega_indexed_prefix(const mega_indexed *ix);
int64_t mega_indexed_sequences(const mega_indexed *ix);
int64_t mega_indexed_documents(const mega_indexed *ix);
int64_t mega_indexed_tokens(const mega_indexed *ix);
mega_dtype mega_indexed_dtype(const mega_indexed *ix); /* MEGA_U8, I8, I16, U16, I32 or I64 */
/* Hash of the whole .idx: equal for equal content, wherever and whenever it was written. */
uint64_t mega_indexed_hash(const mega_indexed *ix);

/* Hash of the size of the .bin file and of blocks of 4 KiB at `blocks` places spread evenly over it (of all of it where
 * it is no longer than they are together), so that data which changed in place are told at little cost. Reads the file
 * and not the mapping, whose pages would count as memory of this process. Returns MEGA_ERR_IO if it cannot be read. */
mega_status mega_indexed_sample_hash(const mega_indexed *ix, int blocks, uint64_t *out);

int32_t mega_indexed_size(const mega_indexed *ix, int64_t sequence); /* tokens */
/* First sequence of a document; document == documents gives the number of sequences. */
int64_t mega_indexed_document(const mega_indexed *ix, int64_t document);
/* Whether a sequence has them; false only where the files have changed since they were opened. */
bool mega_indexed_has(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length);
/* Tokens offset … offset+length-1 of a sequence. Ids that do not fit int32 (files of 8-byte ids) saturate. */
void mega_indexed_get(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length, int32_t *out);

/* Reads every byte of both files: ids are in [0, vocab_size) (vocab_size 0: only not negative). */
mega_status mega_indexed_verify(const mega_indexed *ix, int64_t vocab_size);

/* Writes a pair, one process at a time: create returns MEGA_ERR_BUSY, naming the other process, where PREFIX.lock is
 * held (lock.h). The bytes go to temporary files; finish gives them their names such that a crash at any instant leaves
 * the old pair or the new one. Not for several threads at once. */
typedef struct mega_indexed_writer mega_indexed_writer;
mega_status mega_indexed_writer_create(mega_indexed_writer **out, const char *prefix, mega_dtype dtype);
/* One document of one sequence; of no sequence when length is 0 (as Megatron stores empty documents). */
mega_status mega_indexed_writer_add(mega_indexed_writer *w, const int32_t *tokens, int64_t length);
/* One document of `count` sequences whose tokens lie one after the other. */
mega_status mega_indexed_writer_add_document(mega_indexed_writer *w, const int32_t *tokens, const int32_t *sizes,
                                             int64_t count);
/* All of another pair after what is here; the number types must be equal. */
mega_status mega_indexed_writer_merge(mega_indexed_writer *w, const mega_indexed *other);
int64_t mega_indexed_writer_tokens(const mega_indexed_writer *w);
int64_t mega_indexed_writer_documents(const mega_indexed_writer *w);
/* Both free the writer. After a failed finish, as after abandon, no file of this writer is left. */
mega_status mega_indexed_writer_finish(mega_indexed_writer *w);
void mega_indexed_writer_abandon(mega_indexed_writer *w);

/* What Megatron's preprocessor stores for a vocabulary of this size: MEGA_U16 below 65500, else MEGA_I32. */
mega_dtype mega_indexed_dtype_for(int64_t vocab_size);

#ifdef __cplusplus
}
#endif

#endif
