/* A reader finds either the old pair of files or the new one, never a mixture, even if the writer dies at any moment or
 * another process writes the same pair. All .bin files of these tests have the same size, so that only their tokens
 * reveal a mixture of two pairs. */
#include "data_impl.h"
#include "kit.h"
#include "megalith/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOKENS = 12, MOST_STATES = 100 };

/* Writes `kind` documents, all of whose tokens are `kind`; the .bin has TOKENS of them. */
static mega_status write_pair(const char *prefix, int kind)
{
    mega_indexed_writer *w;
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) tokens[i] = kind;
    MEGA_TRY(mega_indexed_writer_create(prefix, MEGA_U16, &w));
    for (int i = 0; i < kind; i++) assert_int_equal(mega_indexed_writer_add(w, tokens, TOKENS / kind), MEGA_OK);
    return mega_indexed_writer_finish(w);
}

/* Returns which pair it is; 0: none can be opened. Anything else fails the test. */
static int kind_of(const char *prefix)
{
    mega_indexed *ix;
    int32_t tokens[TOKENS];
    if (mega_indexed_open(prefix, &ix) != MEGA_OK) return 0;
    const int kind = (int)mega_indexed_documents(ix);
    assert_int_equal(mega_indexed_tokens(ix), TOKENS);
    for (int d = 0; d < kind; d++) {
        mega_indexed_get(ix, d, 0, TOKENS / kind, tokens);
        for (int i = 0; i < TOKENS / kind; i++)
            if (tokens[i] != kind) fail_msg("%s: %d documents, and token %d: a mixture", prefix, kind, tokens[i]);
    }
    mega_indexed_close(ix);
    return kind;
}

/* ---- every instant at which a writer may die ---- */

/* Copies of the folder after each operation, without the lock, because its process is dead. */
typedef struct history {
    const char *folder;
    char *state[MOST_STATES];
    int count;
} history;

static void copy_folder(const char *from, const char *to)
{
    mega_names names;
    assert_int_equal(mega_folder_create(to), MEGA_OK);
    assert_int_equal(mega_folder_list(from, &names), MEGA_OK);
    for (size_t i = 0; i < names.count; i++) {
        char *text, *a = mega_path_join(from, names.name[i]), *b = mega_path_join(to, names.name[i]);
        size_t size;
        if (strstr(names.name[i], ".lock") == NULL && mega_file_exists(a)) {
            struct stat info;
            assert_int_equal(stat(a, &info), 0);
            assert_int_equal(mega_file_read(a, &text, &size), MEGA_OK);
            FILE *f = fopen(b, "wb");
            assert_non_null(f);
            assert_int_equal(fwrite(text, 1, size, f), size);
            fclose(f);
            assert_int_equal(utimensat(AT_FDCWD, b, (struct timespec[2]){info.st_atim, info.st_mtim}, 0), 0);
            mega_free(text);
        }
        mega_free(a);
        mega_free(b);
    }
    mega_names_fini(&names);
}

static void observe(void *user, const char *op, const char *a, const char *b, const void *bytes, size_t size)
{
    (void)op, (void)a, (void)b, (void)bytes, (void)size;
    history *h = user;
    mega_file_observe(NULL, NULL);
    assert_true(h->count < MOST_STATES);
    h->state[h->count] = mega_format("%s-%d", h->folder, h->count);
    copy_folder(h->folder, h->state[h->count++]);
    mega_file_observe(observe, h);
}

static void history_fini(history *h)
{
    for (int i = 0; i < h->count; i++) {
        assert_int_equal(mega_tree_remove(h->state[i]), MEGA_OK);
        mega_free(h->state[i]);
    }
}

/* After reading or writing, only the files of the pair may be left. */
static void assert_tidy(const char *folder)
{
    mega_names names;
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.name[i], "x.bin") != 0 && strcmp(names.name[i], "x.idx") != 0)
            fail_msg("%s holds %s", folder, names.name[i]);
    assert_int_equal(names.count, 2);
    mega_names_fini(&names);
}

static int check_state(const char *state, int old)
{
    char *prefix = mega_path_join(state, "x"), *copy = mega_format("%s-again", state);
    char *other = mega_path_join(copy, "x");
    copy_folder(state, copy);
    const int kind = kind_of(prefix);
    assert_true(kind == old || kind == 3);
    assert_int_equal(kind_of(prefix), kind);
    assert_int_equal(write_pair(other, 4), MEGA_OK); /* a writer instead of a reader */
    assert_int_equal(kind_of(other), 4);
    assert_tidy(copy);
    assert_int_equal(mega_tree_remove(copy), MEGA_OK);
    mega_free(other);
    mega_free(copy);
    mega_free(prefix);
    return kind;
}

/* Checks what a reader does after a writer died, even if the reader is killed at each of its own operations. */
static void check_completion(const char *state, int old)
{
    history h = {.folder = state};
    char *copy = mega_format("%s-read", state), *prefix = mega_path_join(copy, "x");
    copy_folder(state, copy);
    h.folder = copy;
    mega_file_observe(observe, &h);
    const int kind = kind_of(prefix);
    mega_file_observe(NULL, NULL);
    for (int i = 0; i < h.count; i++) assert_int_equal(check_state(h.state[i], old), kind);
    history_fini(&h);
    assert_int_equal(mega_tree_remove(copy), MEGA_OK);
    mega_free(prefix);
    mega_free(copy);
}

/* old: the previous pair, 0: none. Returns how often the new pair was found. */
static void write_over(int old)
{
    const char *base = mega_kit_temp_folder(), *folder = mega_kit_path(base, "f"), *prefix = mega_kit_path(base, "f/x");
    history h = {.folder = folder};
    int seen[2] = {0, 0};
    assert_int_equal(mega_folder_create(folder), MEGA_OK);
    if (old != 0) assert_int_equal(write_pair(prefix, old), MEGA_OK);
    mega_file_observe(observe, &h);
    assert_int_equal(write_pair(prefix, 3), MEGA_OK);
    mega_file_observe(NULL, NULL);
    assert_int_equal(kind_of(prefix), 3);
    assert_tidy(folder);
    for (int i = 0; i < h.count; i++) {
        check_completion(h.state[i], old);
        const bool is_new = check_state(h.state[i], old) == 3;
        assert_true(is_new || seen[1] == 0); /* once new, never the old pair again */
        seen[is_new]++;
    }
    assert_true(seen[0] > 5 && seen[1] > 5);
    history_fini(&h);
}

static void a_crash_leaves_the_old_pair_or_the_new(void **state)
{
    (void)state;
    write_over(2);
}

static void a_crash_leaves_no_pair_or_the_new(void **state)
{
    (void)state;
    write_over(0);
}

/* ---- several processes ---- */

static void a_second_writer_is_refused(void **state)
{
    (void)state;
    char who[96];
    mega_indexed_writer *first, *second;
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "x");
    assert_int_equal(write_pair(prefix, 2), MEGA_OK);
    assert_int_equal(mega_indexed_writer_create(prefix, MEGA_U16, &first), MEGA_OK);
    assert_int_equal(mega_indexed_writer_create(prefix, MEGA_U16, &second), MEGA_ERR_BUSY);
    snprintf(who, sizeof who, "process %ld on host ", (long)getpid());
    assert_non_null(strstr(mega_error_message(), who));
    assert_non_null(strstr(mega_error_message(), prefix));
    assert_int_equal(kind_of(prefix), 2); /* reading needs no lock */
    assert_int_equal(
        mega_indexed_writer_add(first, (const int32_t[TOKENS]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, TOKENS), MEGA_OK);
    assert_int_equal(mega_indexed_writer_finish(first), MEGA_OK);
    assert_int_equal(kind_of(prefix), 1);
}

/* A writer that lost its lock continues, but must not rename its files after another process has written there. */
static void a_writer_without_its_lock_replaces_nothing_newer(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = mega_kit_path(folder, "x");
    assert_int_equal(write_pair(prefix, 2), MEGA_OK);
    for (int others = 0; others < 2; others++) {
        mega_indexed_writer *w;
        int status;
        assert_int_equal(mega_indexed_writer_create(prefix, MEGA_U16, &w), MEGA_OK);
        assert_int_equal(
            mega_indexed_writer_add(w, (const int32_t[TOKENS]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, TOKENS), MEGA_OK);
        assert_int_equal(unlink(mega_kit_path(folder, "x.lock")), 0);
        const pid_t child = others ? fork() : -1;
        if (child == 0) _exit(write_pair(prefix, 2) == MEGA_OK ? 0 : 1);
        if (others) assert_int_equal(waitpid(child, &status, 0), child);
        if (others) assert_int_equal(status, 0);
        assert_int_equal(mega_indexed_writer_finish(w), others ? MEGA_ERR_BUSY : MEGA_OK);
        assert_int_equal(kind_of(prefix), others ? 2 : 1);
        assert_tidy(folder);
    }
}

/* A reader keeps opening the pair while other processes replace it. */
static void readers_never_see_a_mixture(void **state)
{
    (void)state;
    enum { OPENED = 300 };
    int seen[3] = {0, 0, 0};
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "x");
    assert_int_equal(write_pair(prefix, 2), MEGA_OK);
    const pid_t writer = fork();
    if (writer == 0) {
        for (int i = 0;; i++)
            if (write_pair(prefix, 1 + i % 2) != MEGA_OK) _exit(1);
    }
    for (int i = 0; i < OPENED || seen[1] == 0 || seen[2] == 0; i++) {
        const int kind = kind_of(prefix);
        if (kind == 0) fail_msg("no pair: %s", mega_error_message());
        seen[kind]++;
    }
    int status;
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_true(WIFSIGNALED(status)); /* a reader with nothing to complete must not take the lock from the writer */
    assert_true(kind_of(prefix) > 0);
}

/* Another program, which knows nothing of the lock, has written a pair after the crash. */
static void a_later_pair_of_others_is_kept(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = mega_kit_path(folder, "x");
    assert_int_equal(write_pair(prefix, 3), MEGA_OK);
    assert_int_equal(mega_file_rename(mega_kit_path(folder, "x.bin"), mega_kit_path(folder, "x.bin.megalith-new")),
                     MEGA_OK);
    assert_int_equal(mega_file_rename(mega_kit_path(folder, "x.idx"), mega_kit_path(folder, "x.idx.megalith-new")),
                     MEGA_OK);
    assert_int_equal(write_pair(mega_kit_path(folder, "y"), 2), MEGA_OK);
    assert_int_equal(mega_file_rename(mega_kit_path(folder, "y.bin"), mega_kit_path(folder, "x.bin")), MEGA_OK);
    assert_int_equal(mega_file_rename(mega_kit_path(folder, "y.idx"), mega_kit_path(folder, "x.idx")), MEGA_OK);
    assert_int_equal(kind_of(prefix), 0);
    assert_non_null(strstr(mega_error_message(), "another program has written"));
    assert_int_equal(unlink(mega_kit_path(folder, "x.idx.megalith-new")), 0);
    assert_int_equal(kind_of(prefix), 2);
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0); /* thousands of small files */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_leaves_the_old_pair_or_the_new),
        cmocka_unit_test(a_crash_leaves_no_pair_or_the_new),
        cmocka_unit_test(a_second_writer_is_refused),
        cmocka_unit_test(a_writer_without_its_lock_replaces_nothing_newer),
        cmocka_unit_test(readers_never_see_a_mixture),
        cmocka_unit_test(a_later_pair_of_others_is_kept),
    };
    return cmocka_run_group_tests_name("indexed_pair", tests, NULL, NULL);
}
