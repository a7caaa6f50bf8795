/* What a command trains: one row a command, and all that the run knows of its model. Everything else in this room
 * serves any row. */
#ifndef MEGALITH_TASK_H
#define MEGALITH_TASK_H

#include "megalith/checkpoint.h"
#include "megalith/gpt_data.h"
#include "megalith/memory.h"
#include "megalith/model.h"
#include "megalith/tokenizer.h"
#include "megalith/train_options.h"
#include <signal.h>

/* What a model is made from. */
typedef struct mega_task_options {
    const mega_train_options *cfg;
    int64_t vocab_rows;             /* ids of the tokenizer, or of a checkpoint that was padded beyond them */
    const mega_model_shape *stored; /* of the checkpoint that is loaded; NULL: none is */
} mega_task_options;

typedef struct mega_task_model {
    mega_model model;   /* borrows from self */
    int stage_programs; /* of each pipeline stage */
    void *self;         /* the task's */
} mega_task_model;      /* zero-initialised is valid and empty */

/* What data are made from. */
typedef struct mega_task_data_options {
    const mega_train_options *cfg;         /* stays until the data go */
    const mega_tokenizer *tokenizer;       /* NULL: there is none, or one that was refused */
    int64_t vocab;                         /* ids that samples may hold; 0: not known */
    int64_t num_samples[MEGA_SPLIT_COUNT]; /* that the run reads of each split */
    uint32_t seed;
    bool check_only;                   /* samples will not be read: everything but their order */
    mega_gpt_share *share;             /* of the order of samples; NULL: every rank has memory of its own */
    const volatile sig_atomic_t *stop; /* not NULL: making ends with MEGA_ERR_INTERRUPTED once it is not 0 */
} mega_task_data_options;

/* The samples of one split. */
typedef struct mega_task_data {
    void *self;         /* the task's; NULL: the split is empty */
    int64_t samples;    /* may be more than were wanted */
    size_t order_bytes; /* of the arrays of their order, which the ranks of a host hold once */
} mega_task_data;

typedef struct mega_task {
    const char *command;          /* as config/ knows it */
    const char *model_name;       /* in log lines: "building GPT model ..." */
    const char *use, *use_effect; /* the command that takes what was trained, and what it does then */
    /* What --use-checkpoint-args takes from the run that wrote a checkpoint: names of options, NULL at the end. */
    const char *const *stored_args;

    /* Takes from the folder of a checkpoint what the command line leaves open; is_open: the network, too. */
    mega_status (*take_shape)(mega_train_options *cfg, const mega_model_shape *stored, bool is_open);
    bool (*leaves_shape_open)(const mega_train_options *cfg); /* no option says anything of the network */
    /* Once all options are known. What it leaves in out is released by free_model, also after a failure. */
    mega_status (*make_model)(const mega_task_options *o, mega_task_model *out);
    void (*free_model)(mega_task_model *m);

    /* What stands in the way of the weights of a checkpoint, a line each: "\n  --num-layers is 2 here, 3 in the
     * checkpoint"; and a warning of what may be meant. */
    void (*compare)(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out);
    void (*warn)(const mega_task_model *m, mega_train_options *cfg, const mega_model_shape *stored, const char *folder);
    mega_model_shape (*shape)(const mega_task_model *m, int64_t eos); /* for a saved folder */
    void (*describe)(const mega_task_model *m, mega_buffer *out);     /* a line of the plan */
    void (*card)(const mega_task_model *m, const mega_train_options *cfg,
                 mega_buffer *out); /* the head of a model card */

    mega_status (*check_data_options)(const mega_task_data_options *o); /* before there are data */
    mega_status (*make_data)(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT]);
    /* Takes the parts, also on failure, and gives their samples one after the other. */
    mega_status (*join_data)(mega_task_data *out, mega_task_data *part, int count);
    void (*free_data)(mega_task_data *d);
    uint64_t (*data_hash)(const mega_task_data *d); /* tells data apart, wherever their files lie */
    /* Mistakes that some of the data show; *content: a hash of some of it, which tells data that changed in place. */
    mega_status (*look_at_data)(const mega_task_data *d, uint64_t *content);
    mega_dataset (*dataset)(const mega_task_data *d); /* its samples, which any thread may read; borrowed */
    /* Hash of some of the first `samples` samples, which there must be: their order and their content. */
    uint64_t (*order_hash)(const mega_task_data *d, int64_t samples);
} mega_task;

/* The row of a command; for a command that names no task of its own, as `plan`, that of pretrain_gpt. */
const mega_task *train_task_of(const char *command);

extern const mega_task train_task_gpt; /* task_gpt.c */

#endif
