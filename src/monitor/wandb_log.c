/* LevelDB's log format: blocks of 32 KiB, in which each record is cut into fragments that do not cross a block. A
 * fragment is a CRC-32 of kind and bytes (4), a length (2), a kind (1: whole, 2: first, 3: middle, 4: last) and the
 * bytes. A block with fewer than 7 bytes left ends in zeros. The file begins with ":W&B", 0xBEE1 and a version. */
#include "wandb_log.h"
#include "proto.h"

enum { BLOCK = 32768, HEAD = 7, WHOLE = 1, FIRST = 2, MIDDLE = 3, LAST = 4 };

struct wandb_log {
    mega_outbox *box;
    uint64_t position;  /* in the file, after all records so far */
    size_t waiting;     /* bytes that a failed flush left */
    bool is_broken;     /* a piece was lost */
    mega_missing after; /* records that came after it */
    mega_buffer frames;
};

static uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

mega_status wandb_log_create(const char *path, wandb_log **out)
{
    static const uint8_t head[HEAD] = {':', 'W', '&', 'B', 0xe1, 0xbe, 0};
    wandb_log *l = mega_calloc(1, sizeof *l);
    if (l == NULL) return MEGA_NO_MEMORY(path, "a log of records");
    l->position = sizeof head;
    const mega_status st = mega_outbox_create(path, head, sizeof head, &l->box);
    if (st == MEGA_OK) *out = l;
    else
        mega_free(l);
    return st;
}

static void put_fragment(mega_buffer *out, uint8_t kind, const char *bytes, size_t n)
{
    proto_put_fixed(out, crc32_of(crc32_of(0, &kind, 1), (const uint8_t *)bytes, n), 4);
    proto_put_fixed(out, n, 2);
    proto_put_fixed(out, kind, 1);
    mega_buffer_append(out, bytes, n);
}

static void frame(wandb_log *l, const mega_buffer *record)
{
    static const char zeros[HEAD] = {0};
    const uint64_t begin = l->position;
    bool is_first = true;
    size_t at = 0;
    do {
        size_t room = BLOCK - (size_t)((begin + l->frames.size) % BLOCK);
        if (room < HEAD) {
            mega_buffer_append(&l->frames, zeros, room);
            room = BLOCK;
        }
        const size_t left = record->size - at, n = left < room - HEAD ? left : room - HEAD;
        const bool is_last = n == left;
        put_fragment(&l->frames,
                     (uint8_t)(is_first  ? is_last ? WHOLE : FIRST
                               : is_last ? LAST
                                         : MIDDLE),
                     record->data + at, n);
        if (l->frames.failed) return;
        at += n;
        is_first = false;
    } while (at < record->size);
}

static void count_missing(mega_missing *m, int64_t step)
{
    if (m->pieces++ == 0) m->first = step;
    m->last = step;
}

mega_status wandb_log_put(wandb_log *l, int64_t step, const mega_buffer *record)
{
    l->frames.size = 0;
    l->frames.failed = false;
    if (!l->is_broken) frame(l, record);
    /* the outbox would drop an older piece, or has dropped this one */
    if (l->waiting + l->frames.size + 4096 > MEGA_OUTBOX_BYTES) l->is_broken = true;
    if (l->is_broken) {
        count_missing(&l->after, step);
        return MEGA_OK;
    }
    mega_status st = mega_buffer_check(&l->frames, mega_outbox_path(l->box));
    if (st == MEGA_OK) st = mega_outbox_put(l->box, step, step, l->frames.data, l->frames.size);
    l->is_broken = st != MEGA_OK;
    MEGA_TRY(st);
    l->position += l->frames.size;
    l->waiting += l->frames.size + 64; /* of the outbox's own */
    return MEGA_OK;
}

mega_status wandb_log_flush(wandb_log *l)
{
    MEGA_TRY(mega_outbox_flush(l->box));
    l->waiting = 0;
    if (mega_outbox_missing(l->box).pieces > 0) l->is_broken = true; /* the file was removed */
    return MEGA_OK;
}

mega_missing wandb_log_missing(const wandb_log *l)
{
    mega_missing m = mega_outbox_missing(l->box);
    if (l->after.pieces == 0) return m;
    if (m.pieces == 0) return l->after;
    m.pieces += l->after.pieces;
    m.last = l->after.last;
    return m;
}

mega_status wandb_log_close(wandb_log *l)
{
    if (l == NULL) return MEGA_OK;
    const mega_status st = mega_outbox_close(l->box);
    mega_buffer_fini(&l->frames);
    mega_free(l);
    return st;
}
