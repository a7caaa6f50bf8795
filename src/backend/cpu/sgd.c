/* SGD with momentum; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(sgd, a->count, 1024, a->count);
