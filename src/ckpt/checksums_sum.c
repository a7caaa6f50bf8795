/* Computes checksums of files, divided between the threads of a process and between several processes. */
#include "ckpt_impl.h"

#include <pthread.h>
#include <stdatomic.h>

#define PIECE ((size_t)8 << 20)

typedef struct sum_job {
    const mega_team *team;
    const mega_map *map;
    size_t first, end; /* bytes within the map */
    uint32_t *sum;     /* checksum of each piece */
    size_t count;
    atomic_size_t next;
    pthread_mutex_t disk;
} sum_job;

static size_t piece_begin(const sum_job *job, size_t i)
{
    return job->first + i * PIECE;
}

static size_t piece_bytes(const sum_job *job, size_t i)
{
    const size_t left = job->end - piece_begin(job, i);
    return left < PIECE ? left : PIECE;
}

/* Only one thread at a time reads from the disk: two are slower than one, because the system reads ahead for each, half
 * of it in vain. Pieces that are already in memory need no waiting, so a thread that another process holds up delays
 * nobody. */
static void fetch_piece(sum_job *job, size_t i)
{
    const bool from_disk = !mega_map_is_cached(job->map, piece_begin(job, i), piece_bytes(job, i));
    if (from_disk) pthread_mutex_lock(&job->disk);
    mega_map_fetch(job->map, piece_begin(job, i), piece_bytes(job, i));
    if (from_disk) pthread_mutex_unlock(&job->disk);
}

/* Takes pieces until none is left; a thread that starts late finds none. */
static void sum_pieces(void *user, int thread, int64_t begin, int64_t end)
{
    sum_job *job = user;
    (void)thread;
    (void)begin;
    (void)end;
    for (size_t i; !mega_team_is_stopped(job->team) && (i = atomic_fetch_add(&job->next, 1)) < job->count;) {
        fetch_piece(job, i);
        job->sum[i] = mega_crc32c(0, job->map->data + piece_begin(job, i), piece_bytes(job, i));
    }
}

mega_status mega_sum_of(const mega_map *map, size_t first, size_t end, mega_team *team, uint32_t *out)
{
    sum_job job = {.team = team, .map = map, .first = first, .end = end, .count = (end - first + PIECE - 1) / PIECE};
    if (mega_team_is_stopped(team)) return MEGA_FAIL(MEGA_ERR_INTERRUPTED, MEGA_READING_STOPPED);
    if (job.count <= 1) {
        *out = mega_crc32c(0, map->data + first, end - first);
        return MEGA_OK;
    }
    job.sum = mega_malloc(job.count * sizeof *job.sum);
    if (job.sum == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for checksums of %zu pieces", job.count);
    pthread_mutex_init(&job.disk, NULL);
    mega_team_for(team, mega_team_size(team), 1, sum_pieces, &job);
    pthread_mutex_destroy(&job.disk);
    *out = job.sum[0];
    const bool is_whole = atomic_load(&job.next) >= job.count;
    for (size_t i = 1; i < job.count && is_whole; i++) *out = mega_crc32c_join(*out, job.sum[i], piece_bytes(&job, i));
    mega_free(job.sum);
    return is_whole ? MEGA_OK : MEGA_FAIL(MEGA_ERR_INTERRUPTED, MEGA_READING_STOPPED);
}

static int64_t pieces_of(const mega_checksum *f)
{
    return (f->bytes + (int64_t)PIECE - 1) / (int64_t)PIECE;
}

int64_t mega_checksums_pieces(const mega_checksums *c)
{
    int64_t pieces = 0;
    for (size_t i = 0; i < c->count; i++) pieces += pieces_of(&c->file[i]);
    return pieces;
}

/* Sums bytes [first, end). A file whose size has changed since gives a wrong checksum, not a crash. */
static mega_status sum_part_of(const mega_checksum *f, const char *folder, int64_t first, int64_t end, mega_team *team,
                               uint32_t *part)
{
    char *path = mega_path_join(folder, f->name);
    if (path == NULL) return MEGA_NO_MEMORY(folder, "a path");
    mega_map map = {0};
    uint32_t crc = 0;
    mega_status st = mega_map_open(path, &map);
    if (st == MEGA_OK && (int64_t)map.size == f->bytes) {
        st = mega_sum_of(&map, (size_t)first, (size_t)end, team, &crc);
        *part = mega_crc32c_shifted(crc ^ mega_crc32c_zeros((uint64_t)(end - first)),
                                    mega_crc32c_shift((uint64_t)(f->bytes - end)));
    }
    mega_map_close(&map);
    mega_free(path);
    return st;
}

mega_status mega_checksums_part(const mega_checksums *c, const char *folder, int64_t first, int64_t end,
                                mega_team *team, uint32_t *part)
{
    const int64_t piece = (int64_t)PIECE;
    for (size_t i = 0; i < c->count; i++) {
        const int64_t pieces = pieces_of(&c->file[i]), from = first < 0 ? 0 : first, to = end < pieces ? end : pieces;
        const int64_t bytes = c->file[i].bytes, last = to * piece < bytes ? to * piece : bytes;
        part[i] = 0;
        if (from < to) MEGA_TRY(sum_part_of(&c->file[i], folder, from * piece, last, team, &part[i]));
        first -= pieces;
        end -= pieces;
    }
    return MEGA_OK;
}
