/* Checks that the members of a group make the same call. With MEGA_CHECK=2 they exchange descriptions of their calls
 * before data moves, and so do the two ends of a message; collectives through shared memory always send the description
 * with the data. Every member that sees a difference fails, before it waits for data that never arrives. */
#include "comm_impl.h"
#include "megalith/memory.h"

#include <string.h>

comm_call comm_call_of(const comm_op *op)
{
    comm_call c = {.number = op->number, .count = op->count, .kind = op->kind, .dtype = op->dtype, .peer = -1};
    size_t n = 0;
    if (op->kind == COMM_BROADCAST) c.peer = op->peer;
    if (op->kind == COMM_SEND || op->kind == COMM_RECEIVE) c.number = 0; /* each end of a message counts its own */
    if (op->kind == COMM_RECEIVE) c.kind = COMM_SEND;
    if (op->kind == COMM_ALL_REDUCE) c.reduce = op->reduce;
    for (; op->kind != COMM_AGREE && n + 1 < sizeof c.name && op->name[n] != '\0'; n++) c.name[n] = op->name[n];
    return c;
}

static void check_put_call(mega_buffer *out, int rank, const comm_call *c)
{
    mega_buffer_printf(out, "\n  rank %d calls %s", rank, comm_kind_name((comm_kind)c->kind));
    if (c->number > 0) mega_buffer_printf(out, " #%llu", (unsigned long long)c->number);
    mega_buffer_printf(out, " (%.*s) of %lld %s", (int)sizeof c->name, c->name, (long long)c->count,
                       mega_dtype_name((mega_dtype)c->dtype));
    if (c->peer >= 0) mega_buffer_printf(out, " from rank %d of the group", c->peer);
    if (c->kind == COMM_ALL_REDUCE && c->reduce != 0)
        mega_buffer_puts(out, c->reduce == MEGA_REDUCE_MAX ? ", the largest" : ", the least");
}

mega_status comm_check_same(const comm_op *op, const comm_call *mine, const comm_call *theirs, int peer)
{
    mega_buffer text = {0};
    if (memcmp(mine, theirs, sizeof *mine) == 0) return MEGA_OK;
    mega_buffer_printf(&text, "group %s: ranks %d and %d make different calls:", op->comm->name, op->comm->world->rank,
                       comm_world_rank(op->comm, peer));
    const bool is_first = op->comm->rank < peer; /* all members report in the same order */
    check_put_call(&text, is_first ? op->comm->world->rank : comm_world_rank(op->comm, peer), is_first ? mine : theirs);
    check_put_call(&text, is_first ? comm_world_rank(op->comm, peer) : op->comm->world->rank, is_first ? theirs : mine);
    const mega_status st = MEGA_FAIL(MEGA_ERR_COMM, "%s", text.failed ? "ranks make different calls" : text.data);
    mega_buffer_fini(&text);
    return st;
}
