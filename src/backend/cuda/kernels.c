/* The kernels of CUDA as the ops call them: a call becomes launches (launch.h) in the stream of the queue's device. */
#include "megalith/kernels.h"
#include "gpu.h"
#include "megalith/assert.h"

static mega_cuda_call cuda_call_of(mega_kernel_id id, const void *args)
{
    return mega_cuda_kernel_at(id)->call(args);
}

static void run_kernel(const mega_queue *queue, mega_kernel_id id, const void *args)
{
    const mega_cuda_kernel *k = mega_cuda_kernel_at(id);
    const mega_cuda_call call = k->call(args);
    MEGA_ASSERT(queue != NULL && queue->device != NULL, "kernel %s of CUDA runs in no queue of a GPU", k->name);
    MEGA_ASSERT(call.count >= 0, "kernel %s of CUDA is called with what it is not for", k->name);
    /* the last launch of a product is the product itself, those before it sum rows */
    const bool by_library = id == MEGA_KERNEL_gemm && call.count > 0 &&
                            mega_cuda_gpu_multiply(queue->device, args, queue->first_micro_batch);
    for (int i = 0; i < call.count - (by_library ? 1 : 0); i++)
        mega_cuda_gpu_launch(queue->device, k->source, &call.launch[i], args);
}

static mega_status check_kernel(mega_kernel_id id, const void *args)
{
    const mega_kernel_head *head = args;
    if (cuda_call_of(id, args).count >= 0) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_UNSUPPORTED,
        "CUDA has no kernel %s in %s for these arguments yet; leave --device out, which computes on the CPU",
        mega_cuda_kernel_at(id)->name, mega_dtype_name(head->dtype));
}

#define FUNCTIONS(name)                                               \
    static void run_##name(const mega_queue *queue, const void *args) \
    {                                                                 \
        run_kernel(queue, MEGA_KERNEL_##name, args);                  \
    }                                                                 \
    static mega_status prepare_##name(void *args, int threads)        \
    {                                                                 \
        (void)threads;                                                \
        return check_kernel(MEGA_KERNEL_##name, args);                \
    }                                                                 \
    static size_t scratch_##name(const void *args, int threads)       \
    {                                                                 \
        (void)threads;                                                \
        return cuda_call_of(MEGA_KERNEL_##name, args).scratch;        \
    }
MEGA_KERNEL_LIST(FUNCTIONS)

#define ROW(name_)  \
    [MEGA_KERNEL_## \
        name_] = {.name = #name_, .run = run_##name_, .prepare = prepare_##name_, .scratch = scratch_##name_},
static const mega_kernel kernel[MEGA_KERNEL_COUNT] = {MEGA_KERNEL_LIST(ROW)};

const mega_kernel *mega_cuda_kernel_of(mega_kernel_id id)
{
    return mega_cuda_kernel_at(id) == NULL ? NULL : &kernel[id];
}
