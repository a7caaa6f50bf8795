/* The compressed mean (compressed.h). Both exchanges send one row to each rank: the scales of all tensors, then their
 * signs. */
#include "megalith/compressed.h"
#include "comm_impl.h"
#include "megalith/device_memory.h"

#include <math.h>
#include <string.h>

#define REAL    float
#define NAME(x) x##_f32
#include "compressed_body.c"
#undef REAL
#undef NAME
#define REAL    double
#define NAME(x) x##_f64
#include "compressed_body.c"

enum { BLOCK = 4096 }; /* elements of one partial sum: sums must not depend on the number of threads */

int64_t mega_compressed_chunk(int64_t count, int ranks)
{
    return ((count + ranks - 1) / ranks + 7) / 8 * 8;
}

int64_t mega_compressed_own(int64_t count, int ranks, int rank)
{
    const int64_t chunk = mega_compressed_chunk(count, ranks), left = count - rank * chunk;
    return left < 0 ? 0 : left < chunk ? left : chunk;
}

/* Bytes of a row, a multiple of 8. */
static int64_t row_bytes(const mega_compressed *list, int tensors, int ranks)
{
    int64_t bytes = 0;
    for (int t = 0; t < tensors; t++) bytes += mega_compressed_chunk(list[t].count, ranks) / 8;
    return tensors * (int64_t)sizeof(double) + (bytes + 7) / 8 * 8;
}

static int64_t most_blocks(const mega_compressed *list, int tensors)
{
    int64_t most = 0;
    for (int t = 0; t < tensors; t++) most = list[t].count > most ? list[t].count : most;
    return (most + BLOCK - 1) / BLOCK;
}

/* Two sets of rows, then the partial sums. */
size_t mega_compressed_scratch(const mega_compressed *list, int tensors, int ranks)
{
    const int64_t rows = 2 * ranks * row_bytes(list, tensors, ranks);
    return ranks < 2 ? 0 : (size_t)rows + (size_t)most_blocks(list, tensors) * sizeof(double);
}

double mega_compressed_sent(const mega_compressed *list, int tensors, int ranks)
{
    return 2.0 * (ranks - 1) * (double)row_bytes(list, tensors, ranks);
}

/* ---- loops on the threads of the team ---- */

typedef struct loop {
    bool is_double;
    void *error;
    const void *data;
    int64_t count;
    double scale;
    double *partial; /* [blocks] */
    uint8_t *bits;
    int kept;
} loop;

static void compensate_part(void *user, int thread, int64_t begin, int64_t end)
{
    const loop *l = user;
    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * BLOCK, last = l->count - first < BLOCK ? l->count : first + BLOCK;
        l->partial[b] = (l->is_double ? compensate_f64 : compensate_f32)(l->error, l->data, first, last);
    }
}

/* Returns the scale: the root of the mean square of error + data, which error becomes. */
static double compensate(mega_team *team, loop *l)
{
    const int64_t blocks = (l->count + BLOCK - 1) / BLOCK;
    double sum = 0;
    if (l->count == 0) return 0;
    mega_team_for(team, blocks, 1, compensate_part, l);
    for (int64_t b = 0; b < blocks; b++) sum += l->partial[b];
    const double scale = sqrt(sum / (double)l->count);
    return l->is_double ? scale : (double)(float)scale;
}

static void split_part(void *user, int thread, int64_t begin, int64_t end)
{
    const loop *l = user;
    const int64_t last = end * 8 < l->count ? end * 8 : l->count;
    (void)thread;
    (l->is_double ? split_f64 : split_f32)(l->error, l->scale, l->bits, begin * 8, last);
}

static void join_part(void *user, int thread, int64_t begin, int64_t end)
{
    const loop *l = user;
    (void)thread;
    (l->is_double ? join_f64 : join_f32)(l->error, l->kept, l->scale, l->bits, begin, end);
}

/* ---- the exchange ---- */

typedef struct mean {
    const mega_compressed *list;
    int tensors, ranks, rank;
    int64_t row;
    size_t size; /* of an element */
    uint8_t *sent, *received;
    double *partial;
    mega_team *team;
} mean;

static double *scale_at(const mean *m, uint8_t *rows, int rank, int tensor)
{
    return (double *)(void *)(rows + rank * m->row) + tensor;
}

static loop loop_of(const mean *m, void *error, int64_t count)
{
    return (loop){.is_double = m->size == sizeof(double), .error = error, .count = count, .partial = m->partial};
}

static uint8_t *bits_at(const mean *m, uint8_t *rows, int rank, int64_t before)
{
    return rows + rank * m->row + m->tensors * (int64_t)sizeof(double) + before;
}

/* Writes the rows for all ranks: scale and signs of their chunks. */
static void compress_own(const mean *m)
{
    int64_t before = 0;
    for (int t = 0; t < m->tensors; t++) {
        const mega_compressed *x = &m->list[t];
        const int64_t chunk = mega_compressed_chunk(x->count, m->ranks);
        loop l = loop_of(m, x->worker_error, x->count);
        l.data = x->data;
        const double scale = compensate(m->team, &l);
        for (int r = 0; r < m->ranks; r++) {
            l = loop_of(m, (char *)x->worker_error + (size_t)(r * chunk) * m->size,
                        mega_compressed_own(x->count, m->ranks, r));
            l.scale = *scale_at(m, m->sent, r, t) = scale;
            l.bits = bits_at(m, m->sent, r, before);
            if (l.count > 0) mega_team_for(m->team, (l.count + 7) / 8, BLOCK / 8, split_part, &l);
        }
        before += chunk / 8;
    }
}

/* Takes the mean of this rank's chunks over the rows of all ranks, and writes its row for all. */
static void compress_mean(const mean *m)
{
    int64_t before = 0;
    for (int t = 0; t < m->tensors; t++) {
        const mega_compressed *x = &m->list[t];
        loop l = loop_of(m, x->server_error, mega_compressed_own(x->count, m->ranks, m->rank));
        l.kept = 1;
        for (int r = 0; r < m->ranks && l.count > 0; r++) { /* in the order of ranks */
            l.scale = *scale_at(m, m->received, r, t) / m->ranks;
            l.bits = bits_at(m, m->received, r, before);
            mega_team_for(m->team, l.count, BLOCK, join_part, &l);
        }
        l.scale = *scale_at(m, m->sent, m->rank, t) = compensate(m->team, &l);
        l.bits = bits_at(m, m->sent, m->rank, before);
        if (l.count > 0) mega_team_for(m->team, (l.count + 7) / 8, BLOCK / 8, split_part, &l);
        before += mega_compressed_chunk(x->count, m->ranks) / 8;
    }
}

static void expand_signs(const mean *m)
{
    int64_t before = 0;
    for (int t = 0; t < m->tensors; t++) {
        const mega_compressed *x = &m->list[t];
        const int64_t chunk = mega_compressed_chunk(x->count, m->ranks);
        for (int r = 0; r < m->ranks; r++) {
            loop l =
                loop_of(m, (char *)x->data + (size_t)(r * chunk) * m->size, mega_compressed_own(x->count, m->ranks, r));
            l.scale = *scale_at(m, m->sent, r, t);
            l.bits = bits_at(m, m->sent, r, before);
            if (l.count > 0) mega_team_for(m->team, l.count, BLOCK, join_part, &l);
        }
        before += chunk / 8;
    }
}

/* All of it in memory that the host reaches. */
static mega_status mean_on_host(mean *m, mega_comm *comm, const char *name, uint8_t *scratch)
{
    m->sent = scratch;
    m->received = m->sent + m->ranks * m->row;
    m->partial = (double *)(void *)(m->received + m->ranks * m->row);
    memset(m->sent, 0, (size_t)m->ranks * (size_t)m->row); /* also the bits that stand for no element */
    compress_own(m);
    MEGA_TRY(mega_comm_all_to_all(comm, name, m->received, m->sent, m->row, MEGA_U8));
    compress_mean(m);
    MEGA_TRY(mega_comm_all_gather(comm, name, m->sent, m->sent + m->rank * m->row, m->row, MEGA_U8));
    expand_signs(m);
    return MEGA_OK;
}

/* ---- of a device ---- */

static size_t compressed_aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The three arrays of a tensor and their bytes. */
enum { ARRAYS = 3 };
typedef struct arrays {
    void *at[ARRAYS];
    size_t bytes[ARRAYS];
} arrays;

static arrays arrays_of(const mean *m, const mega_compressed *x)
{
    const size_t all = (size_t)x->count * m->size,
                 own = (size_t)mega_compressed_own(x->count, m->ranks, m->rank) * m->size;
    return (arrays){{x->data, x->worker_error, x->server_error}, {all, all, own}};
}

/* Copies the tensors, from `first` on, to where the host reaches them, and lists these; or back. */
static void move_tensors(const mean *m, const comm_stage *stage, size_t first, mega_compressed *copies, bool back)
{
    size_t at = first;
    for (int t = 0; t < m->tensors; t++) {
        const arrays a = arrays_of(m, &m->list[t]);
        size_t begin[ARRAYS];
        for (int k = 0; k < ARRAYS; at += compressed_aligned(a.bytes[k++])) {
            begin[k] = at;
            if (back) comm_stage_out(stage, at, a.at[k], a.bytes[k]);
            else
                comm_stage_in(stage, at, a.at[k], a.bytes[k]);
        }
        copies[t] = (mega_compressed){.data = stage->data + begin[0],
                                      .worker_error = stage->data + begin[1],
                                      .server_error = stage->data + begin[2],
                                      .count = m->list[t].count};
    }
}

static mega_status mean_on_copies(mean *m, mega_comm *comm, const char *name)
{
    const mega_compressed *list = m->list;
    const size_t first = compressed_aligned((size_t)m->tensors * sizeof *list);
    size_t end = first;
    for (int t = 0; t < m->tensors; t++) {
        const arrays a = arrays_of(m, &list[t]);
        for (int k = 0; k < ARRAYS; k++) end += compressed_aligned(a.bytes[k]);
    }
    comm_stage stage;
    MEGA_TRY(
        comm_stage_take(comm->world, list->data, end + mega_compressed_scratch(list, m->tensors, m->ranks), &stage));
    mega_compressed *copies = (mega_compressed *)(void *)stage.data;
    move_tensors(m, &stage, first, copies, false);
    m->list = copies;
    MEGA_TRY(mean_on_host(m, comm, name, (uint8_t *)stage.data + end));
    m->list = list;
    move_tensors(m, &stage, first, copies, true);
    comm_stage_give(&stage);
    return MEGA_OK;
}

mega_status mega_comm_compressed_mean(mega_comm *comm, const char *name, const mega_compressed *list, int tensors,
                                      mega_dtype dtype, mega_team *team, void *scratch)
{
    if (dtype != MEGA_F32 && dtype != MEGA_F64)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: a compressed mean of %s; expected f32 or f64", name,
                         mega_dtype_name(dtype));
    mean m = {.list = list,
              .tensors = tensors,
              .ranks = mega_comm_size(comm),
              .rank = mega_comm_rank(comm),
              .size = mega_dtype_size(dtype),
              .team = team};
    if (m.ranks < 2 || tensors == 0) return MEGA_OK;
    m.row = row_bytes(list, tensors, m.ranks);
    return mega_device_is_host(list->data) ? mean_on_host(&m, comm, name, scratch) : mean_on_copies(&m, comm, name);
}
