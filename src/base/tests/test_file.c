/* Files and folders: contents, messages, what the observer receives, and failing allocations. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_content(const char *path, const char *expected)
{
    char *text = NULL;
    size_t n = 0;
    if (mega_file_read(path, &text, &n) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(n, strlen(expected));
    assert_string_equal(text, expected);
    mega_free(text);
}

static void read_and_map_give_the_bytes(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "a.txt");
    mega_kit_write(path, "hello\nworld");
    assert_content(path, "hello\nworld");
    mega_map map = {0};
    assert_int_equal(mega_map_open(path, &map), MEGA_OK);
    assert_int_equal(map.size, 11);
    assert_memory_equal(map.data, "hello\nworld", 11);
    mega_map_close(&map);
    assert_null(map.data);
    mega_map_close(&map);

    const char *empty = mega_kit_path(folder, "empty");
    mega_kit_write(empty, "");
    assert_content(empty, "");
    assert_int_equal(mega_map_open(empty, &map), MEGA_OK);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    mega_map_close(&map);

    char *text = NULL; /* a file for which the system reports size 0 */
    assert_int_equal(mega_file_read("/proc/self/status", &text, NULL), MEGA_OK);
    assert_non_null(strstr(text, "VmSize"));
    mega_free(text);

    int64_t size = 0;
    assert_int_equal(mega_file_size(path, &size), MEGA_OK);
    assert_int_equal(size, 11);
    assert_true(mega_file_exists(path));
    assert_false(mega_file_exists(folder));
    assert_true(mega_folder_exists(folder));
    assert_false(mega_folder_exists(path));
    assert_false(mega_file_exists(mega_kit_path(folder, "none")));
}

static void refusals_name_path_and_reason(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *missing = mega_kit_path(folder, "none");
    const char *file = mega_kit_path(folder, "file"), *below = mega_kit_path(folder, "file/below");
    mega_kit_write(file, "x");
    char *text = NULL;
    mega_map map = {0};
    mega_writer *writer = NULL;
    mega_names names = {0};
    int64_t size;
    assert_int_equal(mega_file_read(NULL, &text, NULL), MEGA_ERR_USAGE);
    assert_int_equal(mega_file_read(missing, &text, NULL), MEGA_ERR_NOT_FOUND);
    assert_non_null(strstr(mega_error_message(), missing));
    assert_non_null(strstr(mega_error_message(), "No such file or directory; check the path"));
    assert_int_equal(mega_map_open(missing, &map), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_map_open(below, &map), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_map_open(folder, &map), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "Is a directory"));
    assert_int_equal(mega_file_size(missing, &size), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_writer_create(mega_kit_path(missing, "x"), &writer), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_writer_create(folder, &writer), MEGA_ERR_IO);
    assert_null(writer);
    assert_int_equal(mega_folder_list(missing, &names), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_folder_create(file), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "a file of this name is there"));
    assert_int_equal(mega_folder_create(below), MEGA_ERR_IO);
    assert_int_equal(mega_folder_sync(missing), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_file_rename(missing, file), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_file_exchange(missing, file), MEGA_ERR_NOT_FOUND);
    mega_file_discard(folder); /* cannot be removed, and the earlier message stays */
    assert_non_null(strstr(mega_error_message(), missing));
    assert_int_equal(mega_file_remove(folder), MEGA_ERR_IO);
    assert_int_equal(mega_file_remove(missing), MEGA_OK);
    assert_int_equal(mega_tree_remove(missing), MEGA_OK);
}

/* Paths that would wait forever in open(), or never end, are refused; the pipe of a shell's `<(command)` is
 * accepted. */
static void pipes_and_devices_are_no_files(void **state)
{
    (void)state;
    const char *const named = mega_kit_path(mega_kit_temp_folder(), "pipe");
    char *text = NULL, path[32];
    mega_map map = {0};
    int ends[2];
    assert_int_equal(mkfifo(named, 0600), 0);
    const char *const refused[] = {named, "/dev/zero"}, *const said[] = {"a named pipe", "a device"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mega_file_read(refused[i], &text, NULL), MEGA_ERR_IO);
        assert_non_null(strstr(mega_error_message(), refused[i]));
        assert_non_null(strstr(mega_error_message(), said[i]));
        assert_int_equal(mega_map_open(refused[i], &map), MEGA_ERR_IO);
    }
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(mega_map_open(path, &map), MEGA_ERR_IO);
    assert_int_equal(write(ends[1], "text", 4), 4);
    close(ends[1]);
    assert_int_equal(mega_file_read(path, &text, NULL), MEGA_OK);
    assert_string_equal(text, "text");
    mega_free(text);
    close(ends[0]);
    assert_int_equal(mega_file_read("/dev/null", &text, NULL), MEGA_OK);
    assert_string_equal(text, "");
    mega_free(text);
}

static void folders_are_made_listed_and_removed(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *deep = mega_kit_path(folder, "a//b/c/");
    assert_int_equal(mega_folder_create(deep), MEGA_OK);
    assert_int_equal(mega_folder_create(deep), MEGA_OK);
    assert_true(mega_folder_exists(mega_kit_path(folder, "a/b/c")));
    mega_kit_write(mega_kit_path(folder, "a/z"), "z");
    mega_kit_write(mega_kit_path(folder, "a/B"), "b");
    mega_kit_write(mega_kit_path(folder, "a/.hidden"), "h");
    mega_kit_write(mega_kit_path(folder, "kept"), "kept");
    assert_int_equal(symlink(mega_kit_path(folder, "kept"), mega_kit_path(folder, "a/link")), 0);
    assert_int_equal(symlink(folder, mega_kit_path(folder, "a/loop")), 0);
    mega_names names = {0};
    assert_int_equal(mega_folder_list(mega_kit_path(folder, "a"), &names), MEGA_OK);
    static const char *const expected[] = {".hidden", "B", "b", "link", "loop", "z"};
    assert_int_equal(names.count, 6);
    for (size_t i = 0; i < 6; i++) assert_string_equal(names.name[i], expected[i]);
    mega_names_fini(&names);
    assert_int_equal(names.count, 0);
    assert_int_equal(mega_folder_sync(folder), MEGA_OK);
    assert_int_equal(mega_tree_remove(mega_kit_path(folder, "a")), MEGA_OK);
    assert_false(mega_folder_exists(mega_kit_path(folder, "a")));
    assert_content(mega_kit_path(folder, "kept"), "kept"); /* links must not be followed */
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 1);
    mega_names_fini(&names);
}

static void exchange_and_rename(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *a = mega_kit_path(folder, "a"), *b = mega_kit_path(folder, "b");
    assert_int_equal(mega_folder_create(a), MEGA_OK);
    mega_kit_write(mega_kit_path(folder, "a/inside"), "was a");
    mega_kit_write(b, "was b");
    assert_int_equal(mega_file_exchange(a, b), MEGA_OK);
    assert_content(a, "was b");
    assert_content(mega_kit_path(folder, "b/inside"), "was a");
    assert_int_equal(mega_file_rename(a, mega_kit_path(folder, "c")), MEGA_OK);
    assert_content(mega_kit_path(folder, "c"), "was b");
    assert_false(mega_file_exists(a));
}

/* Whole blocks and the rest of one, in uneven pieces; the end is written although it is no whole block. */
static void large_writer_writes_all_sizes(void **state)
{
    (void)state;
    static const size_t size[] = {0, 1, 4095, 4096, (8u << 20) - 1, 8u << 20, (8u << 20) + 4096, (17u << 20) + 5};
    const char *path = mega_kit_path(mega_kit_temp_folder(), "large");
    uint8_t *bytes = mega_malloc((17u << 20) + 5);
    for (uint32_t i = 0; i < (17u << 20) + 5; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        mega_writer *w = NULL;
        assert_int_equal(mega_writer_create_large(path, &w), MEGA_OK);
        for (size_t at = 0, n = 1; at < size[k]; at += n, n = n * 3 + 1) {
            if (n > size[k] - at) n = size[k] - at;
            assert_int_equal(mega_writer_write(w, bytes + at, n), MEGA_OK);
            if (k == 7 && n == 364) assert_int_equal(mega_writer_flush(w), MEGA_OK);
        }
        assert_int_equal(mega_writer_position(w), size[k]);
        assert_int_equal(mega_writer_crc32c(w), mega_crc32c(0, bytes, size[k]));
        assert_int_equal(mega_writer_close(w, k == 7), MEGA_OK);
        mega_map map = {0};
        assert_int_equal(mega_map_open(path, &map), MEGA_OK);
        mega_map_fetch(&map, 5000, 1u << 20);
        assert_int_equal(map.size, size[k]);
        if (map.size > 0) assert_memory_equal(map.data, bytes, size[k]);
        assert_true(mega_map_is_cached(&map, 0, size[k]) && mega_map_is_cached(&map, size[k] / 2, size[k]));
        mega_map_close(&map);
    }
    mega_free(bytes);
}

static void what_was_never_read_is_not_cached(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "hole");
    mega_map map = {0};
    mega_kit_write(path, "first page");
    assert_int_equal(truncate(path, (5 << 20) + 7), 0);
    assert_int_equal(mega_map_open(path, &map), MEGA_OK);
    assert_true(mega_map_is_cached(&map, 3, 5));
    assert_false(mega_map_is_cached(&map, 0, map.size));
    assert_false(mega_map_is_cached(&map, map.size - 1, 1));
    mega_map_close(&map);
}

/* The disk refuses a block while the next one is being filled: the error is reported anyway, and only once. */
static void large_writer_tells_a_full_disk(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    uint8_t *bytes = mega_calloc(1, BYTES);
    for (int pieces = 1; pieces <= 16; pieces++) {
        mega_writer *w = NULL;
        assert_int_equal(mega_writer_create_large("/dev/full", &w), MEGA_OK);
        mega_writer_expect(w, (int64_t)pieces * BYTES);
        for (int i = 0; i < pieces; i++) MEGA_IGNORE(mega_writer_write(w, bytes, BYTES));
        assert_int_equal(mega_writer_close(w, true), MEGA_ERR_IO);
        assert_non_null(strstr(mega_error_message(), "/dev/full: cannot write: No space left"));
        assert_non_null(strstr(mega_error_message(), "0 are written"));
    }
    mega_free(bytes);
}

static void writer_writes_all_sizes(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "out");
    enum { LARGE = 700000 };
    char *bytes = mega_malloc(LARGE);
    for (int i = 0; i < LARGE; i++) bytes[i] = (char)(i * 31 % 251);
    mega_writer *w = NULL;
    assert_int_equal(mega_writer_create(path, &w), MEGA_OK);
    mega_buffer expected = {0};
    static const size_t sizes[] = {0, 1, 5, 4096, 262143, 1, 262144, 262145, 3, LARGE, 17};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(mega_writer_write(w, bytes, sizes[i]), MEGA_OK);
        assert_true(mega_buffer_append(&expected, bytes, sizes[i]));
        assert_int_equal(mega_writer_position(w), expected.size);
    }
    assert_int_equal(mega_writer_crc32c(w), mega_crc32c(0, expected.data, expected.size));
    assert_int_equal(mega_writer_flush(w), MEGA_OK);
    int64_t size = 0;
    assert_int_equal(mega_file_size(path, &size), MEGA_OK);
    assert_int_equal(size, expected.size);
    assert_int_equal(mega_writer_close(w, true), MEGA_OK);
    mega_map map = {0};
    assert_int_equal(mega_map_open(path, &map), MEGA_OK);
    assert_int_equal(map.size, expected.size);
    assert_memory_equal(map.data, expected.data, map.size);
    mega_map_close(&map);

    assert_int_equal(mega_writer_append_to(path, &w), MEGA_OK);
    assert_int_equal(mega_writer_position(w), expected.size);
    assert_int_equal(mega_writer_write(w, "tail", 4), MEGA_OK);
    assert_int_equal(mega_writer_crc32c(w), mega_crc32c(0, "tail", 4));
    assert_int_equal(mega_writer_close(w, false), MEGA_OK);
    assert_int_equal(mega_map_open(path, &map), MEGA_OK);
    assert_int_equal(map.size, expected.size + 4);
    assert_memory_equal(map.data + expected.size, "tail", 4);
    mega_map_close(&map);

    assert_int_equal(mega_writer_create(path, &w), MEGA_OK); /* starts again from an empty file */
    assert_int_equal(mega_writer_write(w, "gone", 4), MEGA_OK);
    mega_writer_abandon(w);
    assert_false(mega_file_exists(path));
    mega_writer_abandon(NULL);
    mega_buffer_fini(&expected);
    mega_free(bytes);
}

/* /dev/full refuses every write like a full disk. */
static void a_full_disk_is_told_once_and_kept(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) mega_kit_skip("/dev/full is not there");
    static const char bytes[300000];
    mega_writer *w = NULL;
    assert_int_equal(mega_writer_create("/dev/full", &w), MEGA_OK);
    assert_int_equal(mega_writer_write(w, "x", 1), MEGA_OK); /* stays in the buffer */
    assert_int_equal(mega_writer_write(w, bytes, sizeof bytes), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(),
                           "/dev/full: cannot write: No space left on device; the file needs 300001 "
                           "bytes or more, 0 are written, "));
    assert_non_null(strstr(mega_error_message(), " available; free some space"));
    mega_error_clear();
    assert_int_equal(mega_writer_write(w, "y", 1), MEGA_ERR_IO);
    mega_error_clear();
    assert_int_equal(mega_writer_close(w, true), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "No space left"));

    assert_int_equal(mega_writer_create("/dev/full", &w), MEGA_OK);
    assert_int_equal(mega_writer_write(w, "x", 1), MEGA_OK);
    assert_int_equal(mega_writer_close(w, false), MEGA_ERR_IO); /* close flushes and returns the error */
}

/* ulimit -f gives the same kind of message as a full disk, if the signal SIGXFSZ is ignored. */
static void a_limit_on_file_sizes_is_told(void **state)
{
    (void)state;
    static const char bytes[300000];
    const char *path = mega_kit_path(mega_kit_temp_folder(), "out");
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    mega_writer *w = NULL;
    assert_int_equal(mega_writer_create(path, &w), MEGA_OK);
    mega_writer_expect(w, sizeof bytes);
    MEGA_IGNORE(mega_writer_write(w, bytes, sizeof bytes));
    const mega_status st = mega_writer_close(w, false);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(),
                           "out: cannot write: File too large; the file needs 300000 bytes, "
                           "100000 are written; raise the limit on the size of files (ulimit -f)"));
}

typedef struct heard {
    mega_buffer log;
    const char *folder;
    const char *watched; /* the file whose content is appended to `seen` after every operation */
    char seen[64][16];
    int count;
} heard;

static void listen_in(void *user, const char *op, const char *a, const char *b, const void *bytes, size_t size)
{
    heard *h = user;
    (void)bytes;
    const size_t skip = strlen(h->folder) + 1;
    mega_buffer_printf(&h->log, "%s %s", op, strlen(a) >= skip ? a + skip : ".");
    if (b != NULL) mega_buffer_printf(&h->log, " %s", b + skip);
    if (size != 0) mega_buffer_printf(&h->log, " %zu", size);
    mega_buffer_puts(&h->log, "\n");
    if (h->watched == NULL || h->count == 64) return;
    FILE *f = fopen(h->watched, "rb");
    char *to = h->seen[h->count++];
    to[f != NULL ? fread(to, 1, 15, f) : 0] = '\0';
    if (f != NULL) fclose(f);
}

static void atomic_write_shows_old_or_new(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "f");
    heard h = {.folder = folder, .watched = path};
    mega_kit_write(path, "old");
    mega_file_observe(listen_in, &h);
    const mega_status st = mega_file_write_atomic(path, "newer", 5);
    mega_file_observe(NULL, NULL);
    assert_int_equal(st, MEGA_OK);
    assert_content(path, "newer");
    char expected[1024];
    char *beside = mega_temporary_path("f");
    snprintf(expected, sizeof expected, "create %s\nwrite %s 5\nfsync %s\nrename %s f\nsyncdir .\n", beside, beside,
             beside, beside);
    mega_free(beside);
    assert_string_equal(h.log.data, expected);
    static const char *const contents[] = {"old", "old", "old", "newer", "newer"};
    assert_int_equal(h.count, 5);
    for (int i = 0; i < 5; i++) assert_string_equal(h.seen[i], contents[i]);
    mega_buffer_fini(&h.log);
    mega_names names = {0};
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 1);
    mega_names_fini(&names);
}

enum { NO_PROCESS = 4194999 }; /* above the largest process id */

/* The temporary path that process `pid` of this host would use. */
static char *temporary_of(const char *path, long pid)
{
    char *own = mega_temporary_path(path);
    char *out = mega_format("%.*s-%ld", (int)(strrchr(own, '-') - own), own, pid);
    mega_free(own);
    return out;
}

/* Temporary files of killed processes are removed by the next attempt. Files with names from users are not touched. */
static void tries_of_the_dead_are_removed(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "f");
    char *own = mega_temporary_path(path), *alive = temporary_of(path, (long)getppid()),
         *dead = temporary_of(path, NO_PROCESS), *other = temporary_of(mega_kit_path(folder, "other"), NO_PROCESS);
    mega_kit_write(own, "of an earlier process with our id");
    mega_kit_write(alive, "of a process that runs");
    mega_kit_write(dead, "x");
    mega_kit_write(other, "x");
    static const char *const stays[] = {"f.tmp-4194999",     "f.tmp-notes",
                                        "f.tmp-2020-01-01",  "f.tmp-another-0123abcd-1",
                                        "f.tmp--0123abcd-1", "f.tmp-host-0123abcd-"};
    enum { COUNT = sizeof stays / sizeof *stays };
    for (int i = 0; i < COUNT; i++) mega_kit_write(mega_kit_path(folder, stays[i]), "x");
    char host[MEGA_HOST_BYTES]; /* another container on this host, whose processes we cannot see */
    mega_host_name(host);
    char *elsewhere = mega_format("%s.tmp-%s-0123abcd-%d", path, host, NO_PROCESS);
    mega_kit_write(elsewhere, "of a process that may run");
    assert_int_equal(mega_file_write_atomic(path, "new", 3), MEGA_OK);
    assert_true(mega_file_exists(elsewhere));
    mega_free(elsewhere);
    assert_content(path, "new");
    assert_false(mega_file_exists(own));
    assert_false(mega_file_exists(dead));
    assert_true(mega_file_exists(alive));
    for (int i = 0; i < COUNT; i++) assert_true(mega_file_exists(mega_kit_path(folder, stays[i])));
    mega_temporaries_remove(folder, "", "her", false);
    assert_false(mega_file_exists(other));
    /* as if with a lock, under which no other process can be writing */
    mega_temporaries_remove(folder, "f", "f", true);
    assert_false(mega_file_exists(alive));
    for (int i = 0; i < COUNT; i++) assert_int_equal(mega_file_exists(mega_kit_path(folder, stays[i])), i != 3);
    mega_free(other);
    mega_free(dead);
    mega_free(alive);
    mega_free(own);
}

static void atomic_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "sub");
    assert_int_equal(mega_folder_create(mega_kit_path(folder, "sub/full")), MEGA_OK);
    assert_int_equal(mega_file_write_atomic(path, "x", 1), MEGA_ERR_IO); /* a non-empty folder has this name */
    assert_non_null(strstr(mega_error_message(), path));
    mega_names names = {0};
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 1);
    mega_names_fini(&names);
}

static void observer_hears_every_change(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    heard h = {.folder = folder};
    mega_file_observe(listen_in, &h);
    MEGA_IGNORE(mega_folder_create(mega_kit_path(folder, "d/e")));
    mega_writer *w = NULL;
    if (mega_writer_create(mega_kit_path(folder, "d/f"), &w) == MEGA_OK) {
        MEGA_IGNORE(mega_writer_write(w, "abc", 3));
        MEGA_IGNORE(mega_writer_flush(w));
        MEGA_IGNORE(mega_writer_write(w, "de", 2));
        MEGA_IGNORE(mega_writer_close(w, true));
    }
    if (mega_writer_append_to(mega_kit_path(folder, "d/f"), &w) == MEGA_OK) {
        MEGA_IGNORE(mega_writer_write(w, "g", 1));
        MEGA_IGNORE(mega_writer_close(w, false));
    }
    MEGA_IGNORE(mega_file_rename(mega_kit_path(folder, "d/f"), mega_kit_path(folder, "d/g")));
    MEGA_IGNORE(mega_file_exchange(mega_kit_path(folder, "d/g"), mega_kit_path(folder, "d/e")));
    MEGA_IGNORE(mega_folder_sync(folder));
    MEGA_IGNORE(mega_file_remove(mega_kit_path(folder, "none")));
    MEGA_IGNORE(mega_tree_remove(mega_kit_path(folder, "d")));
    mega_file_observe(NULL, NULL);
    MEGA_IGNORE(mega_folder_create(mega_kit_path(folder, "unheard")));
    assert_string_equal(h.log.data, "mkdir d\nmkdir d/e\ncreate d/f\nwrite d/f 3\nwrite d/f 2\nfsync d/f\nwrite d/f 1\n"
                                    "rename d/f d/g\nexchange d/g d/e\nsyncdir .\nunlink d/e\nrmdir d/g\nrmdir d\n");
    mega_buffer_fini(&h.log);
}

static int use_files(void *user)
{
    const char *folder = user;
    mega_names names = {0};
    char *text = NULL;
    mega_status st = mega_folder_create(mega_kit_path(folder, "x/y"));
    if (st == MEGA_OK) st = mega_file_write_atomic(mega_kit_path(folder, "x/y/f"), "content", 7);
    if (st == MEGA_OK) st = mega_file_read(mega_kit_path(folder, "x/y/f"), &text, NULL);
    if (st == MEGA_OK) st = mega_folder_list(mega_kit_path(folder, "x"), &names);
    if (st == MEGA_OK) st = mega_tree_remove(mega_kit_path(folder, "x"));
    mega_names_fini(&names);
    mega_free(text);
    return st;
}

static void each_failing_allocation_is_reported(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    assert_in_range(mega_kit_fail_each_allocation(use_files, (void *)(uintptr_t)folder), 10, 60);
}

static void names_that_were_cut(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "code_b_document.idx"), "x");
    mega_kit_write(mega_kit_path(folder, "code_a_document.idx"), "x");
    mega_kit_write(mega_kit_path(folder, "code.idx"), "x");
    mega_kit_write(mega_kit_path(folder, "codes_document.idx"), "x");
    static const struct {
        const char *prefix, *ending, *found;
    } rows[] = {{"code", ".idx", "code_a_document"},
                {"cod", ".idx", NULL},
                {"code", ".bin", NULL},
                {"none/code", ".idx", NULL}};
    char *found = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(mega_path_complete(&found, mega_kit_path(folder, rows[i].prefix), rows[i].ending), MEGA_OK);
        if (rows[i].found == NULL) assert_null(found);
        else
            assert_string_equal(found, mega_kit_path(folder, rows[i].found));
        mega_free(found);
    }
    assert_int_equal(mega_path_complete(&found, "", ".idx"), MEGA_OK);
    assert_null(found);
}

static void paths(void **state)
{
    (void)state;
    static const struct {
        const char *path, *folder, *base;
    } rows[] = {{"a", ".", "a"},   {"a/b", "a", "b"},   {"/a", "/", "a"}, {"/", "/", ""},         {"a//b", "a", "b"},
                {"//b", "/", "b"}, {"a/b/", "a/b", ""}, {"", ".", ""},    {"/a/b.c", "/a", "b.c"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *folder = mega_path_folder(rows[i].path);
        assert_string_equal(folder, rows[i].folder);
        assert_string_equal(mega_path_base(rows[i].path), rows[i].base);
        assert_true(mega_path_ends_with(rows[i].path, rows[i].base));
        mega_free(folder);
    }
    static const char *const joins[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        char *path = mega_path_join(joins[i][0], joins[i][1]);
        assert_string_equal(path, joins[i][2]);
        mega_free(path);
    }
}

/* The target of a link is replaced, even if it does not exist yet; circular links are refused. */
static void atomic_write_follows_links(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *link = mega_kit_path(folder, "link"),
               *to = mega_kit_path(folder, "to");
    const char *around = mega_kit_path(folder, "around");
    struct stat info;
    assert_int_equal(symlink("to", link), 0);
    assert_int_equal(symlink("around", around), 0);
    assert_int_equal(mega_file_write_atomic(link, "one", 3), MEGA_OK);
    assert_content(to, "one");
    assert_int_equal(mega_file_write_atomic(link, "two", 3), MEGA_OK);
    assert_content(to, "two");
    assert_true(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    assert_int_equal(mega_file_write_atomic(around, "x", 1), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "cannot follow the link"));
    assert_int_equal(mega_file_write_atomic("/dev/null", "x", 1), MEGA_OK);
    assert_true(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_and_map_give_the_bytes),
        cmocka_unit_test(refusals_name_path_and_reason),
        cmocka_unit_test(pipes_and_devices_are_no_files),
        cmocka_unit_test(folders_are_made_listed_and_removed),
        cmocka_unit_test(exchange_and_rename),
        cmocka_unit_test(what_was_never_read_is_not_cached),
        cmocka_unit_test(large_writer_tells_a_full_disk),
        cmocka_unit_test(writer_writes_all_sizes),
        cmocka_unit_test(large_writer_writes_all_sizes),
        cmocka_unit_test(a_full_disk_is_told_once_and_kept),
        cmocka_unit_test(a_limit_on_file_sizes_is_told),
        cmocka_unit_test(atomic_write_shows_old_or_new),
        cmocka_unit_test(atomic_write_follows_links),
        cmocka_unit_test(atomic_write_that_fails_leaves_nothing),
        cmocka_unit_test(tries_of_the_dead_are_removed),
        cmocka_unit_test(observer_hears_every_change),
        cmocka_unit_test(each_failing_allocation_is_reported),
        cmocka_unit_test(names_that_were_cut),
        cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
