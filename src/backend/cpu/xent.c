/* Cross-entropy in one sweep; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_xent, xent, a, a->rows, 1, a->rows * a->valid * 8);
