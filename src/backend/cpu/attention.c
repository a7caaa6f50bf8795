/* attention: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_attention.run(team, args);
}

static size_t scratch(const void *args, int threads)
{
    return mega_plain_attention.scratch(args, threads);
}

const mega_kernel mega_cpu_attention = {.name = "attention", .run = run, .scratch = scratch};
