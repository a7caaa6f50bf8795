/* embedding_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_embedding_grad.run(team, args);
}

const mega_kernel mega_cpu_embedding_grad = {.name = "embedding_grad", .run = run};
