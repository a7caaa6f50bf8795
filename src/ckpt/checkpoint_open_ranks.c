/* Opens a checkpoint in several ranks: ranks that see the same folder divide the work of checksumming its files. All
 * ranks take the same steps, so that they reach one verdict and fall back together. */
#include "checkpoint_impl.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Identifies what a rank has opened; ranks with the same value share the work. */
typedef struct place {
    /* hash of the files' identities on their file system and of their checksums; 0: nothing to checksum */
    uint64_t folder;
    int64_t files;
} place;
enum { PLACE_WORDS = sizeof(place) / sizeof(int64_t) };

typedef struct summing {
    mega_comm *ranks;
    mega_checkpoint *checkpoint; /* NULL: no checkpoint */
    place *place;                /* one for each rank */
    uint32_t *part;              /* for each rank `most` values: one for each file */
    int64_t most;
} summing;

/* Returns whether the kernel shares this file system between hosts. FUSE may or may not. */
static bool is_between_hosts(const char *folder)
{
    static const uint32_t kind[] = {
        NFS_SUPER_MAGIC,       SMB_SUPER_MAGIC,         CIFS_SUPER_MAGIC,  SMB2_SUPER_MAGIC,
        CEPH_SUPER_MAGIC,      AFS_SUPER_MAGIC,         OCFS2_SUPER_MAGIC, 0x0BD00BD0 /* Lustre */,
        0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */, 0x01161970 /* GFS2 */};
    struct statfs s;
    if (statfs(folder, &s) != 0) return false;
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        if ((uint32_t)s.f_type == kind[i]) return true;
    return false;
}

/* A disk of one host may be a clone of another's, with the same inode numbers, so the hash includes its host's boot id,
 * or the host name, and the device. */
static uint64_t hash_host(uint64_t hash, const char *folder)
{
    char host[256] = "";
    char *boot = NULL;
    size_t size = 0;
    struct stat s = {0};
    if (is_between_hosts(folder)) return hash;
    if (mega_file_read("/proc/sys/kernel/random/boot_id", &boot, &size) != MEGA_OK) mega_error_clear();
    else
        hash = mega_hash64(hash, boot, size);
    if (size == 0 && gethostname(host, sizeof host - 1) == 0) hash = mega_hash64(hash, host, strlen(host));
    if (stat(folder, &s) == 0) hash = mega_hash64(hash, &s.st_dev, sizeof s.st_dev);
    mega_free(boot);
    return hash;
}

/* Hosts that mount the same file system see the same inode numbers; a copy has different ones. */
static uint64_t hash_file(uint64_t hash, const char *folder, const char *name)
{
    struct stat s;
    char *path = mega_path_join(folder, name);
    if (path != NULL && stat(path, &s) == 0) {
        const int64_t word[4] = {(int64_t)s.st_ino, (int64_t)s.st_size, (int64_t)s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
        hash = mega_hash64(hash, word, sizeof word);
    }
    mega_free(path);
    return hash;
}

static place rank_place_of(const mega_checkpoint *c)
{
    if (c == NULL || c->sums.count == 0) return (place){0};
    uint64_t hash = mega_hash64(c->sums_hash, &c->iteration, sizeof c->iteration);
    hash = hash_host(hash, c->folder);
    for (size_t i = 0; i < c->sums.count; i++) hash = hash_file(hash, c->folder, c->sums.file[i].name);
    return (place){hash | 1, (int64_t)c->sums.count};
}

static uint32_t *rank_part_of(const summing *s, int rank)
{
    return s->part + s->most * rank;
}

static mega_status tell_places(summing *s)
{
    const int size = mega_comm_size(s->ranks);
    const place mine = rank_place_of(s->checkpoint);
    MEGA_TRY(mega_comm_all_gather(s->ranks, "places of a checkpoint", s->place, &mine, PLACE_WORDS, MEGA_I64));
    for (int i = 0; i < size; i++) s->most = s->place[i].files > s->most ? s->place[i].files : s->most;
    s->part = mega_calloc((size_t)s->most * (size_t)size + 1, sizeof *s->part);
    return s->part != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the checksums of %d ranks", size);
}

/* Returns the number of ranks that opened the same files, and this rank's index among them. */
static int neighbours_of_rank(const summing *s, int *index)
{
    const int rank = mega_comm_rank(s->ranks);
    int count = 0;
    *index = 0;
    for (int i = 0; i < mega_comm_size(s->ranks); i++) {
        if (s->place[i].folder != s->place[rank].folder) continue;
        if (i < rank) ++*index;
        count++;
    }
    return count;
}

/* Checksums this rank's share of the pieces. */
static mega_status sum_share(const summing *s)
{
    int index;
    const mega_checkpoint *c = s->checkpoint;
    const int rank = mega_comm_rank(s->ranks), count = neighbours_of_rank(s, &index);
    if (s->place[rank].folder == 0) return MEGA_OK;
    const int64_t pieces = mega_checksums_pieces(&c->sums);
    return mega_checksums_part(&c->sums, c->folder, pieces * index / count, pieces * (index + 1) / count, c->team,
                               rank_part_of(s, rank));
}

/* Computes the verdict on what this rank has opened from the partial checksums of all ranks with the same files. */
static mega_status open_conclude(const summing *s)
{
    const int rank = mega_comm_rank(s->ranks), size = mega_comm_size(s->ranks);
    uint32_t *sum = rank_part_of(s, rank);
    if (s->place[rank].folder == 0) return MEGA_OK;
    for (int i = 0; i < size; i++) {
        if (i == rank || s->place[i].folder != s->place[rank].folder) continue;
        for (int64_t k = 0; k < s->most; k++) sum[k] ^= rank_part_of(s, i)[k];
    }
    return mega_checksums_conclude(&s->checkpoint->sums, s->checkpoint->folder, sum);
}

/* Collective. A rank that cannot checksum fails all; *verdict is about the contents. */
static mega_status checksums_sum_together(summing *s, mega_status *verdict)
{
    const int rank = mega_comm_rank(s->ranks), size = mega_comm_size(s->ranks);
    s->place = mega_calloc((size_t)size, sizeof *s->place);
    mega_status st =
        s->place != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the places of %d ranks", size);
    MEGA_TRY(mega_comm_agree(s->ranks, st));
    MEGA_TRY(mega_comm_agree(s->ranks, tell_places(s)));
    MEGA_TRY(mega_comm_agree(s->ranks, sum_share(s)));
    MEGA_TRY(mega_comm_all_gather(s->ranks, "checksums", s->part, rank_part_of(s, rank), s->most, MEGA_I32));
    *verdict = open_conclude(s);
    return MEGA_OK;
}

/* Sends the error of the lowest rank that found damage to all, so that all know the same about this folder. *damaged:
 * some rank found damage. */
static mega_status share_damage(const summing *s, mega_status verdict, mega_error_record *out, bool *damaged)
{
    const int size = mega_comm_size(s->ranks);
    int index;
    int32_t first = verdict == MEGA_OK ? size : mega_comm_rank(s->ranks);
    if (verdict != MEGA_OK && neighbours_of_rank(s, &index) < size)
        mega_error_prepend("rank %d", first); /* the damage is in its host's copy */
    mega_error_get(out);
    MEGA_TRY(mega_comm_all_reduce(s->ranks, "damage", &first, 1, MEGA_I32, MEGA_REDUCE_MIN));
    *damaged = first < size;
    if (!*damaged) return MEGA_OK;
    MEGA_TRY(mega_comm_broadcast(s->ranks, "damage", out, (int64_t)sizeof *out, first));
    out->text[sizeof out->text - 1] = '\0';
    return MEGA_OK;
}

static mega_status add_damage(known_damage **list, const mega_checkpoint *c, const mega_error_record *found)
{
    if (c == NULL) return MEGA_OK; /* mega_checkpoint_check_shared reports it */
    known_damage *d = mega_calloc(1, sizeof *d);
    if (d == NULL || (d->folder = mega_strdup(c->folder)) == NULL) {
        mega_free(d);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to open it", c->folder);
    }
    d->found = *found;
    d->next = *list;
    *list = d;
    return MEGA_OK;
}

/* Opens and checksums a checkpoint that is not known to be damaged. *again: it was damaged, which is now recorded. */
static mega_status try_one(const char *path, bool any_whole, opening *how, mega_comm *ranks, bool *again,
                           mega_checkpoint **out)
{
    mega_error_record found = {0};
    mega_status verdict = MEGA_OK;
    *again = false;
    MEGA_TRY(mega_comm_agree(ranks, mega_checkpoint_open_as(path, any_whole, how, out)));
    summing s = {.ranks = ranks, .checkpoint = *out};
    mega_status st = checksums_sum_together(&s, &verdict);
    if (st == MEGA_OK) st = share_damage(&s, verdict, &found, again);
    if (st == MEGA_OK && *again) st = mega_comm_agree(ranks, add_damage(&how->damaged, *out, &found));
    MEGA_FREE(s.place, s.part);
    return st;
}

mega_status mega_checkpoint_open_ranks(const char *path, bool any_whole, mega_team *team, mega_comm *ranks,
                                       mega_checkpoint **out)
{
    opening how = {.team = team, .sums = MEGA_SUMS_SMALL};
    if (ranks == NULL || mega_comm_size(ranks) == 1) return mega_checkpoint_open_team(path, any_whole, team, out);
    mega_status st = MEGA_OK;
    for (bool again = true; again && st == MEGA_OK;) {
        *out = NULL;
        st = try_one(path, any_whole, &how, ranks, &again, out);
        if (st == MEGA_OK && !again) break;
        mega_checkpoint_close(*out);
        *out = NULL;
    }
    if (*out != NULL) (*out)->says_ignored = mega_comm_rank(ranks) == 0;
    for (known_damage *d = how.damaged, *next; d != NULL; d = next) {
        next = d->next;
        MEGA_FREE(d->folder, d);
    }
    return st;
}
