/* The table of operations in progress, with one queue per tag. All ranks start the collectives of a group in one order,
 * and a queue executes them one after the other, so messages of a tag match whenever each rank polls. Tags do not wait
 * for each other, and single messages (which have their own tag) are sent at once. Waiting for one operation makes
 * progress on all. */
#include "megalith/assert.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "watch/record_impl.h"

#include <sched.h>

enum {
    SPINS = 200,     /* polls before this rank yields its core */
    CLOCK_EVERY = 64 /* polls between checks of the clock */
};

#define LEND_EVERY_S 500e-6 /* seconds between checks whether another process keeps an awaited rank from running */

/* The world's own collectives are short: statuses and counts. */
#define SCRATCH_OF_WORLD ((size_t)256 << 10)

static bool is_message(const comm_op *op)
{
    return op->kind == COMM_SEND || op->kind == COMM_RECEIVE;
}

size_t comm_scratch_bytes(const mega_comm *comm)
{
    const size_t slots = (size_t)comm->size * 128; /* the smallest size that has a slot for every rank */
    size_t bytes = comm->world == NULL ? COMM_SCRATCH_BYTES : comm->world->scratch_bytes;
    if (comm->size == 1) return 0;
    if (comm->tag == MEGA_COMM_WORLD_TAG && bytes > SCRATCH_OF_WORLD) bytes = SCRATCH_OF_WORLD;
    return bytes < slots ? slots : bytes;
}

mega_status comm_channel_open(const mega_comm *comm)
{
    if (comm->world == NULL) return MEGA_OK;
    comm_channel *c = &comm->world->channel[comm->tag];
    const size_t bytes = comm_scratch_bytes(comm);
    if (c->scratch_bytes >= bytes) return MEGA_OK;
    MEGA_ASSERT(c->scratch == NULL || c->first < 0, "a larger group %s was created while collectives are in progress",
                comm->name);
    mega_free(c->scratch);
    c->scratch_bytes = 0;
    c->first = c->last = -1;
    c->scratch = mega_malloc(bytes);
    if (c->scratch == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "group %s of %d ranks: no memory for %zu bytes of scratch", comm->name,
                         comm->size, bytes);
    c->scratch_bytes = bytes;
    return MEGA_OK;
}

void comm_operations_close(mega_world *world)
{
    for (int i = 0; i < MEGA_COMM_TAGS; i++) {
        mega_free(world->channel[i].scratch);
        transport_messages_fini(&world->channel[i].messages);
    }
    for (int i = 0; i < world->used; i++) transport_messages_fini(&world->op[i].own);
    mega_free(world->op);
}

/* ---- progress ---- */

static void has_moved(comm_op *op)
{
    op->moved = mega_time_now();
    op->comm->world->moves++;
}

static mega_status operation_test(comm_op *op, bool *through)
{
    if (op->phase != COMM_SHARED) return transport_test(op, through);
    bool moved;
    MEGA_TRY(comm_shared_move(op, &moved, through));
    if (moved) has_moved(op);
    return MEGA_OK;
}

int comm_missing(const comm_op *op, int *ranks, int most)
{
    if (op->state == COMM_OF_DEVICE) return comm_devices_missing(op, ranks, most);
    return op->phase == COMM_SHARED ? comm_shared_missing(op, ranks, most) : transport_missing(op, ranks, most);
}

static mega_status operation_continue(comm_op *op)
{
    bool through = true;
    if (op->state == COMM_MOVING) MEGA_TRY(operation_test(op, &through));
    while (through) {
        bool done;
        op->state = COMM_MOVING;
        has_moved(op);
        MEGA_TRY(comm_op_advance(op, &done));
        if (done) {
            comm_unstage_op(op);
            op->state = COMM_DONE;
            op->comm->world->in_progress--;
            return MEGA_OK;
        }
        MEGA_TRY(operation_test(op, &through));
    }
    return MEGA_OK;
}

/* Continues one operation as far as possible without waiting. One that fails keeps its memory: messages may still
 * arrive there. */
static mega_status operation_move(comm_op *op)
{
    const mega_status st = operation_continue(op);
    if (st == MEGA_OK) return MEGA_OK;
    op->state = COMM_FAILED;
    return st;
}

static mega_status move_channel(mega_world *world, comm_channel *c)
{
    while (c->first >= 0) {
        comm_op *op = &world->op[c->first];
        if (op->state == COMM_FAILED) return MEGA_OK;
        MEGA_TRY(operation_move(op));
        if (op->state != COMM_DONE) return MEGA_OK;
        c->first = op->next;
    }
    c->last = -1;
    return MEGA_OK;
}

static mega_status move_all(mega_world *world)
{
    for (int i = 0; i < MEGA_COMM_TAGS; i++)
        if (world->channel[i].scratch != NULL) MEGA_TRY(move_channel(world, &world->channel[i]));
    for (int i = 0; i < world->used; i++) {
        comm_op *op = &world->op[i];
        if (op->state == COMM_MOVING && is_message(op)) MEGA_TRY(operation_move(op));
    }
    return MEGA_OK;
}

mega_status mega_comm_poll(mega_world *world)
{
    return world == NULL || world->in_progress == 0 ? MEGA_OK : move_all(world);
}

/* ---- starting ---- */

/* Takes the lowest free slot: the same sequence of calls uses the same slots each time, and slots keep their
 * allocations. */
static comm_op *operation_take(mega_world *world)
{
    for (int i = 0; i < MEGA_COMM_REQUESTS; i++) {
        if (world->op[i].state != COMM_FREE) continue;
        if (i >= world->used) world->used = i + 1;
        return &world->op[i];
    }
    return NULL;
}

static void operation_enqueue(mega_world *world, comm_channel *c, int place)
{
    if (c->first < 0) c->first = place;
    else
        world->op[c->last].next = place;
    c->last = place;
}

mega_status comm_begin(const comm_op *wanted, mega_request *out)
{
    mega_world *w = wanted->comm->world;
    const bool is_of_devices = comm_of_devices(wanted);
    if (!is_message(wanted) && !is_of_devices) MEGA_TRY(comm_channel_open(wanted->comm));
    comm_op *op = operation_take(w);
    if (op == NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s (%s) of group %s: %d requests are in progress in this process, which is the most "
                         "possible; wait for some of them first",
                         comm_kind_name(wanted->kind), wanted->name, wanted->comm->name, MEGA_COMM_REQUESTS);
    comm_channel *c = &w->channel[wanted->comm->tag];
    const comm_messages own = op->own;
    const uint32_t use = op->use + 1;
    *op = *wanted;
    op->own = own;
    op->use = use;
    if (w->log != NULL) op->began = mega_time_now();
    if (is_of_devices) {
        *out = (mega_request){.world = w, .place = (int)(op - w->op), .use = use};
        return comm_devices_start(op, out->place);
    }
    MEGA_TRY(comm_stage_op(op));
    op->state = COMM_QUEUED;
    op->next = -1;
    op->messages = is_message(op) ? &op->own : &c->messages;
    w->in_progress++;
    *out = (mega_request){.world = w, .place = (int)(op - w->op), .use = use};
    if (is_message(op)) return operation_move(op);
    operation_enqueue(w, c, out->place);
    return move_channel(w, c);
}

/* ---- waiting ---- */

/* Fails if op cannot complete because it, or the first operation of its queue, has failed; an earlier call reported
 * that. */
static mega_status check_alive(const mega_world *world, const comm_op *op)
{
    const comm_channel *c = &world->channel[op->comm->tag];
    const bool behind = !is_message(op) && c->first >= 0 && world->op[c->first].state == COMM_FAILED;
    if (op->state != COMM_FAILED && !behind) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_COMM, "%s #%llu (%s) of group %s: an earlier call has failed", comm_kind_name(op->kind),
                     (unsigned long long)op->number, op->name, op->comm->name);
}

static mega_status poll_until_done(mega_world *world, const comm_op *op, double began)
{
    uint64_t moves = world->moves;
    double looked = began;
    for (long polls = 0; op->state != COMM_DONE; polls++) { /* polls without progress, in a row */
        MEGA_TRY(check_alive(world, op));
        MEGA_TRY(move_all(world));
        if (world->moves != moves) polls = 0;
        moves = world->moves;
        if (polls < SPINS) {
            /* as MPI does when polled: an awaited rank gets the core sooner than through a nap */
            if (world->is_crowded && world->shared != NULL) sched_yield();
            continue;
        }
        transport_yield(world, polls - SPINS);
        if (polls % CLOCK_EVERY != 0) continue;
        if (op->phase == COMM_SHARED) transport_progress(world);
        const double now = mega_time_now();
        if (now - looked > LEND_EVERY_S) {
            stall_lend_core(op);
            looked = now;
        }
        MEGA_TRY(stall_poll(op, now));
    }
    return MEGA_OK;
}

static mega_status wait_for(mega_world *world, const comm_op *op)
{
    const double began = mega_time_now();
    record_wait_begin(world, op, began);
    stall_begin(world, began);
    const mega_status st = poll_until_done(world, op, began);
    record_take_back_core(world);
    if (st != MEGA_OK) return st;
    record_wait_end(world);
    stall_wait_ended(world);
    return MEGA_OK;
}

mega_status mega_comm_wait(mega_request *request)
{
    const mega_request r = *request;
    if (r.world == NULL) return MEGA_OK;
    comm_op *op = &r.world->op[r.place];
    *request = (mega_request){0};
    const bool is_of_devices = op->state == COMM_OF_DEVICE;
    if (op->state == COMM_FREE || op->use != r.use || (is_of_devices && op->is_awaited))
        return MEGA_MISTAKE("mega_comm_wait: this request was already waited for through a copy of it; wait for "
                            "each request once");
    if (is_of_devices) return comm_devices_await(op, r.place);
    const bool is_counted = r.world->log != NULL;
    const double began = is_counted ? mega_time_now() : 0;
    MEGA_TRY(wait_for(r.world, op));
    if (is_counted) comm_log_add(op, mega_time_now() - began);
    comm_stage_give(&op->stage);
    op->state = COMM_FREE;
    return MEGA_OK;
}
