/* GPUs of NVIDIA as devices of an engine. The driver's library is loaded when a GPU is opened. */
#ifndef MEGALITH_CUDA_H
#define MEGALITH_CUDA_H

#include "megalith/device_memory.h"
#include "megalith/dtype.h"
#include "megalith/kernels.h"
#include <stdint.h>

enum { MEGA_CUDA_TEXT = 192 };
/* Memory that a GPU takes when it is opened, and as much that is pinned: for what the host writes. */
enum { MEGA_CUDA_STAGING_BYTES = 4 << 20 };

/* Opens GPU number `ordinal` of those that the driver shows. Fails with MEGA_ERR_UNSUPPORTED if this build has no
 * kernels for GPUs, there is no driver or no such GPU, or it is too old; the message says what can be done. */
MEGA_CHECK_RESULT mega_status mega_cuda_open(int64_t ordinal, mega_device **out);

/* Loads what a call of a kernel launches, so that no step waits for it: the driver compiles the kernels of an image of
 * PTX when they are first loaded. `args` NULL: the whole image. */
MEGA_CHECK_RESULT mega_status mega_cuda_load(mega_device *device, mega_kernel_id id, const void *args);
/* What has been loaded so far. */
typedef struct mega_cuda_loaded {
    int images, chip; /* chip 86: the code of sm_86; 0: PTX, which the driver compiles */
    size_t bytes;
    double seconds;
} mega_cuda_loaded;
mega_cuda_loaded mega_cuda_loaded_get(mega_device *device);

/* Lets matrix products be computed by cuBLASLt, a library of NVIDIA's: `wanted` is auto (where it is found; not with a
 * driver that MEGA_CUDA_LIBRARY names), cublaslt (an error where it is not), the library's path, or own, which is NULL
 * as well and changes nothing. It takes MEGA_CUDA_PRODUCTS_BYTES of the GPU as a workspace. Products that it does not
 * take (rows that are no multiple of 16 bytes apart, symmetric ones) are those of our kernels. Before the first
 * mega_cuda_load. */
enum { MEGA_CUDA_PRODUCTS_BYTES = 32 << 20 };
MEGA_CHECK_RESULT mega_status mega_cuda_use_library(mega_device *device, const char *wanted);
/* Returns the bytes that it takes of a GPU if it is found. */
size_t mega_cuda_library_bytes(const char *wanted);
/* Returns whether it is used, and sets `text` to "cuBLASLt 13.0.0 (PATH)". */
bool mega_cuda_library_get(mega_device *device, char text[MEGA_CUDA_TEXT]);

/* Sets `text` to "NVIDIA H100 PCIe, compute capability 9.0, 85 GB, driver for CUDA 12.4" for a GPU that mega_cuda_open
 * would open, and fails as it does for another one. */
MEGA_CHECK_RESULT mega_status mega_cuda_describe(int64_t ordinal, char text[MEGA_CUDA_TEXT]);

/* Sets *out to the number of GPUs that the driver shows. Fails if there is no driver. */
MEGA_CHECK_RESULT mega_status mega_cuda_count(int *out);

/* Sets `text` to the version of NCCL that ranks with GPUs would load, "2.20.5", or fails with the reason. */
MEGA_CHECK_RESULT mega_status mega_cuda_nccl(char text[MEGA_CUDA_TEXT]);

/* What the driver says of a GPU that mega_cuda_open would open, without opening it. */
typedef struct mega_cuda_info {
    char name[96];
    size_t bytes;           /* of its memory */
    int capability;         /* 90 for 9.0 */
    unsigned char uuid[16]; /* of the GPU, or of its MIG instance: no other one has it */
} mega_cuda_info;
MEGA_CHECK_RESULT mega_status mega_cuda_info_get(int64_t ordinal, mega_cuda_info *out);

/* Memory of a GPU that an engine does not plan, in bytes: of a context with the program's kernels, and what the driver
 * rounds up. Assumed, not measured: no GPU has run this yet. */
#define MEGA_CUDA_CONTEXT_BYTES ((size_t)500 * 1000 * 1000)
/* Memory that a driver takes for an instruction of a recorded graph, which is a launch or a few. Assumed, too. */
#define MEGA_CUDA_NODE_BYTES ((size_t)1024)
/* Memory that NCCL takes for a communicator. Assumed, too. */
#define MEGA_CUDA_NCCL_BYTES ((size_t)100 * 1000 * 1000)
/* Pinned memory of the host, through which a device copies: that for what the host writes, and as much for what it
 * reads. */
#define MEGA_CUDA_PINNED_BYTES ((size_t)2 * MEGA_CUDA_STAGING_BYTES)

/* A kind of GPU (backend/cuda/models.c). */
enum { MEGA_GPU_REPORTED = 2 };
typedef struct mega_gpu_model {
    const char *name, *text;
    const char *reported[MEGA_GPU_REPORTED]; /* by the driver */
    double gigabytes, tflops_32, tflops_16, gigabytes_s;
    int capability; /* 90 for 9.0 */
} mega_gpu_model;
/* Return NULL if there is none. */
const mega_gpu_model *mega_gpu_model_named(const char *name);
const mega_gpu_model *mega_gpu_model_reported(const char *name);
const mega_gpu_model *mega_gpu_model_at(int i); /* from 0 */
/* Returns the peak of matrix products in this type, per second; 0: not known. */
double mega_gpu_model_flops(const mega_gpu_model *m, mega_dtype type);

#endif
