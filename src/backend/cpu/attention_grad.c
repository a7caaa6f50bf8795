/* attention_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_attention_grad.run(team, args);
}

static size_t scratch(const void *args, int threads)
{
    return mega_plain_attention_grad.scratch(args, threads);
}

const mega_kernel mega_cpu_attention_grad = {.name = "attention_grad", .run = run, .scratch = scratch};
