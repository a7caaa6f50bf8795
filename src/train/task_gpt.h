/* Shared by the files that implement the pretrain_gpt row. */
#ifndef MEGALITH_TASK_GPT_H
#define MEGALITH_TASK_GPT_H

#include "train_impl.h"

/* task_gpt_data.c: members of mega_task (task.h). */
mega_status task_gpt_check_data_options(const mega_task_data_options *o);
mega_status task_gpt_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT]);
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

#endif
