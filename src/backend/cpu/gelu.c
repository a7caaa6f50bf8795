/* GELU of x + bias; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_gelu, gelu, a, a->rows, 1, a->rows * a->cols * 4);
