/* GPT-2 as Megatron trains it (Radford et al. 2019): learned positions, pre-norm layers, tanh gelu, tied embeddings.
 * Parameter names and file orientation are Hugging Face's GPT2LMHeadModel. */
#ifndef MEGALITH_GPT_H
#define MEGALITH_GPT_H

#include "megalith/checkpoint.h"
#include "megalith/graph.h"
#include "megalith/model.h"
#include "megalith/model_options.h"
#include "megalith/parameter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_gpt_recompute {
    MEGA_GPT_RECOMPUTE_NONE,
    MEGA_GPT_RECOMPUTE_SELECTIVE, /* core attention */
    MEGA_GPT_RECOMPUTE_FULL
} mega_gpt_recompute;

typedef struct mega_gpt {
    int64_t num_layers, hidden, ffn_hidden, heads, head_dim, positions;
    int64_t vocab, padded_vocab; /* real, and rounded up for the layout */
    double norm_epsilon, init_std, attention_dropout, hidden_dropout;
    bool sequence_parallel; /* layers.h; changes nothing where tp has one rank */
    mega_gpt_recompute recompute;
    bool recompute_uniform; /* FULL: groups of recompute_layers; else the first recompute_layers, one by one */
    int64_t recompute_layers;
    bool distribute_saved; /* FULL, without sequence_parallel: the inputs of groups are kept as shares over tp */
    bool init_xavier;
    bool erf_gelu; /* exact gelu, as some folders ask; else the tanh form */
    /* Over a pipeline: layers of the first and last stage (0: as many as the others), and programs a stage (0: one). */
    int64_t first_stage_layers, last_stage_layers, stage_chunks;
} mega_gpt;

/* The model as a list: the embedding, the blocks, the head with the last norm and the loss. Inputs by name, all [T]
 * with T = samples * positions: tokens i32, labels i32, loss_mask f32, position_ids i32, segment_start i32. Output
 * token_loss [T] acc; loss "lm loss". In MEGA_GENERATE: tokens, position_ids, last_rows i32 [samples] (row index of
 * each sequence whose logits are wanted); states h.N.k_cache, h.N.v_cache; output logits [tp * samples, padded_vocab /
 * tp] acc, by rank of tp. */
enum { MEGA_GPT_ROWS = 3 };
typedef struct mega_gpt_list {
    mega_layer layer[MEGA_GPT_ROWS];
    int *first_layer; /* boundaries of the parts where the ends of a pipeline say their own sizes; else NULL */
} mega_gpt_list;
/* For `stages` pipeline stages. Borrows m. Layers that do not divide into them are refused. */
mega_status mega_gpt_list_create(const mega_gpt *m, int stages, mega_gpt_list *out);
void mega_gpt_list_destroy(mega_gpt_list *list);
mega_model mega_gpt_model(const mega_gpt_list *list); /* borrows the list */

/* The boundaries of a list whose layer 0 is the embedding, for mega_free; NULL: all stages hold as many blocks. */
mega_status mega_gpt_first_layers(const mega_gpt *m, int stages, int **out);
/* Layers that do not divide into the stages are refused with the numbers that do. */
mega_status mega_gpt_check_stages(const mega_gpt *m, int stages);

/* o->padded_vocab_size must be known; vocab is the tokenizer's size. */
mega_status mega_gpt_from_options(mega_gpt *out, const mega_model_options *o, int64_t vocab);
/* Shape of a GPT from what a folder says of itself, and the other way round. */
void mega_gpt_from_shape(const mega_model_shape *shape, int64_t vocab_multiple, mega_gpt *out);
void mega_gpt_to_shape(const mega_gpt *m, int64_t eos, mega_model_shape *out);

#ifdef __cplusplus
}
#endif

#endif
