/* Types shared by ops and their kernels: the values that change between steps, kernels and their argument structs, and
 * constants of ops. */
#ifndef MEGALITH_OP_TYPES_H
#define MEGALITH_OP_TYPES_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include "megalith/tensor.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values that change between two runs of a program. Kernels read them from here; instructions contain none of them. */
typedef struct mega_step_block {
    uint32_t seed; /* seed of dropout */
    uint32_t step; /* optimizer step, counted from 0 */
    /* Factor on the loss gradient, times the loss scale: either 1/micro-batches, for Megatron's mean per micro-batch
     * (with a denominator tensor), or 1/unmasked tokens of the step. */
    double loss_factor;
    /* Generation: number of key/value rows that the cache of each sequence already holds, [B]. */
    const int32_t *kv_length;
    bool first_micro_batch;      /* overwrite gradients instead of adding: gemm.first_in_step */
    bool last_micro_batch;       /* gradients of the step are complete after its backward */
    int64_t later_micro_batches; /* micro-batches of this step, on all ranks of dp, whose samples follow this one's */
    /* GEMMs read the weights that were packed in the first micro-batch of this step (mega_kernel_head.packed). */
    bool keeps_packed;
    /* New weights may still be arriving: a forward waits for those of a bucket before it reads them
     * (mega_program_await_weights). */
    bool awaits_weights;
} mega_step_block;

/* Where kernels are put to work. The host's threads have run a kernel when the call returns; a device runs it later, in
 * the order of the queue. Kernels of the host take NULL for the caller's thread alone. */
typedef struct mega_queue {
    mega_team *team;            /* the host's threads; NULL: the caller alone */
    struct mega_device *device; /* NULL: the host */
    bool first_micro_batch;     /* of the step block, for what the host decides when it asks a device for work */
} mega_queue;

static inline mega_team *mega_queue_team(const mega_queue *queue)
{
    return queue == NULL ? NULL : queue->team;
}

/* First member of every argument struct. */
typedef struct mega_kernel_head {
    mega_dtype dtype;
    void *scratch; /* mega_kernel.scratch bytes, 64-byte aligned; contents undefined before and after */
    void *handle;  /* owned by the kernel: created by prepare, freed by release */
    const mega_step_block *step;
    /* Memory for the packed form of an operand that is constant within a step: mega_kernel.packed bytes, 64-byte
     * aligned, or NULL. With step->keeps_packed, calls that have `packs` write it in the first micro-batch, and all
     * calls read it; without keeps_packed it is not used. */
    void *packed;
    bool packs;
} mega_kernel_head;

typedef struct mega_kernel {
    const char *name;
    void (*run)(const mega_queue *queue, const void *args);
    /* Prepares a call, for example by creating GEMM primitives. Called once, after sizes and pointers are set and
     * before the first run; may be NULL. */
    mega_status (*prepare)(void *args, int threads);
    void (*release)(void *args);
    /* Returns the bytes of scratch for these sizes and this number of threads; pointers of args may still be unset. May
     * be NULL: no scratch. */
    size_t (*scratch)(const void *args, int threads);
    /* Returns the bytes of operand b as this kernel packs it, or 0 if packing does not pay. The result depends only on
     * the size of b, not on the other operands. May be NULL. */
    size_t (*packed)(const void *args);
} mega_kernel;

/* Windows of size x size pixels that move over images of height x width pixels. They move `stride` pixels at a time in
 * both directions, and there are `padding` pixels around the image. */
typedef struct mega_windows {
    int64_t height, width, size, stride, padding;
} mega_windows;

/* Returns the number of windows along a direction of `extent` pixels: the height or width of the result. */
static inline int64_t mega_windows_along(const mega_windows *w, int64_t extent)
{
    return (extent + 2 * w->padding - w->size) / w->stride + 1;
}

#endif
