/* embedding: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_embedding.run(team, args);
}

const mega_kernel mega_cpu_embedding = {.name = "embedding", .run = run};
