/* TensorBoard event files: one file a process, scalars and texts. Readers take the files of a folder in name order. */
#ifndef MEGALITH_TENSORBOARD_H
#define MEGALITH_TENSORBOARD_H

#include "megalith/outbox.h"
#include "megalith/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_tensorboard mega_tensorboard;

/* Creates the folder where need be and a new file events.out.tfevents.SECONDS.HOST.PID.N in it. Times are seconds since
 * 1970 (mega_tensorboard_now, or what a test wants). */
mega_status mega_tensorboard_open(mega_tensorboard **out, const char *folder, double wall_time);
double mega_tensorboard_now(void);
/* To which iteration the records that follow belong, for messages on what is missing. */
void mega_tensorboard_iteration(mega_tensorboard *t, int64_t iteration);
/* Records are collected; only whole ones are ever written. Those that cannot be written wait for the next try. */
mega_status mega_tensorboard_scalar(mega_tensorboard *t, const char *tag, int64_t step, double value, double wall_time);
/* As PyTorch's writer does, "/text_summary" is added to the tag. Markdown. */
mega_status mega_tensorboard_text(mega_tensorboard *t, const char *tag, const char *text, int64_t step,
                                  double wall_time);
mega_status mega_tensorboard_flush(mega_tensorboard *t);
const char *mega_tensorboard_path(const mega_tensorboard *t);     /* of the file; borrowed */
mega_missing mega_tensorboard_missing(const mega_tensorboard *t); /* pieces that are not in the file, so far */
/* Flushes, and says what is not there in the end. Frees also when it fails; NULL is fine. */
mega_status mega_tensorboard_close(mega_tensorboard *t, mega_missing *missing);

#ifdef __cplusplus
}
#endif

#endif
