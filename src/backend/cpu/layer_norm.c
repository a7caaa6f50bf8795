/* Layer norm and RMS norm; the threads share the rows. */
#include "cpu/share.h"

CPU_BODY_KERNEL(layer_norm, a->rows, 1, a->rows * a->cols);
