/* A queue of pieces for a file that cannot be written at the moment. */
#include "megalith/outbox.h"
#include "megalith/append.h"
#include "megalith/memory.h"

#include <string.h>

/* Precedes each piece in the queue. */
typedef struct piece {
    int64_t first, last;
    size_t bytes;
} piece;

struct mega_outbox {
    mega_append *file;
    mega_buffer head;
    mega_buffer queue;    /* waiting pieces, the oldest first */
    size_t taken;         /* bytes at the queue's start that have been written */
    mega_missing written; /* pieces written to the open file: lost if it is removed */
    mega_missing lost;
};

static void outbox_add(mega_missing *m, int64_t pieces, int64_t first, int64_t last)
{
    if (pieces == 0) return;
    if (m->pieces == 0 || first < m->first) m->first = first;
    if (m->pieces == 0 || last > m->last) m->last = last;
    m->pieces += pieces;
}

mega_status mega_outbox_create(const char *path, const void *head, size_t head_bytes, mega_outbox **out)
{
    mega_outbox *o = mega_calloc(1, sizeof *o);
    if (o == NULL) return MEGA_NO_MEMORY(path, "its queued data");
    if (head_bytes > 0) mega_buffer_append(&o->head, head, head_bytes);
    mega_status st = mega_buffer_check(&o->head, path);
    if (st == MEGA_OK) st = mega_append_create(path, &o->file);
    if (st == MEGA_OK) *out = o;
    else
        mega_outbox_close(o);
    return st;
}

static bool first_piece(const mega_outbox *o, piece *out)
{
    if (o->taken == o->queue.size) return false;
    memcpy(out, o->queue.data + o->taken, sizeof *out);
    return true;
}

static void outbox_take(mega_outbox *o, const piece *p)
{
    o->taken += sizeof *p + p->bytes;
    if (o->taken == o->queue.size) o->taken = o->queue.size = 0;
}

/* Drops the oldest pieces until a new one of `bytes` bytes fits. */
static void make_room(mega_outbox *o, size_t bytes)
{
    piece p;
    while (o->queue.size - o->taken + bytes > MEGA_OUTBOX_BYTES && first_piece(o, &p)) {
        outbox_add(&o->lost, 1, p.first, p.last);
        outbox_take(o, &p);
    }
    if (o->taken == 0) return;
    memmove(o->queue.data, o->queue.data + o->taken, o->queue.size - o->taken);
    o->queue.size -= o->taken;
    o->taken = 0;
}

mega_status mega_outbox_put(mega_outbox *o, int64_t first, int64_t last, const void *bytes, size_t n)
{
    const piece p = {first, last, n};
    if (n == 0) return MEGA_OK;
    make_room(o, sizeof p + n);
    const size_t before = o->queue.size;
    mega_buffer_append(&o->queue, &p, sizeof p);
    mega_buffer_append(&o->queue, bytes, n);
    if (!o->queue.failed) return MEGA_OK;
    o->queue.failed = false;
    o->queue.size = before;
    outbox_add(&o->lost, 1, first, last);
    return MEGA_NO_MEMORY(mega_append_path(o->file), "its queued data");
}

static mega_status outbox_open_file(mega_outbox *o)
{
    mega_append_found found;
    const mega_status st = mega_append_open(o->file, &found);
    if (found.was_lost) outbox_add(&o->lost, o->written.pieces, o->written.first, o->written.last);
    if (found.was_left) o->written = (mega_missing){0};
    MEGA_TRY(st);
    return found.is_empty && o->head.size > 0 ? mega_append_write(o->file, o->head.data, o->head.size) : MEGA_OK;
}

static mega_status outbox_write_all(mega_outbox *o)
{
    piece p;
    MEGA_TRY(outbox_open_file(o));
    while (first_piece(o, &p)) {
        MEGA_TRY(mega_append_write(o->file, o->queue.data + o->taken + sizeof p, p.bytes));
        outbox_add(&o->written, 1, p.first, p.last);
        outbox_take(o, &p);
    }
    return MEGA_OK;
}

mega_status mega_outbox_flush(mega_outbox *o)
{
    const mega_status st = outbox_write_all(o);
    mega_append_pause(o->file);
    return st;
}

mega_status mega_outbox_sync(mega_outbox *o)
{
    MEGA_TRY(mega_outbox_flush(o));
    return mega_append_sync(o->file);
}

const char *mega_outbox_path(const mega_outbox *o)
{
    return mega_append_path(o->file);
}

mega_missing mega_outbox_missing(const mega_outbox *o)
{
    mega_missing m = o->lost;
    piece p;
    for (size_t at = o->taken; at < o->queue.size; at += sizeof p + p.bytes) {
        memcpy(&p, o->queue.data + at, sizeof p);
        outbox_add(&m, 1, p.first, p.last);
    }
    return m;
}

mega_status mega_outbox_close(mega_outbox *o)
{
    if (o == NULL) return MEGA_OK;
    const mega_status st = mega_append_close(o->file);
    mega_buffer_fini(&o->head);
    mega_buffer_fini(&o->queue);
    mega_free(o);
    return st;
}
