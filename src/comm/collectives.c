/* Collectives made of messages. Data goes straight from rank to rank: a reduction cuts the numbers into one slice a
 * rank, everyone sends everyone their slice, sums its own in the order of ranks, and (all_reduce) sends it back. That
 * moves what the best algorithms move, 2 (size-1)/size of the data a rank, with size-1 messages at a time. Slices go
 * through scratch piece by piece, so nothing is allocated. */
#include "comm_impl.h"
#include "megalith/assert.h"

#include <string.h>

/* Reductions of at most this many bytes over all ranks are exchanged whole: one wait instead of two. */
#define SMALL_BYTES ((size_t)16 << 10)

const char *mega_comm_name(const mega_comm *comm)
{
    return comm->name;
}

int mega_comm_rank(const mega_comm *comm)
{
    return comm->rank;
}

int mega_comm_size(const mega_comm *comm)
{
    return comm->size;
}

uint64_t mega_comm_sequence(const mega_comm *comm)
{
    return comm->sequence;
}

/* Counts the call and notes it for reports. */
static void begin(mega_comm *comm, const char *collective, const char *name)
{
    comm->sequence++;
    if (comm->world == NULL) return;
    comm->world->collective = collective;
    comm->world->call_name = name;
}

static char *at(void *data, size_t bytes)
{
    return (char *)data + bytes;
}

static const char *at_const(const void *data, size_t bytes)
{
    return (const char *)data + bytes;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Where rank r's copy of the numbers under way lies in scratch: all ranks share it evenly. */
static int64_t piece_elements(const mega_comm *comm, mega_dtype dtype)
{
    const size_t piece = comm->world->scratch_bytes / (size_t)comm->size / 64 * 64;
    return (int64_t)(piece / mega_dtype_size(dtype));
}

static char *slot(const mega_comm *comm, int rank)
{
    return comm->world->scratch + comm->world->scratch_bytes / (size_t)comm->size / 64 * 64 * (size_t)rank;
}

/* out = the reduction of `own` here and of what lies in the slots of the other ranks. */
static void reduce_slots(const mega_comm *comm, void *out, const void *own, int64_t count, mega_dtype dtype,
                         mega_reduce op)
{
    const void *from[MEGA_COMM_MOST_RANKS];
    for (int r = 0; r < comm->size; r++) from[r] = r == comm->rank ? own : slot(comm, r);
    comm_reduce(out, from, comm->size, count, dtype, op);
}

/* Everyone's numbers to everyone. */
static mega_status reduce_whole(mega_comm *comm, void *data, int64_t count, mega_dtype dtype, mega_reduce op)
{
    const size_t bytes = (size_t)count * mega_dtype_size(dtype);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        MEGA_TRY(transport_receive(comm, r, slot(comm, r), bytes));
        MEGA_TRY(transport_send(comm, r, data, bytes));
    }
    MEGA_TRY(transport_wait(comm));
    reduce_slots(comm, data, data, count, dtype, op);
    return MEGA_OK;
}

/* Elements [begin, begin + count) of slice r of the numbers: where slices are not all whole, the last ones are short.
 */
typedef struct slices {
    int64_t slice, all;
} slices;

static int64_t held(const slices *s, int r, int64_t begin, int64_t count)
{
    const int64_t left = least(s->slice, s->all - s->slice * r) - begin;
    return left < 0 ? 0 : least(left, count);
}

/* Reduces a piece of this rank's slice into out; in: all slices. */
static mega_status scatter_piece(mega_comm *comm, void *out, const void *in, const slices *s, int64_t begin,
                                 int64_t count, mega_dtype dtype, mega_reduce op)
{
    const size_t size = mega_dtype_size(dtype);
    const int64_t mine = held(s, comm->rank, begin, count);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        const int64_t theirs = held(s, r, begin, count);
        MEGA_TRY(transport_receive(comm, r, slot(comm, r), (size_t)mine * size));
        MEGA_TRY(transport_send(comm, r, at_const(in, (size_t)(s->slice * r + begin) * size), (size_t)theirs * size));
    }
    MEGA_TRY(transport_wait(comm));
    reduce_slots(comm, out, at_const(in, (size_t)(s->slice * comm->rank + begin) * size), mine, dtype, op);
    return MEGA_OK;
}

static mega_status gather_piece(mega_comm *comm, void *data, const slices *s, int64_t begin, int64_t count, size_t size)
{
    const int64_t mine = held(s, comm->rank, begin, count);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        const int64_t theirs = held(s, r, begin, count);
        MEGA_TRY(transport_receive(comm, r, at(data, (size_t)(s->slice * r + begin) * size), (size_t)theirs * size));
        MEGA_TRY(
            transport_send(comm, r, at(data, (size_t)(s->slice * comm->rank + begin) * size), (size_t)mine * size));
    }
    return transport_wait(comm);
}

mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count, mega_dtype dtype,
                                 mega_reduce op)
{
    begin(comm, "all_reduce", name);
    if (comm->size == 1 || count == 0) return MEGA_OK;
    MEGA_TRY(comm_check_reducible(dtype, name));
    const size_t size = mega_dtype_size(dtype);
    const int64_t piece = piece_elements(comm, dtype);
    if ((size_t)count * size * (size_t)comm->size <= SMALL_BYTES && count <= piece)
        return reduce_whole(comm, data, count, dtype, op);
    const slices s = {(count + comm->size - 1) / comm->size, count};
    for (int64_t i = 0; i < s.slice; i += piece) {
        const int64_t n = least(s.slice - i, piece);
        MEGA_TRY(scatter_piece(comm, at(data, (size_t)(s.slice * comm->rank + i) * size), data, &s, i, n, dtype, op));
        MEGA_TRY(gather_piece(comm, data, &s, i, n, size));
    }
    return MEGA_OK;
}

mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_out,
                                     mega_dtype dtype)
{
    const size_t size = mega_dtype_size(dtype);
    begin(comm, "reduce_scatter", name);
    if (comm->size == 1) {
        if (out != in && count_out > 0) memmove(out, in, (size_t)count_out * size);
        return MEGA_OK;
    }
    MEGA_TRY(comm_check_reducible(dtype, name));
    const int64_t piece = piece_elements(comm, dtype);
    const slices s = {count_out, count_out * comm->size};
    for (int64_t i = 0; i < count_out; i += piece)
        MEGA_TRY(scatter_piece(comm, at(out, (size_t)i * size), in, &s, i, least(count_out - i, piece), dtype,
                               MEGA_REDUCE_SUM));
    return MEGA_OK;
}

mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_in,
                                 mega_dtype dtype)
{
    const size_t size = mega_dtype_size(dtype);
    begin(comm, "all_gather", name);
    if (count_in == 0) return MEGA_OK;
    char *own = at(out, (size_t)(count_in * comm->rank) * size);
    if (own != in) memmove(own, in, (size_t)count_in * size);
    const slices s = {count_in, count_in * comm->size};
    return comm->size == 1 ? MEGA_OK : gather_piece(comm, out, &s, 0, count_in, size);
}

mega_status mega_comm_all_to_all(mega_comm *comm, const char *name, void *out, const void *in, int64_t count,
                                 mega_dtype dtype)
{
    const size_t row = (size_t)count * mega_dtype_size(dtype);
    begin(comm, "all_to_all", name);
    if (row == 0) return MEGA_OK;
    memcpy(at(out, row * (size_t)comm->rank), at_const(in, row * (size_t)comm->rank), row);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        MEGA_TRY(transport_receive(comm, r, at(out, row * (size_t)r), row));
        MEGA_TRY(transport_send(comm, r, at_const(in, row * (size_t)r), row));
    }
    return comm->size == 1 ? MEGA_OK : transport_wait(comm);
}

/* Down a binomial tree: whoever has the data sends it to the rank half of what is left away. */
mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes, int root)
{
    begin(comm, "broadcast", name);
    if (root < 0 || root >= comm->size)
        return MEGA_FAIL(MEGA_ERR_COMM, "broadcast %s in group %s: root %d is not in it; expected 0 to %d", name,
                         comm->name, root, comm->size - 1);
    const int place = (comm->rank - root + comm->size) % comm->size; /* the root stands at 0 */
    int span = 1;
    while (span < comm->size && (place & span) == 0) span *= 2;
    if (bytes == 0) return MEGA_OK;
    if (place != 0) {
        MEGA_TRY(transport_receive(comm, (place - span + root) % comm->size, data, (size_t)bytes));
        MEGA_TRY(transport_wait(comm));
    }
    for (span /= 2; span > 0; span /= 2) {
        if (place + span >= comm->size) continue;
        MEGA_TRY(transport_send(comm, (place + span + root) % comm->size, data, (size_t)bytes));
    }
    return comm->size == 1 ? MEGA_OK : transport_wait(comm);
}

mega_status mega_comm_barrier(mega_comm *comm, const char *name)
{
    int32_t here = 1;
    begin(comm, "barrier", name);
    return comm->size == 1 ? MEGA_OK : reduce_whole(comm, &here, 1, MEGA_I32, MEGA_REDUCE_SUM);
}

mega_status mega_comm_agree(mega_comm *comm, mega_status st)
{
    int32_t failed = st == MEGA_OK ? comm->size : comm->rank;
    mega_error_record record = {.code = st};
    begin(comm, "agree", "status");
    if (comm->size == 1 || comm->world->failed) return st; /* its own message is the one that all would leave with */
    if (st != MEGA_OK) mega_error_get(&record);
    MEGA_TRY(reduce_whole(comm, &failed, 1, MEGA_I32, MEGA_REDUCE_MIN));
    if (failed == comm->size) return MEGA_OK;
    comm->world->failed = comm->size == comm->world->size;
    MEGA_TRY(mega_comm_broadcast(comm, "message of a failure", &record, (int64_t)sizeof record, failed));
    if (failed == comm->rank) return mega_error_restore(&record);
    record.text[sizeof record.text - 1] = '\0';
    return MEGA_FAIL(record.code, "rank %d: %s", comm_world_rank(comm, failed), record.text);
}
