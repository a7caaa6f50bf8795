/* Initial values of a parameter, the maximum length of its name, and the parts that a checkpoint stores separately. */
#ifndef MEGALITH_PARAM_INIT_H
#define MEGALITH_PARAM_INIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEGA_PARAM_NAME = 96 }; /* bytes, including the final NUL */

typedef enum mega_init {
    MEGA_INIT_FAN_IN, /* uniform with bound 1/sqrt(fan_in), as torch.nn.Linear and torch.nn.Conv2d; a vector has no
                         fan-in: its bound is init_std, so that it is zero by default */
    MEGA_INIT_ZERO,
    MEGA_INIT_ONE,
    MEGA_INIT_NORMAL,         /* normal with standard deviation init_std */
    MEGA_INIT_XAVIER_UNIFORM, /* uniform with bound sqrt(6 / (fan_in + fan_out)) */
    MEGA_INIT_KAIMING_NORMAL  /* normal with standard deviation sqrt(2 / fan_in) */
} mega_init;

/* A group of rows of a parameter that is sharded separately and has its own position in the checkpoint: Q, K and V of
 * one projection, or the gate and up projections of an MLP. The rows are stored in the tensor `file`, which several
 * parts may share: `block` rows starting at row `first`, then `block` rows `stride` rows further on, and so on, as in
 * MPI_Type_vector. Parts of several parameters may share one tensor if each says its rows (of_rows). Q, K and V
 * interleaved by head of size d, for instance, have first = 0, d and 2d, block = d and stride = 3d. tp divides a part
 * between blocks only: block = stride = d keeps whole heads of consecutive rows together. Initial values depend on the
 * tensor and row of the file. In a parameter with sharded columns (shard_columns), a part is a group of columns, and
 * everything said here about rows applies to columns. */
typedef struct mega_param_part {
    const char *file;             /* name of a tensor in the checkpoint; NULL: the name of the parameter */
    int64_t rows;                 /* in the whole model */
    int64_t first, block, stride; /* in rows of the tensor as oriented in memory; block 0: all rows are consecutive, and
                                     tp may divide between any two */
    int64_t of_rows; /* rows of the tensor, if other parameters hold the rest of them; 0: the parts hold all */
} mega_param_part;
enum { MEGA_PARAM_PARTS = 4 };

#ifdef __cplusplus
}
#endif

#endif
