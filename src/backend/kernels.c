/* The kernels of each backend by id. */
#include "megalith/kernels.h"
#include "cuda/launch.h"

#define PLAIN(name) [MEGA_KERNEL_##name] = &mega_plain_##name,
#define CPU(name)   [MEGA_KERNEL_##name] = &mega_cpu_##name,
static const mega_kernel *const kernel[][MEGA_KERNEL_COUNT] = {
    [MEGA_BACKEND_CPU] = {MEGA_KERNEL_LIST(CPU)},
    [MEGA_BACKEND_PLAIN] = {MEGA_KERNEL_LIST(PLAIN)},
};

const mega_kernel *mega_kernel_of(mega_backend_kind backend, mega_kernel_id id)
{
    return backend == MEGA_BACKEND_CUDA ? mega_cuda_kernel_of(id) : kernel[backend][id];
}
