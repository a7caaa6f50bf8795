/* Handles of a graph's values, which ops and layers take and return. */
#ifndef MEGALITH_TENSOR_H
#define MEGALITH_TENSOR_H

#include <stdbool.h>
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

/* How a token's scores of the experts follow from its logits, and the weights of the chosen ones from the scores. */
typedef enum mega_route_score {
    MEGA_ROUTE_SOFTMAX,           /* over all experts; the weights are the scores of the chosen ones */
    MEGA_ROUTE_SIGMOID,           /* of each expert by itself */
    MEGA_ROUTE_SOFTMAX_OF_CHOSEN, /* the weights are a softmax over the chosen experts, and sum to 1 */
    MEGA_ROUTE_SOFTMAX_OF_NEAR,   /* each weight is a share of a softmax over the logits near the chosen one */
    MEGA_ROUTE_SCORE_COUNT
} mega_route_score;
enum { MEGA_ROUTE_EXPERTS = 2048 };
/* How a token chooses experts (mega_route_args has the formulas). */
typedef struct mega_route_options {
    mega_route_score score;
    int64_t choices; /* experts of a token, 1 to all of them, of which there are at most MEGA_ROUTE_EXPERTS */
    bool normalized; /* divide the weights by their sum plus epsilon; not with the last two scores */
    double epsilon;  /* 0 for Mixtral and Qwen, 1e-20 for DeepSeek-V3 and Megatron-core */
    double scale;    /* factor of the weights; 0: 1 */
    double margin;   /* MEGA_ROUTE_SOFTMAX_OF_NEAR: how far a near logit may be, as a part of the larger of the two */
    int64_t groups; /* of experts; 0: none. A token chooses from `chosen_groups` of them, by the sum of the `group_best`
                        largest scores of each: 1 for DeepSeek-V2, 2 for DeepSeek-V3 */
    int64_t chosen_groups, group_best;
} mega_route_options;

#ifdef __cplusplus
}
#endif

#endif
