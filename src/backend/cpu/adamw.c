/* AdamW; the threads share the elements, and each element is read and written once. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_adamw, adamw, a, a->count, 1024, a->count);
