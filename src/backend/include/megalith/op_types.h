/* Types that ops and their kernels share: a value of a graph, what a kernel is, constants of ops. */
#ifndef MEGALITH_OP_TYPES_H
#define MEGALITH_OP_TYPES_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include "megalith/tensor.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What changes between two runs of one program. Kernels read it; nothing of it is baked into an instruction. */
typedef struct mega_step_block {
    uint32_t seed; /* of dropout */
    uint32_t step; /* optimizer step, counts from 0 */
    /* Factor on the loss gradient: 1/micro-batches for Megatron's mean per micro-batch (with a denominator tensor), or
     * 1/unmasked tokens of the step; times the loss scale. */
    double loss_factor;
    /* Generation: key/value rows that the cache of each sequence already holds, [B]. */
    const int32_t *kv_length;
    bool first_micro_batch;      /* gradients start from nothing: gemm.begins */
    bool last_micro_batch;       /* gradients of the step are complete after its backward */
    int64_t later_micro_batches; /* of this step, of all ranks of dp, whose samples follow those of this one */
    /* Products read their weights as they were packed in the first micro-batch of this step
     * (mega_kernel_head.packed). */
    bool keeps_packed;
} mega_step_block;

/* First member of every argument struct. */
typedef struct mega_kernel_head {
    mega_dtype dtype;
    void *scratch; /* mega_kernel.scratch bytes, 64-byte aligned, garbage before and after */
    void *handle;  /* owned by the kernel: made by prepare, freed by release */
    const mega_step_block *step;
    /* NULL, or mega_kernel.packed bytes, 64-byte aligned: where an operand that stays the same through a step lies
     * packed. With step->keeps_packed it is written in the first micro-batch, by calls that have `packs`, and read by
     * all; without, it is not touched. */
    void *packed;
    bool packs;
} mega_kernel_head;

typedef struct mega_kernel {
    const char *name;
    void (*run)(mega_team *team, const void *args);
    /* NULL, or called once after sizes and pointers are set and before the first run (makes GEMM primitives). */
    mega_status (*prepare)(void *args, int threads);
    void (*release)(void *args);
    /* NULL, or bytes of scratch for these sizes and this many threads; pointers of args may still be unset. */
    size_t (*scratch)(const void *args, int threads);
    /* NULL, or bytes of the operand b of these sizes as this kernel packs it, the same for any other operands; 0: it is
     * not worth keeping. */
    size_t (*packed)(const void *args);
} mega_kernel;

/* Windows of size x size pixels that move over images of height x width pixels, `stride` pixels at a time in both
 * directions, with `padding` pixels around the image. */
typedef struct mega_windows {
    int64_t height, width, size, stride, padding;
} mega_windows;

/* Windows along a direction of `extent` pixels: the height or width of the result. */
static inline int64_t mega_windows_along(const mega_windows *w, int64_t extent)
{
    return (extent + 2 * w->padding - w->size) / w->stride + 1;
}

#ifdef __cplusplus
}
#endif

#endif
