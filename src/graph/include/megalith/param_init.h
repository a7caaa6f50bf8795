/* How a parameter gets its first values, how long its name is, and the parts that a checkpoint keeps apart. */
#ifndef MEGALITH_PARAM_INIT_H
#define MEGALITH_PARAM_INIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEGA_PARAM_NAME = 96 }; /* with the final NUL */

typedef enum mega_init {
    MEGA_INIT_FAN_IN, /* uniform with bound 1/sqrt(fan_in), as torch.nn.Linear and torch.nn.Conv2d; of a vector, which
                         has no fan-in, with bound init_std, so that without it a vector is zero */
    MEGA_INIT_ZERO,
    MEGA_INIT_ONE,
    MEGA_INIT_NORMAL,         /* normal with standard deviation init_std */
    MEGA_INIT_XAVIER_UNIFORM, /* uniform with bound sqrt(6 / (fan_in + fan_out)) */
    MEGA_INIT_KAIMING_NORMAL  /* normal with standard deviation sqrt(2 / fan_in) */
} mega_init;

/* A group of rows of a parameter that is cut over ranks by itself and has its own place in the checkpoint: Q, K and V
 * of one projection, or the gate and up projections of an MLP. The rows are stored in the tensor `file`, which several
 * parts may share: `block` rows starting at row `first`, then `block` rows `stride` rows further on, and so forth, as
 * in MPI_Type_vector. Q, K and V interleaved by head of size d, for instance, have first = 0, d and 2d, block = d and
 * stride = 3d. tp cuts a part between blocks only: block = stride = d keeps whole heads of consecutive rows together.
 * Initial values are addressed by the tensor and row of the file. In a parameter whose columns are cut (shard_columns),
 * a part is a group of columns, and all that is said of rows holds for columns. */
typedef struct mega_param_part {
    const char *file;             /* name of a tensor of the checkpoint; NULL: that of the parameter */
    int64_t rows;                 /* in the whole model */
    int64_t first, block, stride; /* in rows of the tensor in the orientation of the memory; block 0: all rows are
                                     consecutive, and tp may cut between any two */
} mega_param_part;
enum { MEGA_PARAM_PARTS = 4 };

#ifdef __cplusplus
}
#endif

#endif
