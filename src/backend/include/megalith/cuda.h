/* GPUs of NVIDIA as devices of an engine. The driver's library is loaded when a GPU is opened. */
#ifndef MEGALITH_CUDA_H
#define MEGALITH_CUDA_H

#include "megalith/device_memory.h"
#include "megalith/kernels.h"
#include <stdint.h>

enum { MEGA_CUDA_TEXT = 160 };
/* Memory that a GPU takes when it is opened, and as much that is pinned: for what the host writes. */
enum { MEGA_CUDA_STAGING_BYTES = 4 << 20 };

/* Opens GPU number `ordinal` of those that the driver shows. Fails with MEGA_ERR_UNSUPPORTED if this build has no
 * kernels for GPUs, there is no driver or no such GPU, or it is too old; the message says what can be done. */
MEGA_CHECK_RESULT mega_status mega_cuda_open(int64_t ordinal, mega_device **out);

/* Loads what a call of a kernel launches, so that no step waits for it: the driver compiles the kernels of an image
 * when they are first loaded. `args` NULL: the whole image. */
MEGA_CHECK_RESULT mega_status mega_cuda_load(mega_device *device, mega_kernel_id id, const void *args);
/* What has been loaded so far. */
typedef struct mega_cuda_loaded {
    int images;
    size_t bytes;
    double seconds;
} mega_cuda_loaded;
mega_cuda_loaded mega_cuda_loaded_get(mega_device *device);

/* Sets `text` to "NVIDIA H100 PCIe, compute capability 9.0, driver 12.4" for a GPU that mega_cuda_open would open, and
 * fails as it does for another one. */
MEGA_CHECK_RESULT mega_status mega_cuda_describe(int64_t ordinal, char text[MEGA_CUDA_TEXT]);

/* Sets *out to the number of GPUs that the driver shows. Fails if there is no driver. */
MEGA_CHECK_RESULT mega_status mega_cuda_count(int *out);

#endif
