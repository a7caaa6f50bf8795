/* Cross-entropy kernel 2 of 3; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_xent_sum, xent_sum, a, a->rows, 1, a->rows * a->valid * 4);
