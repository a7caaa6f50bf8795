/* residual + dropout(x + bias); the threads share the rows. Masks are computed for four or more counters at a time. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_dropout_add, dropout_add, a, a->rows, 1, a->rows * a->cols);
