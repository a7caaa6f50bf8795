/* The page of records in memory that the ranks of a host share: a slot for each rank. It is an unnamed file, which the
 * first rank of the host creates and the others open through /proc, so that nothing is left however they end. */
#include "megalith/memory.h"
#include "megalith/process.h"
#include "megalith/threads.h"
#include "watch/exchange.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- processes ---- */

static bool process_look(int pid, mega_process_stat *out)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return mega_process_stat_read(path, out);
}

static process_state record_process(const struct mega_record *record)
{
    mega_process_stat stat;
    if (!process_look(atomic_load(&record->pid), &stat) || stat.start != record->started) return PROCESS_DEAD;
    switch (stat.state) {
    case 'Z':
    case 'X': return PROCESS_DEAD;
    case 'T':
    case 't': return PROCESS_STOPPED;
    case 'D': return PROCESS_HANGS;
    default: return PROCESS_RUNS;
    }
}

/* ---- the page ---- */

typedef struct page_place {
    int pid, fd; /* fd < 0: no page */
    uint64_t nonce;
} page_place;

static size_t page_bytes(const mega_world *w)
{
    return sizeof(record_page) + (size_t)w->local_size * sizeof(struct mega_record);
}

/* fd -1: memory of this process only. */
static record_page *page_map(int fd, size_t bytes)
{
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

static record_page *make_page(const mega_world *w, page_place *out)
{
    record_page *page = NULL;
    *out = (page_place){.pid = (int)getpid(), .fd = memfd_create("megalith-records", MFD_CLOEXEC)};
    out->nonce = ((uint64_t)out->pid << 32) ^ (uint64_t)(mega_time_now() * 1e6);
    if (out->fd < 0) return NULL;
    if (ftruncate(out->fd, (off_t)page_bytes(w)) == 0) page = page_map(out->fd, page_bytes(w));
    if (page != NULL) page->nonce = out->nonce;
    else {
        close(out->fd);
        out->fd = -1;
    }
    return page;
}

static record_page *open_page(const mega_world *w, const page_place *at)
{
    char path[64];
    if (at->fd < 0) return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", at->pid, at->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    record_page *page = lseek(fd, 0, SEEK_END) == (off_t)page_bytes(w) ? page_map(fd, page_bytes(w)) : NULL;
    close(fd);
    if (page == NULL || page->nonce == at->nonce) return page;
    munmap(page, page_bytes(w));
    return NULL;
}

/* Ranks in different containers of one host may not see each other's processes; a shared page would then report living
 * ranks as dead. */
static bool sees_neighbour(const mega_world *w)
{
    const struct mega_record *next = &w->page->slot[(w->local_rank + 1) % w->local_size];
    return record_process(next) != PROCESS_DEAD;
}

static void write_slot(mega_world *w)
{
    struct mega_record *r = w->record;
    mega_process_stat stat;
    *r = (struct mega_record){.step = -1, .micro_batch = -1, .kind = -1, .since = mega_time_now()};
    if (process_look((int)getpid(), &stat)) r->started = stat.start;
    snprintf(r->phase, sizeof r->phase, "start");
    atomic_store(&r->rank, w->rank);
    atomic_store(&r->state, RECORD_RUNS);
    mega_seat_take(&r->seat);
    atomic_store(&r->pid, (int)getpid());
}

mega_status record_open(mega_world *w)
{
    page_place at = {.fd = -1};
    if (w->local_rank == 0) w->page = make_page(w, &at);
    MEGA_TRY(transport_host_broadcast(w, &at, sizeof at));
    if (w->local_rank != 0) w->page = open_page(w, &at);
    w->shares_page = w->page != NULL;
    if (!w->shares_page) w->page = page_map(-1, page_bytes(w));
    if (w->page == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "rank %d: no memory for the record of what it is doing", w->rank);
    w->record = &w->page->slot[w->local_rank];
    write_slot(w);
    MEGA_TRY(transport_host_barrier(w)); /* afterwards all have opened the page and written their slots */
    if (at.fd >= 0 && w->local_rank == 0) close(at.fd);
    w->shares_page = w->shares_page && sees_neighbour(w);
    return exchange_open(w);
}

void record_leave(mega_world *w, record_state state)
{
    if (w->record == NULL) return;
    w->record->since = mega_time_now();
    atomic_store(&w->record->state, (int)state);
}

void record_close(mega_world *w)
{
    if (w->page == NULL) return;
    exchange_close(w);
    munmap(w->page, page_bytes(w));
    w->page = NULL;
    w->record = NULL;
}

const struct mega_record *record_of(const mega_world *w, int rank)
{
    if (w->page == NULL) return NULL;
    for (int i = 0; i < w->local_size && (w->shares_page || rank == w->rank); i++)
        if (atomic_load(&w->page->slot[i].pid) != 0 && atomic_load(&w->page->slot[i].rank) == rank)
            return &w->page->slot[i];
    return NULL;
}

bool mega_world_host_processes(const mega_world *w, int *out)
{
    const int count = mega_world_local_size(w);
    if (count == 1) out[0] = (int)getpid();
    else if (w->page == NULL || !w->shares_page)
        return false;
    for (int i = 0; i < count && count > 1; i++) out[i] = atomic_load(&w->page->slot[i].pid);
    return true;
}

/* ---- reading ---- */

/* The last byte of a field is zero initially and is never written. */
static void copy_text(char *field, size_t size, const char *text)
{
    size_t i = 0;
    for (; i + 1 < size && text[i] != '\0'; i++) field[i] = text[i];
    field[i] = '\0';
}

bool record_read_slot(const struct mega_record *r, double now, record_view *out)
{
    *out = (record_view){.rank = atomic_load(&r->rank),
                         .pid = atomic_load(&r->pid),
                         .kind = r->kind,
                         .step = r->step,
                         .micro_batch = r->micro_batch,
                         .number = r->number,
                         .age = now > r->since ? now - r->since : 0,
                         .state = (uint8_t)atomic_load(&r->state),
                         .is_long = atomic_load(&r->is_long) != 0};
    if (out->pid == 0) return false;
    const int missing = r->num_missing;
    out->num_missing = missing <= RECORD_MISSING ? missing : RECORD_MISSING;
    for (int i = 0; i < out->num_missing; i++) out->missing[i] = r->missing[i];
    copy_text(out->phase, sizeof out->phase, r->phase);
    copy_text(out->scope, sizeof out->scope, r->scope);
    copy_text(out->name, sizeof out->name, r->name);
    copy_text(out->group, sizeof out->group, r->group);
    out->process = (uint8_t)record_process(r);
    return true;
}

bool record_read(const mega_world *w, int rank, record_view *out, double *stale)
{
    const double now = mega_time_now();
    const struct mega_record *slot = record_of(w, rank);
    *stale = 0;
    return slot != NULL ? record_read_slot(slot, now, out) : exchange_read(w, rank, now, out, stale);
}

int record_dead(const mega_world *w)
{
    for (int i = 0; w->page != NULL && w->shares_page && i < w->local_size; i++) {
        const struct mega_record *r = &w->page->slot[i];
        const int state = atomic_load(&r->state);
        if (state == RECORD_LEFT || record_process(r) != PROCESS_DEAD) continue;
        if (state == RECORD_FAILED && mega_time_now() - r->since < STALL_FOLLOW_S) continue;
        return atomic_load(&r->rank);
    }
    return -1;
}

/* ---- setting ---- */

mega_record *mega_world_record(mega_world *world)
{
    return world == NULL ? NULL : world->record;
}

mega_record *mega_comm_record(const mega_comm *comm)
{
    return mega_world_record(comm->world);
}

void mega_world_narrowed(mega_world *w)
{
    if (w != NULL && w->record != NULL) mega_seat_narrow(&w->record->seat);
}

bool mega_world_stops(mega_world *w, bool here)
{
    if (w == NULL || w->page == NULL) return here;
    if (here) atomic_store_explicit(&w->page->stops, 1, memory_order_relaxed);
    return atomic_load_explicit(&w->page->stops, memory_order_relaxed) != 0;
}

void mega_record_step(mega_record *r, int64_t step)
{
    if (r == NULL) return;
    r->step = step;
    r->takes_cores = true;
    mega_seat_begin(&r->seat);
}

static void set_phase(mega_record *r, const char *phase, int64_t micro_batch, bool is_long)
{
    if (r == NULL) return;
    atomic_store_explicit(&r->is_long, is_long, memory_order_relaxed);
    copy_text(r->phase, sizeof r->phase, phase);
    r->micro_batch = micro_batch;
    r->scope[0] = '\0';
    r->since = mega_time_now();
}

void mega_record_phase(mega_record *r, const char *phase, int64_t micro_batch)
{
    set_phase(r, phase, micro_batch, false);
}

/* Between steps, threads may be started and cores counted: restore the rank's own mask, which a lease has replaced. */
void mega_record_step_end(mega_record *r)
{
    if (r == NULL) return;
    r->takes_cores = false;
    mega_seat_end(&r->seat);
    mega_seat_free(&r->seat);
    set_phase(r, "between steps", -1, false);
}

void mega_record_long_phase(mega_record *r, const char *phase)
{
    set_phase(r, phase, -1, true);
}

void mega_record_scope(mega_record *r, const char *scope)
{
    if (r == NULL) return;
    copy_text(r->scope, sizeof r->scope, scope);
    r->is_scope_fresh = true;
}

void record_wait_begin(mega_world *w, const comm_op *op, double now)
{
    struct mega_record *r = w->record;
    if (r == NULL) return;
    r->kind = (int)op->kind;
    r->number = op->number;
    copy_text(r->name, sizeof r->name, op->name);
    copy_text(r->group, sizeof r->group, op->comm->name);
    if (!r->is_scope_fresh) r->scope[0] = '\0'; /* the scope was set for an earlier call */
    r->is_scope_fresh = false;
    r->num_missing = 0;
    r->since = now;
    atomic_store_explicit(&r->state, RECORD_WAITS, memory_order_release);
    mega_seat_end(&r->seat);
}

bool record_lend_core(mega_world *w, int rank)
{
    if (w->record == NULL || mega_seat_is_confined(&w->record->seat)) return false; /* this core is itself lent */
    for (int i = 0; w->shares_page && i < w->local_size; i++) {
        struct mega_record *r = &w->page->slot[i];
        if (i == w->local_rank || atomic_load(&r->rank) != rank || !mega_seat_lend(&r->seat)) continue;
        w->lent = &r->seat;
        return true;
    }
    return false;
}

bool record_core_is_lent(mega_world *w)
{
    if (w->lent == NULL || atomic_load(&w->lent->at_work)) return w->lent != NULL;
    record_take_back_core(w);
    return false;
}

void record_take_back_core(mega_world *w)
{
    if (w->lent != NULL) mega_seat_return(w->lent);
    w->lent = NULL;
}

void record_wait_end(mega_world *w)
{
    if (w->record == NULL) return;
    exchange_query_stop(w);
    if (w->record->takes_cores) mega_seat_begin(&w->record->seat);
    w->record->num_missing = 0;
    w->record->since = mega_time_now();
    atomic_store_explicit(&w->record->state, RECORD_RUNS, memory_order_release);
}
