/* Pipeline: reader thread -> workers -> the caller, who writes; with one core the caller does all of it in turn. Items
 * form a ring: item n of the input is always in slot n mod size, so order needs no sorting, and the ring limits the
 * memory.
 *
 *   free    the reader may fill it          filled  a worker may take it
 *   busy    a worker is tokenizing it       done    the caller may write it */
#include "data_impl.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "preprocess_impl.h"
#include <pthread.h>
#include <time.h>

typedef struct worker {
    struct pipeline *pipeline;
    pthread_t thread;
    mega_encoder *encoder;
    mega_sentence_spans spans;
} worker;

typedef struct pipeline {
    const mega_preprocess_job *job;
    mega_documents *input;
    preprocess_item *item;
    int num_items;
    worker *workers;
    int num_workers, num_started;
    pthread_t reader;
    bool has_reader;
    bool alone; /* the caller does everything, without threads */

    pthread_mutex_t lock; /* protects the fields below, and the state of items */
    pthread_cond_t freed, filled, done;
    int64_t read, taken; /* items filled so far; items taken by workers so far */
    bool ended, stop;
} pipeline;

/* ---- a worker ---- */

static mega_status append_eod(const mega_preprocess_job *job, mega_ids *ids)
{
    MEGA_TRY(mega_ids_reserve(ids, 1));
    ids->id[ids->count++] = mega_tokenizer_eod(job->tokenizer);
    return MEGA_OK;
}

static mega_status put_size(mega_buffer *sizes, int64_t size)
{
    if (size > INT32_MAX)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "found a document of %lld tokens, expected at most %d; split the text into smaller documents",
                         (long long)size, INT32_MAX);
    const int32_t narrow = (int32_t)size;
    mega_buffer_append(sizes, &narrow, sizeof narrow);
    return mega_buffer_check(sizes, "the sizes of documents");
}

/* Sentences without a token are left out. They are parts of samples, which have the tokens of their kind around them,
 * so the tokens of a tokenizer's template, such as [CLS] and [SEP], are not added. */
static mega_status encode_sentences(preprocess_item *item, int k, const mega_preprocess_job *job, worker *w)
{
    const mega_document_text *text = &item->texts[k];
    mega_ids *ids = &item->ids[k];
    int64_t sentences = 0, last = 0; /* last: the end of the sentence before */
    MEGA_TRY(mega_punkt_cut(job->sentences, text->text, text->bytes, job->keep_newlines, &w->spans));
    for (int64_t i = 0; i < w->spans.count; i++) {
        const mega_sentence_span *s = &w->spans.span[i];
        last = ids->count;
        MEGA_TRY(mega_encoder_encode_part(w->encoder, text->text + s->begin, s->end - s->begin, ids));
        if (ids->count == last) continue;
        MEGA_TRY(put_size(&item->sizes[k], ids->count - last));
        sentences++;
    }
    if (sentences > 0 && job->append_eod) { /* the end of a document belongs to its last sentence */
        int32_t size;
        mega_buffer *sizes = &item->sizes[k];
        MEGA_TRY(append_eod(job, ids));
        memcpy(&size, sizes->data + sizes->size - sizeof size, sizeof size);
        sizes->size -= sizeof size;
        MEGA_TRY(put_size(sizes, (int64_t)size + 1));
    }
    return put_size(&item->counts[k], sentences);
}

static mega_status encode_whole(preprocess_item *item, int k, const mega_preprocess_job *job, worker *w)
{
    mega_ids *ids = &item->ids[k];
    const int64_t before = ids->count;
    MEGA_TRY(mega_encoder_encode(w->encoder, item->texts[k].text, item->texts[k].bytes, ids));
    if (ids->count > before && job->append_eod) MEGA_TRY(append_eod(job, ids));
    return put_size(&item->sizes[k], ids->count - before);
}

static mega_status encode_record(preprocess_item *item, const mega_preprocess_job *job, worker *w)
{
    for (int k = 0; k < job->num_keys; k++) {
        MEGA_TRY((job->sentences != NULL ? encode_sentences : encode_whole)(item, k, job, w));
        item->text_bytes += item->texts[k].bytes;
    }
    item->documents++;
    return MEGA_OK;
}

static mega_status encode_chunk(preprocess_item *item, const mega_preprocess_job *job, worker *w)
{
    item->documents = 0;
    item->text_bytes = 0;
    item->faults.size = 0;
    for (int k = 0; k < job->num_keys; k++) item->ids[k].count = 0, item->sizes[k].size = item->counts[k].size = 0;
    for (int64_t r = 0; r < item->chunk.count; r++) {
        mega_document_fault fault;
        if (mega_document_views(&item->chunk, r, job->keys, job->num_keys, item->space, item->texts, &fault)) {
            mega_status st = encode_record(item, job, w);
            if (st == MEGA_OK) continue;
            MEGA_CONTEXT("%s: line %lld", item->chunk.path, (long long)item->chunk.record[r].line);
            return st;
        }
        for (int k = 0; k < job->num_keys; k++) MEGA_TRY(mega_buffer_check(&item->space[k], "the text of a document"));
        mega_buffer_append(&item->faults, &fault, sizeof fault);
        MEGA_TRY(mega_buffer_check(&item->faults, "the list of invalid lines"));
    }
    return MEGA_OK;
}

static void *pipeline_worker_main(void *user)
{
    worker *w = user;
    pipeline *p = w->pipeline;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->taken == p->read && !p->ended && !p->stop) pthread_cond_wait(&p->filled, &p->lock);
        if (p->stop || p->taken == p->read) break;
        preprocess_item *item = &p->item[p->taken++ % p->num_items];
        item->state = ITEM_BUSY;
        pthread_mutex_unlock(&p->lock);
        if (encode_chunk(item, p->job, w) != MEGA_OK) mega_error_get(&item->error);
        pthread_mutex_lock(&p->lock);
        item->state = ITEM_DONE;
        pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the reader ---- */

static void *pipeline_reader_main(void *user)
{
    pipeline *p = user;
    pthread_mutex_lock(&p->lock);
    for (bool last = false; !last;) {
        preprocess_item *item = &p->item[p->read % p->num_items];
        while (item->state != ITEM_FREE && !p->stop) pthread_cond_wait(&p->freed, &p->lock);
        if (p->stop) break;
        pthread_mutex_unlock(&p->lock);
        item->error.code = MEGA_OK;
        if (mega_documents_read(p->input, &item->chunk) != MEGA_OK) {
            mega_error_get(&item->error);
            item->chunk.count = 0;
        }
        last = item->chunk.count == 0;
        pthread_mutex_lock(&p->lock);
        item->last = last;
        if (last) { /* nothing to tokenize: passes straight to the writer */
            item->state = ITEM_DONE;
            p->ended = true;
            pthread_cond_broadcast(&p->filled);
            pthread_cond_signal(&p->done);
        } else {
            item->state = ITEM_FILLED;
            p->read++;
            pthread_cond_signal(&p->filled);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the caller ---- */

static bool is_stopped(const pipeline *p)
{
    return p->job->stop != NULL && *p->job->stop != 0;
}

static mega_status pipeline_interrupted(void)
{
    return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "preprocessing was interrupted; its output has been removed");
}

/* Waits for item n. A signal does not wake a condition variable, so the stop flag is checked now and then. */
static mega_status wait_done(pipeline *p, const preprocess_item *item)
{
    mega_status st = MEGA_OK;
    pthread_mutex_lock(&p->lock);
    while (item->state != ITEM_DONE && st == MEGA_OK) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) {
            until.tv_nsec -= 1000 * 1000 * 1000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&p->done, &p->lock, &until);
        if (is_stopped(p)) st = MEGA_ERR_INTERRUPTED;
    }
    pthread_mutex_unlock(&p->lock);
    return is_stopped(p) ? pipeline_interrupted() : st;
}

static mega_status pipeline_write_all(pipeline *p, preprocess_sink *sink, void *user)
{
    for (int64_t n = 0;; n++) {
        preprocess_item *item = &p->item[n % p->num_items];
        MEGA_TRY(wait_done(p, item));
        if (item->error.code != MEGA_OK) return mega_error_restore(&item->error);
        if (item->last) return MEGA_OK;
        MEGA_TRY(sink(user, item));
        pthread_mutex_lock(&p->lock);
        item->state = ITEM_FREE;
        pthread_cond_signal(&p->freed);
        pthread_mutex_unlock(&p->lock);
    }
}

/* One worker on one core: threads would only take turns, and evict each other's chunks from the cache. */
static mega_status do_all(pipeline *p, preprocess_sink *sink, void *user)
{
    preprocess_item *item = &p->item[0];
    for (;;) {
        if (is_stopped(p)) return pipeline_interrupted();
        MEGA_TRY(mega_documents_read(p->input, &item->chunk));
        if (item->chunk.count == 0) return MEGA_OK;
        MEGA_TRY(encode_chunk(item, p->job, &p->workers[0]));
        MEGA_TRY(sink(user, item));
    }
}

/* ---- creating and ending the pipeline ---- */

static void item_fini(preprocess_item *item, int num_keys)
{
    mega_document_chunk_fini(&item->chunk);
    mega_buffer_fini(&item->faults);
    for (int k = 0; k < num_keys; k++) {
        if (item->ids != NULL) mega_ids_fini(&item->ids[k]);
        if (item->sizes != NULL) mega_buffer_fini(&item->sizes[k]);
        if (item->counts != NULL) mega_buffer_fini(&item->counts[k]);
        if (item->space != NULL) mega_buffer_fini(&item->space[k]);
    }
    MEGA_FREE(item->ids, item->sizes, item->counts, item->space, item->texts);
}

static bool item_init(preprocess_item *item, int num_keys)
{
    item->ids = mega_calloc((size_t)num_keys, sizeof *item->ids);
    item->sizes = mega_calloc((size_t)num_keys, sizeof *item->sizes);
    item->counts = mega_calloc((size_t)num_keys, sizeof *item->counts);
    item->space = mega_calloc((size_t)num_keys, sizeof *item->space);
    item->texts = mega_calloc((size_t)num_keys, sizeof *item->texts);
    return item->ids != NULL && item->sizes != NULL && item->counts != NULL && item->space != NULL &&
           item->texts != NULL;
}

static mega_status pipeline_init(pipeline *p)
{
    const int workers = p->num_workers;
    p->num_items = p->alone ? 1 : 2 * workers + 2;
    p->item = mega_calloc((size_t)p->num_items, sizeof *p->item);
    p->workers = mega_calloc((size_t)workers, sizeof *p->workers);
    bool ok = p->item != NULL && p->workers != NULL;
    for (int i = 0; ok && i < p->num_items; i++) ok = item_init(&p->item[i], p->job->num_keys);
    if (!ok)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "preprocessing: no memory for %d workers; use fewer (--workers)", workers);
    for (int i = 0; i < workers; i++) {
        p->workers[i].pipeline = p;
        MEGA_TRY(mega_encoder_create(p->job->tokenizer, &p->workers[i].encoder));
    }
    return MEGA_OK;
}

static mega_status pipeline_thread_start(pthread_t *thread, void *(*main)(void *), void *user)
{
    const int error = pthread_create(thread, NULL, main, user);
    if (error == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "preprocessing: cannot start a thread: %s; use fewer (--workers)",
                     strerror(error));
}

static mega_status pipeline_start(pipeline *p)
{
    MEGA_TRY(pipeline_thread_start(&p->reader, pipeline_reader_main, p));
    p->has_reader = true;
    for (int i = 0; i < p->num_workers; i++) {
        MEGA_TRY(pipeline_thread_start(&p->workers[i].thread, pipeline_worker_main, &p->workers[i]));
        p->num_started++;
    }
    return MEGA_OK;
}

static void pipeline_fini(pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->freed);
    pthread_cond_broadcast(&p->filled);
    pthread_mutex_unlock(&p->lock);
    if (p->has_reader) pthread_join(p->reader, NULL);
    for (int i = 0; i < p->num_started; i++) pthread_join(p->workers[i].thread, NULL);
    for (int i = 0; p->item != NULL && i < p->num_items; i++) item_fini(&p->item[i], p->job->num_keys);
    for (int i = 0; p->workers != NULL && i < p->num_workers; i++) {
        mega_encoder_destroy(p->workers[i].encoder);
        mega_sentence_spans_fini(&p->workers[i].spans);
    }
    MEGA_FREE(p->item, p->workers);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->freed);
    pthread_cond_destroy(&p->filled);
    pthread_cond_destroy(&p->done);
}

mega_status mega_preprocess_run(const mega_preprocess_job *job, mega_documents *input, preprocess_sink *sink,
                                void *user)
{
    pipeline p = {.job = job, .input = input, .num_workers = job->workers > 0 ? job->workers : 1};
    p.alone = p.num_workers == 1 && mega_cpu_count() == 1;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.freed, NULL);
    pthread_cond_init(&p.filled, NULL);
    pthread_cond_init(&p.done, NULL);
    mega_status st = pipeline_init(&p);
    if (p.alone) {
        if (st == MEGA_OK) st = do_all(&p, sink, user);
    } else {
        if (st == MEGA_OK) st = pipeline_start(&p);
        if (st == MEGA_OK) st = pipeline_write_all(&p, sink, user);
    }
    pipeline_fini(&p);
    return st;
}
