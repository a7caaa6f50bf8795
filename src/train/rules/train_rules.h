/* Shared by the rules*.c files. */
#ifndef MEGALITH_TRAIN_RULES_H
#define MEGALITH_TRAIN_RULES_H

#include "megalith/sentence_data.h"
#include "megalith/train_options.h"
#include <string.h>

static inline bool train_is(const mega_train_options *cfg, const char *command)
{
    return strcmp(mega_options_command(cfg->engine.options), command) == 0;
}
/* Commands that train on indexed data, for a length said in iterations or samples. */
static inline bool train_is_pretraining(const mega_train_options *cfg)
{
    return train_is(cfg, "pretrain_gpt") || train_is(cfg, "pretrain_bert") || train_is(cfg, "pretrain_t5");
}
/* run_files.c: whether --load and --save name the same folder; whether the run goes on from a checkpoint of --save,
 * which may also be one that --load names (SAVE/iter_N) */
/* find_state.c: the checkpoints in the folder of a run. */
int64_t train_iteration_in(const char *folder); /* of the state in a checkpoint's folder; -1: it has none */
/* Returns the folder among run_clm's step_N and epoch_E in `folder` that holds the state of iteration `wanted`, of the
 * newest if that is below 0; NULL: there is none. The caller frees it. */
char *train_find_state(const char *folder, int64_t wanted);
bool train_is_ended_clm(const char *folder); /* a run_clm has ended in it */

bool train_loads_what_it_saves(const mega_train_options *cfg);
bool train_continues_save(const mega_train_options *cfg);
/* rules.c: returns advice on how to run with a different number of ranks */
const char *train_advise_ranks(const mega_train_options *cfg);
/* rules_stages.c: returns the number of stages whose number of layers is not given by an option; all of these hold the
 * same number */
int64_t train_even_stages(const mega_train_options *cfg);
/* rules_bert.c: the samples that the options of pretrain_bert ask for */
mega_sentence_options train_sentences(const mega_train_options *cfg, const mega_sentence_vocabulary *words);
/* rules_bert.c: refuses samples that cannot be made, or that have nothing to predict */
void train_check_sentences(mega_train_options *cfg, const mega_sentence_options *s);
/* rules_t5.c: the same of pretrain_t5 */
mega_sentence_options train_sentences_t5(const mega_train_options *cfg, const mega_sentence_vocabulary *words);

#endif
