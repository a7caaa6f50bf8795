/* Shared by the files that implement the rows of decoders and encoders. */
#ifndef MEGALITH_TASK_GPT_H
#define MEGALITH_TASK_GPT_H

#include "megalith/sentence_data.h"
#include "megalith/transformer.h"
#include "train_impl.h"

/* task_gpt.c: members of mega_task (task.h) that do not depend on the kind of network. */
extern const char *const task_gpt_stored_args[];
bool task_gpt_leaves_shape_open(const mega_train_options *cfg);
mega_status task_gpt_take_shape(mega_train_options *cfg, const mega_model_shape *stored, bool is_open);
void task_gpt_free_model(mega_task_model *m);
void task_gpt_compare(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out);
void task_gpt_warn(const mega_task_model *m, mega_train_options *cfg, const mega_model_shape *stored,
                   const char *folder);
void task_gpt_describe(const mega_task_model *m, mega_buffer *out);
/* network_words.c: "RMSNorm, RoPE (base 10000), SwiGLU, …" */
void train_network_words(const mega_network_shape *n, mega_buffer *out);
const mega_transformer *task_gpt_of(const mega_task_model *m);
mega_model_shape task_gpt_shape_of_encoder(const mega_task_model *m, int64_t eos);
/* Makes the model of this kind of network; NULL: the one that the options describe. is_new: its family is to be
 * found. */
mega_status task_gpt_make(const mega_task_options *o, const mega_network_shape *net, bool is_new, mega_task_model *out);
/* Refuses options of the kind of network that contradict that of the folder which the option `of` names. */
mega_status task_gpt_check_kind(const mega_train_options *cfg, const char *of, int64_t heads,
                                const mega_network_shape *is);
/* Names the options that were given and ask for another kind of network, in `said`, than `is`. */
void task_gpt_name_others(const mega_train_options *cfg, const mega_network_shape *said, int64_t heads,
                          const mega_network_shape *is, mega_buffer *out);
/* task_t5.c: turns such a network into that of --t5-form, in its family; hidden: the width. */
void task_t5_make_form(mega_t5_form form, int64_t decoder_layers, int64_t hidden, mega_network_shape *net);
/* Writes the head of a model card. */
void task_gpt_put_card(const mega_task_model *m, const mega_train_options *cfg, const char *name, const char *pipeline,
                       mega_buffer *out);

/* task_gpt_data.c: members of mega_task (task.h). */
mega_status task_gpt_check_data_options(const mega_task_data_options *o);
mega_status task_gpt_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT]);
/* The same for samples of sentences; NULL: a GPT's. */
mega_status task_gpt_make_data_of(const mega_task_data_options *o, const mega_sentence_options *sentences,
                                  mega_task_data out[MEGA_SPLIT_COUNT]);
mega_status task_gpt_join_data(mega_task_data *part, int count, mega_task_data *out);
void task_gpt_free_data(mega_task_data *d);
uint64_t task_gpt_data_hash(const mega_task_data *d);
mega_status task_gpt_look_at_data(const mega_task_data *d, uint64_t *content);
mega_dataset task_gpt_dataset(const mega_task_data *d);
uint64_t task_gpt_order_hash(const mega_task_data *d, int64_t samples);

/* task_clm_data.c: the same for run_clm, whose samples are blocks of text. */
mega_status task_clm_make_texts(const mega_task_data_options *o, mega_task_texts *out);
void task_clm_free_texts(mega_task_texts *texts);
mega_status task_clm_check_data_options(const mega_task_data_options *o);
mega_status task_clm_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT]);
mega_status task_clm_join_data(mega_task_data *part, int count, mega_task_data *out);
void task_clm_free_data(mega_task_data *d);
uint64_t task_clm_data_hash(const mega_task_data *d);
mega_status task_clm_look_at_data(const mega_task_data *d, uint64_t *content);
mega_dataset task_clm_dataset(const mega_task_data *d);
uint64_t task_clm_order_hash(const mega_task_data *d, int64_t samples);

/* Members of the rows of tasks whose model or whose data is as GPT's. */
#define TASK_GPT_MODEL \
    .leaves_shape_open = task_gpt_leaves_shape_open, .free_model = task_gpt_free_model, .warn = task_gpt_warn
#define TASK_GPT_DATA                                                                                  \
    .join_data = task_gpt_join_data, .free_data = task_gpt_free_data, .data_hash = task_gpt_data_hash, \
    .look_at_data = task_gpt_look_at_data, .dataset = task_gpt_dataset, .order_hash = task_gpt_order_hash

#endif
