/* GELU of x + bias; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(gelu, a->rows, 1, a->rows * a->cols * 4);
