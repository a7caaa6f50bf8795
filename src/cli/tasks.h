/* What the files of the tasks command share. */
#ifndef MEGA_CLI_TASKS_H
#define MEGA_CLI_TASKS_H

#include "loaded.h"

/* LAMBADA: how often the last word of a passage is predicted. One line of result for the file. */
mega_status mega_task_lambada(const mega_loaded *l, const mega_config *cfg, const char *path);

#endif
