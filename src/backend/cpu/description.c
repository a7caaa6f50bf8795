/* What mega_cpu_gemm runs on. */
#include "megalith/kernels.h"
#include <stdio.h>

const char *mega_gemm_description(char *out, int size)
{
    snprintf(out, (size_t)size, "plain loops");
    return out;
}
