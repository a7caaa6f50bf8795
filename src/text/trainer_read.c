/* Reading the documents of a training. In each round the caller's thread reads one chunk a worker, and the workers
 * count them, each in a trainer of its own; these are joined at the end. So the result is the same for any number of
 * workers. */
#include "megalith/log.h"
#include "megalith/progress.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include "trainer.h"

enum { CHUNK_BYTES = 1 << 20, MAX_KEYS = 64 };

typedef struct reader_worker {
    mega_trainer *trainer; /* the first worker's is the caller's */
    mega_document_chunk chunk;
    mega_buffer text[MAX_KEYS];
    mega_trainer_counts counts;
    mega_error_record error;
} reader_worker;

typedef struct reader {
    const mega_trainer_input *input;
    reader_worker *worker;
    int workers;
    mega_documents *documents;
    mega_team *team;
} reader;

/* A broken record: a warning, or the end. */
static mega_status bad_record(const reader *r, reader_worker *w, const mega_document_fault *fault)
{
    for (int k = 0; k < r->input->num_keys; k++) MEGA_TRY(mega_buffer_check(&w->text[k], "the text of a document"));
    w->counts.bad_lines++;
    if (!r->input->skip_bad_lines)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s line %lld column %lld: %s; correct the line, or leave such lines out with --on-bad-line skip",
            w->chunk.path, (long long)fault->line, (long long)fault->column, fault->what);
    mega_warn("%s line %lld column %lld: %s; left out", w->chunk.path, (long long)fault->line, (long long)fault->column,
              fault->what);
    return MEGA_OK;
}

static mega_status count_chunk(const reader *r, reader_worker *w)
{
    for (int64_t i = 0; i < w->chunk.count; i++) {
        mega_document_fault fault;
        if (!mega_document_texts(&w->chunk, i, r->input->keys, r->input->num_keys, w->text, &fault)) {
            MEGA_TRY(bad_record(r, w, &fault));
            continue;
        }
        w->counts.documents++;
        for (int k = 0; k < r->input->num_keys; k++) {
            w->counts.text_bytes += w->text[k].size;
            mega_status st = mega_trainer_add(w->trainer, w->text[k].data, w->text[k].size);
            if (st != MEGA_OK) {
                MEGA_CONTEXT("%s line %lld", w->chunk.path, (long long)w->chunk.record[i].line);
                return st;
            }
        }
    }
    return MEGA_OK;
}

static void count_share(void *user, int thread, int size)
{
    const reader *r = user;
    (void)size;
    reader_worker *w = &r->worker[thread];
    if (w->chunk.count > 0 && count_chunk(r, w) != MEGA_OK) mega_error_get(&w->error);
}

/* One chunk for each worker, as far as there are any. */
static mega_status read_round(reader *r, bool *more)
{
    for (int i = 0; i < r->workers; i++) {
        reader_worker *w = &r->worker[i];
        w->chunk.count = 0;
        if (*more) MEGA_TRY(mega_documents_read(r->documents, &w->chunk));
        *more = *more && w->chunk.count > 0;
    }
    return MEGA_OK;
}

static mega_trainer_counts sum_counts(const reader *r)
{
    mega_trainer_counts sum = {0};
    for (int i = 0; i < r->workers; i++) {
        sum.documents += r->worker[i].counts.documents;
        sum.bad_lines += r->worker[i].counts.bad_lines;
        sum.text_bytes += r->worker[i].counts.text_bytes;
    }
    return sum;
}

static mega_status read_all(reader *r)
{
    mega_progress progress;
    mega_progress_begin(&progress, "reading", "documents", mega_documents_total_bytes(r->documents), 0);
    uint64_t position = 0;
    mega_status st = MEGA_OK;
    for (bool more = true; more && st == MEGA_OK;) {
        st = read_round(r, &more);
        if (st != MEGA_OK) break;
        mega_team_run(r->team, count_share, r);
        /* Chunks are in order of the text, so the first worker's mistake is the first mistake. */
        for (int i = 0; i < r->workers && st == MEGA_OK; i++) {
            if (r->worker[i].error.code != MEGA_OK) st = mega_error_restore(&r->worker[i].error);
            if (r->worker[i].chunk.count > 0) position = r->worker[i].chunk.position;
        }
        mega_progress_update(&progress, position, (uint64_t)sum_counts(r).documents);
    }
    mega_progress_end(&progress, position, (uint64_t)sum_counts(r).documents);
    return st;
}

static mega_status begin(reader *r, mega_trainer *t)
{
    mega_documents_options documents = r->input->documents;
    if (documents.chunk_bytes == 0) documents.chunk_bytes = CHUNK_BYTES;
    if (r->input->num_keys < 1 || r->input->num_keys > MAX_KEYS)
        return MEGA_FAIL(MEGA_ERR_USAGE, "--json-keys: found %d keys, expected 1 to %d", r->input->num_keys, MAX_KEYS);
    if (r->input->workers < 1) return MEGA_FAIL(MEGA_ERR_USAGE, "--workers %d; expected 1 or more", r->input->workers);
    MEGA_TRY(mega_documents_open(&r->documents, &documents));
    r->worker = mega_calloc((size_t)r->input->workers, sizeof *r->worker);
    if (r->worker == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer training: no memory for %d workers", r->input->workers);
    r->workers = r->input->workers;
    r->worker[0].trainer = t;
    for (int i = 1; i < r->workers; i++) MEGA_TRY(mega_trainer_create_like(&r->worker[i].trainer, t));
    return mega_team_create(&r->team, r->workers);
}

static void end(reader *r)
{
    mega_team_destroy(r->team);
    for (int i = 0; i < r->workers; i++) {
        mega_document_chunk_fini(&r->worker[i].chunk);
        for (int k = 0; k < r->input->num_keys && k < MAX_KEYS; k++) mega_buffer_fini(&r->worker[i].text[k]);
        if (i > 0) mega_trainer_destroy(r->worker[i].trainer);
    }
    mega_free(r->worker);
    mega_documents_close(r->documents);
}

mega_status mega_trainer_read(mega_trainer *t, const mega_trainer_input *input, mega_trainer_counts *out)
{
    reader r = {.input = input};
    mega_status st = begin(&r, t);
    if (st == MEGA_OK) st = read_all(&r);
    for (int i = 1; i < r.workers && st == MEGA_OK; i++) st = mega_trainer_join(t, r.worker[i].trainer);
    if (st == MEGA_OK) *out = sum_counts(&r);
    end(&r);
    return st;
}
