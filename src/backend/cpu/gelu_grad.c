/* Gradient of GELU; the threads share chunks of rows, and compute the column sums for the bias in the same pass. */
#include "cpu/share.h"

CPU_SUMS_KERNEL(mega_cpu_gelu_grad, gelu_grad, dbias);
