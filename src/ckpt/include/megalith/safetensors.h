/* safetensors files: a JSON header that describes tensors, followed by their bytes.
 *
 * The reader maps the file and checks everything that the format requires before it returns a tensor; each error
 * contains the name that the format's own validator gives it (HeaderTooSmall, InvalidOffset, …). The writer produces
 * the same bytes as the reference writer: tensors ordered by alignment, then by name; header padded to eight bytes. */
#ifndef MEGALITH_SAFETENSORS_H
#define MEGALITH_SAFETENSORS_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which the writer places tensors. */
typedef enum mega_st_dtype {
    MEGA_ST_U64,
    MEGA_ST_I64,
    MEGA_ST_F64,
    MEGA_ST_C64,
    MEGA_ST_F32,
    MEGA_ST_U32,
    MEGA_ST_I32,
    MEGA_ST_BF16,
    MEGA_ST_F16,
    MEGA_ST_U16,
    MEGA_ST_I16,
    MEGA_ST_F8_E5M2FNUZ,
    MEGA_ST_F8_E4M3FNUZ,
    MEGA_ST_F8_E8M0,
    MEGA_ST_F8_E4M3,
    MEGA_ST_F8_E5M2,
    MEGA_ST_I8,
    MEGA_ST_U8,
    MEGA_ST_F6_E3M2,
    MEGA_ST_F6_E2M3,
    MEGA_ST_F4,
    MEGA_ST_BOOL,
    MEGA_ST_DTYPE_COUNT
} mega_st_dtype;
const char *mega_st_dtype_name(mega_st_dtype t);
int mega_st_dtype_bits(mega_st_dtype t);
/* Writes our type with the same bytes to *out; returns false if there is none. */
bool mega_st_dtype_to_mega(mega_st_dtype t, mega_dtype *out);
mega_st_dtype mega_st_dtype_from_mega(mega_dtype t);

typedef struct mega_safetensor {
    const char *name;
    mega_st_dtype dtype;
    int num_dims;
    const uint64_t *shape;
    uint64_t begin, end; /* offsets within the data part */
    const uint8_t *data; /* little-endian, C order; may be unaligned in files of other writers */
} mega_safetensor;

typedef struct mega_safetensors mega_safetensors;
mega_status mega_safetensors_open(const char *path, mega_safetensors **out);
/* The same for bytes in memory that outlive the reader; `name` is for messages. */
mega_status mega_safetensors_parse(const void *bytes, size_t size, const char *name, mega_safetensors **out);
void mega_safetensors_close(mega_safetensors *s);
size_t mega_safetensors_count(const mega_safetensors *s);
/* In file order. The tensor, its name and its data are borrowed until close. */
const mega_safetensor *mega_safetensors_get(const mega_safetensors *s, size_t index);
const mega_safetensor *mega_safetensors_find(const mega_safetensors *s, const char *name); /* NULL: none */
const char *mega_safetensors_metadata(const mega_safetensors *s, const char *key);         /* NULL: none */

/* A tensor to be written; the writer needs all of them in advance, because the header comes first in the file. */
#define MEGA_ST_WRITER_DIMS 4
typedef struct mega_st_entry {
    const char *name;
    mega_st_dtype dtype;
    int num_dims;
    uint64_t shape[MEGA_ST_WRITER_DIMS];
} mega_st_entry;
typedef struct mega_st_pair {
    const char *key, *value;
} mega_st_pair;

/* Writes the header at once; the caller then writes the bytes of every tensor, in the order that `next` gives:
 *
 *     for (int i; (i = mega_st_writer_next(w)) >= 0;) { … mega_st_writer_write(w, part, bytes) … }
 *
 * and closes. A tensor that gets more or fewer bytes than its shape requires is an error, reported by close at the
 * latest. entries are borrowed until close. */
typedef struct mega_st_writer mega_st_writer;
mega_status mega_st_writer_create(const char *path, const mega_st_entry *entries, int count,
                                  const mega_st_pair *metadata, int num_metadata, mega_st_writer **out);
int mega_st_writer_next(mega_st_writer *w); /* index into entries; -1: all have been written */
mega_status mega_st_writer_write(mega_st_writer *w, const void *bytes, size_t n);
/* crc and size are those of the whole file; each may be NULL. Frees w even if it fails. */
mega_status mega_st_writer_close(mega_st_writer *w, bool sync, uint32_t *crc, int64_t *size);
void mega_st_writer_abandon(mega_st_writer *w);

#endif
