/* TensorBoard event files: one file per process, with scalars and texts. Readers take the files of a folder in name
 * order. */
#ifndef MEGALITH_TENSORBOARD_H
#define MEGALITH_TENSORBOARD_H

#include "megalith/outbox.h"
#include "megalith/status.h"
#include <stdint.h>

struct json_t;
typedef struct mega_tensorboard mega_tensorboard;

/* Creates a new file events.out.tfevents.SECONDS.HOST.PID.N in the folder, which is created if needed. Times are
 * seconds since 1970 (mega_tensorboard_now, or a fixed value in a test). */
mega_status mega_tensorboard_open(const char *folder, double wall_time, mega_tensorboard **out);
double mega_tensorboard_now(void);
/* Sets the iteration that the following records belong to, for messages about missing ones. */
void mega_tensorboard_iteration(mega_tensorboard *t, int64_t iteration);
/* Records are buffered, and only whole ones are ever written. Records that cannot be written wait for the next
 * attempt. */
mega_status mega_tensorboard_scalar(mega_tensorboard *t, const char *tag, int64_t step, double value, double wall_time);
/* Markdown. Appends "/text_summary" to the tag, as PyTorch's writer does. */
mega_status mega_tensorboard_text(mega_tensorboard *t, const char *tag, const char *text, int64_t step,
                                  double wall_time);
/* The settings of the run, members of a flat JSON object, for TensorBoard's page HPARAMS, which compares the runs of a
 * folder. */
mega_status mega_tensorboard_hyperparameters(mega_tensorboard *t, struct json_t *config, double wall_time);
mega_status mega_tensorboard_flush(mega_tensorboard *t);
const char *mega_tensorboard_path(const mega_tensorboard *t);     /* path of the file; borrowed */
mega_missing mega_tensorboard_missing(const mega_tensorboard *t); /* pieces that are not in the file so far */
/* Flushes, and reports the pieces that are finally missing. Frees t even if it fails; NULL is allowed. */
mega_status mega_tensorboard_close(mega_tensorboard *t, mega_missing *missing);

#endif
