/* Tensors that a folder may have beside or instead of another, with the same values: a head that is the table of
 * tokens, the tables of both stacks of a T5. */
#ifndef MEGALITH_HF_COPIES_H
#define MEGALITH_HF_COPIES_H

#include "megalith/family.h"
#include "megalith/safetensors.h"

enum { HF_COPIES = 4 };
typedef struct hf_copy {
    char name[256], original[256];
} hf_copy;
bool hf_copy_get(const mega_model_shape *shape, int index, hf_copy *out); /* false: this model has no such copy */
/* The original of the tensor with this name, in out->original. */
bool hf_copy_find(const mega_model_shape *shape, const char *name, hf_copy *out);
bool hf_copy_is_equal(const mega_safetensor *a, const mega_safetensor *b); /* in shape and values, of whatever types */

#endif
