/* The table of tasks, and what samples of sentences need of two of them. */
#include "task.h"
#include "megalith/train.h"
#include "rules/train_rules.h"

static const mega_task *const tasks[] = {&train_task_gpt, &train_task_clm, &train_task_bert, &train_task_t5,
                                         &train_task_classify};

const mega_task *train_task_of(const char *command)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (command != NULL && strcmp(tasks[i]->command, command) == 0) return tasks[i];
    return tasks[0];
}

mega_status mega_train_sentences(const mega_train_options *cfg, bool is_t5, const mega_tokenizer *tokenizer,
                                 void **out_words, mega_sentence_options *out)
{
    const mega_task *task = is_t5 ? &train_task_t5 : &train_task_bert;
    MEGA_TRY(task->read_tokenizer(tokenizer, out_words)); /* its first member is a mega_sentence_vocabulary */
    *out = is_t5 ? train_sentences_t5(cfg, *out_words) : train_sentences(cfg, *out_words);
    return MEGA_OK;
}
