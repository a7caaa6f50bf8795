/* Soft-capped logits and their gradient; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_softcap, softcap, a, a->count, 1024, a->count * 2);
CPU_BODY_KERNEL(mega_cpu_softcap_grad, softcap_grad, a, a->count, 1024, a->count * 2);
