/* Layer norm and RMS norm; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_layer_norm, layer_norm, a, a->rows, 1, a->rows * a->cols);
