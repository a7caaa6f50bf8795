/* The layers of a language model of any shape (mega_transformer), which transformer.c puts into a list. */
#ifndef MEGALITH_BLOCK_H
#define MEGALITH_BLOCK_H

#include "megalith/experts.h"
#include "megalith/family.h"
#include "megalith/layers.h"
#include "megalith/transformer.h"

/* Functions of layers (model.h); self is the mega_transformer. encoder_head and encoder_class_head (encoder.c) are the
 * heads of encoders. */
void transformer_embedding(const mega_builder *b, const void *self, mega_flow *flow);
void transformer_block(const mega_builder *b, const void *self, mega_flow *flow);
void transformer_head(const mega_builder *b, const void *self, mega_flow *flow);
void encoder_head(const mega_builder *b, const void *self, mega_flow *flow);
void encoder_class_head(const mega_builder *b, const void *self, mega_flow *flow);

/* The builder of the sequences of each sample, of which a choice has several: their rows are those of b. */
mega_builder block_sequences(const mega_builder *b, const mega_transformer *m);

/* t5.c: the layers of an encoder and of a decoder that attends to it. t5_layers writes the rows of the list, at most
 * MEGA_TRANSFORMER_ROWS, and returns their number; t5_first_layers is mega_transformer_first_layers of such a model. */
int t5_layers(const mega_transformer *m, mega_layer *out);
mega_status t5_first_layers(const mega_transformer *m, int stages, int **out);

/* What the heads share. */
void block_request_rows(const mega_builder *b, const mega_transformer *m);
mega_tensor block_norm(const mega_builder *b, const mega_transformer *m, const char *name, mega_tensor x);
mega_tensor block_last_norm(const mega_builder *b, const mega_transformer *m, mega_tensor x);
mega_vocab_loss_options block_head_options(const mega_transformer *m);
const char *block_head_name(const mega_transformer *m);
/* Weights of a matrix that reads the residual stream, and of one whose result is added to it. */
mega_linear_options block_from_residual(const mega_transformer *m, bool no_bias);
mega_linear_options block_into_residual(const mega_transformer *m, bool no_bias);
mega_tensor block_scaled(const mega_builder *b, mega_tensor x, double factor); /* factor 0: as 1 */
const mega_family_names *block_names(const mega_transformer *m);
/* Two parts of `rows` rows that are in two tensors, whose names are kept in `file`. */
void block_place_two(mega_param_options *weight, int64_t rows, const char *first, const char *second,
                     char file[2][MEGA_PATH]);

/* block_experts.c: a layer of experts, with the losses of its router in training. */
mega_tensor block_experts(const mega_builder *b, const mega_transformer *m, mega_tensor x);

/* The names of an MLP, as those of mega_family_names. */
typedef struct block_mlp_names {
    const char *up, *down, *gate_file, *up_file;
} block_mlp_names;
mega_tensor block_mlp(const mega_builder *b, const mega_transformer *m, const block_mlp_names *names, int64_t width,
                      mega_tensor x);

#endif
