/* Language models: decoders, encoders such as BERT, and T5, which is both. The columns of `net` say how one differs
 * from GPT-2 as Megatron trains it (Radford et al. 2019), which has learned positions, pre-norm layers, tanh gelu and
 * tied embeddings. Parameter names and file orientation are those of the family's class in transformers. */
#ifndef MEGALITH_TRANSFORMER_H
#define MEGALITH_TRANSFORMER_H

#include "megalith/checkpoint.h"
#include "megalith/experts.h"
#include "megalith/graph.h"
#include "megalith/model.h"
#include "megalith/model_options.h"
#include "megalith/parameter.h"

typedef enum mega_transformer_recompute {
    MEGA_TRANSFORMER_RECOMPUTE_NONE,
    MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE, /* recomputes core attention */
    MEGA_TRANSFORMER_RECOMPUTE_FULL
} mega_transformer_recompute;

/* How the routers of experts are trained; zeros: by the loss of the model alone. */
typedef struct mega_router_training {
    double balance, z; /* coefficients of the balance loss and of the z-loss of each layer (router.h) */
    int64_t group;     /* samples over which balance loss and Sinkhorn's iterations count; 0: those of a micro-batch */
    double jitter;     /* of what a router reads; its experts read it without */
    bool sinkhorn;     /* Sinkhorn's iterations decide the choices in training (mega_router_options) */
    double bias_rate;  /* by which a step changes the bias of the choice (net.experts.choice_bias); 0: it is constant */
} mega_router_training;

typedef struct mega_transformer {
    int64_t num_layers, hidden, ffn_hidden, heads, head_dim, positions;
    int64_t vocab, padded_vocab; /* number of ids; table rows after rounding up for tp */
    double norm_epsilon, init_std, attention_dropout, hidden_dropout;
    bool sequence_parallel; /* see layers.h; no effect if tp is 1 */
    mega_transformer_recompute recompute;
    bool recompute_uniform; /* with FULL: groups of recompute_layers layers; else the first recompute_layers, one by
                             * one */
    int64_t recompute_layers;
    bool distribute_saved; /* with FULL, without sequence_parallel: each rank of tp keeps a share of a group's input */
    bool init_xavier;
    bool shows_hidden; /* encoders: the values before the heads are the output "hidden" [T, C] */
    /* Encoders: in place of the loss of masked tokens, the output "logits" of so many rows of each sample, [tp *
     * samples * masks, padded_vocab / tp]; the input mask_rows i32 [samples * masks] has the numbers of the rows. 0: no
     * such output */
    int64_t masks;
    mega_network_shape net;
    mega_router_training router;
    double expert_buffer;          /* mega_moe_options.buffer_factor of its experts */
    mega_expert_capacity capacity; /* of each of its experts in training */
    /* Pipeline: layers of the first and last stage (0: as many as the others), and programs per stage (0: one). */
    int64_t first_stage_layers, last_stage_layers, stage_chunks;
    /* T5: num_layers is that of the encoder. Positions of the samples of the decoder (0: as many as the encoder's), and
     * the stage with which the decoder begins (0: the layers are cut by their weights). */
    int64_t decoder_positions, split_stage;
} mega_transformer;

/* The list of layers: the embedding, the blocks, and the head with the last norm and the loss. T = samples * positions.
 *
 * Training:
 *   decoder      inputs [T]: tokens i32, labels i32, loss_mask f32, position_ids i32, key_begin i32. The output is
 *                token_loss [T] acc, and the loss is "lm loss"
 *   encoder      has key_end instead of key_begin, token_types i32 with such a table, and with a sentence head
 *                is_random i32 [samples], the output class_logits [samples, 2] and the loss "sop loss"; labels that are
 *                no ids do not count
 *   classifier   has neither these losses nor labels and loss_mask, but label i32 [samples], the output class_logits
 *                [samples, classes] or [samples * choices, 1], the loss "lm loss" and the metric "accuracy"; the
 *                positions of a sample of choices are those of its sequences, one after the other
 *   T5           tokens, position_ids and key_end of the encoder, and decoder_tokens, decoder_position_ids,
 *                cross_key_end (where the text of the encoder ends), labels and loss_mask of the decoder; only
 *                Megatron's reads position ids
 *
 *   experts      add, as means over the layers that have them, the losses "load_balancing_loss" and "z_loss" that
 *                mega_router_training asks for and, by how a group uses the experts, the metrics "fullest expert"
 *                and "emptiest expert", over an even share, and "entropy of experts", over that of an even use; with
 *                a capacity also "dropped choices", the part of all choices that no expert computes
 *
 * MEGA_GENERATE:
 *   decoder      inputs tokens, position_ids and last_rows i32 [samples] (for each sequence, the row whose logits are
 *                wanted), states h.N.k_cache and h.N.v_cache, and the output logits [tp * samples, padded_vocab / tp]
 *                acc, ordered by rank of tp
 *   T5 (t5.c)    tokens, position_ids and key_end of the program that reads the texts of the encoder, of more than one
 *                position, and tokens, position_ids and cross_key_end of the one that decodes */
enum { MEGA_TRANSFORMER_ROWS = 6 };
typedef struct mega_transformer_list {
    mega_layer layer[MEGA_TRANSFORMER_ROWS];
    int rows;         /* of `layer` */
    int *first_layer; /* first layer of each part if the first or last stage has its own size; else NULL */
} mega_transformer_list;
/* Creates the list for `stages` pipeline stages; it borrows m. Returns MEGA_ERR_USAGE if the layers do not divide
 * evenly. */
mega_status mega_transformer_list_create(const mega_transformer *m, int stages, mega_transformer_list *out);
void mega_transformer_list_destroy(mega_transformer_list *list);
mega_model mega_transformer_model(const mega_transformer_list *list); /* the result borrows the list */

/* Sets *out to the first layer of each part of a list whose layer 0 is the embedding; release it with mega_free.
 * Sets it to NULL if all stages have equally many blocks. */
mega_status mega_transformer_first_layers(const mega_transformer *m, int stages, int **out);
/* Returns MEGA_ERR_USAGE, with the numbers that would work, if the layers do not divide evenly over the stages. */
mega_status mega_transformer_check_stages(const mega_transformer *m, int stages);

/* o->padded_vocab_size must be set; vocab is the number of ids of the tokenizer. net: what a checkpoint says beside the
 * sizes; NULL: the options say it. */
mega_status mega_transformer_from_options(const mega_model_options *o, int64_t vocab, const mega_network_shape *net,
                                          mega_transformer *out);
/* Sets *out to the kind of network that the options describe, without a family. Returns MEGA_ERR_USAGE for values that
 * do not fit. */
mega_status mega_network_from_options(const mega_model_options *o, mega_network_shape *out);
/* Whether each of these layers has experts, so that the width of an MLP counts for nothing. */
bool mega_network_has_experts_alone(const mega_network_shape *net, int64_t layers);
/* Turns such a network into an encoder with BERT's heads, of Megatron's form or, with original, of BERT's own. pad: the
 * id of padding, which folders name. The activation of the head is that of the network. */
void mega_network_make_encoder(mega_network_shape *net, bool original, bool sentence_head, int64_t pad);
/* Turns such a network into an encoder-decoder of Megatron's kind or, with original, of that of transformers, version
 * 1.1 with gated_untied. decoder_layers: of the decoder; hidden: the width. */
void mega_network_make_t5(mega_network_shape *net, bool original, bool gated_untied, int64_t decoder_layers,
                          int64_t hidden);
/* Replaces the heads of an encoder by a classifier of samples (model_shape.h). */
void mega_network_make_classifier(mega_network_shape *net, int64_t classes, int64_t choices);
/* Sets net->family to the first family that can hold a model of the sizes of m and the kind of net. Returns
 * MEGA_ERR_UNSUPPORTED if none can. */
mega_status mega_network_find_family(const mega_transformer *m, mega_network_shape *net);
/* Lets a mixture of experts begin with the weights of the dense model in a checkpoint
 * (mega_checkpoint_begin_mixture). tp: ranks of tensor parallelism, on which it depends what is one parameter. */
mega_status mega_transformer_begin_mixture(mega_checkpoint *c, const mega_transformer *mixture, int tp);
/* Convert between a transformer and the shape that a model folder describes. */
void mega_transformer_from_shape(const mega_model_shape *shape, int64_t vocab_multiple, mega_transformer *out);
void mega_transformer_to_shape(const mega_transformer *m, int64_t eos, mega_model_shape *out);

#endif
