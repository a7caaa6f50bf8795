/* Collectives through memory that the ranks of a host share. Numbers go chunk by chunk through the rings: each rank
 * posts what the others need of it, takes their sums straight out of what they posted, and posts those. All go through
 * one list of turns, in which a turn needs of the others what they do a round before: so nobody waits in a circle, and
 * a rank may be a round ahead. Sums are those of messages: element by element in the order of ranks. A rank that makes
 * another call than its neighbours (another kind, count or type) is noticed by all of them at the first chunk.
 *
 * A large gathering posts no numbers but where they are: each rank reads them there, in one piece, and nobody leaves
 * before all have read. That is one copy instead of two, and one wait instead of one a chunk, which counts most where
 * ranks outnumber cores. */
#include "shared_impl.h"

#include <string.h>

/* Reductions of at most this many bytes a rank are posted whole: one turn of reading instead of two. */
#define SMALL_BYTES ((size_t)4 << 10)

/* Slices of gatherings from this size on are read where they are. */
#define REACHED_BYTES ((size_t)1 << 20)

/* The turns of a round: the next chunk is posted before the one at hand is worked on. */
typedef enum turn { TURN_POST, TURN_REDUCE, TURN_POST_SUM, TURN_COPY, TURN_STAY, TURNS } turn;

static size_t buffer_bytes(const comm_op *op)
{
    const size_t all = op->comm->world->channel[op->comm->tag].scratch_bytes;
    const size_t bytes = all / ((size_t)SHARED_RING * (size_t)op->comm->size) / 8 * 8;
    return bytes < SHARED_MOST_BYTES ? bytes : SHARED_MOST_BYTES;
}

static bool is_whole(const comm_op *op)
{
    const size_t bytes = (size_t)op->count * mega_dtype_size(op->dtype);
    return op->kind == COMM_BARRIER || op->kind == COMM_AGREE ||
           (op->kind == COMM_ALL_REDUCE && bytes <= SMALL_BYTES && bytes <= buffer_bytes(op));
}

static bool is_reached(const comm_op *op)
{
    return op->kind == COMM_ALL_GATHER && (size_t)op->count * mega_dtype_size(op->dtype) >= REACHED_BYTES &&
           shared_reaches(op) && buffer_bytes(op) >= sizeof op->in;
}

/* Elements of a slice that go at a time: a buffer holds those for each other rank, or one's own. */
static int64_t chunk_elements(const comm_op *op)
{
    const size_t parts = op->kind == COMM_ALL_GATHER ? 1 : (size_t)op->comm->size - 1;
    const size_t bytes = buffer_bytes(op) / parts, even = bytes / 64 * 64;
    if (is_whole(op) || is_reached(op)) return op->count;
    return (int64_t)((even > 0 ? even : bytes) / mega_dtype_size(op->dtype));
}

bool comm_shares(const comm_op *op)
{
    const bool knows = op->kind == COMM_ALL_REDUCE || op->kind == COMM_REDUCE_SCATTER || op->kind == COMM_ALL_GATHER ||
                       op->kind == COMM_BARRIER || op->kind == COMM_AGREE;
    return knows && shared_holds(op) && chunk_elements(op) > 0;
}

static int64_t slice_of(const comm_op *op)
{
    return is_whole(op) ? op->count : comm_slice_elements(op);
}

/* ---- turns ---- */

static size_t bytes_of(const comm_op *op, int64_t elements)
{
    return (size_t)elements * mega_dtype_size(op->dtype);
}

/* Where the part for rank r lies in a buffer of rank `from`. */
static size_t part(const comm_op *op, int from, int r)
{
    return is_whole(op) ? 0 : bytes_of(op, chunk_elements(op)) * (size_t)(r < from ? r : r - 1);
}

static void fill(const comm_op *op, char *room)
{
    const int64_t most = chunk_elements(op);
    const int me = op->comm->rank;
    if (is_reached(op)) {
        memcpy(room, &op->in, sizeof op->in);
        return;
    }
    if (is_whole(op) || op->kind == COMM_ALL_GATHER) {
        const int64_t count = is_whole(op) ? op->count : comm_held(op, me, most);
        memcpy(room, (const char *)op->in + bytes_of(op, op->at), bytes_of(op, count));
        return;
    }
    for (int r = 0; r < op->comm->size; r++)
        if (r != me)
            memcpy(room + part(op, me, r), (const char *)op->in + bytes_of(op, comm_place(op, r)),
                   bytes_of(op, comm_held(op, r, most)));
}

/* What an all_reduce or a reduce_scatter has of its own sum. */
static char *own_sum(const comm_op *op)
{
    return (char *)op->out + bytes_of(op, is_whole(op)                      ? 0
                                          : op->kind == COMM_REDUCE_SCATTER ? op->at
                                                                            : comm_place(op, op->comm->rank));
}

static int64_t own_count(const comm_op *op)
{
    return is_whole(op) ? op->count : comm_held(op, op->comm->rank, chunk_elements(op));
}

/* A rank that has failed on its own calls agree while the others are elsewhere: its message is the one to read. */
static mega_status check_call(const comm_op *op, int member, const char *theirs)
{
    const comm_call *call = shared_call(theirs);
    int32_t failed = op->comm->size;
    if (call->kind == COMM_AGREE) memcpy(&failed, theirs, sizeof failed);
    if (op->kind == COMM_AGREE || failed == op->comm->size) return comm_check_same(op, &op->mine, call, member);
    stall_end_by(op->comm->world, comm_world_rank(op->comm, member));
    return MEGA_FAIL(MEGA_ERR_COMM,
                     "rank %d has failed; its own message says why. Rank %d was in %s #%llu (%s) of "
                     "group %s",
                     comm_world_rank(op->comm, member), op->comm->world->rank, comm_kind_name(op->kind),
                     (unsigned long long)op->number, op->name, op->comm->name);
}

static bool post(const comm_op *op)
{
    char *room = shared_room(op);
    if (room == NULL) return false;
    fill(op, room);
    shared_post(op);
    return true;
}

static bool post_sum(const comm_op *op)
{
    char *room = shared_room(op);
    if (room == NULL) return false;
    memcpy(room, own_sum(op), bytes_of(op, own_count(op)));
    shared_post(op);
    return true;
}

static mega_status reduce(const comm_op *op, bool *done)
{
    const void *from[MEGA_COMM_MOST_RANKS];
    const int me = op->comm->rank, size = op->comm->size;
    *done = false;
    for (int r = 0; r < size; r++) {
        const char *theirs = r == me ? NULL : shared_read(op, r);
        if (r != me && theirs == NULL) return MEGA_OK;
        if (r != me) MEGA_TRY(check_call(op, r, theirs));
        from[r] = r == me ? (const char *)op->in + bytes_of(op, is_whole(op) ? 0 : comm_place(op, me))
                          : theirs + part(op, r, me);
    }
    comm_reduce(own_sum(op), from, size, own_count(op), op->dtype, op->reduce);
    for (int r = 0; r < size; r++)
        if (r != me) shared_is_read(op, r);
    *done = true;
    return MEGA_OK;
}

/* A member's part, out of what it posted. *there: false where its process has ended; the wait then reports it. */
static mega_status copy_part(const comm_op *op, int member, const char *posted, bool *there)
{
    void *out = (char *)op->out + bytes_of(op, comm_place(op, member));
    const size_t bytes = bytes_of(op, comm_held(op, member, chunk_elements(op)));
    const void *theirs;
    *there = true;
    if (!is_reached(op)) {
        memcpy(out, posted, bytes);
        return MEGA_OK;
    }
    memcpy(&theirs, posted, sizeof theirs);
    return shared_fetch(op, member, theirs, out, bytes, there);
}

/* Of each rank its part, as they come. */
static mega_status copy(comm_op *op, bool *done)
{
    *done = false;
    for (; op->next_member < op->comm->size; op->next_member++) {
        const int r = op->next_member;
        if (r == op->comm->rank) continue;
        const char *theirs = shared_read(op, r);
        if (theirs == NULL) return MEGA_OK;
        MEGA_TRY(check_call(op, r, theirs));
        bool there;
        MEGA_TRY(copy_part(op, r, theirs, &there));
        if (!there) return MEGA_OK;
        shared_is_read(op, r);
    }
    op->next_member = 0;
    *done = true;
    return MEGA_OK;
}

/* What the others read where it is stays as it is until they have. */
static bool all_have_read(const comm_op *op)
{
    for (int r = 0; r < op->comm->size; r++)
        if (!shared_was_read(op, r)) return false;
    return true;
}

/* Which chunk a turn of round `round` is for; none where that is outside of them, or the kind has no such turn. */
static int64_t chunk_of(const comm_op *op, turn t, int64_t round)
{
    const bool gathers = op->kind == COMM_ALL_GATHER, sums_back = op->kind == COMM_ALL_REDUCE && !is_whole(op);
    switch (t) {
    case TURN_POST: return round + 1;
    case TURN_REDUCE: return gathers ? -1 : round;
    case TURN_POST_SUM: return sums_back ? round : -1;
    case TURN_COPY: return gathers ? round : sums_back ? round - 1 : -1;
    default: return is_reached(op) ? round : -1;
    }
}

static mega_status take_turn(comm_op *op, turn t, bool *done)
{
    switch (t) {
    case TURN_POST: *done = post(op); return MEGA_OK;
    case TURN_REDUCE: return reduce(op, done);
    case TURN_POST_SUM: *done = post_sum(op); return MEGA_OK;
    case TURN_COPY: return copy(op, done);
    default: *done = all_have_read(op); return MEGA_OK;
    }
}

/* ---- what the operations under way call ---- */

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
                                : t == TURN_POST || t == TURN_POST_SUM ? !shared_has_room(op, r)
                                                                       : shared_read(op, r) == NULL;
        if (is_missing) ranks[count++] = comm_world_rank(op->comm, r);
    }
    return count;
}
