/* An offline run of Weights & Biases: the folder that its package writes without a network, and that `wandb sync`
 * uploads and `wandb leet` shows. docs/formats.md has its bytes. */
#ifndef MEGALITH_WANDB_H
#define MEGALITH_WANDB_H

#include "megalith/outbox.h"
#include "megalith/status.h"
#include <stdint.h>

struct json_t;

typedef struct mega_wandb mega_wandb;
typedef struct mega_wandb_run {
    const char *folder;  /* the run is FOLDER/wandb/offline-run-DATE_TIME-ID; "": the working folder */
    const char *project; /* NULL: none, like the rest */
    const char *group, *team, *name;
    struct json_t *config; /* a flat object with the settings of the run; borrowed */
    double now;            /* seconds since 1970 */
} mega_wandb_run;

/* Creates the folder and writes the records and files that do not change. */
mega_status mega_wandb_open(const mega_wandb_run *run, mega_wandb **out);
/* Adds a value to the row of this step; the row is written when one of another step is begun, or at a flush. Steps do
 * not fall. */
mega_status mega_wandb_put(mega_wandb *w, const char *key, double value, int64_t step, double now);
mega_status mega_wandb_flush(mega_wandb *w);
const char *mega_wandb_folder(const mega_wandb *w);   /* of the run; borrowed */
mega_missing mega_wandb_missing(const mega_wandb *w); /* rows that are not in the file so far */
/* Writes the last row, the end of the run and its summary file. Frees w even if it fails; NULL is allowed. */
mega_status mega_wandb_close(mega_wandb *w, double now, mega_missing *missing);

#endif
