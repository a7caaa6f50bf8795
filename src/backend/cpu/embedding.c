/* Embedding; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(embedding, a->rows, 1, a->rows * a->cols);
