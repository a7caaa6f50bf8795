/* Shared by the files of the safetensors reader and writer. */
#ifndef MEGALITH_SAFETENSORS_IMPL_H
#define MEGALITH_SAFETENSORS_IMPL_H

#include "megalith/memory.h"
#include "megalith/safetensors.h"

#define ST_MAX_HEADER 100000000u /* bytes, as in the reference */

typedef struct st_header {
    mega_safetensor *tensor;
    size_t count;
    int64_t capacity;
    mega_st_pair *pair;
    size_t num_pairs;
    int64_t pair_capacity;
} st_header;

/* Parses the JSON text of a header. Strings and shapes are in the arena; the two arrays are freed by
 * mega_st_header_fini, even after an error. Does not set `data` of the tensors. */
mega_status mega_st_header_parse(st_header *out, mega_arena *arena, const char *text, size_t bytes, const char *file);
void mega_st_header_fini(st_header *h);

/* safetensors_layout.c: all zero is valid and empty. */
typedef struct st_layout {
    mega_buffer header;       /* everything before the data */
    int *order;               /* indices into the entries, in the order of the file */
    uint64_t *bytes, *offset; /* size and offset in the file, by index of the entry */
    uint64_t total;           /* size of the file */
} st_layout;
mega_status st_layout_make(st_layout *out, const char *path, const mega_st_entry *entries, int count,
                           const mega_st_pair *metadata, int num_metadata);
void st_layout_fini(st_layout *l);

/* Computes the bytes of a tensor; returns false with the validator's name of the fault in *fault. */
bool mega_st_tensor_bytes(mega_st_dtype dtype, int num_dims, const uint64_t *shape, uint64_t *out, const char **fault);

#endif
