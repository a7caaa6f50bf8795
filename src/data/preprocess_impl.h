/* Shared by the files of the preprocessor. */
#ifndef MEGA_PREPROCESS_IMPL_H
#define MEGA_PREPROCESS_IMPL_H

#include "megalith/preprocess.h"
#include "megalith/status.h"

/* One chunk of documents on its way through the pipeline. */
typedef enum preprocess_state { ITEM_FREE = 0, ITEM_FILLED, ITEM_BUSY, ITEM_DONE } preprocess_state;
typedef struct preprocess_item {
    preprocess_state state;
    bool last; /* no documents: the input has ended, or `error` says why reading failed */
    mega_document_chunk chunk;
    mega_ids *ids;             /* [keys] tokens of all documents, one after the other */
    mega_buffer *sizes;        /* [keys] int32 tokens of each document, or of each sentence */
    mega_buffer *counts;       /* [keys] int32 sentences of each document, if they are cut */
    mega_buffer faults;        /* mega_document_fault of each invalid record */
    mega_buffer *space;        /* [keys] unescaped text of the current record */
    mega_document_text *texts; /* [keys] text of the current record */
    int64_t documents;         /* valid ones */
    uint64_t text_bytes;
    mega_error_record error; /* code MEGA_OK: none */
} preprocess_item;

/* Called on the caller's thread, in the order of the input. */
typedef mega_status preprocess_sink(void *user, const preprocess_item *item);

/* Runs all of `input` through job->workers threads to the sink. */
mega_status mega_preprocess_run(const mega_preprocess_job *job, mega_documents *input, preprocess_sink *sink,
                                void *user);

mega_status mega_preprocess_open(const mega_preprocess_job *job, mega_documents **out);
typedef mega_status preprocess_learner(void *user, const char *text, size_t size);
/* Gives all texts of the input to the learner. doing: for the progress bar. why: the error if the input is standard
 * input, which can be read only once. */
mega_status mega_preprocess_texts(const mega_preprocess_job *job, const char *doing, const char *why,
                                  preprocess_learner *learner, void *user);
/* Counts an invalid record and warns, or fails, as the job requests. */
mega_status mega_preprocess_bad_record(const mega_preprocess_job *job, const char *path,
                                       const mega_document_fault *fault, int64_t *bad_lines);

#endif
