/* What a command trains: one row a command, and all that the run knows of its model. Everything else in this room
 * serves any row. */
#ifndef MEGALITH_TASK_H
#define MEGALITH_TASK_H

#include "megalith/checkpoint.h"
#include "megalith/config.h"
#include "megalith/memory.h"
#include "megalith/model.h"

/* What a model is made from. */
typedef struct mega_task_options {
    const mega_config *cfg;
    int64_t vocab_rows;             /* ids of the tokenizer, or of a checkpoint that was padded beyond them */
    const mega_model_shape *stored; /* of the checkpoint that is loaded; NULL: none is */
} mega_task_options;

typedef struct mega_task_model {
    mega_model model;   /* borrows from self */
    int stage_programs; /* of each pipeline stage */
    void *self;         /* the task's */
} mega_task_model;      /* zero-initialised is valid and empty */

typedef struct mega_task {
    const char *command;          /* as config/ knows it */
    const char *model_name;       /* in log lines: "building GPT model ..." */
    const char *use, *use_effect; /* the command that takes what was trained, and what it does then */
    /* What --use-checkpoint-args takes from the run that wrote a checkpoint: names of options, NULL at the end. */
    const char *const *stored_args;

    /* Takes from the folder of a checkpoint what the command line leaves open; is_open: the network, too. */
    mega_status (*take_shape)(mega_config *cfg, const mega_model_shape *stored, bool is_open);
    bool (*leaves_shape_open)(const mega_config *cfg); /* no option says anything of the network */
    /* Once all options are known. What it leaves in out is released by free_model, also after a failure. */
    mega_status (*make_model)(const mega_task_options *o, mega_task_model *out);
    void (*free_model)(mega_task_model *m);

    /* What stands in the way of the weights of a checkpoint, a line each: "\n  --num-layers is 2 here, 3 in the
     * checkpoint"; and a warning of what may be meant. */
    void (*compare)(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out);
    void (*warn)(const mega_task_model *m, mega_config *cfg, const mega_model_shape *stored, const char *folder);
    mega_model_shape (*shape)(const mega_task_model *m, int64_t eos);                 /* for a saved folder */
    void (*describe)(const mega_task_model *m, mega_buffer *out);                     /* a line of the plan */
    void (*card)(const mega_task_model *m, const mega_config *cfg, mega_buffer *out); /* the head of a model card */
} mega_task;

/* The row of a command; for a command that names no task of its own, as `plan`, that of pretrain_gpt. */
const mega_task *train_task_of(const char *command);

extern const mega_task train_task_gpt; /* task_gpt.c */

#endif
