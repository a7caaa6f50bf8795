/* Shared by the files of the tasks command. */
#ifndef MEGA_CLI_TASKS_H
#define MEGA_CLI_TASKS_H

#include "loaded.h"
#include "megalith/documents.h"

/* Opens a file of --valid-data. json_lines: the task can read only JSON lines. */
mega_status mega_task_open(const mega_command_options *cfg, const char *path, bool json_lines, mega_documents **out);
/* Returns the text of a record in *out. It is valid as long as the chunk and `space`, which receives the text if it
 * has to be unescaped. */
mega_status mega_task_text(const mega_command_options *cfg, const mega_document_chunk *chunk, int64_t record,
                           mega_buffer *space, mega_document_text *out);

/* LAMBADA: measures how often the last word of a passage is predicted. Prints one line of results per file. */
mega_status mega_task_lambada_check(const mega_loaded *l, const mega_command_options *cfg,
                                    const char *path); /* reads the file and checks it */
mega_status mega_task_lambada(const mega_loaded *l, const mega_command_options *cfg, const char *path);

#endif
