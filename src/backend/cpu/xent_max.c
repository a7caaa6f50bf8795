/* Cross-entropy kernel 1 of 3; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_xent_max, xent_max, a, a->rows, 1, a->rows * a->valid);
