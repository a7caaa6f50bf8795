/* Soft-capped logits and their gradient; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(softcap, a->count, 1024, a->count * 2);
CPU_BODY_KERNEL(softcap_grad, a->count, 1024, a->count * 2);
