/* Which kernels a step launches besides those of the programs: a GPU loads them before the first step. */
#include "megalith/cuda.h"
#include "optimizer_impl.h"

/* Those of the optimizer itself; returns how many. */
static int kernels_of(const mega_optimizer *o, mega_kernel_id list[4])
{
    int n = 0;
    switch (o->options.kind) {
    case MEGA_OPTIMIZER_SGD: list[n++] = MEGA_KERNEL_sgd; break;
    case MEGA_OPTIMIZER_ADAM: list[n++] = o->options.amsgrad ? MEGA_KERNEL_amsgrad : MEGA_KERNEL_adamw; break;
    case MEGA_OPTIMIZER_LAMB:
        list[n++] = MEGA_KERNEL_lamb_moments;
        list[n++] = MEGA_KERNEL_lamb_step;
        break;
    case MEGA_OPTIMIZER_MUON:
        list[n++] = MEGA_KERNEL_adamw;
        list[n++] = MEGA_KERNEL_muon_step;
        list[n++] = MEGA_KERNEL_polynomial;
        list[n++] = MEGA_KERNEL_gemm;
        break;
    default: list[n++] = MEGA_KERNEL_adagrad; break; /* all formulas are in one file */
    }
    return n;
}

mega_status optimizer_load(const mega_optimizer *o)
{
    static const mega_kernel_id of_all[] = {MEGA_KERNEL_zero,    MEGA_KERNEL_accumulate, MEGA_KERNEL_loss_add,
                                            MEGA_KERNEL_convert, MEGA_KERNEL_norm,       MEGA_KERNEL_check,
                                            MEGA_KERNEL_numbers};
    mega_kernel_id own[4];
    const int count = o->builtin != NULL ? kernels_of(o, own) : 0;
    if (o->options.backend != MEGA_BACKEND_CUDA) return MEGA_OK;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        MEGA_TRY(mega_cuda_load(o->options.queue.device, of_all[i], NULL));
    for (int i = 0; i < count; i++) MEGA_TRY(mega_cuda_load(o->options.queue.device, own[i], NULL));
    return MEGA_OK;
}
