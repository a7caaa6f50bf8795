/* A machine that stops in the middle of a save.
 *
 * The file operations of saves are recorded, then replayed up to every point into a model of a file system that keeps
 * only what it must: file contents survive once the file was synced, entries of a folder once the folder was synced.
 * Anything not synced may survive completely, partly or not at all. In every case opening must find a complete
 * checkpoint, the old or the new one; and after a save has returned, the new one. */
#include "tiny.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NODES = 256, MAX_OPS = 512, MAX_ENTRIES = 32 };

typedef struct op {
    char kind[12], *a, *b, *bytes;
    size_t size;
} op;

static op ops[MAX_OPS];
static int num_ops;
static char root[512]; /* common prefix of the recorded paths */
static bool without_exchange;

static void add_op(const char *kind, const char *a, const char *b, const void *bytes, size_t size)
{
    assert_true(num_ops < MAX_OPS);
    op *o = &ops[num_ops++];
    snprintf(o->kind, sizeof o->kind, "%s", kind);
    o->a = strdup(a);
    o->b = b != NULL ? strdup(b) : NULL;
    o->bytes = size > 0 ? malloc(size) : NULL;
    if (size > 0) memcpy(o->bytes, bytes, size);
    o->size = size;
}

static void record(void *user, const char *kind, const char *a, const char *b, const void *bytes, size_t size)
{
    (void)user;
    const size_t n = strlen(root);
    if (strncmp(a, root, n) != 0 || (a[n] != '/' && a[n] != '\0')) return;
    if (strcmp(kind, "exchange") != 0 || !without_exchange) {
        add_op(kind, a, b, bytes, size);
        return;
    }
    /* as mega_file_exchange does on file systems that cannot exchange */
    char *aside = mega_owned_path(a, ".exchange-");
    add_op("rename", a, aside, NULL, 0);
    add_op("rename", b, a, NULL, 0);
    add_op("rename", aside, b, NULL, 0);
    mega_free(aside);
}

static void forget_ops(void)
{
    for (int i = 0; i < num_ops; i++) {
        free(ops[i].a);
        free(ops[i].b);
        free(ops[i].bytes);
    }
    num_ops = 0;
}

/* A tree of names; nodes are numbers, which two trees can share. */
typedef struct folder {
    struct {
        char name[128];
        int node;
    } entry[MAX_ENTRIES];
    int count;
} folder;

typedef struct disk {
    folder *now, *lasting; /* [MAX_NODES]: what programs see, and what survives a crash */
    bool *is_folder;
    char **bytes;
    size_t *size, *synced; /* bytes written, and how many of them survive */
    int num_nodes;
    struct change { /* changes of folder entries that are not durable yet */
        char kind[12], from[128], to[128];
        int in, node;
        bool done;
    } change[MAX_OPS];
    int num_changes;
} disk;

static int *slot(folder *f, const char *name)
{
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->entry[i].name, name) == 0) return &f->entry[i].node;
    }
    return NULL;
}

static void put(folder *f, const char *name, int node)
{
    int *at = slot(f, name);
    if (at != NULL) {
        *at = node;
        return;
    }
    assert_true(f->count < MAX_ENTRIES);
    snprintf(f->entry[f->count].name, sizeof f->entry[0].name, "%s", name);
    f->entry[f->count++].node = node;
}

static void drop(folder *f, const char *name)
{
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->entry[i].name, name) != 0) continue;
        f->entry[i] = f->entry[--f->count];
        return;
    }
}

/* Applies one change of a folder's entries. After a crash its source may be gone; then it does nothing. */
static void apply(folder *f, const struct change *c)
{
    int *from = slot(f, c->from);
    if (strcmp(c->kind, "create") == 0 || strcmp(c->kind, "mkdir") == 0) {
        put(f, c->from, c->node);
    } else if (strcmp(c->kind, "rename") == 0) {
        if (from == NULL) return;
        const int node = *from;
        drop(f, c->from);
        put(f, c->to, node);
    } else if (strcmp(c->kind, "exchange") == 0) {
        int *to = slot(f, c->to);
        if (from == NULL || to == NULL) return;
        const int node = *from;
        *from = *to;
        *to = node;
    } else {
        drop(f, c->from);
    }
}

/* Returns the node of a path (0 is the root), or with `parent` that of its folder, with the last name in *name. */
static int walk(const disk *d, const char *path, bool parent, const char **name)
{
    int node = 0;
    path += strlen(root);
    for (;;) {
        path += strspn(path, "/");
        const size_t n = strcspn(path, "/");
        if (n == 0) return node;
        if (parent && path[n] == '\0') {
            *name = path;
            return node;
        }
        char piece[128];
        assert_true(n < sizeof piece);
        memcpy(piece, path, n);
        piece[n] = '\0';
        const int *next = slot(&d->now[node], piece);
        if (next == NULL) fail_msg("%s is not in the model", path);
        node = *next;
        path += n;
    }
}

static void change_folder(disk *d, const op *o)
{
    const char *from = NULL, *to = NULL;
    struct change *c = &d->change[d->num_changes++];
    memset(c, 0, sizeof *c);
    memcpy(c->kind, o->kind, sizeof c->kind);
    c->in = walk(d, o->a, true, &from);
    snprintf(c->from, sizeof c->from, "%s", from);
    if (o->b != NULL) {
        assert_int_equal(walk(d, o->b, true, &to), c->in); /* renames stay within one folder */
        snprintf(c->to, sizeof c->to, "%s", to);
    }
    if (strcmp(o->kind, "create") == 0 || strcmp(o->kind, "mkdir") == 0) {
        assert_true(d->num_nodes < MAX_NODES);
        c->node = d->num_nodes++;
        d->is_folder[c->node] = o->kind[0] == 'm';
    }
    apply(&d->now[c->in], c);
}

static void run_op(disk *d, const op *o)
{
    if (strcmp(o->kind, "write") == 0) {
        const int node = walk(d, o->a, false, NULL);
        d->bytes[node] = realloc(d->bytes[node], d->size[node] + o->size);
        memcpy(d->bytes[node] + d->size[node], o->bytes, o->size);
        d->size[node] += o->size;
    } else if (strcmp(o->kind, "fsync") == 0) {
        const int node = walk(d, o->a, false, NULL);
        d->synced[node] = d->size[node];
    } else if (strcmp(o->kind, "syncdir") == 0) {
        const int node = walk(d, o->a, false, NULL);
        for (int i = 0; i < d->num_changes; i++) {
            struct change *c = &d->change[i];
            if (c->in != node || c->done) continue;
            apply(&d->lasting[node], c);
            c->done = true;
        }
    } else {
        change_folder(d, o);
    }
}

static disk *disk_after(int num)
{
    disk *d = calloc(1, sizeof *d);
    d->now = calloc(MAX_NODES, sizeof *d->now);
    d->lasting = calloc(MAX_NODES, sizeof *d->lasting);
    d->is_folder = calloc(MAX_NODES, sizeof *d->is_folder);
    d->bytes = calloc(MAX_NODES, sizeof *d->bytes);
    d->size = calloc(MAX_NODES, sizeof *d->size);
    d->synced = calloc(MAX_NODES, sizeof *d->synced);
    d->num_nodes = 1;
    d->is_folder[0] = true;
    for (int i = 0; i < num; i++) run_op(d, &ops[i]);
    return d;
}

static void disk_free(disk *d)
{
    for (int i = 0; i < d->num_nodes; i++) free(d->bytes[i]);
    free(d->now);
    free(d->lasting);
    free(d->is_folder);
    free(d->bytes);
    free(d->size);
    free(d->synced);
    free(d);
}

/* How much of the unsynced data survives the crash. */
typedef enum torn { TORN_GONE, TORN_HALF, TORN_ALL, TORN_COUNT } torn;

static void write_out(const disk *d, int node, const char *path, torn bytes)
{
    if (!d->is_folder[node]) {
        const size_t extra = d->size[node] - d->synced[node];
        const size_t n = d->synced[node] + (bytes == TORN_ALL ? extra : bytes == TORN_HALF ? extra / 2 : 0);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        if (n > 0) assert_int_equal(fwrite(d->bytes[node], 1, n, f), n);
        fclose(f);
        return;
    }
    assert_true(mkdir(path, 0777) == 0);
    const folder *f = &d->lasting[node];
    for (int i = 0; i < f->count; i++) {
        char inner[1024];
        snprintf(inner, sizeof inner, "%s/%s", path, f->entry[i].name);
        write_out(d, f->entry[i].node, inner, bytes);
    }
}

/* The disk after a crash: of the unsynced changes, those whose bit is set in `survives`. */
static void crash(int num, const char *path, torn bytes, uint64_t survives)
{
    disk *d = disk_after(num);
    int pending = 0;
    for (int i = 0; i < d->num_changes; i++) {
        const struct change *c = &d->change[i];
        if (c->done) continue;
        if (survives >> (pending < 63 ? pending : 63) & 1) apply(&d->lasting[c->in], c);
        pending++;
    }
    write_out(d, 0, path, bytes);
    disk_free(d);
}

static int count_pending(int num, bool *bytes)
{
    disk *d = disk_after(num);
    int pending = 0;
    for (int i = 0; i < d->num_changes; i++) pending += !d->change[i].done;
    *bytes = false;
    for (int i = 0; i < d->num_nodes; i++) *bytes = *bytes || d->synced[i] < d->size[i];
    disk_free(d);
    return pending;
}

typedef struct scene {
    const tiny *old, *new;
    int64_t old_iteration, new_iteration; /* old -1: none */
    const char *tag;                      /* tag of both, or NULL */
    tiny *got;
} scene;

static bool is_version(const scene *s, const tiny *m, const mega_checkpoint *c, int64_t iteration)
{
    return mega_checkpoint_iteration(c) == iteration && mega_checkpoint_has_state(c) &&
           tiny_equal(m->weight, s->got->weight, TINY_TENSORS, MEGA_F32) &&
           tiny_equal(m->moment, s->got->moment, 2 * TINY_TENSORS, MEGA_F32);
}

/* Returns 0: nothing, 1: the old checkpoint, 2: the new one; anything else fails the test. */
static int what_is_left(const scene *s, const char *path, const char *where)
{
    mega_checkpoint *c = NULL;
    mega_status st = mega_checkpoint_open(path, false, &c);
    if (st == MEGA_OK && c == NULL) return 0;
    if (st == MEGA_OK) st = mega_checkpoint_read_weights(c, s->got->weight, TINY_TENSORS, MEGA_F32);
    if (st == MEGA_OK) st = mega_checkpoint_read_moments(c, s->got->moment, 2 * TINY_TENSORS, MEGA_F32);
    if (st != MEGA_OK) fail_msg("%s: %s", where, mega_error_message());
    const int found = is_version(s, s->new, c, s->new_iteration)                     ? 2
                      : s->old != NULL && is_version(s, s->old, c, s->old_iteration) ? 1
                                                                                     : 3;
    if (found == 3) fail_msg("%s: %s is neither the old checkpoint nor the new one", where, mega_checkpoint_folder(c));
    mega_checkpoint_close(c);
    return found;
}

/* A folder with the name of an iteration must be complete, even while it is being removed. */
static void check_folders(const scene *s, const char *path, const char *where)
{
    const int64_t iterations[] = {s->old_iteration, s->new_iteration};
    for (int i = 0; i < 2; i++) {
        char inner[700];
        if (s->tag != NULL) snprintf(inner, sizeof inner, "%s/%s", path, s->tag);
        else
            snprintf(inner, sizeof inner, "%s/iter_%07d", path, (int)iterations[i]);
        if (mega_folder_exists(inner) && what_is_left(s, inner, where) == 0) fail_msg("%s: %s is empty", where, inner);
    }
}

/* The next save after the crash must succeed, whatever files are left. */
static void save_again(const scene *s, const char *path, const char *where)
{
    mega_checkpoint_save save = tiny_save(s->new, path, s->new_iteration, "{}");
    save.tag = s->tag;
    if (mega_checkpoint_write(&save) != MEGA_OK) fail_msg("%s: saving again: %s", where, mega_error_message());
    assert_int_equal(what_is_left(s, path, where), 2);
}

/* Subsets of n changes that may have happened: none, all, and for the last four each prefix, each one alone, and each
 * one missing. (The earlier ones are new files in a folder that has no name yet.) */
enum { LAST = 4, SUBSETS = 2 + 3 * LAST };

static uint64_t subset(int which, int n)
{
    const uint64_t all = n >= 64 ? ~0ull : (1ull << n) - 1;
    if (which < 2) return which == 0 ? 0 : all;
    const int at = n - 1 - (which - 2) % LAST, rule = (which - 2) / LAST;
    if (at < 0) return all;
    return rule == 0 ? (1ull << at) - 1 : rule == 1 ? 1ull << at : all & ~(1ull << at);
}

static void try_every_cut(const scene *s, int first)
{
    const char *base = mega_kit_temp_folder();
    const int step = getenv("MEGA_UNDER_VALGRIND") != NULL ? 7 : 1; /* the last operation is among them */
    int seen[3] = {0, 0, 0}, cases = 0;
    for (int num = num_ops - (num_ops - first) / step * step; num <= num_ops; num += step) {
        bool unsynced = false;
        const int pending = count_pending(num, &unsynced), some = pending < 63 ? pending : 63;
        for (int which = 0; which < (some == 0 ? 1 : some == 1 ? 2 : SUBSETS); which++) {
            for (int bytes = 0; bytes < (unsynced ? TORN_COUNT : 1); bytes++) {
                char path[600], where[900];
                snprintf(path, sizeof path, "%s/%d", base, cases++);
                snprintf(where, sizeof where, "cut after operation %d (%s %s), changes %d of %d, bytes %d", num,
                         ops[num - 1].kind, ops[num - 1].a, which, pending, bytes);
                crash(num, path, (torn)bytes, subset(which, some));
                const int left = what_is_left(s, path, where);
                if (left == 0 && s->old != NULL) fail_msg("%s: no checkpoint is left", where);
                if (left != 2 && num == num_ops) fail_msg("%s: the save had returned, and is lost", where);
                seen[left]++;
                check_folders(s, path, where);
                if (which == 1 && bytes == 0) save_again(s, path, where);
                tiny_ok(mega_tree_remove(path));
            }
        }
    }
    assert_true(cases > 100 / step && seen[2] > 0 && seen[s->old != NULL ? 1 : 0] > 0);
}

static void run(int64_t old_iteration, int64_t new_iteration, const char *tag, int keep, bool tokenizer)
{
    forget_ops();
    snprintf(root, sizeof root, "%s", mega_kit_temp_folder());
    tiny old, new, got;
    tiny_init(&old, MEGA_F32, 1);
    tiny_init(&new, MEGA_F32, 2);
    tiny_init(&got, MEGA_F32, 3);
    mega_tokenizer *t = NULL;
    if (tokenizer) tiny_ok(mega_tokenizer_create(&(mega_tokenizer_options){.type = "ByteTokenizer"}, &t));
    mega_file_observe(record, NULL);
    if (old_iteration >= 0) {
        mega_checkpoint_save save = tiny_save(&old, root, old_iteration, "{\"old\": 1}");
        save.tag = tag;
        tiny_ok(mega_checkpoint_write(&save));
    }
    const int first = num_ops;
    mega_checkpoint_save save = tiny_save(&new, root, new_iteration, "{\"new\": 1}");
    save.keep = keep;
    save.tag = tag;
    save.tokenizer = t;
    tiny_ok(mega_checkpoint_write(&save));
    mega_file_observe(NULL, NULL);
    assert_true(num_ops > first + 20);
    const scene s = {old_iteration >= 0 ? &old : NULL, &new, old_iteration, new_iteration, tag, &got};
    try_every_cut(&s, first == 0 ? 1 : first);
    forget_ops();
    mega_tokenizer_destroy(t);
    tiny_fini(&old);
    tiny_fini(&new);
    tiny_fini(&got);
}

static void first_save(void **state)
{
    (void)state;
    run(-1, 10, NULL, 0, true);
}

static void second_save_removes_the_first(void **state)
{
    (void)state;
    run(10, 20, NULL, 1, false);
}

static void the_same_iteration_again(void **state)
{
    (void)state;
    run(10, 10, NULL, 0, false);
}

static void the_same_iteration_without_exchange(void **state)
{
    (void)state;
    without_exchange = true;
    run(10, 10, NULL, 0, false);
    without_exchange = false;
}

static void a_tag_again(void **state)
{
    (void)state;
    run(10, 20, "best", 1, false);
}

static void a_tag_again_without_exchange(void **state)
{
    (void)state;
    without_exchange = true;
    run(10, 20, "100", 1, false);
    without_exchange = false;
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0); /* thousands of small files */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_save),
        cmocka_unit_test(second_save_removes_the_first),
        cmocka_unit_test(the_same_iteration_again),
        cmocka_unit_test(the_same_iteration_without_exchange),
        cmocka_unit_test(a_tag_again),
        cmocka_unit_test(a_tag_again_without_exchange),
    };
    return cmocka_run_group_tests_name("checkpoint_crash", tests, NULL, NULL);
}
