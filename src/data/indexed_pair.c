/* Replaces a .bin and an .idx file together, although a file system renames one file at a time.
 *
 *   PREFIX.bin.tmp-OWNER → PREFIX.bin.megalith-new       complete and synced; nothing visible yet
 *   PREFIX.idx.tmp-OWNER → PREFIX.idx.megalith-new       from here on the new pair is the valid one
 *   PREFIX.idx → PREFIX.idx.megalith-old, .bin likewise  now no program finds an .idx
 *   PREFIX.bin.megalith-new → PREFIX.bin
 *   PREFIX.idx.megalith-new → PREFIX.idx                 done; the old files are removed
 *
 * The folder is synced after each line, so a crash of the machine keeps this order. While PREFIX.idx.megalith-new
 * exists, the new .bin is complete under one of its two names: the next process, a writer or a reader with write
 * permission, takes the lock and continues from there. Until the last line, a call that fails undoes everything, and
 * the old pair stays. */
#include "data_impl.h"
#include "megalith/file_kind.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <sys/stat.h>
#include <time.h>

enum { WAIT_MS = 20, WAIT_TRIES = 250 };

static const char *const pair_ending[] = {
    [PAIR_BIN] = ".bin",
    [PAIR_IDX] = ".idx",
    [PAIR_NEW_BIN] = ".bin.megalith-new",
    [PAIR_NEW_IDX] = ".idx.megalith-new",
    [PAIR_OLD_BIN] = ".bin.megalith-old",
    [PAIR_OLD_IDX] = ".idx.megalith-old",
    [PAIR_LOCK] = ".lock",
};

mega_status mega_pair_init(mega_pair *p, const char *prefix)
{
    *p = (mega_pair){.prefix = prefix, .folder = mega_path_folder(prefix)};
    bool whole = p->folder != NULL;
    for (int i = 0; i < PAIR_PATHS; i++) {
        p->path[i] = mega_format("%s%s", prefix, pair_ending[i]);
        whole = whole && p->path[i] != NULL;
    }
    if (whole) return MEGA_OK;
    mega_pair_fini(p);
    return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its file names", prefix);
}

void mega_pair_fini(mega_pair *p)
{
    for (int i = 0; i < PAIR_PATHS; i++) mega_free(p->path[i]);
    mega_free(p->folder);
    *p = (mega_pair){0};
}

/* out NULL: only checks whether the lock is free. */
static mega_status pair_take_lock(const mega_pair *p, mega_lock **out)
{
    char *subject = mega_format("data set %s", p->prefix);
    if (subject == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its lock", p->prefix);
    const mega_lock_request r = {.path = p->path[PAIR_LOCK],
                                 .subject = subject,
                                 .witness = p->path[PAIR_IDX],
                                 .remedy = "choose another --output-prefix"};
    const mega_status st = out != NULL ? mega_lock_acquire(&r, out) : mega_lock_probe(&r);
    mega_free(subject);
    return st;
}

mega_status mega_pair_lock(const mega_pair *p, mega_lock **out)
{
    return pair_take_lock(p, out);
}

static bool pair_is_there(const mega_pair *p, pair_path which)
{
    return mega_file_exists(p->path[which]);
}

static mega_status pair_move(const mega_pair *p, pair_path from, pair_path to)
{
    return pair_is_there(p, from) ? mega_file_rename(p->path[from], p->path[to]) : MEGA_OK;
}

/* ---- renaming the new pair ---- */

static void remove_old(const mega_pair *p)
{
    static const pair_path old[] = {PAIR_OLD_IDX, PAIR_OLD_BIN};
    for (int i = 0; i < 2; i++) {
        if (mega_file_remove(p->path[old[i]]) == MEGA_OK) continue;
        mega_warn("%s", mega_error_message()); /* it only takes up space */
        mega_error_clear();
    }
}

/* Continues from wherever the sequence was interrupted. */
static mega_status pair_continue(const mega_pair *p)
{
    if (pair_is_there(p, PAIR_NEW_BIN)) {
        MEGA_TRY(pair_move(p, PAIR_IDX, PAIR_OLD_IDX));
        MEGA_TRY(pair_move(p, PAIR_BIN, PAIR_OLD_BIN));
        MEGA_TRY(mega_folder_sync(p->folder));
        MEGA_TRY(pair_move(p, PAIR_NEW_BIN, PAIR_BIN));
        MEGA_TRY(mega_folder_sync(p->folder));
    }
    return pair_move(p, PAIR_NEW_IDX, PAIR_IDX);
}

/* Undoes the steps in reverse order, the marking file last: a crash in the middle still leads to the new pair. */
static mega_status pair_take_back(const mega_pair *p)
{
    if (!pair_is_there(p, PAIR_NEW_BIN)) MEGA_TRY(pair_move(p, PAIR_BIN, PAIR_NEW_BIN));
    MEGA_TRY(pair_move(p, PAIR_OLD_BIN, PAIR_BIN));
    MEGA_TRY(pair_move(p, PAIR_OLD_IDX, PAIR_IDX));
    MEGA_TRY(mega_folder_sync(p->folder));
    MEGA_TRY(mega_file_remove(p->path[PAIR_NEW_IDX]));
    return mega_file_remove(p->path[PAIR_NEW_BIN]);
}

/* The first error is the one to report. */
static mega_status fail_and_take_back(const mega_pair *p)
{
    mega_error_record why;
    mega_error_get(&why);
    const bool is_back = pair_take_back(p) == MEGA_OK;
    const mega_status st = mega_error_restore(&why);
    if (!is_back)
        mega_error_prepend(
            "%s and .bin are not in place; complete files are renamed when the data set is next opened or "
            "written",
            p->path[PAIR_IDX]);
    return st;
}

mega_status mega_pair_commit(const mega_pair *p, const char *bin, const char *idx)
{
    MEGA_TRY(mega_file_rename(bin, p->path[PAIR_NEW_BIN]));
    mega_status st = mega_folder_sync(p->folder);
    if (st == MEGA_OK) st = mega_file_rename(idx, p->path[PAIR_NEW_IDX]);
    if (st != MEGA_OK) {
        mega_file_discard(p->path[PAIR_NEW_BIN]);
        return st;
    }
    st = mega_folder_sync(p->folder);
    if (st == MEGA_OK) st = pair_continue(p);
    if (st != MEGA_OK) return fail_and_take_back(p);
    MEGA_TRY(mega_folder_sync(p->folder));
    remove_old(p);
    return MEGA_OK;
}

/* ---- after a crash ---- */

static bool indexed_is_newer(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 &&
           (x.st_mtim.tv_sec > y.st_mtim.tv_sec ||
            (x.st_mtim.tv_sec == y.st_mtim.tv_sec && x.st_mtim.tv_nsec > y.st_mtim.tv_nsec));
}

mega_status mega_pair_complete(const mega_pair *p)
{
    const bool has_index = pair_is_there(p, PAIR_IDX);
    if (!pair_is_there(p, PAIR_NEW_IDX)) {
        mega_file_discard(p->path[PAIR_NEW_BIN]);
        if (has_index && pair_is_there(p, PAIR_BIN)) remove_old(p);
        return MEGA_OK;
    }
    /* Other programs know neither the lock nor these names. */
    if (has_index && (!pair_is_there(p, PAIR_NEW_BIN) || indexed_is_newer(p->path[PAIR_IDX], p->path[PAIR_NEW_IDX])))
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "data set %s: a process died while it replaced the pair, and another program has written %s since; "
            "remove %s to keep the other program's pair, or move that pair away",
            p->prefix, p->path[PAIR_IDX], p->path[PAIR_NEW_IDX]);
    MEGA_TRY(pair_continue(p));
    MEGA_TRY(mega_folder_sync(p->folder));
    remove_old(p);
    mega_info(
        "data set %s: a process died while it replaced the pair; the new pair, which was complete, is in place now",
        p->prefix);
    return MEGA_OK;
}

/* ---- reading ---- */

static mega_status refuse_half(const mega_pair *p)
{
    mega_error_prepend(
        "data set %s: a process died while it replaced the pair; the new pair is complete (%s), but its files do "
        "not have their names, and cannot get them from this process: run `megalith data verify %s` as a "
        "user who may write there",
        p->prefix, p->path[PAIR_NEW_IDX], p->prefix);
    return MEGA_ERR_IO;
}

static mega_status complete_alone(const mega_pair *p)
{
    mega_lock *lock;
    MEGA_TRY(mega_pair_lock(p, &lock));
    const mega_status st = mega_pair_complete(p);
    mega_lock_release(lock);
    return st;
}

/* Completes an interrupted replacement, and waits for one in progress: the lock is then held. Looks at the lock before
 * taking it, so as not to take it from a writer that is about to begin. */
static mega_status pair_settle(const mega_pair *p)
{
    for (int tries = 0; pair_is_there(p, PAIR_NEW_IDX); tries++) {
        mega_status st = pair_take_lock(p, NULL);
        if (st == MEGA_OK && pair_is_there(p, PAIR_NEW_IDX)) st = complete_alone(p);
        if (st == MEGA_ERR_MEMORY || st == MEGA_ERR_FORMAT || (st == MEGA_ERR_BUSY && tries == WAIT_TRIES)) return st;
        if (st != MEGA_OK && st != MEGA_ERR_BUSY) return refuse_half(p);
        if (st == MEGA_ERR_BUSY) nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000L}, NULL);
        mega_error_clear();
    }
    return MEGA_OK;
}

static struct stat index_now(const mega_pair *p)
{
    struct stat info;
    if (stat(p->path[PAIR_IDX], &info) != 0) memset(&info, 0, sizeof info);
    return info;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Explains why there is no .idx: an inaccessible folder, a name that is incomplete, or an ending too many. */
static mega_status refuse_missing(const mega_pair *p)
{
    const size_t n = strlen(p->prefix);
    const bool extension = n > 4 && (strcmp(p->prefix + n - 4, ".idx") == 0 || strcmp(p->prefix + n - 4, ".bin") == 0);
    char *longer = NULL;
    MEGA_TRY(mega_path_check_access(p->path[PAIR_IDX]));
    MEGA_TRY(mega_path_complete(&longer, p->prefix, ".idx"));
    if (longer == NULL)
        return MEGA_FAIL(
            MEGA_ERR_NOT_FOUND, "data set %s: no file %s; expected the common name of a .bin and an .idx file %s",
            p->prefix, p->path[PAIR_IDX],
            extension ? "without its ending" : "(preprocess_data writes PREFIX_text_document.bin and .idx)");
    const mega_status st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "data set %s: no file %s, but there is %s.idx; use %s",
                                     p->prefix, p->path[PAIR_IDX], longer, longer);
    mega_free(longer);
    return st;
}

static mega_status map_both(const mega_pair *p, mega_map *index, mega_map *bin)
{
    if (!pair_is_there(p, PAIR_IDX)) return refuse_missing(p);
    MEGA_TRY(mega_map_open(p->path[PAIR_IDX], index));
    MEGA_TRY(mega_map_open(p->path[PAIR_BIN], bin));
    if (mega_file_pointer(bin->data, bin->size) == NULL) return MEGA_OK; /* a .bin has no magic for other kinds */
    return mega_file_kind_check(p->path[PAIR_BIN], bin->data, bin->size, "tokens of preprocess_data", MEGA_KIND_BINARY);
}

/* The .idx is renamed before its .bin and comes back after it, so both are of one pair if the .idx is the same before
 * and after mapping. */
static mega_status map_stable(const mega_pair *p, mega_map *index, mega_map *bin)
{
    for (int tries = 0; tries < WAIT_TRIES; tries++) {
        MEGA_TRY(pair_settle(p));
        const struct stat before = index_now(p);
        const mega_status st = map_both(p, index, bin);
        const struct stat after = index_now(p);
        if (is_same_file(&before, &after) && !pair_is_there(p, PAIR_NEW_IDX)) return st;
        mega_map_close(index);
        mega_map_close(bin);
    }
    return MEGA_FAIL(MEGA_ERR_BUSY, "data set %s: the pair keeps being replaced; try again later", p->prefix);
}

mega_status mega_pair_map(const char *prefix, mega_map *index, mega_map *bin)
{
    mega_pair p;
    MEGA_TRY(mega_pair_init(&p, prefix));
    const mega_status st = map_stable(&p, index, bin);
    mega_pair_fini(&p);
    return st;
}
