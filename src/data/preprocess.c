/* The preprocessor: checks a job, opens one writer for each key, and passes the output of the pipeline to them. */
#include "megalith/preprocess.h"
#include "data_impl.h"
#include "megalith/indexed_tokenizer.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "megalith/threads.h"
#include "preprocess_impl.h"

enum { WARNINGS_MAX = 20, NAMES_MAX = 5 };

char *mega_preprocess_output(const mega_preprocess_job *job, int key)
{
    return mega_format("%s_%s_%s", job->output_prefix, job->keys[key],
                       job->sentences != NULL ? "sentence" : "document");
}

mega_status mega_preprocess_open(const mega_preprocess_job *job, mega_documents **out)
{
    const mega_documents_options o = {.inputs = job->inputs,
                                      .num_inputs = job->num_inputs,
                                      .format = job->format,
                                      .split_on_blank_lines = job->split_on_blank_lines,
                                      .stop = job->stop};
    return mega_documents_open(&o, out);
}

mega_status mega_preprocess_bad_record(const mega_preprocess_job *job, const char *path,
                                       const mega_document_fault *fault, int64_t *bad_lines)
{
    if (!job->skip_bad_lines) return mega_document_refuse(path, fault);
    const int64_t n = ++*bad_lines;
    if (n <= WARNINGS_MAX)
        mega_warn("%s: line %lld, column %lld: %s; the line is skipped%s", path, (long long)fault->line,
                  (long long)fault->column, fault->what, n == WARNINGS_MAX ? " (further ones are only counted)" : "");
    return MEGA_OK;
}

/* ---- writing ---- */

typedef struct output {
    const mega_preprocess_job *job;
    mega_preprocess_result *result;
    mega_indexed_writer **writer; /* [keys] */
    mega_progress progress;
    int64_t last_line; /* documents at the last progress line */
} output;

static int32_t number_at(const mega_buffer *numbers, int64_t i)
{
    int32_t value;
    memcpy(&value, numbers->data + (size_t)i * sizeof value, sizeof value);
    return value;
}

static mega_status write_sentences(output *out, const preprocess_item *item, int key)
{
    const int32_t *sizes = (const int32_t *)(void *)item->sizes[key].data, *id = item->ids[key].id;
    for (int64_t d = 0; d < item->documents; d++) {
        const int32_t count = number_at(&item->counts[key], d);
        if (count == 0) MEGA_TRY(mega_indexed_writer_add(out->writer[key], NULL, 0));
        else
            MEGA_TRY(mega_indexed_writer_add_document(out->writer[key], id, sizes, count));
        for (int32_t s = 0; s < count; s++) id += *sizes++;
        out->result->sentences += count;
    }
    return MEGA_OK;
}

static mega_status write_key(output *out, const preprocess_item *item, int key)
{
    int64_t at = 0;
    if (out->job->sentences != NULL) return write_sentences(out, item, key);
    for (int64_t d = 0; d < item->documents; d++) {
        const int32_t size = number_at(&item->sizes[key], d);
        MEGA_TRY(mega_indexed_writer_add(out->writer[key], size > 0 ? item->ids[key].id + at : NULL, size));
        at += size;
    }
    return MEGA_OK;
}

/* The tokens of a document, or the number of its sentences, is above 0 unless it is empty. */
static int64_t count_empty(const preprocess_item *item, int num_keys, bool sentences)
{
    int64_t empty = 0;
    for (int64_t d = 0; d < item->documents; d++) {
        bool any = false;
        for (int k = 0; k < num_keys; k++) any = any || number_at((sentences ? item->counts : item->sizes) + k, d) > 0;
        empty += !any;
    }
    return empty;
}

static void preprocess_show_progress(output *out, uint64_t position)
{
    const mega_preprocess_result *r = out->result;
    mega_progress_update(&out->progress, position, (uint64_t)r->documents);
    const int64_t interval = out->job->log_interval;
    if (interval <= 0 || r->documents / interval == out->last_line / interval) return;
    out->last_line = r->documents;
    const double seconds = mega_time_now() - out->progress.started;
    mega_info("Processed %lld document%s (%.1f docs/s, %.2f MB/s).", (long long)r->documents,
              r->documents == 1 ? "" : "s", (double)r->documents / seconds,
              (double)r->text_bytes / (1024.0 * 1024.0) / seconds);
}

static mega_status take_item(void *user, const preprocess_item *item)
{
    output *out = user;
    const int64_t faults = (int64_t)(item->faults.size / sizeof(mega_document_fault));
    for (int64_t i = 0; i < faults; i++) {
        mega_document_fault fault;
        memcpy(&fault, item->faults.data + (size_t)i * sizeof fault, sizeof fault);
        MEGA_TRY(mega_preprocess_bad_record(out->job, item->chunk.path, &fault, &out->result->bad_lines));
    }
    for (int k = 0; k < out->job->num_keys; k++) MEGA_TRY(write_key(out, item, k));
    out->result->documents += item->documents;
    out->result->empty_documents += count_empty(item, out->job->num_keys, out->job->sentences != NULL);
    out->result->text_bytes += item->text_bytes;
    preprocess_show_progress(out, item->chunk.position);
    return MEGA_OK;
}

/* ---- the whole job ---- */

static mega_status check_job(const mega_preprocess_job *job)
{
    if (job->num_keys < 1 || job->num_keys > MEGA_PREPROCESS_KEYS_MAX)
        return MEGA_MISTAKE("--json-keys: found %d keys, expected 1 to %d", job->num_keys, MEGA_PREPROCESS_KEYS_MAX);
    for (int i = 0; i < job->num_keys; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(job->keys[i], job->keys[k]) == 0)
                return MEGA_MISTAKE("--json-keys: \"%s\" is given twice; give each key once", job->keys[i]);
        }
        if (job->keys[i][0] == '\0' || strchr(job->keys[i], '/') != NULL)
            return MEGA_MISTAKE("--json-keys: \"%s\" becomes part of a file name, but cannot be part of one",
                                job->keys[i]);
    }
    if (job->append_eod && mega_tokenizer_eod(job->tokenizer) < 0)
        return MEGA_MISTAKE(
            "--append-eod: the tokenizer (%s) has no id that ends a document; leave the option out or use a "
            "vocabulary with <|endoftext|>",
            mega_tokenizer_type(job->tokenizer));
    return MEGA_OK;
}

static mega_status open_writers(output *out)
{
    const mega_dtype dtype = mega_indexed_dtype_for(mega_tokenizer_size(out->job->tokenizer));
    for (int k = 0; k < out->job->num_keys; k++) {
        char *prefix = mega_preprocess_output(out->job, k);
        if (prefix == NULL) return MEGA_NO_MEMORY("--output-prefix", "a file name");
        char *folder = mega_path_folder(prefix);
        mega_status st = folder != NULL ? mega_folder_create(folder) : MEGA_NO_MEMORY("--output-prefix", "a file name");
        if (st == MEGA_OK) st = mega_indexed_writer_create(prefix, dtype, &out->writer[k]);
        MEGA_FREE(folder, prefix);
        if (st != MEGA_OK) {
            MEGA_CONTEXT("--output-prefix");
            return st;
        }
    }
    return MEGA_OK;
}

static void show_inputs(const mega_documents *input)
{
    const int64_t n = mega_documents_files(input);
    for (int64_t i = 0; i < n && i < NAMES_MAX; i++) mega_info("Opening %s", mega_documents_path(input, i));
    if (n > NAMES_MAX) mega_info("... and %lld more files", (long long)(n - NAMES_MAX));
}

/* While the pair is replaced there is no word of its tokenizer. */
static mega_status finish_key(output *out, int k, const char *prefix)
{
    MEGA_TRY(mega_indexed_put_tokenizer(prefix, NULL));
    mega_indexed_writer *w = out->writer[k];
    out->writer[k] = NULL;
    out->result->tokens[k] = mega_indexed_writer_tokens(w);
    MEGA_TRY(mega_indexed_writer_finish(w));
    return mega_indexed_put_tokenizer(prefix, out->job->tokenizer);
}

static mega_status preprocess_finish(output *out)
{
    for (int k = 0; k < out->job->num_keys; k++) {
        char *prefix = mega_preprocess_output(out->job, k);
        const mega_status st = prefix != NULL ? finish_key(out, k, prefix) : MEGA_NO_MEMORY("data set", "a file name");
        mega_free(prefix);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

static mega_status preprocess_run(output *out, mega_documents *input)
{
    MEGA_TRY(open_writers(out));
    show_inputs(input);
    mega_progress_begin(&out->progress, "tokenizing", "documents", mega_documents_total_bytes(input), 0);
    const mega_status st = mega_preprocess_run(out->job, input, take_item, out);
    mega_progress_end(&out->progress, mega_documents_total_bytes(input), (uint64_t)out->result->documents);
    MEGA_TRY(st);
    if (out->result->documents == 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "--input: found no document in %s%s; expected at least one",
                         mega_documents_path(input, 0), out->result->bad_lines > 0 ? " (all lines are invalid)" : "");
    return preprocess_finish(out);
}

mega_status mega_preprocess(const mega_preprocess_job *job, mega_preprocess_result *result)
{
    MEGA_TRY(check_job(job));
    const double started = mega_time_now();
    *result = (mega_preprocess_result){0};
    output out = {.job = job, .result = result};
    mega_documents *input;
    MEGA_TRY(mega_preprocess_open(job, &input));
    out.writer = mega_calloc((size_t)job->num_keys, sizeof *out.writer);
    const mega_status st =
        out.writer != NULL ? preprocess_run(&out, input) : MEGA_NO_MEMORY("preprocessing", "its writers");
    for (int k = 0; out.writer != NULL && k < job->num_keys; k++) mega_indexed_writer_abandon(out.writer[k]);
    mega_free(out.writer);
    mega_documents_close(input);
    result->seconds = mega_time_now() - started;
    return st;
}
