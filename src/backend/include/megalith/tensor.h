/* Handles of a graph's values, which ops and layers take and return. */
#ifndef MEGALITH_TENSOR_H
#define MEGALITH_TENSOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ops and layers add instructions to a graph; a mega_builder holds it. */
typedef struct mega_graph mega_graph;
typedef struct mega_tensor {
    int32_t id; /* number of the value in the graph; 0: none */
} mega_tensor;
/* A loss or metric of a micro-batch: sum / weight, or 0 if the weight is 0. Both are [1] acc. */
typedef struct mega_loss {
    mega_tensor sum, weight;
} mega_loss;
/* Result of an LM head: the loss of each row, [T] acc, and a loss with their sum and weight. */
typedef struct mega_head_result {
    mega_tensor token_loss;
    mega_loss loss;
} mega_head_result;
/* Maximum number of losses and metrics of a model, and size of a name with its final NUL. */
enum { MEGA_METRICS = 8, MEGA_LOSS_NAME = 128 };

/* x is the input. MEGA_ACT_GELU_TANH is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and MEGA_ACT_GELU is 0.5 x (1 +
 * erf(x / sqrt 2)). */
typedef enum mega_activation_kind {
    MEGA_ACT_GELU_TANH,
    MEGA_ACT_GELU,
    MEGA_ACT_RELU,         /* max(x, 0) */
    MEGA_ACT_RELU_SQUARED, /* max(x, 0)^2 */
    MEGA_ACT_SILU,         /* x / (1 + e^-x) */
    MEGA_ACT_TANH,
    MEGA_ACT_SIGMOID, /* 1 / (1 + e^-x) */
    MEGA_ACT_IDENTITY /* x; only of a gated activation, which then multiplies its two halves */
} mega_activation_kind;

#ifdef __cplusplus
}
#endif

#endif
