/* What the host writes to a GPU, without waiting for it: at once into pinned memory; from there to a staging area of
 * the device, in a stream of its own, so beside kernels that were asked for before; and to its place when the stream
 * that computes comes to it. The two areas have two halves each: while one is filled, the copies of the other run. */
#include "gpu.h"

#include <string.h>

enum { HALF_BYTES = MEGA_CUDA_STAGING_BYTES / 2, PIECE_ALIGN = 16 };

static mega_status check(const cuda_writes *w, cu_result result)
{
    return mega_cuda_check(w->cuda, result, "cuda: a copy to a GPU");
}

mega_status mega_cuda_writes_open(cuda_writes *w, const mega_cuda_driver *cuda, cu_stream computes)
{
    void *pinned = NULL;
    w->cuda = cuda;
    w->computes = computes;
    MEGA_TRY(check(w, cuda->host_alloc(&pinned, MEGA_CUDA_STAGING_BYTES, 0)));
    w->pinned = pinned;
    MEGA_TRY(mega_cuda_check(cuda, cuda->memory_alloc(&w->staging, MEGA_CUDA_STAGING_BYTES),
                             "cuda: memory of the GPU for what the host writes"));
    MEGA_TRY(check(w, cuda->stream_create(&w->copies, CU_NON_BLOCKING)));
    for (int i = 0; i < 2; i++) {
        MEGA_TRY(check(w, cuda->event_create(&w->half[i].arrived, CU_NO_TIMING)));
        MEGA_TRY(check(w, cuda->event_create(&w->half[i].taken, CU_NO_TIMING)));
    }
    return MEGA_OK;
}

void mega_cuda_writes_close(cuda_writes *w)
{
    for (int i = 0; i < 2; i++) {
        if (w->half[i].arrived != NULL) (void)w->cuda->event_destroy(w->half[i].arrived);
        if (w->half[i].taken != NULL) (void)w->cuda->event_destroy(w->half[i].taken);
    }
    if (w->copies != NULL) (void)w->cuda->stream_destroy(w->copies);
    if (w->staging != 0) (void)w->cuda->memory_free(w->staging);
    if (w->pinned != NULL) (void)w->cuda->host_free(w->pinned);
}

mega_status mega_cuda_writes_flush(cuda_writes *w)
{
    cuda_half *h = &w->half[w->now];
    const size_t begin = (size_t)w->now * HALF_BYTES;
    if (w->num_pieces == 0) return MEGA_OK;
    MEGA_TRY(check(
        w, w->cuda->copy_in(w->staging + begin + h->sent, w->pinned + begin + h->sent, h->used - h->sent, w->copies)));
    h->sent = h->used;
    MEGA_TRY(check(w, w->cuda->event_record(h->arrived, w->copies)));
    MEGA_TRY(check(w, w->cuda->stream_wait_event(w->computes, h->arrived, 0)));
    for (int i = 0; i < w->num_pieces; i++) {
        const cuda_piece *p = &w->piece[i];
        const cu_copy_2d rows = {.from_kind = CU_DEVICE,
                                 .from = w->staging + begin + p->at,
                                 .from_pitch = p->bytes,
                                 .to_kind = CU_DEVICE,
                                 .to = p->to,
                                 .to_pitch = p->pitch,
                                 .bytes = p->bytes,
                                 .rows = p->rows};
        MEGA_TRY(check(w, p->rows > 1 ? w->cuda->copy_2d(&rows, w->computes)
                                      : w->cuda->copy(p->to, rows.from, p->bytes, w->computes)));
    }
    w->num_pieces = 0;
    return MEGA_OK;
}

/* The other half is used again as soon as its copies have run: those from pinned memory, for which the host waits, and
 * those out of the staging area, for which the stream of copies waits. */
static mega_status writes_turn(cuda_writes *w)
{
    MEGA_TRY(mega_cuda_writes_flush(w));
    MEGA_TRY(check(w, w->cuda->event_record(w->half[w->now].taken, w->computes)));
    w->now = 1 - w->now;
    cuda_half *h = &w->half[w->now];
    if (h->used > 0) {
        MEGA_TRY(w->wait(w->user, h->arrived));
        MEGA_TRY(check(w, w->cuda->stream_wait_event(w->copies, h->taken, 0)));
    }
    h->used = h->sent = 0;
    return MEGA_OK;
}

mega_status mega_cuda_writes_add(cuda_writes *w, cu_address to, const void *host, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        if (w->half[w->now].used == HALF_BYTES) MEGA_TRY(writes_turn(w));
        if (w->num_pieces == CUDA_PIECES) MEGA_TRY(mega_cuda_writes_flush(w));
        cuda_half *h = &w->half[w->now];
        n = bytes - at < HALF_BYTES - h->used ? bytes - at : HALF_BYTES - h->used;
        memcpy(w->pinned + (size_t)w->now * HALF_BYTES + h->used, (const char *)host + at, n);
        w->piece[w->num_pieces++] = (cuda_piece){to + at, h->used, n, 1, n};
        h->used += (n + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    }
    return MEGA_OK;
}

mega_status mega_cuda_writes_add_rows(cuda_writes *w, cu_address to, size_t pitch, const void *host, size_t rows,
                                      size_t bytes)
{
    for (size_t r = 0, n; r < rows; r += n) {
        if (HALF_BYTES - w->half[w->now].used < bytes) MEGA_TRY(writes_turn(w));
        if (w->num_pieces == CUDA_PIECES) MEGA_TRY(mega_cuda_writes_flush(w));
        cuda_half *h = &w->half[w->now];
        n = (HALF_BYTES - h->used) / bytes < rows - r ? (HALF_BYTES - h->used) / bytes : rows - r;
        memcpy(w->pinned + (size_t)w->now * HALF_BYTES + h->used, (const char *)host + r * bytes, n * bytes);
        w->piece[w->num_pieces++] = (cuda_piece){to + r * pitch, h->used, bytes, n, pitch};
        h->used += (n * bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    }
    return MEGA_OK;
}

void mega_cuda_writes_are_done(cuda_writes *w)
{
    for (int i = 0; i < 2; i++) w->half[i].used = w->half[i].sent = 0;
}
