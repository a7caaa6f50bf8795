/* Comparing the calls of a group's members. With MEGA_CHECK=2 the members exchange what they call before data moves,
 * and the two ends of a message what it is; collectives through shared memory carry their call with the data in any
 * case. A difference fails on every member that sees it, before it waits for data that never comes. */
#include "comm_impl.h"
#include "megalith/memory.h"

#include <string.h>

comm_call comm_call_of(const comm_op *op)
{
    comm_call c = {.number = op->number, .count = op->count, .kind = op->kind, .dtype = op->dtype, .peer = -1};
    size_t n = 0;
    if (op->kind == COMM_BROADCAST) c.peer = op->peer;
    if (op->kind == COMM_SEND || op->kind == COMM_RECEIVE) c.number = 0; /* each end counts its own */
    if (op->kind == COMM_RECEIVE) c.kind = COMM_SEND;
    if (op->kind == COMM_ALL_REDUCE) c.reduce = op->reduce;
    for (; op->kind != COMM_AGREE && n + 1 < sizeof c.name && op->name[n] != '\0'; n++) c.name[n] = op->name[n];
    return c;
}

static void put_call(mega_buffer *out, int rank, const comm_call *c)
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
    mega_buffer_printf(&text, "group %s: ranks %d and %d call different things:", op->comm->name, op->comm->world->rank,
                       comm_world_rank(op->comm, peer));
    const bool is_first = op->comm->rank < peer; /* all members say it in one order */
    put_call(&text, is_first ? op->comm->world->rank : comm_world_rank(op->comm, peer), is_first ? mine : theirs);
    put_call(&text, is_first ? comm_world_rank(op->comm, peer) : op->comm->world->rank, is_first ? theirs : mine);
    const mega_status st = MEGA_FAIL(MEGA_ERR_COMM, "%s", text.failed ? "ranks call different things" : text.data);
    mega_buffer_fini(&text);
    return st;
}
