/* column_sum: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_column_sum.run(team, args);
}

const mega_kernel mega_cpu_column_sum = {.name = "column_sum", .run = run};
