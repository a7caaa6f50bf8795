/* Reads the texts of the input before they are tokenized, for code that learns from them. */
#include "data_impl.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "preprocess_impl.h"

static mega_status learn_chunk(const mega_preprocess_job *job, const mega_document_chunk *chunk,
                               preprocess_learner *learner, void *user, mega_buffer *texts, int64_t *bad_lines)
{
    for (int64_t r = 0; r < chunk->count; r++) {
        mega_document_fault fault;
        if (mega_document_texts(chunk, r, job->keys, job->num_keys, texts, &fault)) {
            for (int k = 0; k < job->num_keys; k++) MEGA_TRY(learner(user, texts[k].data, texts[k].size));
            continue;
        }
        for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_buffer_check(&texts[k], "the text of a document"));
        /* Warnings come later, when the documents are tokenized; here an invalid line is an error or is skipped. */
        if (!job->skip_bad_lines) return mega_preprocess_bad_record(job, chunk->path, &fault, bad_lines);
    }
    return MEGA_OK;
}

static mega_status learn_all(const mega_preprocess_job *job, mega_documents *input, const char *doing,
                             preprocess_learner *learner, void *user)
{
    mega_buffer texts[MEGA_PREPROCESS_KEYS_MAX] = {{0}};
    mega_progress progress;
    mega_progress_begin(&progress, doing, "documents", mega_documents_total_bytes(input), 0);
    mega_document_chunk chunk = {0};
    int64_t bad_lines = 0;
    uint64_t documents = 0, position = 0;
    mega_status st;
    while ((st = mega_documents_read(input, &chunk)) == MEGA_OK && chunk.count > 0) {
        st = learn_chunk(job, &chunk, learner, user, texts, &bad_lines);
        if (st == MEGA_OK && job->stop != NULL && *job->stop != 0)
            st = MEGA_FAIL(MEGA_ERR_INTERRUPTED, "preprocessing was interrupted before it wrote anything");
        if (st != MEGA_OK) break;
        documents += (uint64_t)chunk.count;
        position = chunk.position;
        mega_progress_update(&progress, position, documents);
    }
    mega_progress_end(&progress, position, documents);
    mega_document_chunk_fini(&chunk);
    for (int k = 0; k < job->num_keys; k++) mega_buffer_fini(&texts[k]);
    return st;
}

mega_status mega_preprocess_texts(const mega_preprocess_job *job, const char *doing, const char *why,
                                  preprocess_learner *learner, void *user)
{
    for (int i = 0; i < job->num_inputs; i++)
        if (strcmp(job->inputs[i], "-") == 0) return MEGA_MISTAKE("%s", why);
    if (job->num_keys < 1 || job->num_keys > MEGA_PREPROCESS_KEYS_MAX)
        return MEGA_MISTAKE("--json-keys: found %d keys, expected 1 to %d", job->num_keys, MEGA_PREPROCESS_KEYS_MAX);
    mega_documents *input;
    MEGA_TRY(mega_preprocess_open(job, &input));
    const mega_status st = learn_all(job, input, doing, learner, user);
    mega_documents_close(input);
    return st;
}
