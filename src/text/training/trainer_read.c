/* Reads the documents for training. Under a lock, each thread takes the next chunk of the text; it then counts the
 * words in a trainer of its own, and the trainers are joined at the end. Which thread counts which chunk does not
 * change the sums, so the result is the same for any number of workers. A thread that another process holds up while it
 * counts delays only its own chunk, because there are no rounds. (While it reads, the others wait for it.) */
#include "megalith/log.h"
#include "megalith/progress.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include "trainer.h"

#include <pthread.h>

enum { CHUNK_BYTES = 1 << 20, MAX_KEYS = 64 };

typedef struct reader_worker {
    mega_trainer *trainer; /* the first worker uses the caller's */
    mega_document_chunk chunk;
    int64_t number; /* number of the chunk in the text */
    mega_buffer text[MAX_KEYS];
    mega_trainer_counts counts; /* counts of the chunk */
} reader_worker;

typedef struct reader {
    const mega_trainer_input *input;
    reader_worker *worker;
    int workers;
    mega_team *team;

    pthread_mutex_t lock; /* protects all fields below */
    mega_documents *documents;
    int64_t chunks; /* number of chunks read */
    bool ended;     /* no chunk is left, or one failed */
    mega_trainer_counts counts;
    uint64_t position;
    mega_progress progress;
    mega_error_record error; /* the error of the failed chunk that is first in the text */
    int64_t failed;          /* number of that chunk */
} reader;

/* Handles an invalid record: a warning, or the end. */
static mega_status bad_record(const reader *r, reader_worker *w, const mega_document_fault *fault)
{
    for (int k = 0; k < r->input->num_keys; k++) MEGA_TRY(mega_buffer_check(&w->text[k], "the text of a document"));
    w->counts.bad_lines++;
    if (!r->input->skip_bad_lines)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s line %lld column %lld: %s; correct the line, or skip such lines with --on-bad-line skip",
                         w->chunk.path, (long long)fault->line, (long long)fault->column, fault->what);
    mega_warn("%s line %lld column %lld: %s; the line is skipped", w->chunk.path, (long long)fault->line,
              (long long)fault->column, fault->what);
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
        w->counts.documents += !w->chunk.record[i].continues;
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

/* Called under the lock. All chunks before a failed one have been taken and will be counted, so the error that is
 * finally kept belongs to the first mistake in the text, whichever thread found it first. */
static void keep_error(reader *r, int64_t number)
{
    r->ended = true;
    if (r->error.code != MEGA_OK && r->failed < number) return;
    mega_error_get(&r->error);
    r->failed = number;
}

static bool take_chunk(reader *r, reader_worker *w)
{
    pthread_mutex_lock(&r->lock);
    bool found = false;
    if (!r->ended) {
        const mega_status st = mega_documents_read(r->documents, &w->chunk);
        w->number = r->chunks++;
        w->counts = (mega_trainer_counts){0};
        found = st == MEGA_OK && w->chunk.count > 0;
        r->ended = !found;
        if (st != MEGA_OK) keep_error(r, w->number);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void finish_chunk(reader *r, const reader_worker *w, mega_status st)
{
    pthread_mutex_lock(&r->lock);
    if (st != MEGA_OK) keep_error(r, w->number);
    r->counts.documents += w->counts.documents;
    r->counts.bad_lines += w->counts.bad_lines;
    r->counts.text_bytes += w->counts.text_bytes;
    if (w->chunk.position > r->position) r->position = w->chunk.position;
    mega_progress_update(&r->progress, r->position, (uint64_t)r->counts.documents);
    pthread_mutex_unlock(&r->lock);
}

/* Takes chunks until none is left; a thread that starts late finds none. */
static void count_chunks(void *user, int thread, int64_t begin, int64_t end)
{
    reader *r = user;
    reader_worker *w = &r->worker[thread];
    (void)begin;
    (void)end;
    while (take_chunk(r, w)) finish_chunk(r, w, count_chunk(r, w));
}

static mega_status trainer_read_all(reader *r)
{
    mega_progress_begin(&r->progress, "reading", "documents", mega_documents_total_bytes(r->documents), 0);
    mega_team_for(r->team, r->workers, 1, count_chunks, r);
    mega_progress_end(&r->progress, r->position, (uint64_t)r->counts.documents);
    return r->error.code != MEGA_OK ? mega_error_restore(&r->error) : MEGA_OK;
}

static mega_status trainer_read_begin(reader *r, mega_trainer *t)
{
    mega_documents_options documents = r->input->documents;
    if (documents.chunk_bytes == 0) documents.chunk_bytes = CHUNK_BYTES;
    /* skipping an invalid document requires the whole document */
    documents.cut_files = !r->input->skip_bad_lines && mega_trainer_takes_pieces(t);
    if (r->input->num_keys < 1 || r->input->num_keys > MAX_KEYS)
        return MEGA_MISTAKE("--json-keys: found %d keys, expected 1 to %d", r->input->num_keys, MAX_KEYS);
    if (r->input->workers < 1) return MEGA_MISTAKE("--workers %d; expected 1 or more", r->input->workers);
    MEGA_TRY(mega_documents_open(&documents, &r->documents));
    r->worker = mega_calloc((size_t)r->input->workers, sizeof *r->worker);
    if (r->worker == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer training: no memory for %d workers", r->input->workers);
    r->workers = r->input->workers;
    r->worker[0].trainer = t;
    for (int i = 1; i < r->workers; i++) MEGA_TRY(mega_trainer_create_like(t, &r->worker[i].trainer));
    return mega_team_create(r->workers, &r->team);
}

static void trainer_read_end(reader *r)
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
    pthread_mutex_init(&r.lock, NULL);
    mega_status st = trainer_read_begin(&r, t);
    if (st == MEGA_OK) st = trainer_read_all(&r);
    for (int i = 1; i < r.workers && st == MEGA_OK; i++) st = mega_trainer_join(t, r.worker[i].trainer);
    if (st == MEGA_OK) *out = r.counts;
    trainer_read_end(&r);
    pthread_mutex_destroy(&r.lock);
    return st;
}
