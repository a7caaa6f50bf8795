/* One thread reads the batches of a short queue, oldest first. The lock protects the queue and the states of its slots;
 * a batch belongs to the thread while its slot is being read, and to the owner at any other time. */
#include "megalith/reader.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <pthread.h>

typedef enum slot_state { SLOT_WAITS, SLOT_IS_BEING_READ, SLOT_IS_READ } slot_state;

typedef struct slot {
    mega_batch *batch;
    slot_state state;
    uint32_t seed;
    mega_error_record failed; /* code MEGA_OK: it was read successfully */
} slot;

struct mega_reader {
    mega_dataset dataset;
    slot slot[MEGA_READER_AHEAD]; /* a ring */
    int oldest, announced;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mega_thread *thread;
    bool ends;
};

static slot *slot_at(mega_reader *r, int place)
{
    return &r->slot[(r->oldest + place) % MEGA_READER_AHEAD];
}

/* ---- the thread ---- */

static slot *oldest_that_waits(mega_reader *r)
{
    for (int i = 0; i < r->announced; i++)
        if (slot_at(r, i)->state == SLOT_WAITS) return slot_at(r, i);
    return NULL;
}

static void read_slot(const mega_dataset *d, slot *s)
{
    const mega_status st = mega_dataset_fill(d, s->seed, s->batch);
    s->failed.code = MEGA_OK;
    if (st != MEGA_OK) mega_error_get_of(st, &s->failed);
}

static void reader_main(void *user)
{
    mega_reader *r = user;
    pthread_mutex_lock(&r->lock);
    while (!r->ends) {
        slot *s = oldest_that_waits(r);
        if (s == NULL) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        s->state = SLOT_IS_BEING_READ;
        pthread_mutex_unlock(&r->lock);
        read_slot(&r->dataset, s);
        pthread_mutex_lock(&r->lock);
        s->state = SLOT_IS_READ;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- its owner ---- */

mega_status mega_reader_create(const mega_dataset *dataset, const mega_batch *like, mega_reader **out)
{
    mega_reader *r = mega_calloc(1, sizeof *r);
    if (r == NULL) return MEGA_NO_MEMORY("reader", "its record");
    r->dataset = *dataset;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    for (int i = 0; i < MEGA_READER_AHEAD; i++) {
        const mega_status st = mega_batch_create_like(like, &r->slot[i].batch);
        if (st == MEGA_OK) continue;
        mega_reader_destroy(r);
        return st;
    }
    *out = r;
    return MEGA_OK;
}

void mega_reader_destroy(mega_reader *r)
{
    if (r == NULL) return;
    pthread_mutex_lock(&r->lock);
    r->ends = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    mega_thread_join(r->thread);
    for (int i = 0; i < MEGA_READER_AHEAD; i++) mega_batch_destroy(r->slot[i].batch);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    mega_free(r);
}

bool mega_reader_is_this_thread(const mega_reader *r)
{
    return r != NULL && mega_thread_is_this(r->thread);
}

size_t mega_reader_bytes(const mega_reader *r)
{
    return r != NULL ? MEGA_READER_AHEAD * mega_batch_bytes(r->slot[0].batch) : 0;
}

mega_status mega_reader_start(mega_reader *r)
{
    for (int i = 0; i < MEGA_READER_AHEAD; i++) MEGA_TRY(mega_batch_allocate(r->slot[i].batch));
    const mega_status st = mega_thread_start(reader_main, r, &r->thread);
    if (st != MEGA_OK) MEGA_CONTEXT("training data, which the engine may read ahead because of is_thread_safe");
    return st;
}

/* Called with the lock held: discards everything that was announced. */
static void drop_announced(mega_reader *r)
{
    for (int i = 0; i < r->announced; i++)
        if (slot_at(r, i)->state == SLOT_WAITS) slot_at(r, i)->state = SLOT_IS_READ;
    for (int i = 0; i < r->announced; i++) /* a batch that is being read is still being written to */
        while (slot_at(r, i)->state != SLOT_IS_READ) pthread_cond_wait(&r->changed, &r->lock);
    r->announced = 0;
}

/* Called with the lock held. The slot's batch describes the samples. */
static void reader_announce(mega_reader *r, uint32_t seed)
{
    slot *s = slot_at(r, r->announced++);
    s->seed = seed;
    s->state = SLOT_WAITS;
    pthread_cond_broadcast(&r->changed);
}

static void swap_batches(slot *s, mega_batch **batch)
{
    mega_batch *own = s->batch;
    s->batch = *batch;
    *batch = own;
}

static bool is_announced(mega_reader *r, uint32_t seed, const mega_batch *batch)
{
    return r->announced > 0 && slot_at(r, 0)->seed == seed &&
           mega_batch_is_of_same_samples(slot_at(r, 0)->batch, batch);
}

mega_status mega_reader_take(mega_reader *r, uint32_t seed, mega_batch **batch)
{
    pthread_mutex_lock(&r->lock);
    if (!is_announced(r, seed, *batch)) {
        drop_announced(r);
        swap_batches(slot_at(r, 0), batch);
        reader_announce(r, seed);
    }
    slot *s = slot_at(r, 0);
    while (s->state != SLOT_IS_READ) pthread_cond_wait(&r->changed, &r->lock);
    swap_batches(s, batch);
    r->oldest = (r->oldest + 1) % MEGA_READER_AHEAD;
    r->announced--;
    pthread_mutex_unlock(&r->lock);
    return s->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&s->failed);
}

/* No lock: only the calling thread changes this number. */
int mega_reader_announced(const mega_reader *r)
{
    return r->announced;
}

mega_batch *mega_reader_vacant(mega_reader *r)
{
    return r->announced < MEGA_READER_AHEAD ? slot_at(r, r->announced)->batch : NULL;
}

void mega_reader_announce(mega_reader *r, uint32_t seed)
{
    pthread_mutex_lock(&r->lock);
    reader_announce(r, seed);
    pthread_mutex_unlock(&r->lock);
}
