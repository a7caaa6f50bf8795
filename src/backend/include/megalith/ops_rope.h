/* Rotary position embedding. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_ROPE_H
#define MEGALITH_OPS_ROPE_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_ROPE(X) X(rope)
#define MEGA_OPS_ROPE(X)     X(ROPE, rope)

/* Rotates pairs of channels of heads by the angle positions[t] * frequency[k], which is rounded to float, as are its
 * cosine c and sine s after the multiplication by `factor`:
 *   y1 = c x1 - s x2, y2 = c x2 + s x1; if inverse: y1 = c x1 + s x2, y2 = c x2 - s x1 (the gradient).
 * Pair k of a head, k < rotated / 2, is channels k and k + rotated / 2 or, if interleaved, 2k and 2k + 1. The other
 * channels of a head, and the channels after the heads, are copied. out may be x.
 *   x, out [rows, cols], cols >= heads * head_dim; positions [rows]; frequency [rotated / 2] */
typedef struct mega_rope_args {
    mega_kernel_head head;
    void *out;
    const void *x;
    const int32_t *positions;
    const float *frequency;
    int64_t rows, cols, heads, head_dim, rotated;
    float factor;
    bool interleaved, inverse;
} mega_rope_args;

typedef struct mega_rope_shape {
    const float *frequency; /* the graph copies it */
    int64_t heads, head_dim, rotated;
    float factor;
    bool interleaved, inverse;
} mega_rope_shape;
/* Rotates the first s->heads heads of each row: [T, C] -> [T, C]. positions [T] i32. */
mega_tensor mega_op_rope(mega_graph *g, mega_tensor x, mega_tensor positions, const mega_rope_shape *s);

#endif
