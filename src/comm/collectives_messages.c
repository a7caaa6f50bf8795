/* Collectives made of messages. Data goes directly between ranks: a reduction splits the numbers into one slice per
 * rank; every rank sends each slice to its owner, adds up its own slice in the order of ranks, and (all_reduce) sends
 * the sum back. This moves 2 (size-1)/size of the data per rank, as the best algorithms do, with size-1 messages at a
 * time. Slices go through scratch in pieces, so nothing is allocated. Each collective is a sequence of phases: the
 * messages of one complete before those of the next start. */
#include "comm_impl.h"

#include <string.h>

/* Reductions of at most this many bytes over all ranks are exchanged unsplit: one wait instead of two. */
#define SMALL_BYTES ((size_t)16 << 10)

const char *comm_kind_name(comm_kind kind)
{
    switch (kind) {
    case COMM_SEND: return "send";
    case COMM_RECEIVE: return "receive";
    case COMM_ALL_REDUCE: return "all_reduce";
    case COMM_REDUCE_SCATTER: return "reduce_scatter";
    case COMM_ALL_GATHER: return "all_gather";
    case COMM_ALL_TO_ALL: return "all_to_all";
    case COMM_MESSAGES: return "messages";
    case COMM_BROADCAST: return "broadcast";
    case COMM_BARRIER: return "barrier";
    default: return "agree";
    }
}

static char *slice_at(void *data, int64_t elements, const comm_op *op)
{
    return (char *)data + (size_t)elements * mega_dtype_size(op->dtype);
}

static const char *at_const(const void *data, int64_t elements, const comm_op *op)
{
    return (const char *)data + (size_t)elements * mega_dtype_size(op->dtype);
}

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- scratch: divided evenly; rank r's copy of the current numbers is in slot r ---- */

static size_t slot_bytes(const comm_op *op)
{
    return op->comm->world->channel[op->comm->tag].scratch_bytes / (size_t)op->comm->size / 64 * 64;
}

static char *scratch_slot(const comm_op *op, int rank)
{
    return op->comm->world->channel[op->comm->tag].scratch + slot_bytes(op) * (size_t)rank;
}

static int64_t slot_piece_elements(const comm_op *op)
{
    return (int64_t)(slot_bytes(op) / mega_dtype_size(op->dtype));
}

/* out = the reduction of `own` and the slots of the other ranks. */
static void reduce_slots(const comm_op *op, void *out, const void *own, int64_t count)
{
    const void *from[MEGA_COMM_MOST_RANKS];
    for (int r = 0; r < op->comm->size; r++) from[r] = r == op->comm->rank ? own : scratch_slot(op, r);
    comm_reduce(out, from, op->comm->size, count, op->dtype, op->reduce);
}

/* ---- slices: rank r owns slice r of the numbers ---- */

int64_t comm_slice_elements(const comm_op *op)
{
    return op->kind == COMM_ALL_REDUCE ? (op->count + op->comm->size - 1) / op->comm->size : op->count;
}

/* Number of elements of slice r in the current piece, which begins at op->at: the last slices may be shorter or
 * empty. */
int64_t comm_piece_elements(const comm_op *op, int r, int64_t most)
{
    const int64_t slice = comm_slice_elements(op),
                  all = op->kind == COMM_ALL_REDUCE ? op->count : slice * op->comm->size;
    const int64_t left = smaller_of(slice, all - slice * r) - op->at;
    return left < 0 ? 0 : smaller_of(left, most);
}

int64_t comm_slice_offset(const comm_op *op, int r)
{
    return comm_slice_elements(op) * r + op->at;
}

/* ---- phases ---- */

static mega_status begin_whole(comm_op *op)
{
    const size_t bytes = (size_t)op->count * mega_dtype_size(op->dtype);
    op->phase = COMM_WHOLE;
    for (int r = 0; r < op->comm->size; r++) {
        if (r == op->comm->rank) continue;
        MEGA_TRY(transport_receive(op, r, scratch_slot(op, r), bytes));
        MEGA_TRY(transport_send(op, r, op->out, bytes));
    }
    return MEGA_OK;
}

static mega_status begin_scatter(comm_op *op)
{
    const size_t size = mega_dtype_size(op->dtype);
    const int64_t piece = slot_piece_elements(op), mine = comm_piece_elements(op, op->comm->rank, piece);
    op->phase = COMM_SCATTER;
    for (int r = 0; r < op->comm->size; r++) {
        if (r == op->comm->rank) continue;
        MEGA_TRY(transport_receive(op, r, scratch_slot(op, r), (size_t)mine * size));
        MEGA_TRY(transport_send(op, r, at_const(op->in, comm_slice_offset(op, r), op),
                                (size_t)comm_piece_elements(op, r, piece) * size));
    }
    return MEGA_OK;
}

/* An all_reduce leaves the sum in its slice, a reduce_scatter writes it to `out`. */
static void end_scatter(comm_op *op)
{
    const int64_t mine = comm_slice_offset(op, op->comm->rank);
    reduce_slots(op, slice_at(op->out, op->kind == COMM_ALL_REDUCE ? mine : op->at, op), at_const(op->in, mine, op),
                 comm_piece_elements(op, op->comm->rank, slot_piece_elements(op)));
}

static mega_status begin_gather(comm_op *op, int64_t piece)
{
    const size_t size = mega_dtype_size(op->dtype);
    const int64_t mine = comm_piece_elements(op, op->comm->rank, piece);
    op->phase = COMM_GATHER;
    for (int r = 0; r < op->comm->size; r++) {
        if (r == op->comm->rank) continue;
        MEGA_TRY(transport_receive(op, r, slice_at(op->out, comm_slice_offset(op, r), op),
                                   (size_t)comm_piece_elements(op, r, piece) * size));
        MEGA_TRY(
            transport_send(op, r, slice_at(op->out, comm_slice_offset(op, op->comm->rank), op), (size_t)mine * size));
    }
    return MEGA_OK;
}

static mega_status begin_exchange(comm_op *op)
{
    const size_t row = (size_t)op->count * mega_dtype_size(op->dtype);
    op->phase = COMM_LAST;
    for (int r = 0; r < op->comm->size; r++) {
        if (r == op->comm->rank) continue;
        MEGA_TRY(transport_receive(op, r, slice_at(op->out, op->count * r, op), row));
        MEGA_TRY(transport_send(op, r, at_const(op->in, op->count * r, op), row));
    }
    return MEGA_OK;
}

/* Binomial tree: a rank that has the data sends it to the rank half of the remaining span away. */
static mega_status broadcast_advance(comm_op *op, bool has_it)
{
    const int size = op->comm->size, root = op->peer;
    const int distance = (op->comm->rank - root + size) % size; /* the root has distance 0 */
    int span = 1;
    while (span < size && (distance & span) == 0) span *= 2;
    if (distance != 0 && !has_it) {
        op->phase = COMM_DOWN;
        return transport_receive(op, (distance - span + root) % size, op->out, (size_t)op->count);
    }
    op->phase = COMM_LAST;
    for (span /= 2; span > 0; span /= 2) {
        if (distance + span >= size) continue;
        MEGA_TRY(transport_send(op, (distance + span + root) % size, op->out, (size_t)op->count));
    }
    return MEGA_OK;
}

/* ---- comparing calls ---- */

static mega_status begin_calls(comm_op *op)
{
    op->mine = comm_call_of(op);
    op->phase = COMM_CALLS;
    for (int r = 0; r < op->comm->size; r++) {
        if (r == op->comm->rank) continue;
        MEGA_TRY(transport_receive(op, r, scratch_slot(op, r), sizeof op->mine));
        MEGA_TRY(transport_send(op, r, &op->mine, sizeof op->mine));
    }
    return MEGA_OK;
}

static mega_status compare_calls(const comm_op *op)
{
    for (int r = 0; r < op->comm->size; r++) {
        comm_call theirs;
        if (r == op->comm->rank) continue;
        memcpy(&theirs, scratch_slot(op, r), sizeof theirs);
        MEGA_TRY(comm_check_same(op, &op->mine, &theirs, r));
    }
    return MEGA_OK;
}

/* The description of the call precedes the message; the receiver compares when it has both. */
static mega_status begin_message(comm_op *op)
{
    const size_t bytes = (size_t)op->count;
    const bool checks = op->comm->world->checks_calls;
    op->phase = checks && op->kind == COMM_RECEIVE ? COMM_MESSAGE : COMM_LAST;
    op->mine = comm_call_of(op);
    if (op->kind == COMM_SEND) {
        if (checks) MEGA_TRY(transport_send(op, op->peer, &op->mine, sizeof op->mine));
        return transport_send(op, op->peer, op->in, bytes);
    }
    if (checks) MEGA_TRY(transport_receive(op, op->peer, &op->theirs, sizeof op->theirs));
    return transport_receive(op, op->peer, op->out, bytes);
}

/* The two ends may use different names for a message, but not different lengths. */
static mega_status compare_message(const comm_op *op)
{
    return op->mine.count == op->theirs.count ? MEGA_OK : comm_check_same(op, &op->mine, &op->theirs, op->peer);
}

static mega_status phases_begin(comm_op *op)
{
    const size_t bytes = (size_t)op->count * mega_dtype_size(op->dtype);
    if (op->count == 0) {
        op->phase = COMM_LAST;
        return MEGA_OK;
    }
    if (comm_shares(op)) {
        comm_shared_begin(op);
        return MEGA_OK;
    }
    switch (op->kind) {
    case COMM_ALL_REDUCE:
        if (bytes * (size_t)op->comm->size > SMALL_BYTES || op->count > slot_piece_elements(op))
            return begin_scatter(op);
        return begin_whole(op);
    case COMM_BARRIER:
    case COMM_AGREE: return begin_whole(op);
    case COMM_REDUCE_SCATTER: return begin_scatter(op);
    case COMM_ALL_GATHER: return begin_gather(op, op->count);
    case COMM_ALL_TO_ALL: return begin_exchange(op);
    default: return broadcast_advance(op, false);
    }
}

/* Starts the next piece of a reduction, if there is one. */
static mega_status next_piece(comm_op *op, bool *done)
{
    op->at += slot_piece_elements(op);
    *done = op->kind == COMM_ALL_GATHER || op->at >= comm_slice_elements(op);
    return *done ? MEGA_OK : begin_scatter(op);
}

mega_status comm_op_advance(comm_op *op, bool *done)
{
    *done = false;
    switch (op->phase) {
    case COMM_BEGIN:
        if (op->messages == &op->own) return begin_message(op);
        return op->comm->world->checks_calls ? begin_calls(op) : phases_begin(op);
    case COMM_CALLS: MEGA_TRY(compare_calls(op)); return phases_begin(op);
    case COMM_MESSAGE: *done = true; return compare_message(op);
    case COMM_WHOLE:
        reduce_slots(op, op->out, op->out, op->count);
        *done = true;
        return MEGA_OK;
    case COMM_SCATTER:
        end_scatter(op);
        return op->kind == COMM_ALL_REDUCE ? begin_gather(op, slot_piece_elements(op)) : next_piece(op, done);
    case COMM_GATHER: return next_piece(op, done);
    case COMM_DOWN: return broadcast_advance(op, true);
    default: *done = true; return MEGA_OK;
    }
}
