/* Gradient of GELU; the threads share chunks of rows, and compute the column sums for the bias in the same pass. */
#include "cpu/share.h"

CPU_SUMS_KERNEL(gelu_grad, dbias);
