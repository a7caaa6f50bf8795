/* Gradient of dropout; the threads share chunks of rows, and compute the column sums for the bias in the same pass. */
#include "cpu/share.h"

CPU_SUMS_KERNEL(mega_cpu_dropout_grad, dropout_grad, dbias);
