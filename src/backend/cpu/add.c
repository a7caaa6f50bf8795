/* a + b; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(add, a->count, 1024, a->count);
