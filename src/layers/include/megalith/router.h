/* The router of a mixture of experts: a linear layer whose logits decide which experts a token chooses, and its losses
 * and metrics; mega_moe (experts.h) is a layer with one. Conventions are those of layers.h. */
#ifndef MEGALITH_ROUTER_H
#define MEGALITH_ROUTER_H

#include "megalith/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_router_options {
    mega_route_options route; /* choices is not 0 */
    double jitter;           /* in MEGA_TRAIN the input is multiplied by 1 + jitter * u, u uniform in (-1, 1); 0 to 1 */
    bool has_bias;           /* the linear layer has NAME.bias, as that of gpt_oss */
    mega_tensor choice_bias; /* [experts] acc, for the choice alone and without a gradient, or mega_none() */
    /* In MEGA_TRAIN Sinkhorn's iterations decide the choice, so that the tokens of a group choose all experts about as
     * often (mega_route_sinkhorn_args); without a choice_bias and groups of experts. Evaluation chooses by the logits.
     */
    bool sinkhorn;
    int64_t sinkhorn_group; /* samples of a group; 0: those of the micro-batch, which must consist of whole groups */
    mega_param_options weight;
} mega_router_options;

/* Of T tokens on this rank: logits [T, experts], the choices [T, k] I32 with their weights [T, k] acc, and the share of
 * each expert in the scores of a token [T, experts] acc. dropped: of mega_moe with a capacity, the part of the choices
 * of each group that is dropped [groups] acc; else none. `choice` has the dropped ones too. later: of mega_moe over
 * several ranks of ep, in MEGA_TRAIN, how many rounds after the first its rows take, [1] acc, a metric; otherwise
 * mega_none(). */
typedef struct mega_router_result {
    mega_tensor logits, choice, weight, share, dropped, later;
    bool is_gathered; /* with sequence parallelism: of all rows, and alike on each rank of tp (mega_moe) */
} mega_router_result;

/* The logits are x times the transposed weight NAME.weight [experts, C], which is replicated: in the accumulation type,
 * or with has_bias in the compute type. Their gradients have the compute type. Jitter has the bits of the sample, the
 * position and the path PATH.NAME, as dropout, and reads the inputs "sample_id" and "seq_position". Router and losses
 * compute in the accumulation type. All ranks of tp choose alike for the same tokens, and each expects the whole
 * gradients of the weights: a layer that divides experts over tp must sum them. */
mega_router_result mega_router(const mega_builder *b, const char *name, mega_tensor x, int64_t experts,
                               const mega_router_options *options);

/* x with the jitter of such a router: what its experts read too, where they are to have it (Mixtral). */
mega_tensor mega_router_jitter(const mega_builder *b, const char *name, mega_tensor x, double jitter);

/* The balance loss, E * sum over experts of (part of the choices that is this expert) * (mean share), of groups of
 * `group_samples` samples, 1 for the sequences of DeepSeek; the micro-batch must consist of whole groups, so that the
 * loss does not depend on its size. It is 1 if all experts are used alike. counted: how many choices of a token count,
 * 0 for all, 1 as DeepSpeed's top-2 gate. The coefficient is that of Megatron-core and DeepSpeed; router_aux_loss_coef
 * of transformers times the choices of a token, as transformers does not divide by them. (With several layers it takes
 * the means of both factors over all layers before it multiplies them, which is another loss.)
 * With sequence parallelism both losses need a gathered result.
 * fullest, emptiest, entropy: metrics of the same groups. Tokens of the fullest and of the emptiest expert, over those
 * of an even distribution, and the entropy of the distribution over that of an even one. */
typedef struct mega_router_balance_result {
    mega_loss loss, fullest, emptiest, entropy;
} mega_router_balance_result;
mega_router_balance_result mega_router_balance(const mega_builder *b, const mega_router_result *router,
                                               int64_t group_samples, int64_t counted);

/* The z-loss: the mean over tokens of (log of the sum over experts of e^logit)^2. weights as in mega_sum. */
mega_loss mega_router_z_loss(const mega_builder *b, const mega_router_result *router, mega_tensor weights);

#ifdef __cplusplus
}
#endif

#endif
