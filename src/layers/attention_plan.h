/* The options of an attention layer, completed and checked. */
#ifndef MEGALITH_ATTENTION_PLAN_H
#define MEGALITH_ATTENTION_PLAN_H

#include "layers_impl.h"

/* The numbers of one layer. */
typedef struct attention_plan {
    const mega_attention_options *o;
    const char *name;
    char qkv_name[MEGA_PATH], out_name[MEGA_PATH];
    int64_t channels, head_dim, heads, kv_heads; /* of the whole model */
    bool is_cross;
    mega_tensor source; /* of keys and values, if is_cross */
    int64_t source_positions, source_channels;
    bool keeps, reads; /* is_cross in MEGA_GENERATE: this program keeps keys and values, or reads those kept */
    bool is_apart;     /* Q, K and V are parameters of their own */
    bool holds_all_kv; /* tp does not divide the key/value heads: each rank has all of them */
    char qkv_file[MEGA_PATH + 8]; /* the tensor that they share in the file, if they are apart */
    mega_linear_options qkv;
    mega_attention_shape shape; /* of this rank */
} attention_plan;

/* Completes the plan, which says what the source of keys and values is, from the options; returns a message of its own
 * for each wrong one. */
mega_status attention_plan_make(const mega_builder *b, const char *name, const mega_attention_options *o,
                                int64_t channels, attention_plan *p);
/* Returns the shape of attention over the heads of this rank. */
mega_attention_shape attention_plan_shape(const mega_builder *b, const attention_plan *p);
/* Rotates the first `heads` heads, of head_dim channels, of each row of x, if the options have a rotation. */
mega_tensor attention_rope(const mega_builder *b, const attention_plan *p, mega_tensor x, int64_t heads,
                           int64_t head_dim);
/* latent.c: queries, keys and values of latent attention, rotated, as wide as a head of queries; values are followed by
 * zeros, which attention_latent_context takes off what attention returns. */
mega_attention_qkv attention_latent_qkv(const mega_builder *b, const attention_plan *p, mega_tensor x);
mega_tensor attention_latent_context(const mega_builder *b, const attention_plan *p, mega_tensor context);

#endif
