/* Gradient of the embedding table. The threads share the columns, so that rows with equal ids are added in order. */
#include "cpu/share.h"

CPU_BODY_KERNEL(embedding_grad, a->cols, 16, a->rows * a->cols);
