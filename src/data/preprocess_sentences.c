/* The parameters with which the preprocessor cuts sentences: read from a folder, or learnt from the input before it is
 * tokenized. */
#include "data_impl.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "preprocess_impl.h"

static mega_status learn_chunk(const mega_preprocess_job *job, const mega_document_chunk *chunk,
                               mega_punkt_trainer *trainer, mega_buffer *texts, int64_t *bad_lines)
{
    for (int64_t r = 0; r < chunk->count; r++) {
        mega_document_fault fault;
        if (mega_document_texts(chunk, r, job->keys, job->num_keys, texts, &fault)) {
            for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_punkt_learn(trainer, texts[k].data, texts[k].size));
            continue;
        }
        for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_buffer_check(&texts[k], "the text of a document"));
        /* Warnings come later, when the documents are tokenized; here an invalid line is an error or is skipped. */
        if (!job->skip_bad_lines) return mega_preprocess_bad_record(job, chunk->path, &fault, bad_lines);
    }
    return MEGA_OK;
}

static mega_status learn_all(const mega_preprocess_job *job, mega_documents *input, mega_punkt_trainer *trainer)
{
    mega_buffer texts[MEGA_PREPROCESS_KEYS_MAX] = {{0}};
    mega_progress progress;
    mega_progress_begin(&progress, "learning where sentences end", "documents", mega_documents_total_bytes(input), 0);
    mega_document_chunk chunk = {0};
    int64_t bad_lines = 0;
    uint64_t documents = 0, position = 0;
    mega_status st;
    while ((st = mega_documents_read(input, &chunk)) == MEGA_OK && chunk.count > 0) {
        st = learn_chunk(job, &chunk, trainer, texts, &bad_lines);
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
    return st == MEGA_OK ? mega_punkt_finish(trainer) : st;
}

static mega_status learn(const mega_preprocess_job *job, mega_punkt *p)
{
    mega_documents *input;
    mega_punkt_trainer *trainer;
    for (int i = 0; i < job->num_inputs; i++) {
        if (strcmp(job->inputs[i], "-") == 0)
            return MEGA_FAIL(MEGA_ERR_USAGE,
                             "--split-sentences learns from the input where sentences end before it cuts them, which "
                             "standard input does not allow; give a file, or --sentence-parameters FOLDER");
    }
    if (job->num_keys < 1 || job->num_keys > MEGA_PREPROCESS_KEYS_MAX)
        return MEGA_FAIL(MEGA_ERR_USAGE, "--json-keys: found %d keys, expected 1 to %d", job->num_keys,
                         MEGA_PREPROCESS_KEYS_MAX);
    MEGA_TRY(mega_preprocess_open(job, &input));
    mega_status st = mega_punkt_trainer_create(p, &trainer);
    if (st == MEGA_OK) {
        st = learn_all(job, input, trainer);
        mega_punkt_trainer_destroy(trainer);
    }
    mega_documents_close(input);
    return st;
}

/* Reads FOLDER, or FOLDER/LANGUAGE if it has that. */
static mega_status read_parameters(const mega_preprocess_sentences *o, mega_punkt *p)
{
    char *inside = mega_path_join(o->parameters, o->language);
    if (inside == NULL) return MEGA_NO_MEMORY("--sentence-parameters", "the name of a folder");
    const char *folder = mega_folder_exists(inside) ? inside : o->parameters;
    const mega_status st = mega_punkt_read(p, folder);
    if (st != MEGA_OK) MEGA_CONTEXT("--sentence-parameters");
    else
        mega_info("Sentences end as the parameters in %s say", folder);
    mega_free(inside);
    return st;
}

static mega_status prepare(const mega_preprocess_job *job, const mega_preprocess_sentences *o, mega_punkt *p)
{
    if (o->abbreviations != NULL) {
        const mega_status st = mega_punkt_read_abbreviations(p, o->abbreviations);
        if (st != MEGA_OK) MEGA_CONTEXT("--abbreviations");
        MEGA_TRY(st);
    }
    if (o->parameters != NULL) MEGA_TRY(read_parameters(o, p));
    else if (!mega_punkt_needs_none(o->language)) {
        mega_info("Learning from the input where sentences end (--sentence-parameters FOLDER reads it instead)");
        MEGA_TRY(learn(job, p));
    }
    return o->save != NULL ? mega_punkt_write(p, o->save) : MEGA_OK;
}

mega_status mega_preprocess_learn(const mega_preprocess_job *job, const mega_preprocess_sentences *o, mega_punkt **out)
{
    mega_punkt *p;
    MEGA_TRY(mega_punkt_create(o->language, &p));
    const mega_status st = prepare(job, o, p);
    if (st == MEGA_OK) *out = p;
    else
        mega_punkt_destroy(p);
    return st;
}
