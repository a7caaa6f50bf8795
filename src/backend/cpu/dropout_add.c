/* dropout_add: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_dropout_add.run(team, args);
}

const mega_kernel mega_cpu_dropout_add = {.name = "dropout_add", .run = run};
