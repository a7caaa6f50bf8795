/* attention_cached: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_attention_cached.run(team, args);
}

static size_t scratch(const void *args, int threads)
{
    return mega_plain_attention_cached.scratch(args, threads);
}

const mega_kernel mega_cpu_attention_cached = {.name = "attention_cached", .run = run, .scratch = scratch};
