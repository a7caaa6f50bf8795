/* The file of a wandb run: records in the frames of a LevelDB log. */
#ifndef MEGALITH_WANDB_LOG_H
#define MEGALITH_WANDB_LOG_H

#include "megalith/memory.h"
#include "megalith/outbox.h"

typedef struct wandb_log wandb_log;
mega_status wandb_log_create(const char *path, wandb_log **out);
/* Adds a record of this step; it is written by a flush. */
mega_status wandb_log_put(wandb_log *l, int64_t step, const mega_buffer *record);
/* Frames depend on their position in the file. If a piece of it is lost, nothing more is written, because readers could
 * not find the records that follow. */
mega_status wandb_log_flush(wandb_log *l);
mega_missing wandb_log_missing(const wandb_log *l);
mega_status wandb_log_close(wandb_log *l); /* frees l even if it fails; NULL is allowed */

#endif
