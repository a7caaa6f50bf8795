/* Starts collectives and messages of each kind; the blocking calls start one and wait for it. */
#include "comm_impl.h"
#include "megalith/device_memory.h"

#include <string.h>

/* How long a failed rank waits until all others know of its failure; half the time limit if that is less. */
#define FAILED_WAITS_S 5.0

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

/* Counts the collective and starts it; in a group of one there is nothing to do. */
static mega_status collective_begin(mega_comm *comm, comm_op *op, mega_request *out)
{
    *out = (mega_request){0};
    op->comm = comm;
    op->number = comm->sequence + 1;
    if (comm->size > 1) MEGA_TRY(comm_begin(op, out));
    comm->sequence++;
    return MEGA_OK;
}

static mega_status collective_finish(mega_status begun, mega_request *request)
{
    return begun == MEGA_OK ? mega_comm_wait(request) : begun;
}

mega_status mega_comm_all_reduce_start(mega_comm *comm, const char *name, void *data, int64_t count, mega_dtype dtype,
                                       mega_reduce reduce, mega_request *out)
{
    comm_op op = {.kind = COMM_ALL_REDUCE,
                  .name = name,
                  .out = data,
                  .in = data,
                  .count = count,
                  .dtype = dtype,
                  .reduce = reduce};
    *out = (mega_request){0};
    if (comm->size > 1) MEGA_TRY(comm_check_reducible(dtype, name));
    return collective_begin(comm, &op, out);
}

/* What a rank sends to itself; the places may overlap. */
static void move_own(void *to, const void *from, size_t bytes)
{
    if (to == from || bytes == 0) return;
    if (mega_device_of(to) != NULL || mega_device_of(from) != NULL) { /* there they do not */
        mega_device_copy(to, from, bytes);
        return;
    }
    mega_device_begin();
    memmove(to, from, bytes);
    mega_device_end();
}

mega_status mega_comm_reduce_scatter_start(mega_comm *comm, const char *name, void *out_, const void *in,
                                           int64_t count_out, mega_dtype dtype, mega_request *out)
{
    comm_op op = {.kind = COMM_REDUCE_SCATTER, .name = name, .out = out_, .in = in, .count = count_out, .dtype = dtype};
    *out = (mega_request){0};
    if (comm->size > 1) MEGA_TRY(comm_check_reducible(dtype, name));
    else
        move_own(out_, in, (size_t)count_out * mega_dtype_size(dtype));
    return collective_begin(comm, &op, out);
}

mega_status mega_comm_all_gather_start(mega_comm *comm, const char *name, void *out_, const void *in, int64_t count_in,
                                       mega_dtype dtype, mega_request *out)
{
    const size_t bytes = (size_t)count_in * mega_dtype_size(dtype);
    char *own = (char *)out_ + bytes * (size_t)comm->rank;
    comm_op op = {.kind = COMM_ALL_GATHER, .name = name, .out = out_, .in = own, .count = count_in, .dtype = dtype};
    move_own(own, in, bytes);
    return collective_begin(comm, &op, out);
}

static mega_status message_begin(mega_comm *comm, comm_op *op, int peer, mega_request *out)
{
    *out = (mega_request){0};
    if (peer < 0 || peer >= comm->size || peer == comm->rank)
        return MEGA_FAIL(MEGA_ERR_COMM,
                         "%s (%s) in group %s: peer is rank %d of the group and the caller is rank %d; expected "
                         "another rank from 0 to %d",
                         comm_kind_name(op->kind), op->name, comm->name, peer, comm->rank, comm->size - 1);
    op->comm = comm;
    op->number = ++comm->messages;
    op->peer = peer;
    op->dtype = MEGA_U8;
    return comm_begin(op, out);
}

mega_status mega_comm_send_start(mega_comm *comm, const char *name, int peer, const void *data, int64_t bytes,
                                 mega_request *out)
{
    comm_op op = {.kind = COMM_SEND, .name = name, .in = data, .count = bytes};
    return message_begin(comm, &op, peer, out);
}

mega_status mega_comm_receive_start(mega_comm *comm, const char *name, int peer, void *data, int64_t bytes,
                                    mega_request *out)
{
    comm_op op = {.kind = COMM_RECEIVE, .name = name, .out = data, .count = bytes};
    return message_begin(comm, &op, peer, out);
}

/* Returns the bytes of all, if the device of the group has them and makes messages with any rank of it; else 0. */
static int64_t bytes_of_device(const mega_comm *comm, const mega_message *list, int count)
{
    int64_t bytes = 0;
    if (comm->device == NULL || comm->collectives == NULL) return 0;
    for (int i = 0; i < count; bytes += list[i++].bytes)
        if (mega_device_of(list[i].data) != comm->device) return 0;
    return bytes;
}

mega_status mega_comm_messages_start(mega_comm *comm, const char *name, const mega_message *list, int count,
                                     mega_request *requests)
{
    const int64_t bytes = bytes_of_device(comm, list, count);
    for (int i = 0; i < count; i++) requests[i] = (mega_request){0};
    if (bytes > 0) {
        const comm_op op = {.kind = COMM_MESSAGES,
                            .comm = comm,
                            .name = name,
                            .out = list->data,
                            .list = list,
                            .listed = count,
                            .count = bytes,
                            .number = ++comm->messages,
                            .dtype = MEGA_U8};
        return comm_begin(&op, requests);
    }
    for (int i = 0; i < count; i++) {
        const mega_message *m = &list[i];
        MEGA_TRY(m->is_received ? mega_comm_receive_start(comm, name, m->peer, m->data, m->bytes, &requests[i])
                                : mega_comm_send_start(comm, name, m->peer, m->data, m->bytes, &requests[i]));
    }
    return MEGA_OK;
}

mega_status mega_comm_all_to_all_start(mega_comm *comm, const char *name, void *out_, const void *in, int64_t count,
                                       mega_dtype dtype, mega_request *out)
{
    const size_t row = (size_t)count * mega_dtype_size(dtype), own = row * (size_t)comm->rank;
    comm_op op = {.kind = COMM_ALL_TO_ALL, .name = name, .out = out_, .in = in, .count = count, .dtype = dtype};
    move_own((char *)out_ + own, (const char *)in + own, row);
    return collective_begin(comm, &op, out);
}

/* ---- blocking calls ---- */

mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count, mega_dtype dtype,
                                 mega_reduce reduce)
{
    mega_request r;
    return collective_finish(mega_comm_all_reduce_start(comm, name, data, count, dtype, reduce, &r), &r);
}

mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_out,
                                     mega_dtype dtype)
{
    mega_request r;
    return collective_finish(mega_comm_reduce_scatter_start(comm, name, out, in, count_out, dtype, &r), &r);
}

mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_in,
                                 mega_dtype dtype)
{
    mega_request r;
    return collective_finish(mega_comm_all_gather_start(comm, name, out, in, count_in, dtype, &r), &r);
}

mega_status mega_comm_all_to_all(mega_comm *comm, const char *name, void *out, const void *in, int64_t count,
                                 mega_dtype dtype)
{
    mega_request r;
    return collective_finish(mega_comm_all_to_all_start(comm, name, out, in, count, dtype, &r), &r);
}

mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes, int root)
{
    comm_op op = {
        .kind = COMM_BROADCAST, .name = name, .out = data, .in = data, .count = bytes, .dtype = MEGA_U8, .peer = root};
    mega_request r;
    if (root < 0 || root >= comm->size)
        return MEGA_FAIL(MEGA_ERR_COMM, "broadcast %s in group %s: root %d is not in the group; expected 0 to %d", name,
                         comm->name, root, comm->size - 1);
    return collective_finish(collective_begin(comm, &op, &r), &r);
}

/* Reduces one number of each rank. */
static mega_status reduce_number(mega_comm *comm, comm_kind kind, const char *name, int32_t *number, mega_reduce reduce,
                                 double limit_s)
{
    comm_op op = {.kind = kind,
                  .name = name,
                  .out = number,
                  .in = number,
                  .count = 1,
                  .dtype = MEGA_I32,
                  .reduce = reduce,
                  .limit_s = limit_s};
    mega_request r;
    return collective_finish(collective_begin(comm, &op, &r), &r);
}

mega_status mega_comm_barrier(mega_comm *comm, const char *name)
{
    int32_t here = 1;
    return reduce_number(comm, COMM_BARRIER, name, &here, MEGA_REDUCE_SUM, 0);
}

static double failed_waits(const mega_world *w)
{
    return w->timeout_s < 2 * FAILED_WAITS_S ? w->timeout_s / 2 : FAILED_WAITS_S;
}

mega_status mega_comm_agree(mega_comm *comm, mega_status st)
{
    int32_t failed = st == MEGA_OK ? comm->size : comm->rank;
    mega_error_record record = {.code = MEGA_OK};
    if (st != MEGA_OK) {
        mega_error_get_of(st, &record);
        (void)mega_error_restore(&record);
    }
    if (comm->size == 1 || comm->world->failed) /* the local message is the one that all ranks would return */
        return st;
    if (comm->world->stalled && st != MEGA_OK) return st;
    const bool is_end = st != MEGA_OK && comm->size == comm->world->size;
    const mega_status agreed = reduce_number(comm, COMM_AGREE, st == MEGA_OK ? "status" : "a failure of its own",
                                             &failed, MEGA_REDUCE_MIN, is_end ? failed_waits(comm->world) : 0);
    if (agreed != MEGA_OK && is_end) stall_abort(comm->world);
    if (agreed != MEGA_OK) return is_end ? mega_error_restore(&record) : agreed;
    if (failed == comm->size) return MEGA_OK;
    comm->world->failed = comm->size == comm->world->size;
    MEGA_TRY(mega_comm_broadcast(comm, "message of a failure", &record, (int64_t)sizeof record, failed));
    if (failed == comm->rank) return mega_error_restore(&record);
    record.text[sizeof record.text - 1] = record.where[sizeof record.where - 1] = '\0';
    (void)mega_error_restore(&record);
    mega_error_prepend("rank %d", comm_world_rank(comm, failed));
    return record.code;
}
