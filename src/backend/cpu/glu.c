/* Gated activations and their gradient; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_glu, glu, a, a->rows, 1, a->rows * a->cols * 4);
CPU_BODY_KERNEL(mega_cpu_glu_grad, glu_grad, a, a->rows, 1, a->rows * a->cols * 4);
