/* A wandb run while it is being written, and the files that people read. */
#ifndef MEGALITH_WANDB_FILES_H
#define MEGALITH_WANDB_FILES_H

#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/process.h"
#include "megalith/wandb.h"
#include "proto.h"

enum { WANDB_KEYS = 128 };

typedef struct wandb_key {
    char *name;
    double value; /* the last one */
    bool is_in_row;
} wandb_key;

struct mega_wandb {
    char id[9];
    char *folder;
    struct wandb_log *log;
    int64_t records, step; /* records so far; the step of the row */
    double began, at;      /* seconds since 1970: start of the run, and of the row */
    bool has_row;
    wandb_key key[WANDB_KEYS];
    int keys;
    mega_buffer record, body, inner, text, row; /* kept, so that a step allocates nothing */
};

typedef struct wandb_machine {
    char os[160], host[MEGA_HOST_BYTES];
    int cores;
} wandb_machine;
void wandb_machine_get(wandb_machine *out);

mega_status wandb_write_config(const mega_wandb *w, struct json_t *config); /* files/config.yaml */
mega_status wandb_write_metadata(const mega_wandb *w);                      /* files/wandb-metadata.json */
mega_status wandb_write_summary(const mega_wandb *w, double now);           /* files/wandb-summary.json */

#endif
