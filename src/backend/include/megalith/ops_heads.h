/* Channels of heads: ranges, repetition, sums. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_HEADS_H
#define MEGALITH_OPS_HEADS_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_HEADS(X) X(head_channels)
#define MEGA_OPS_HEADS(X)     X(HEAD_CHANNELS, head_channels)

/* Which channels of the heads of x become which of those of y; the others of y are 0. `from` and `to` heads are the
 * same number, or one of them is 1: the one head of x is copied to all heads of y, or the heads of x are summed. */
typedef struct mega_head_channels {
    int64_t from, from_dim, from_first; /* heads of x, the size of one, and the first channel of each that is taken */
    int64_t to, to_dim, to_first;       /* the same of y */
    int64_t count;                      /* channels of a head that are taken */
} mega_head_channels;

/* x [rows, from * from_dim]; y [rows, to * to_dim] */
typedef struct mega_head_channels_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t rows;
    mega_head_channels part;
} mega_head_channels_args;

mega_tensor mega_op_head_channels(mega_graph *g, mega_tensor x, const mega_head_channels *part);

#endif
