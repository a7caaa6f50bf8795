/* Activations by kind and their gradients; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_activation, activation, a, a->count, 1024, a->count * 2);
CPU_BODY_KERNEL(mega_cpu_activation_grad, activation_grad, a, a->count, 1024, a->count * 2);
