/* Collectives through memory that the ranks of a host share. Numbers go through ring buffers in chunks: each rank posts
 * the parts that the others need, sums its own slice directly from their buffers, and posts the sum. All ranks go
 * through one list of turns; each turn depends only on turns of the previous round, so there is no deadlock and a rank
 * may be one round ahead. Sums are bit-identical to those of collectives_messages.c: element by element in the order of
 * ranks. A rank that makes another call than its neighbours (another kind, count or type) is noticed by all of them at
 * the first chunk.
 *
 * A large all_gather posts only the addresses of the data: each rank copies it from there (process_vm_readv), and no
 * rank returns before all have copied. That is one copy instead of two, and one wait instead of one per chunk, which
 * matters most when there are more ranks than cores. */
#include "shared_impl.h"

#include <string.h>

/* Reductions of at most this many bytes per rank are posted unsplit: one turn of reading instead of two. */
#define SMALL_BYTES ((size_t)4 << 10)

/* Slices of an all-gather of at least this size are copied directly from the other process. */
#define REACHED_BYTES ((size_t)1 << 20)

/* The turns of a round: a chunk is posted before the previous one is processed. */
typedef enum turn { TURN_POST, TURN_REDUCE, TURN_POST_SUM, TURN_COPY, TURN_STAY, TURNS } turn;

static size_t buffer_of_scratch(size_t scratch, int ranks)
{
    const size_t bytes = scratch / ((size_t)SHARED_RING * (size_t)ranks) / 8 * 8;
    return bytes < SHARED_MOST_BYTES ? bytes : SHARED_MOST_BYTES;
}

static size_t shared_buffer_bytes(const comm_op *op)
{
    return buffer_of_scratch(op->comm->world->channel[op->comm->tag].scratch_bytes, op->comm->size);
}

static bool shared_is_whole(const comm_op *op)
{
    const size_t bytes = (size_t)op->count * mega_dtype_size(op->dtype);
    return op->kind == COMM_BARRIER || op->kind == COMM_AGREE ||
           (op->kind == COMM_ALL_REDUCE && bytes <= SMALL_BYTES && bytes <= shared_buffer_bytes(op));
}

static bool shared_is_reached(const comm_op *op)
{
    return op->kind == COMM_ALL_GATHER && (size_t)op->count * mega_dtype_size(op->dtype) >= REACHED_BYTES &&
           shared_reaches(op) && shared_buffer_bytes(op) >= sizeof op->in;
}

/* Elements of a slice per chunk: a buffer must hold the chunks for all other ranks, or one's own sum. */
static int64_t chunk_elements(const comm_op *op)
{
    const size_t parts = op->kind == COMM_ALL_GATHER ? 1 : (size_t)op->comm->size - 1;
    const size_t bytes = shared_buffer_bytes(op) / parts, even = bytes / 64 * 64;
    if (shared_is_whole(op) || shared_is_reached(op)) return op->count;
    return (int64_t)((even > 0 ? even : bytes) / mega_dtype_size(op->dtype));
}

bool comm_shares(const comm_op *op)
{
    const bool knows = op->kind == COMM_ALL_REDUCE || op->kind == COMM_REDUCE_SCATTER || op->kind == COMM_ALL_GATHER ||
                       op->kind == COMM_BARRIER || op->kind == COMM_AGREE;
    return knows && shared_holds(op->comm) && chunk_elements(op) > 0;
}

size_t mega_comm_buffer_bytes(const mega_comm *comm, size_t bytes)
{
    const size_t scratch = comm_scratch_bytes(comm);
    if (comm->size == 1) return 0;
    const size_t ranks = (size_t)comm->size, slot = scratch / ranks, part = bytes / ranks;
    if (comm->world != NULL && !shared_holds(comm)) return (ranks - 1) * (part < slot ? part : slot);
    const size_t buffer = buffer_of_scratch(scratch, comm->size), others = bytes <= SMALL_BYTES ? bytes : bytes - part;
    return SHARED_RING * ((others < buffer ? others : buffer) + SHARED_CALL_BYTES);
}

static int64_t slice_of(const comm_op *op)
{
    return shared_is_whole(op) ? op->count : comm_slice_elements(op);
}

/* ---- turns ---- */

static size_t bytes_of_elements(const comm_op *op, int64_t elements)
{
    return (size_t)elements * mega_dtype_size(op->dtype);
}

/* Offset of the part for rank r in a buffer of rank `from`. */
static size_t shared_part_at(const comm_op *op, int from, int r)
{
    return shared_is_whole(op) ? 0 : bytes_of_elements(op, chunk_elements(op)) * (size_t)(r < from ? r : r - 1);
}

static void shared_fill(const comm_op *op, char *room)
{
    const int64_t most = chunk_elements(op);
    const int me = op->comm->rank;
    if (shared_is_reached(op)) {
        memcpy(room, &op->in, sizeof op->in);
        return;
    }
    if (shared_is_whole(op) || op->kind == COMM_ALL_GATHER) {
        const int64_t count = shared_is_whole(op) ? op->count : comm_piece_elements(op, me, most);
        memcpy(room, (const char *)op->in + bytes_of_elements(op, op->at), bytes_of_elements(op, count));
        return;
    }
    for (int r = 0; r < op->comm->size; r++)
        if (r != me)
            memcpy(room + shared_part_at(op, me, r),
                   (const char *)op->in + bytes_of_elements(op, comm_slice_offset(op, r)),
                   bytes_of_elements(op, comm_piece_elements(op, r, most)));
}

/* Where an all_reduce or reduce_scatter keeps this rank's own sum. */
static char *own_sum(const comm_op *op)
{
    return (char *)op->out + bytes_of_elements(op, shared_is_whole(op) ? 0
                                                   : op->kind == COMM_REDUCE_SCATTER
                                                       ? op->at
                                                       : comm_slice_offset(op, op->comm->rank));
}

static int64_t shared_own_count(const comm_op *op)
{
    return shared_is_whole(op) ? op->count : comm_piece_elements(op, op->comm->rank, chunk_elements(op));
}

/* A rank that failed calls agree while the others are in another call: point to its message instead of reporting a
 * mismatch. */
static mega_status shared_check_call(const comm_op *op, int member, const char *theirs)
{
    const comm_call *call = shared_call(theirs);
    int32_t failed = op->comm->size;
    if (call->kind == COMM_AGREE) memcpy(&failed, theirs, sizeof failed);
    if (op->kind == COMM_AGREE || failed == op->comm->size) return comm_check_same(op, &op->mine, call, member);
    stall_abort_by(op->comm->world, comm_world_rank(op->comm, member));
    return MEGA_FAIL(MEGA_ERR_COMM,
                     "rank %d has failed; its own message says why. Rank %d was in %s #%llu (%s) of "
                     "group %s",
                     comm_world_rank(op->comm, member), op->comm->world->rank, comm_kind_name(op->kind),
                     (unsigned long long)op->number, op->name, op->comm->name);
}

static bool shared_post_part(const comm_op *op)
{
    char *room = shared_post_buffer(op);
    if (room == NULL) return false;
    shared_fill(op, room);
    shared_post(op);
    return true;
}

static bool post_sum(const comm_op *op)
{
    char *room = shared_post_buffer(op);
    if (room == NULL) return false;
    memcpy(room, own_sum(op), bytes_of_elements(op, shared_own_count(op)));
    shared_post(op);
    return true;
}

static mega_status shared_reduce(const comm_op *op, bool *done)
{
    const void *from[MEGA_COMM_MOST_RANKS];
    const int me = op->comm->rank, size = op->comm->size;
    *done = false;
    for (int r = 0; r < size; r++) {
        const char *theirs = r == me ? NULL : shared_read(op, r);
        if (r != me && theirs == NULL) return MEGA_OK;
        if (r != me) MEGA_TRY(shared_check_call(op, r, theirs));
        from[r] =
            r == me ? (const char *)op->in + bytes_of_elements(op, shared_is_whole(op) ? 0 : comm_slice_offset(op, me))
                    : theirs + shared_part_at(op, r, me);
    }
    comm_reduce(own_sum(op), from, size, shared_own_count(op), op->dtype, op->reduce);
    for (int r = 0; r < size; r++)
        if (r != me) shared_is_read(op, r);
    *done = true;
    return MEGA_OK;
}

/* Copies a member's part from its post. *there false: its process has ended; the wait then reports that. */
static mega_status shared_copy_part(const comm_op *op, int member, const char *posted, bool *there)
{
    void *out = (char *)op->out + bytes_of_elements(op, comm_slice_offset(op, member));
    const size_t bytes = bytes_of_elements(op, comm_piece_elements(op, member, chunk_elements(op)));
    const void *theirs;
    *there = true;
    if (!shared_is_reached(op)) {
        memcpy(out, posted, bytes);
        return MEGA_OK;
    }
    memcpy(&theirs, posted, sizeof theirs);
    return shared_fetch(op, member, theirs, out, bytes, there);
}

/* Copies each rank's part as it arrives. */
static mega_status shared_copy(comm_op *op, bool *done)
{
    *done = false;
    for (; op->next_member < op->comm->size; op->next_member++) {
        const int r = op->next_member;
        if (r == op->comm->rank) continue;
        const char *theirs = shared_read(op, r);
        if (theirs == NULL) return MEGA_OK;
        MEGA_TRY(shared_check_call(op, r, theirs));
        bool there;
        MEGA_TRY(shared_copy_part(op, r, theirs, &there));
        if (!there) return MEGA_OK;
        shared_is_read(op, r);
    }
    op->next_member = 0;
    *done = true;
    return MEGA_OK;
}

/* Data that others copy directly must not change until all have copied it. */
static bool all_have_read(const comm_op *op)
{
    for (int r = 0; r < op->comm->size; r++)
        if (!shared_was_read(op, r)) return false;
    return true;
}

/* The chunk that a turn works on in round `round`; outside of [0, chunks) if it has none, or the kind has no such
 * turn. */
static int64_t chunk_of(const comm_op *op, turn t, int64_t round)
{
    const bool gathers = op->kind == COMM_ALL_GATHER, sums_back = op->kind == COMM_ALL_REDUCE && !shared_is_whole(op);
    switch (t) {
    case TURN_POST: return round + 1;
    case TURN_REDUCE: return gathers ? -1 : round;
    case TURN_POST_SUM: return sums_back ? round : -1;
    case TURN_COPY: return gathers ? round : sums_back ? round - 1 : -1;
    default: return shared_is_reached(op) ? round : -1;
    }
}

static mega_status take_turn(comm_op *op, turn t, bool *done)
{
    switch (t) {
    case TURN_POST: *done = shared_post_part(op); return MEGA_OK;
    case TURN_REDUCE: return shared_reduce(op, done);
    case TURN_POST_SUM: *done = post_sum(op); return MEGA_OK;
    case TURN_COPY: return shared_copy(op, done);
    default: *done = all_have_read(op); return MEGA_OK;
    }
}

/* ---- called by operations.c and collectives_messages.c ---- */

void comm_shared_begin(comm_op *op)
{
    op->phase = COMM_SHARED;
    op->mine = comm_call_of(op);
    op->turn = 0;
    op->next_member = 0;
}

mega_status comm_shared_move(comm_op *op, bool *moved, bool *through)
{
    const int64_t most = chunk_elements(op), chunks = (slice_of(op) + most - 1) / most;
    const int64_t began = op->turn;
    const int member = op->next_member;
    *moved = *through = false;
    if (op->turn == 0 && !shared_enter(op)) return MEGA_OK;
    for (; op->turn < (chunks + 2) * TURNS; op->turn++) { /* rounds -1 to chunks */
        const turn t = (turn)(op->turn % TURNS);
        const int64_t chunk = chunk_of(op, t, op->turn / TURNS - 1);
        if (chunk < 0 || chunk >= chunks) continue;
        op->at = chunk * most;
        bool done;
        MEGA_TRY(take_turn(op, t, &done));
        *moved = op->turn != began || op->next_member != member;
        if (!done) return MEGA_OK;
    }
    *moved = *through = true;
    return MEGA_OK;
}

int comm_shared_missing(const comm_op *op, int *ranks, int most)
{
    const turn t = (turn)(op->turn % TURNS);
    int count = op->turn == 0 ? shared_held_by(op, ranks, most) : 0;
    if (count > 0) return count;
    for (int r = 0; r < op->comm->size && count < most; r++) {
        if (r == op->comm->rank || (t == TURN_COPY && r < op->next_member)) continue;
        const bool is_missing = t == TURN_STAY                         ? !shared_was_read(op, r)
                                : t == TURN_POST || t == TURN_POST_SUM ? !shared_buffer_is_read(op, r)
                                                                       : shared_read(op, r) == NULL;
        if (is_missing) ranks[count++] = comm_world_rank(op->comm, r);
    }
    return count;
}
