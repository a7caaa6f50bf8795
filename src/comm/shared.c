/* Memory shared by the ranks of a host, for collectives of groups within it: an unnamed file, opened through /proc like
 * the page of records. For each tag a rank has a ring of buffers that only it writes; for each other rank it has a
 * counter of posts to that rank, and one of posts that it has read from that rank. A buffer is reused once every rank
 * it was posted to has read it. Counters belong to pairs of ranks, so groups of one tag may differ from call to call. A
 * description of the posting call precedes each buffer; every reader compares it with its own call. Data too large for
 * the buffers is copied from the other process's memory, if the system allows that. */
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "shared_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINE ((size_t)64)
/* The description of the call before a buffer; whole cache lines, so that the buffer begins at one. */
#define CALL_BYTES ((sizeof(comm_call) + LINE - 1) / LINE * LINE)

struct comm_shared {
    char *base;
    size_t bytes;
    int ranks;    /* ranks of this host */
    int *place;   /* by world rank: its index on this host; -1: on another host */
    bool reaches; /* ranks may read each other's memory */
    shared_ring ring[MEGA_COMM_TAGS];
};

/* ---- offsets in the shared memory ---- */

static size_t round_to_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A rank's process id, and the address of a number there, for the test of reading it: one cache line per rank, after
 * the line of the nonce. */
typedef struct shared_peek {
    int pid;
    const uint64_t *address;
    uint64_t value;
} shared_peek;

static shared_peek *peek_of(const comm_shared *s, int place)
{
    return (shared_peek *)(void *)(s->base + LINE * (size_t)(1 + place));
}

static size_t head_bytes(const comm_shared *s)
{
    return LINE * (size_t)(1 + s->ranks);
}

/* Bytes of the counters of posts, or of reads, for each pair of ranks. */
static size_t counter_bytes(const comm_shared *s)
{
    return round_to_lines((size_t)s->ranks * sizeof(uint64_t));
}

static size_t counters_bytes(const comm_shared *s)
{
    return head_bytes(s) + (size_t)MEGA_COMM_TAGS * (size_t)s->ranks * 2 * counter_bytes(s);
}

static size_t all_bytes(const comm_shared *s)
{
    return counters_bytes(s) +
           (size_t)MEGA_COMM_TAGS * (size_t)s->ranks * SHARED_RING * (CALL_BYTES + SHARED_MOST_BYTES);
}

static _Atomic uint64_t *ring_counter(const comm_shared *s, int tag, int of, bool is_read, int other)
{
    const size_t row = ((size_t)tag * (size_t)s->ranks + (size_t)of) * 2 + is_read;
    return (_Atomic uint64_t *)(void *)(s->base + head_bytes(s) + row * counter_bytes(s)) + other;
}

static char *ring_buffer(const comm_shared *s, int tag, int of, uint64_t post)
{
    const size_t row = ((size_t)tag * (size_t)s->ranks + (size_t)of) * SHARED_RING + post % SHARED_RING;
    return s->base + counters_bytes(s) + row * (CALL_BYTES + SHARED_MOST_BYTES) + CALL_BYTES;
}

/* ---- opening ---- */

typedef struct segment_place {
    int pid, fd; /* fd < 0: no segment */
    comm_transport_choice transport_choice;
    uint64_t nonce;
} segment_place;

static bool segment_map(comm_shared *s, int fd)
{
    void *base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    s->base = base == MAP_FAILED ? NULL : base;
    return s->base != NULL;
}

static void make_segment(comm_shared *s, segment_place *out)
{
    *out = (segment_place){.pid = (int)getpid(), .fd = memfd_create("megalith-shared", MFD_CLOEXEC)};
    out->nonce = ((uint64_t)out->pid << 32) ^ (uint64_t)(mega_time_now() * 1e6) ^ 1;
    if (out->fd < 0) return;
    if (ftruncate(out->fd, (off_t)s->bytes) == 0 && segment_map(s, out->fd)) *(uint64_t *)(void *)s->base = out->nonce;
    else {
        close(out->fd);
        out->fd = -1;
    }
}

static void open_segment(comm_shared *s, const segment_place *at)
{
    char path[64];
    if (at->fd < 0) return;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", at->pid, at->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (lseek(fd, 0, SEEK_END) == (off_t)s->bytes && segment_map(s, fd) && *(uint64_t *)(void *)s->base != at->nonce) {
        munmap(s->base, s->bytes);
        s->base = NULL;
    }
    close(fd);
}

static bool find_places(const mega_world *w, comm_shared *s)
{
    s->place = mega_malloc((size_t)w->size * sizeof *s->place);
    if (s->place == NULL) return false;
    for (int r = 0; r < w->size; r++) s->place[r] = -1;
    for (int i = 0; i < w->local_size; i++) {
        const int rank = atomic_load(&w->page->slot[i].rank);
        if (rank >= 0 && rank < w->size) s->place[rank] = i;
    }
    return true;
}

/* Copies from another process; one call reads at most 2 GiB. Returns 0 or errno. */
static int shared_read_process(int pid, const void *theirs, void *out, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const struct iovec to = {(char *)out + done, bytes - done};
        const struct iovec from = {(void *)((uintptr_t)theirs + done), bytes - done};
        const ssize_t count = process_vm_readv(pid, &to, 1, &from, 1, 0);
        if (count <= 0 && errno != EINTR) return count < 0 ? errno : EFAULT;
        if (count > 0) done += (size_t)count;
    }
    return 0;
}

/* Whether processes may read each other depends on permissions, containers and namespaces, so each rank tries to read a
 * number of every other. Collective over the host. */
static mega_status try_reaching(mega_world *w)
{
    comm_shared *s = w->shared;
    const uint64_t value = *(uint64_t *)(void *)s->base * (uint64_t)(2 * w->local_rank + 3);
    *peek_of(s, w->local_rank) = (shared_peek){.pid = (int)getpid(), .address = &value, .value = value};
    MEGA_TRY(transport_host_barrier(w));
    bool reaches = true;
    for (int i = 0; i < s->ranks && reaches; i++) {
        const shared_peek *p = peek_of(s, i);
        uint64_t found = 0;
        reaches = i == w->local_rank ||
                  (shared_read_process(p->pid, p->address, &found, sizeof found) == 0 && found == p->value);
    }
    MEGA_TRY(transport_host_all(w, &reaches)); /* afterwards every rank has read `value` */
    s->reaches = reaches;
    return MEGA_OK;
}

static comm_transport_choice read_wish(void)
{
    const char *text = getenv("MEGA_COMM");
    if (text == NULL || *text == '\0') return COMM_CHOOSE_FASTER;
    return strcmp(text, "mpi") == 0   ? COMM_CHOOSE_MPI
           : strcmp(text, "shm") == 0 ? COMM_CHOOSE_SHARED
                                      : COMM_CHOOSE_UNKNOWN;
}

static mega_status check_wish(comm_transport_choice choice)
{
    const char *text = getenv("MEGA_COMM");
    if (choice != COMM_CHOOSE_UNKNOWN) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "MEGA_COMM=%s in the environment; expected mpi (all messages go over MPI), shm (collectives within a "
        "host go through memory that its ranks share), or unset: the faster one",
        text == NULL ? "" : text);
}

mega_status shared_open(mega_world *w)
{
    segment_place at = {.fd = -1};
    w->transport_choice = read_wish();
    if (w->local_size == 1) return check_wish(w->transport_choice);
    comm_shared *s = w->shared = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "rank %d: no memory for the shared memory of this host", w->rank);
    s->ranks = w->local_size;
    s->bytes = all_bytes(s);
    if (w->local_rank == 0 && w->shares_page) make_segment(s, &at);
    at.transport_choice = w->transport_choice; /* some launchers pass the environment to some ranks only */
    MEGA_TRY(transport_host_broadcast(w, &at, sizeof at));
    w->transport_choice = at.transport_choice;
    if (w->local_rank != 0 && w->shares_page) open_segment(s, &at);
    bool all = s->base != NULL && find_places(w, s);
    MEGA_TRY(transport_host_all(w, &all)); /* afterwards every rank has opened it */
    if (at.fd >= 0 && w->local_rank == 0) close(at.fd);
    const mega_status wish =
        check_wish(w->transport_choice); /* all ranks check the first rank's value, so none waits for another */
    if (all && wish == MEGA_OK) return try_reaching(w);
    shared_close(w);
    if (wish != MEGA_OK) return wish;
    return w->transport_choice != COMM_CHOOSE_SHARED
               ? MEGA_OK
               : MEGA_FAIL(MEGA_ERR_COMM, "MEGA_COMM=shm in the environment, but the ranks of this host cannot open "
                                          "each other's memory (/proc/PID/fd): are they in separate containers? "
                                          "Without MEGA_COMM they use MPI");
}

void shared_close(mega_world *w)
{
    comm_shared *s = w->shared;
    if (s == NULL) return;
    if (s->base != NULL) munmap(s->base, s->bytes);
    mega_free(s->place);
    mega_free(s);
    w->shared = NULL;
}

/* ---- groups ---- */

static int shared_place(const comm_op *op, int member)
{
    return op->comm->world->shared->place[comm_world_rank(op->comm, member)];
}

bool shared_holds(const mega_comm *comm)
{
    if (comm->world->shared == NULL || comm->world->transport_choice == COMM_CHOOSE_MPI) return false;
    for (int r = 0; r < comm->size; r++)
        if (comm->world->shared->place[comm_world_rank(comm, r)] < 0) return false;
    return true;
}

/* ---- posts ----
 *
 * A counter of posts also holds the buffer of the last post: posts * SHARED_RING + buffer. */

static comm_shared *shared_of(const comm_op *op)
{
    return op->comm->world->shared;
}

static int own_place(const comm_op *op)
{
    return op->comm->world->local_rank;
}

static uint64_t ring_posted(const comm_op *op, int from, int to)
{
    return atomic_load_explicit(ring_counter(shared_of(op), op->comm->tag, from, false, to), memory_order_acquire);
}

static uint64_t been_read(const comm_op *op, int from, int by)
{
    return atomic_load_explicit(ring_counter(shared_of(op), op->comm->tag, by, true, from), memory_order_acquire);
}

static bool same_group(const shared_ring *ring, const mega_comm *c)
{
    return ring->first == c->world->rank - c->rank * c->stride && ring->stride == c->stride && ring->size == c->size;
}

/* Readers find the buffer of a post by counting back from the last one, so all later posts must be theirs too: another
 * group of this tag may post only when everything that was posted has been read. */
bool shared_enter(const comm_op *op)
{
    comm_shared *s = shared_of(op);
    shared_ring *ring = &s->ring[op->comm->tag];
    const int me = own_place(op);
    if (same_group(ring, op->comm)) return true;
    for (int i = 0; i < s->ranks; i++)
        if (ring_posted(op, me, i) / SHARED_RING != been_read(op, me, i)) return false;
    ring->first = op->comm->world->rank - op->comm->rank * op->comm->stride;
    ring->stride = op->comm->stride;
    ring->size = op->comm->size;
    return true;
}

int shared_held_by(const comm_op *op, int *ranks, int most)
{
    const comm_shared *s = shared_of(op);
    const mega_world *w = op->comm->world;
    const int me = own_place(op);
    int count = 0;
    if (same_group(&s->ring[op->comm->tag], op->comm)) return 0;
    for (int r = 0; r < w->size && count < most; r++)
        if (s->place[r] >= 0 && ring_posted(op, me, s->place[r]) / SHARED_RING != been_read(op, me, s->place[r]))
            ranks[count++] = r;
    return count;
}

bool shared_buffer_is_read(const comm_op *op, int member)
{
    const int me = own_place(op), other = shared_place(op, member);
    return other == me || ring_posted(op, me, other) / SHARED_RING - been_read(op, me, other) < SHARED_RING;
}

char *shared_post_buffer(const comm_op *op)
{
    const comm_shared *s = shared_of(op);
    for (int r = 0; r < op->comm->size; r++)
        if (!shared_buffer_is_read(op, r)) return NULL;
    return ring_buffer(s, op->comm->tag, own_place(op), s->ring[op->comm->tag].next);
}

void shared_post(const comm_op *op)
{
    comm_shared *s = shared_of(op);
    const int me = own_place(op);
    const uint64_t at = s->ring[op->comm->tag].next++ % SHARED_RING;
    memcpy(ring_buffer(s, op->comm->tag, me, at) - CALL_BYTES, &op->mine, sizeof op->mine);
    for (int r = 0; r < op->comm->size; r++) {
        const int other = shared_place(op, r);
        if (other == me) continue;
        _Atomic uint64_t *c = ring_counter(s, op->comm->tag, me, false, other);
        const uint64_t posts = atomic_load_explicit(c, memory_order_relaxed) / SHARED_RING + 1;
        atomic_store_explicit(c, posts * SHARED_RING + at, memory_order_release);
    }
}

const char *shared_read(const comm_op *op, int member)
{
    const int me = own_place(op), other = shared_place(op, member);
    const uint64_t word = ring_posted(op, other, me), next = been_read(op, other, me) + 1;
    if (word / SHARED_RING < next) return NULL;
    return ring_buffer(shared_of(op), op->comm->tag, other,
                       word % SHARED_RING + SHARED_RING - (word / SHARED_RING - next));
}

const comm_call *shared_call(const char *buffer)
{
    return (const comm_call *)(const void *)(buffer - CALL_BYTES);
}

void shared_is_read(const comm_op *op, int member)
{
    _Atomic uint64_t *c = ring_counter(shared_of(op), op->comm->tag, own_place(op), true, shared_place(op, member));
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_release);
}

bool shared_was_read(const comm_op *op, int member)
{
    const int me = own_place(op), other = shared_place(op, member);
    return other == me || ring_posted(op, me, other) / SHARED_RING == been_read(op, me, other);
}

bool shared_reaches(const comm_op *op)
{
    return shared_of(op)->reaches;
}

mega_status shared_fetch(const comm_op *op, int member, const void *theirs, void *out, size_t bytes, bool *there)
{
    const int failure = shared_read_process(peek_of(shared_of(op), shared_place(op, member))->pid, theirs, out, bytes);
    *there = failure != ESRCH;
    if (failure == 0 || failure == ESRCH) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_COMM, "%s #%llu (%s) of group %s: %zu bytes of rank %d cannot be read by rank %d: %s",
                     comm_kind_name(op->kind), (unsigned long long)op->number, op->name, op->comm->name, bytes,
                     comm_world_rank(op->comm, member), op->comm->world->rank, strerror(failure));
}
