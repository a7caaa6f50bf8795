/* Embedding; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_embedding, embedding, a, a->rows, 1, a->rows * a->cols);
