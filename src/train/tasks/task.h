/* What a command trains: one row per command, which holds everything the run knows about its model. The rest of this
 * module works with any row. */
#ifndef MEGALITH_TASK_H
#define MEGALITH_TASK_H

#include "megalith/checkpoint.h"
#include "megalith/gpt_data.h"
#include "megalith/memory.h"
#include "megalith/model.h"
#include "megalith/tokenizer.h"
#include "megalith/train_options.h"
#include <signal.h>

/* The inputs for creating a model. */
typedef struct mega_task_options {
    const mega_train_options *cfg;
    /* rows of the vocabulary: ids of the tokenizer, or of a checkpoint whose vocabulary was padded */
    int64_t vocab_rows;
    const mega_model_shape *stored; /* shape of the checkpoint to load; NULL: none is loaded */
    const void *words;              /* what read_tokenizer made of the tokenizer; NULL: there is none */
} mega_task_options;

typedef struct mega_task_model {
    mega_model model;   /* holds pointers into self */
    int stage_programs; /* number of programs in each pipeline stage */
    /* the checkpoint to load lacks the classifier of the model: it begins with initial weights */
    bool begins_classifier;
    bool begins_mixture; /* the checkpoint to load is a dense model, with whose weights a mixture of experts begins */
    void *self;          /* private data of the task */
} mega_task_model;       /* a zero-initialised one is valid and empty */

/* The data of a run whose length is given in epochs: their numbers of samples are known before anything else is
 * checked. */
typedef struct mega_task_texts {
    void *self;                        /* private data of the task; NULL: they are not read */
    int64_t samples[MEGA_SPLIT_COUNT]; /* of one epoch */
    int64_t epochs;                    /* that the options ask for */
    bool drops_last;                   /* the samples that do not fill the last batch of an epoch are left out */
} mega_task_texts;

/* Samples on which the accuracy is measured. */
typedef struct mega_task_set {
    mega_dataset samples;
    const char *name;
    bool is_test; /* their labels are not known */
} mega_task_set;

/* How the length of a run is given, and what follows from that (train_impl.h). */
struct train_course;
extern const struct train_course train_by_iterations, train_by_epochs, train_by_sets;

/* The inputs for opening the data. */
typedef struct mega_task_data_options {
    const mega_train_options *cfg;         /* must be valid until the data are freed */
    const mega_tokenizer *tokenizer;       /* NULL: there is none, or it was rejected */
    const void *words;                     /* what read_tokenizer made of it */
    const mega_model_shape *stored;        /* make_texts: that of the checkpoint to load; NULL: none is loaded */
    int64_t vocab;                         /* samples may contain ids below this; 0: not known */
    int64_t num_samples[MEGA_SPLIT_COUNT]; /* the number that the run reads from each split */
    uint32_t seed;
    bool check_only;                   /* no sample will be read: build everything except their order */
    const mega_task_texts *texts;      /* what make_texts read; make_data borrows it */
    mega_team *team;                   /* threads for make_texts */
    mega_gpt_share *share;             /* shared memory for the order of samples; NULL: every rank allocates its own */
    const volatile sig_atomic_t *stop; /* if not NULL: make_data ends with MEGA_ERR_INTERRUPTED once it is not 0 */
} mega_task_data_options;

/* The samples of one split. */
typedef struct mega_task_data {
    void *self;         /* private data of the task; NULL: the split is empty */
    int64_t samples;    /* may be more than were requested */
    size_t order_bytes; /* bytes of the arrays that hold their order; the ranks of a host share one copy */
} mega_task_data;

typedef struct mega_task {
    const char *command;          /* the command's name in config/ */
    const char *model_name;       /* for log lines: "building GPT model ..." */
    const char *use, *use_effect; /* the command that uses the trained model, and what it does with it */
    const struct train_course *course;
    int likelihoods;        /* shows_parts_alone: number of losses, the first ones, whose perplexity is shown; 0: all */
    bool shows_parts_alone; /* log lines show each loss under its own name, and not their sum */
    /* The options that --use-checkpoint-args takes from the run that wrote a checkpoint: their names,
     * NULL at the end. */
    const char *const *stored_args;

    /* Sets options that the command line leaves open from the shape stored in a checkpoint; is_open: options of the
     * network too. */
    mega_status (*take_shape)(mega_train_options *cfg, const mega_model_shape *stored, bool is_open);
    /* NULL, or: refuses a folder with a model that this task does not train, before anything else is read of it. */
    mega_status (*check_folder)(const mega_model_shape *stored);
    bool (*leaves_shape_open)(const mega_train_options *cfg); /* whether no option describes the network */
    /* Called once all options are known. free_model frees what it leaves in out, also after a failure. */
    mega_status (*make_model)(const mega_task_options *o, mega_task_model *out);
    void (*free_model)(mega_task_model *m);
    /* Lets a model with begins_mixture be read from the checkpoint of a dense one. NULL: no model of the task is so. */
    mega_status (*begin_mixture)(const mega_task_model *m, const mega_train_options *cfg, mega_checkpoint *c);

    /* compare: lists what prevents the use of a checkpoint's weights, one line each: "
     *   --num-layers is 2 here, 3 in the checkpoint". warn: logs a warning about what the user may have intended. */
    void (*compare)(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out);
    void (*warn)(const mega_task_model *m, mega_train_options *cfg, const mega_model_shape *stored, const char *folder);
    mega_model_shape (*shape)(const mega_task_model *m, int64_t eos); /* the shape to write into a checkpoint folder */
    void (*describe)(const mega_task_model *m, mega_buffer *out);     /* writes a line of the plan */
    void (*card)(const mega_task_model *m, const mega_train_options *cfg,
                 mega_buffer *out); /* writes the head of a model card */

    /* Unless the length is given in iterations, these read and free the data that the samples of every epoch are made
     * of. */
    mega_status (*make_texts)(const mega_task_data_options *o, mega_task_texts *out);
    void (*free_texts)(mega_task_texts *texts);
    /* train_by_sets: the accuracy on each of these sets is measured after each epoch. Returns false if there are no
     * more than i sets; *out borrows texts. */
    bool (*evaluation_set)(const mega_task_texts *texts, size_t i, mega_task_set *out);
    /* Sets *out to what samples need to know of the tokenizer, one block of memory; NULL: nothing. Refuses a tokenizer
     * that the task cannot use. */
    mega_status (*read_tokenizer)(const mega_tokenizer *tokenizer, void **out);
    mega_status (*check_data_options)(
        const mega_task_data_options *o); /* called before the data are opened; NULL: any will do */
    mega_status (*make_data)(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT]);
    /* Joins parts into one dataset that returns their samples one part after the other. Takes ownership of the parts,
     * also on failure. */
    mega_status (*join_data)(mega_task_data *part, int count, mega_task_data *out);
    void (*free_data)(mega_task_data *d);
    /* a hash that identifies the data, independent of the paths of the files */
    uint64_t (*data_hash)(const mega_task_data *d);
    /* Looks for mistakes in a part of the data; *content receives a hash of that part, which detects data that changed
     * in place. */
    mega_status (*look_at_data)(const mega_task_data *d, uint64_t *content);
    mega_dataset (*dataset)(const mega_task_data *d); /* access to its samples, from any thread; borrowed */
    /* Returns a hash of the order and content of some of the first `samples` samples. There must be that many. */
    uint64_t (*order_hash)(const mega_task_data *d, int64_t samples);
} mega_task;

/* Returns the row of a command; a command without its own task, such as `plan`, gets the row of pretrain_gpt. */
const mega_task *train_task_of(const char *command);

extern const mega_task train_task_gpt, train_task_clm; /* task_gpt.c */
extern const mega_task train_task_bert;                /* task_bert.c */
extern const mega_task train_task_t5;                  /* task_t5.c */
extern const mega_task train_task_classify;            /* task_classify.c */

#endif
