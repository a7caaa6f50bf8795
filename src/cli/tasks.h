/* What the files of the tasks command share. */
#ifndef MEGA_CLI_TASKS_H
#define MEGA_CLI_TASKS_H

#include "loaded.h"
#include "megalith/documents.h"

/* Opens a file of --valid-data. json_lines: the task reads nothing else. */
mega_status mega_task_open(mega_documents **out, const mega_command_options *cfg, const char *path, bool json_lines);
/* The text of a record; it lasts as long as the chunk and the space that it may be unescaped into. */
mega_status mega_task_text(const mega_command_options *cfg, const mega_document_chunk *chunk, int64_t record,
                           mega_buffer *space, mega_document_text *out);

/* LAMBADA: how often the last word of a passage is predicted. One line of result for the file. */
mega_status mega_task_lambada_check(const mega_loaded *l, const mega_command_options *cfg,
                                    const char *path); /* reads it */
mega_status mega_task_lambada(const mega_loaded *l, const mega_command_options *cfg, const char *path);

#endif
