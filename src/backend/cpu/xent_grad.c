/* Cross-entropy kernel 3 of 3; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_xent_grad, xent_grad, a, a->rows, 1, a->rows * a->valid * 4);
