/* Which kernels of this folder a call of an op launches. */
#ifndef MEGA_CUDA_LAUNCH_H
#define MEGA_CUDA_LAUNCH_H

#include "megalith/kernels.h"
#include <stddef.h>

/* A launch: `args` of the op is the kernel's only parameter. Blocks and threads are counted along x, y and z; there is
 * one thread along y and z. */
typedef struct mega_cuda_launch {
    const char *kernel; /* its symbol */
    unsigned threads, x, y, z;
    unsigned shared_bytes; /* of SHARED_DYNAMIC */
} mega_cuda_launch;

enum { MEGA_CUDA_LAUNCHES = 6 };

/* The launches of a call, in their order, all in one stream; with no elements there may be none. head.scratch of the
 * arguments must have `scratch` bytes, aligned to 16, whose contents may be anything. count -1: there are no kernels
 * for these arguments yet, such as those of another type than F32, BF16 and F16. */
typedef struct mega_cuda_call {
    mega_cuda_launch launch[MEGA_CUDA_LAUNCHES];
    int count;
    size_t scratch;
} mega_cuda_call;

/* A kernel of MEGA_KERNEL_LIST; `source` is the name of the file, without .cu, that has all it launches. `call` looks
 * at the sizes and types of the arguments, and at which pointers are NULL. */
typedef struct mega_cuda_kernel {
    const char *name, *source;
    size_t args_bytes;
    mega_cuda_call (*call)(const void *args);
} mega_cuda_kernel;

/* Returns the kernel of this name; NULL: there is none for CUDA yet. */
const mega_cuda_kernel *mega_cuda_kernel_find(const char *name);
const mega_cuda_kernel *mega_cuda_kernel_at(mega_kernel_id id);
/* The same as a kernel of mega_kernel_of, which launches it in the queue's device. */
const mega_kernel *mega_cuda_kernel_of(mega_kernel_id id);

#endif
