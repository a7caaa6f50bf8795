/* What the files of the safetensors reader and writer share. */
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

/* Parses the JSON text of a header. Strings and shapes live in the arena; the two arrays are mega_realloc'd and freed
 * by mega_st_header_fini, also after an error. `data` of the tensors is not set. */
mega_status mega_st_header_parse(st_header *out, mega_arena *arena, const char *text, size_t bytes, const char *file);
void mega_st_header_fini(st_header *h);

/* st_layout.c: zero-initialised is valid and empty. */
typedef struct st_layout {
    mega_buffer header;       /* all that stands before the data */
    int *order;               /* indices into the entries, as they lie in the file */
    uint64_t *bytes, *offset; /* of each entry, by its own index; offsets in the file */
    uint64_t total;           /* bytes of the file */
} st_layout;
mega_status st_layout_make(st_layout *out, const char *path, const mega_st_entry *entries, int count,
                           const mega_st_pair *metadata, int num_metadata);
void st_layout_fini(st_layout *l);

/* Bytes of a tensor; false with the validator's name of the fault in *fault. */
bool mega_st_tensor_bytes(mega_st_dtype dtype, int num_dims, const uint64_t *shape, uint64_t *out, const char **fault);

#endif
