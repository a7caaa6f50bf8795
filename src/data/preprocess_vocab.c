/* Collects the characters of the input as the vocabulary of a CharTokenizer, for experiments that start from text
 * only. */
#include "data_impl.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "megalith/tokenizer_train.h"
#include "preprocess_impl.h"

static mega_status vocab_add_chunk(const mega_preprocess_job *job, const mega_document_chunk *chunk,
                                   mega_trainer *trainer, mega_buffer *texts, int64_t *bad_lines)
{
    for (int64_t r = 0; r < chunk->count; r++) {
        mega_document_fault fault;
        if (mega_document_texts(chunk, r, job->keys, job->num_keys, texts, &fault)) {
            for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_trainer_add(trainer, texts[k].data, texts[k].size));
            continue;
        }
        for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_buffer_check(&texts[k], "the text of a document"));
        /* Warnings come later, when the documents are tokenized; here an invalid line is an error or is skipped. */
        if (!job->skip_bad_lines) return mega_preprocess_bad_record(job, chunk->path, &fault, bad_lines);
    }
    return MEGA_OK;
}

static mega_status vocab_add_all(const mega_preprocess_job *job, mega_documents *input, mega_trainer *trainer,
                                 mega_buffer *texts)
{
    mega_progress progress;
    mega_progress_begin(&progress, "collecting characters", "documents", mega_documents_total_bytes(input), 0);
    mega_document_chunk chunk = {0};
    int64_t bad_lines = 0;
    uint64_t documents = 0, position = 0;
    mega_status st;
    while ((st = mega_documents_read(input, &chunk)) == MEGA_OK && chunk.count > 0) {
        st = vocab_add_chunk(job, &chunk, trainer, texts, &bad_lines);
        if (st != MEGA_OK) break;
        documents += (uint64_t)chunk.count;
        position = chunk.position;
        mega_progress_update(&progress, position, documents);
    }
    mega_progress_end(&progress, position, documents);
    mega_document_chunk_fini(&chunk);
    return st;
}

static mega_status vocab_save(mega_trainer *trainer, const char *path)
{
    mega_tokenizer *t;
    MEGA_TRY(mega_trainer_finish(trainer, &t));
    const mega_status st = mega_tokenizer_save_vocab(t, path);
    mega_tokenizer_destroy(t);
    return st;
}

static mega_status vocab_collect(const mega_preprocess_job *job, mega_documents *input, const char *path)
{
    mega_buffer texts[MEGA_PREPROCESS_KEYS_MAX] = {{0}};
    mega_trainer *trainer;
    MEGA_TRY(mega_trainer_create(&(mega_trainer_options){.type = "CharTokenizer"}, &trainer));
    mega_status st = vocab_add_all(job, input, trainer, texts);
    if (st == MEGA_OK) st = vocab_save(trainer, path);
    for (int k = 0; k < job->num_keys; k++) mega_buffer_fini(&texts[k]);
    mega_trainer_destroy(trainer);
    return st;
}

mega_status mega_preprocess_char_vocabulary(const mega_preprocess_job *job, const char *path)
{
    if (job->num_keys < 1 || job->num_keys > MEGA_PREPROCESS_KEYS_MAX)
        return MEGA_FAIL(MEGA_ERR_USAGE, "--json-keys: found %d keys, expected 1 to %d", job->num_keys,
                         MEGA_PREPROCESS_KEYS_MAX);
    for (int i = 0; i < job->num_inputs; i++) {
        if (strcmp(job->inputs[i], "-") == 0)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "--vocab-file %s does not exist and would be created by reading the input before it is tokenized, "
                "which "
                "standard input does not allow; give a file, or create the vocabulary first with `megalith "
                "train_tokenizer --tokenizer-type CharTokenizer`",
                path);
    }
    mega_documents *input;
    MEGA_TRY(mega_preprocess_open(job, &input));
    const mega_status st = vocab_collect(job, input, path);
    mega_documents_close(input);
    return st;
}
