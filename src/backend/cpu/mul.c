/* a * b; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_mul, mul, a, a->count, 1024, a->count);
