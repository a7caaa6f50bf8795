/* Cross-entropy in one sweep; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(xent, a->rows, 1, a->rows * a->valid * 8);
