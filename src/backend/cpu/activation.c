/* Activations by kind and their gradients; the threads share the elements. */
#include "cpu/share.h"

CPU_BODY_KERNEL(activation, a->count, 1024, a->count * 2);
CPU_BODY_KERNEL(activation_grad, a->count, 1024, a->count * 2);
