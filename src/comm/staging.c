/* Exchanges of memory that the host cannot reach (a GPU's) go through memory of the host: what an operation reads is
 * copied there when it starts, after all work that the device was given before, and what it makes is copied back when
 * it is complete. In between it is an exchange of host memory like any other. Blocks are kept for later exchanges;
 * each is taken from a start to its wait, so that nothing is allocated once steps are alike. */
#include "comm_impl.h"
#include "megalith/comm_log.h"
#include "megalith/device_memory.h"
#include "megalith/log.h"
#include "megalith/memory.h"

enum { STAGE_ALIGN = 64 };

typedef struct staging_block {
    mega_device *device; /* NULL: the host's memory in a build with MEGA_FAR */
    char *data;          /* NULL: the device was closed */
    size_t bytes;
    bool is_taken;
    bool is_unpinned;
    bool is_sent; /* a copy of its bytes to the device may not have run yet */
} staging_block;

struct comm_staging {
    staging_block *block;
    int count;
    int64_t capacity;
    mega_comm_staged done;
};

/* ---- blocks ---- */

/* Sizes of blocks are of few classes: an exchange then finds a block of an exchange that was a little shorter. */
static size_t class_of(size_t bytes)
{
    size_t step = STAGE_ALIGN;
    while (step * 8 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

static int block_find(const struct comm_staging *s, const mega_device *device, size_t bytes)
{
    for (int i = 0; i < s->count; i++)
        if (s->block[i].device == device && s->block[i].bytes == bytes && !s->block[i].is_taken) return i;
    return -1;
}

/* Other memory does, but more slowly. So a device that fails before its first exchange, and gives no pinned memory from
 * then on, does not end the run here, where the other ranks would wait, but where ranks agree, with its message. */
static mega_status take_unpinned(mega_device *device, size_t bytes, staging_block *out)
{
    void *data;
    out->is_unpinned = true;
    if (mega_device_finish(device) == MEGA_OK)
        mega_warn("%s; other memory is used, and the copies are slower", mega_error_message());
    MEGA_TRY(mega_pages_alloc(&data, bytes, "exchanges between ranks"));
    out->data = data;
    return MEGA_OK;
}

static void block_free(const staging_block *b)
{
    if (b->is_unpinned) mega_pages_free(b->data, b->bytes);
    else
        mega_device_host_free(b->device, b->data, b->bytes);
}

static mega_status block_add(mega_world *w, mega_device *device, size_t bytes, int *out)
{
    struct comm_staging *s = w->staging;
    if (!mega_array_reserve(&s->block, &s->capacity, s->count + 1, sizeof *s->block))
        return MEGA_NO_MEMORY("exchanges of a device", "the list of their memory");
    staging_block *b = &s->block[s->count];
    void *data;
    *b = (staging_block){.device = device, .bytes = bytes};
    if (mega_device_host_alloc(device, &data, bytes, "exchanges between ranks") == MEGA_OK) b->data = data;
    else
        MEGA_TRY(take_unpinned(device, bytes, b));
    s->done.held += (int64_t)bytes;
    *out = s->count++;
    return MEGA_OK;
}

static mega_status staging_open(mega_world *w)
{
    if (w->staging == NULL) w->staging = mega_calloc(1, sizeof *w->staging);
    return w->staging != NULL ? MEGA_OK : MEGA_NO_MEMORY("exchanges of a device", "their record");
}

/* Copies from the block must have run before it is written to. A device that failed runs none, and keeps its failure
 * until its engine asks for it. */
static void block_clear(staging_block *b)
{
    if (b->is_sent && mega_device_finish(b->device) == MEGA_OK) b->is_sent = false;
}

mega_status comm_stage_take(mega_world *world, const void *of, size_t bytes, comm_stage *out)
{
    mega_device *device = mega_device_of(of);
    MEGA_TRY(staging_open(world));
    int i = block_find(world->staging, device, class_of(bytes));
    if (i < 0) MEGA_TRY(block_add(world, device, class_of(bytes), &i));
    block_clear(&world->staging->block[i]);
    world->staging->block[i].is_taken = true;
    *out = (comm_stage){.world = world, .number = i, .data = world->staging->block[i].data};
    return MEGA_OK;
}

void comm_stage_give(const comm_stage *s)
{
    if (s->world != NULL) s->world->staging->block[s->number].is_taken = false;
}

/* ---- copies ---- */

static void count_copy(struct comm_staging *s, size_t bytes)
{
    s->done.copies++;
    s->done.bytes += (int64_t)bytes;
}

void comm_stage_in(const comm_stage *s, size_t at, const void *from, size_t bytes)
{
    struct comm_staging *all = s->world->staging;
    mega_device *device = all->block[s->number].device;
    if (bytes == 0) return; /* nothing would wait */
    mega_device_receive(device, s->data + at, from, bytes);
    count_copy(all, bytes);
    for (int i = 0; i < all->count; i++)
        if (all->block[i].device == device) all->block[i].is_sent = false; /* the device has been waited for */
}

void comm_stage_out(const comm_stage *s, size_t at, void *to, size_t bytes)
{
    staging_block *b = &s->world->staging->block[s->number];
    if (bytes == 0 || b->data == NULL) return;
    mega_device_send(b->device, to, s->data + at, bytes);
    b->is_sent = true;
    count_copy(s->world->staging, bytes);
}

/* ---- operations ---- */

static size_t bytes_of_slice(const comm_op *op)
{
    return (size_t)op->count * mega_dtype_size(op->dtype);
}

static size_t bytes_of_slices(const comm_op *op)
{
    const bool has_slices =
        op->kind == COMM_REDUCE_SCATTER || op->kind == COMM_ALL_GATHER || op->kind == COMM_ALL_TO_ALL;
    return bytes_of_slice(op) * (has_slices ? (size_t)op->comm->size : 1);
}

static bool reads_nothing(const comm_op *op)
{
    return op->kind == COMM_RECEIVE || (op->kind == COMM_BROADCAST && op->peer != op->comm->rank);
}

mega_status comm_stage_op(comm_op *op)
{
    const size_t slice = bytes_of_slice(op), whole = bytes_of_slices(op), own = slice * (size_t)op->comm->rank;
    const void *given = op->in != NULL ? op->in : op->out;
    op->stage = (comm_stage){.world = NULL};
    if (whole == 0 || (mega_device_is_host(given) && mega_device_is_host(op->out != NULL ? op->out : given)))
        return MEGA_OK;
    MEGA_TRY(comm_stage_take(op->comm->world, mega_device_of(given) != NULL ? given : op->out,
                             op->kind == COMM_ALL_TO_ALL ? 2 * whole : whole, &op->stage));
    char *const data = op->stage.data;
    if (op->kind == COMM_ALL_GATHER) comm_stage_in(&op->stage, own, op->in, slice);
    else if (!reads_nothing(op))
        comm_stage_in(&op->stage, 0, op->in, whole);
    op->target = op->out;
    op->in = op->kind == COMM_ALL_GATHER ? data + own : data;
    op->out = op->kind == COMM_REDUCE_SCATTER ? data + own : op->kind == COMM_ALL_TO_ALL ? data + whole : data;
    return MEGA_OK;
}

/* What the others have sent; this rank's own slice is there already. */
static void stage_out_others(const comm_op *op)
{
    const size_t slice = bytes_of_slice(op), whole = bytes_of_slices(op);
    const size_t own = slice * (size_t)op->comm->rank, after = own + slice;
    const size_t at = (size_t)((char *)op->out - op->stage.data);
    comm_stage_out(&op->stage, at, op->target, own);
    comm_stage_out(&op->stage, at + after, (char *)op->target + after, whole - after);
}

void comm_unstage_op(const comm_op *op)
{
    if (op->stage.world == NULL) return;
    const bool is_sender = op->kind == COMM_SEND || (op->kind == COMM_BROADCAST && op->peer == op->comm->rank);
    if (op->kind == COMM_ALL_GATHER || op->kind == COMM_ALL_TO_ALL) stage_out_others(op);
    else if (!is_sender)
        comm_stage_out(&op->stage, (size_t)((char *)op->out - op->stage.data), op->target, bytes_of_slice(op));
}

/* ---- of a world ---- */

mega_comm_staged mega_comm_staged_get(const mega_world *world)
{
    return world != NULL && world->staging != NULL ? world->staging->done : (mega_comm_staged){0};
}

void mega_comm_forget_device(mega_world *world, const struct mega_device *device)
{
    struct comm_staging *s = world != NULL ? world->staging : NULL;
    for (int i = 0; s != NULL && device != NULL && i < s->count; i++) {
        staging_block *b = &s->block[i];
        if (b->device != device || b->data == NULL) continue;
        block_free(b);
        *b = (staging_block){.data = NULL, .is_taken = true};
    }
}

void comm_staging_close(mega_world *world)
{
    struct comm_staging *s = world->staging;
    for (int i = 0; s != NULL && i < s->count; i++)
        if (s->block[i].device == NULL) block_free(&s->block[i]);
    if (s != NULL) mega_free(s->block);
    mega_free(s);
}
