/* The table of tasks. */
#include "task.h"
#include <string.h>

static const mega_task *const tasks[] = {&train_task_gpt, &train_task_clm, &train_task_bert, &train_task_t5,
                                         &train_task_classify};

const mega_task *train_task_of(const char *command)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (command != NULL && strcmp(tasks[i]->command, command) == 0) return tasks[i];
    return tasks[0];
}
