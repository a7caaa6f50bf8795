/* Gated activations and their gradient; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(glu, a->rows, 1, a->rows * a->cols * 4);
CPU_BODY_KERNEL(glu_grad, a->rows, 1, a->rows * a->cols * 4);
