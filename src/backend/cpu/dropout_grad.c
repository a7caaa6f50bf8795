/* dropout_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_dropout_grad.run(team, args);
}

const mega_kernel mega_cpu_dropout_grad = {.name = "dropout_grad", .run = run};
