/* Blocks of transformers, put together from the layers of layers.h. */
#ifndef MEGALITH_T5_BLOCKS_H
#define MEGALITH_T5_BLOCKS_H

#include "megalith/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- T5 (Raffel et al. 2020) ----
 *
 * Without biases; each part is x + dropout(part(RMS norm of x)), and scores of attention are not scaled. The parameters
 * are stored in checkpoints under the path of the builder (such as "encoder.block.3") and the names of transformers:
 * layer.0.SelfAttention.q.weight, ... An encoder and a decoder of different length are described with builders that
 * differ in `positions`. */

typedef struct mega_t5_options {
    int64_t num_heads, head_dim; /* head_dim 0: channels / num_heads */
    int64_t ffn_channels;
    mega_activation_kind activation;
    bool is_gated;  /* act(wi_0 x) * wi_1 x (version 1.1); else act(wi x) */
    double epsilon; /* 0: 1e-6 */
    double
        dropout; /* of probabilities and of the result of each part, as in Megatron-LM; transformers drops elements of
                       the activation too, which these blocks do not */
    mega_param_options weights; /* how the matrices begin */
    /* Biases of self-attention: one table, with one bias_distance, that all blocks of a stack share
     * (mega_attention_bias). */
    mega_tensor bias;
    int64_t bias_distance;
    /* Names of inputs, I32, that limit the positions which a row sees: in its own stack, and in the source. NULL: no
     * limit. The end of the padding of an encoder is key_end there and source_end in the decoder. */
    const char *key_begin, *key_end, *source_begin, *source_end;
    bool recompute_core; /* as in mega_attention_options */
} mega_t5_options;

/* Every position sees every one within the limits. */
mega_tensor mega_t5_encoder_block(const mega_builder *b, mega_tensor x, const mega_t5_options *options);
/* A position sees itself and those before it, and the source [U, C], the output of the encoder: `positions` rows of
 * each sample. In MEGA_GENERATE a program that is given the source keeps its keys and values and returns mega_none(),
 * and one whose source is mega_none() reads them (mega_cross_attention). */
mega_tensor mega_t5_decoder_block(const mega_builder *b, mega_tensor x, mega_tensor source, int64_t positions,
                                  const mega_t5_options *options);

#ifdef __cplusplus
}
#endif
#endif
