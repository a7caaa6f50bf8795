/* Options of the network: its shape, initial weights and dropout, and how it is split over ranks. The options
 * are declared in model/options.c. */
#ifndef MEGALITH_MODEL_OPTIONS_H
#define MEGALITH_MODEL_OPTIONS_H

#include "megalith/option.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_model_options {
    const char *preset; /* such as "gpt2"; NULL without a preset */
    int64_t num_layers, hidden_size, ffn_hidden_size, num_attention_heads, kv_channels, max_position_embeddings;
    int64_t padded_vocab_size; /* set once the tokenizer is known */
    double layernorm_epsilon, attention_dropout, hidden_dropout;
    double init_method_std;
    bool init_method_xavier_uniform;

    bool sequence_parallel;                                                      /* false if tp is 1 */
    int64_t decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers; /* 0: as many as other stages */
    int64_t num_layers_per_virtual_pipeline_stage;
    int64_t num_virtual_stages_per_pipeline_rank; /* derived from the member above; 0 or 1: one program per stage */
} mega_model_options;

/* The option tables, one per title of --help. */
extern const mega_option_section mega_model_distributed_section, mega_model_network_section,
    mega_model_regularization_section, mega_model_initialization_section, mega_model_training_section;
#ifdef __cplusplus
}
#endif

#endif
