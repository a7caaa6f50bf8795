/* Gradient of the embedding table. The threads share the columns, so that rows with equal ids are added in order. */
#include "cpu/share.h"

CPU_BODY_KERNEL(mega_cpu_embedding_grad, embedding_grad, a, a->cols, 16, a->rows * a->cols);
