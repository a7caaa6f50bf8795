/* Locks: a single holder, stale locks, takeover, and many processes that find a stale lock at once. */
#include "../lock_file.h"
#include "kit.h"
#include "megalith/file.h"
#include "megalith/lock.h"
#include "megalith/memory.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static mega_lock_request request_of(const char *path)
{
    return (mega_lock_request){.path = path, .subject = "the output", .remedy = "choose another one"};
}

static mega_lock *must_acquire(const mega_lock_request *r)
{
    mega_lock *lock = NULL;
    if (mega_lock_acquire(r, &lock) != MEGA_OK) fail_msg("%s", mega_error_message());
    return lock;
}

static void assert_refused(const mega_lock_request *r, const char *said)
{
    mega_lock *lock = NULL;
    assert_int_equal(mega_lock_probe(r), MEGA_ERR_BUSY);
    assert_int_equal(mega_lock_acquire(r, &lock), MEGA_ERR_BUSY);
    if (strstr(mega_error_message(), said) == NULL) fail_msg("\"%s\" is not in: %s", said, mega_error_message());
}

static void assert_acquired(const mega_lock_request *r)
{
    assert_int_equal(mega_lock_probe(r), MEGA_OK);
    mega_lock_release(must_acquire(r));
    assert_false(mega_file_exists(r->path));
}

/* Sets the file's time as if it had been renewed that long ago. */
static void make_old(const char *path, int seconds)
{
    struct timespec when[2];
    clock_gettime(CLOCK_REALTIME, &when[0]);
    when[0].tv_sec -= seconds;
    when[1] = when[0];
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
}

static void write_record(const char *path, const mega_process *p)
{
    char text[LOCK_TEXT_BYTES];
    snprintf(text, sizeof text,
             "megalith lock 1\nhost    %s\npid     %ld\nstart   %llu\nkernel  %s\nsince   1763810554\ntoken   "
             "0123456789abcdef\n",
             p->host, p->pid, (unsigned long long)p->start, p->kernel);
    mega_kit_write(path, text);
}

static void one_process_holds_it(void **state)
{
    (void)state;
    char who[128];
    mega_process self;
    const char *folder = mega_kit_temp_folder();
    const mega_lock_request r = request_of(mega_kit_path(folder, "a.lock"));
    mega_lock *lock = must_acquire(&r);
    mega_process_self(&self);
    assert_true(self.start > 0 && self.kernel[0] != '\0');
    snprintf(who, sizeof who, "the output: process %ld on host %s has been writing there since 20", self.pid,
             self.host);
    assert_refused(&r, who);
    assert_refused(&r, "choose another one");
    assert_int_equal(mega_lock_check(lock), MEGA_OK);
    mega_lock_renew(lock);
    assert_false(mega_lock_is_lost(lock));
    mega_lock_release(lock);
    assert_acquired(&r);
    mega_names names;
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 0); /* no temporary file may be left */
    mega_names_fini(&names);
    const mega_lock_request nowhere = request_of(mega_kit_path(folder, "no/such/lock"));
    assert_int_equal(mega_lock_acquire(&nowhere, &lock), MEGA_ERR_NOT_FOUND);
}

/* A child process ends while it holds the lock; without `reap` it stays a zombie. */
static void die_with_lock(const mega_lock_request *r, bool reap)
{
    siginfo_t info;
    const pid_t child = fork();
    if (child == 0) {
        mega_lock *lock;
        _exit(mega_lock_acquire(r, &lock) == MEGA_OK ? 0 : 1);
    }
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | (reap ? 0 : WNOWAIT)), 0);
    assert_int_equal(info.si_status, 0);
    assert_true(mega_file_exists(r->path));
    assert_acquired(r);
    if (!reap) assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_dead_process_of_this_host_is_stale(void **state)
{
    (void)state;
    mega_process other;
    const mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    die_with_lock(&r, true);
    die_with_lock(&r, false);
    /* a living process with the id of a dead one, but another start time */
    mega_process_self(&other);
    write_record(r.path, &other);
    assert_refused(&r, "choose another one");
    other.start++;
    write_record(r.path, &other);
    assert_acquired(&r);
}

/* Processes of another host or container cannot be seen, so their locks are stale only after five minutes. */
static void elsewhere_five_minutes_count(void **state)
{
    (void)state;
    const mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    for (int i = 0; i < 2; i++) {
        mega_process other;
        mega_process_self(&other);
        snprintf(i == 0 ? other.host : other.kernel, 16, "elsewhere");
        other.pid = 999999999;
        write_record(r.path, &other);
        assert_refused(&r, "process 999999999 on host");
        make_old(r.path, 290);
        assert_refused(&r, "it renewed its lock 290 s ago; after 300 s without a renewal it counts as dead");
        make_old(r.path, 310);
        assert_acquired(&r);
    }
}

static void renewal_sets_the_time(void **state)
{
    (void)state;
    struct stat info;
    const mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    mega_lock *lock = must_acquire(&r);
    const uint64_t allocations = mega_alloc_count();
    make_old(r.path, 200);
    mega_lock_renew(lock);
    assert_int_equal(stat(r.path, &info), 0);
    assert_true(difftime(time(NULL), info.st_mtime) < 100);
    /* renewing must not allocate, because it runs beside training steps */
    assert_int_equal(mega_alloc_count(), allocations);
    mega_lock_release(lock);
}

static void takeover_is_noticed(void **state)
{
    (void)state;
    mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    mega_lock *first = must_acquire(&r);
    r.takeover = true;
    assert_int_equal(mega_lock_probe(&r), MEGA_OK);
    mega_lock *second = must_acquire(&r);
    assert_int_equal(mega_lock_check(first), MEGA_ERR_BUSY);
    assert_non_null(strstr(mega_error_message(), "took over at 20"));
    assert_false(mega_lock_is_lost(first));
    mega_lock_renew(first);
    assert_true(mega_lock_is_lost(first));
    assert_int_equal(mega_lock_check(second), MEGA_OK);
    mega_lock_release(first);
    /* releasing the first lock must not remove the second one's file */
    assert_int_equal(mega_lock_check(second), MEGA_OK);
    mega_lock_release(second);
    assert_false(mega_lock_is_lost(NULL));
    mega_lock_release(NULL);
}

/* The holder creates a removed lock file again, and nobody else gets the lock, unless another process was faster. */
static void a_removed_file_is_made_again(void **state)
{
    (void)state;
    char *const folder = mega_path_join(mega_kit_temp_folder(), "inner");
    assert_int_equal(mkdir(folder, 0777), 0);
    const mega_lock_request r = request_of(mega_kit_path(folder, "a.lock"));
    mega_lock *first = must_acquire(&r), *second;
    mega_status (*const notices[])(mega_lock *) = {mega_lock_check, mega_lock_hold};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(unlink(r.path), 0);
        if (i < 2) assert_int_equal(notices[i](first), MEGA_OK);
        else
            mega_lock_renew(first);
        assert_false(mega_lock_is_lost(first));
        assert_refused(&r, "has been writing there since 20");
        mega_lock_let_go(first);
    }
    assert_int_equal(unlink(r.path), 0); /* remove the folder as well */
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mega_lock_check(first), MEGA_OK);
    mega_names names;
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 1); /* no temporary file either */
    mega_names_fini(&names);
    assert_int_equal(unlink(r.path), 0);
    second = must_acquire(&r);
    assert_int_equal(mega_lock_hold(first), MEGA_ERR_BUSY);
    assert_non_null(strstr(mega_error_message(), "took over at 20"));
    mega_lock_renew(first);
    assert_true(mega_lock_is_lost(first));
    mega_lock_release(first);
    assert_int_equal(mega_lock_check(second), MEGA_OK);
    mega_lock_release(second);
    assert_false(mega_file_exists(r.path));
    mega_free(folder);
}

/* A second run began and ended while the lock file was gone, and has written: its witness shows that. */
static void a_run_in_between_ends_the_first(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_lock_request r = request_of(mega_kit_path(folder, "a.lock"));
    r.witness = mega_kit_path(folder, "run_id.txt");
    mega_lock *first = must_acquire(&r);
    mega_kit_write(r.witness, "1");
    mega_lock_mark(first);
    for (int writes = 0; writes < 2; writes++) {
        assert_int_equal(unlink(r.path), 0);
        mega_lock *second = must_acquire(&r);
        if (writes) assert_int_equal(mega_file_write_atomic(r.witness, "1", 1), MEGA_OK);
        mega_lock_mark(second);
        mega_lock_release(second);
        assert_int_equal(mega_lock_check(first), writes ? MEGA_ERR_BUSY : MEGA_OK);
    }
    assert_non_null(strstr(mega_error_message(), "another process has written there since"));
    assert_false(mega_file_exists(r.path));
    mega_lock_renew(first);
    assert_true(mega_lock_is_lost(first));
    mega_lock_release(first);
}

/* A process that takes over and then fails before it begins returns the lock to the first one. */
static void a_takeover_is_given_back(void **state)
{
    (void)state;
    mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    mega_lock *first = must_acquire(&r);
    assert_false(mega_lock_took_over(first));
    r.takeover = true;
    mega_lock *second = must_acquire(&r);
    assert_true(mega_lock_took_over(second));
    mega_lock_renew(first);
    assert_true(mega_lock_is_lost(first));
    mega_lock_give_back(second);
    assert_int_equal(mega_lock_check(first), MEGA_OK);
    mega_lock_renew(first);
    assert_false(mega_lock_is_lost(first));
    mega_names names;
    char *folder = mega_path_folder(r.path);
    assert_int_equal(mega_folder_list(folder, &names), MEGA_OK);
    assert_int_equal(names.count, 1);
    mega_names_fini(&names);
    mega_free(folder);
    mega_lock_give_back(first); /* not taken over from anyone: removed */
    assert_false(mega_file_exists(r.path));
    mega_lock_give_back(NULL);
}

/* A takeover waits until the holder has renamed its output. */
static void a_commit_is_not_interrupted(void **state)
{
    (void)state;
    int ready[2];
    char word;
    mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    mega_lock *first = must_acquire(&r), *second = NULL;
    assert_int_equal(mega_lock_hold(NULL), MEGA_OK);
    assert_int_equal(mega_lock_hold(first), MEGA_OK);
    assert_int_equal(pipe(ready), 0);
    /* inherits the lock of the open file, and reports when it releases it */
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(ready[0]);
        mega_kit_until_asleep((int)parent, (int)parent);
        _exit(write(ready[1], "x", 1) == 1 ? 0 : 1);
    }
    mega_lock_let_go(first);
    r.takeover = true;
    second = must_acquire(&r);
    assert_int_equal(fcntl(ready[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(mega_lock_hold(first), MEGA_ERR_BUSY);
    assert_non_null(strstr(mega_error_message(), "took over"));
    mega_lock_release(first);
    mega_lock_release(second);
    assert_false(mega_file_exists(r.path));
}

/* In a group's folder, a dead process of another user left a lock file that only that user may write. */
static void lock_of_another_user_is_replaced(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    int status;
    mega_process dead;
    const char *folder = mega_kit_temp_folder();
    const mega_lock_request r = request_of(mega_kit_path(folder, "a.lock"));
    mega_process_self(&dead);
    dead.start++;
    write_record(r.path, &dead);
    assert_int_equal(chmod(r.path, 0444), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    const pid_t child = fork();
    if (child == 0) {
        mega_lock *lock;
        if (geteuid() == 0 && setuid(NOBODY) != 0) _exit(2);
        const mega_status st = mega_lock_acquire(&r, &lock);
        if (st != MEGA_OK) fprintf(stderr, "%s\n", mega_error_message());
        if (st == MEGA_OK) mega_lock_release(lock);
        _exit(st == MEGA_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(mega_file_exists(r.path));
}

/* Runs a function in a container with this host's name: its processes cannot be seen from here, nor ours from there,
 * whether it has its own /proc or ours. Returns false if no container can be created. */
static bool in_container(int (*run)(const void *), const void *user)
{
    int status;
    const pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
        const pid_t inner = fork();
        if (inner == 0) _exit(run(user));
        _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    assert_int_equal(waitpid(outer, &status, 0), outer);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) return false;
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static int container_run(const void *user)
{
    const mega_lock_request *const r = user;
    mega_lock *lock;
    char *folder = mega_path_folder(r->path);
    mega_temporaries_remove(folder, "f", "f", false);
    mega_free(folder);
    if (mega_lock_acquire(r, &lock) != MEGA_ERR_BUSY || strstr(mega_error_message(), "it renewed its lock") == NULL)
        return 1;
    return 0;
}

static void a_container_is_elsewhere(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const mega_lock_request r = request_of(mega_kit_path(folder, "a.lock"));
    static char *ours; /* static, because the child ends while it owns them, and valgrind searches for their owners */
    static mega_lock *lock;
    ours = mega_temporary_path(mega_kit_path(folder, "f"));
    mega_kit_write(ours, "being written");
    lock = must_acquire(&r);
    const bool is_possible = in_container(container_run, &r);
    const bool stays = mega_file_exists(ours);
    mega_lock_release(lock);
    mega_free(ours);
    if (!is_possible) skip();
    assert_true(stays);
}

static void what_is_no_lock_stays(void **state)
{
    (void)state;
    char text[8] = "";
    mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    mega_kit_write(r.path, "mine");
    make_old(r.path, 1000);
    r.takeover = true;
    assert_refused(&r, "is not a lock file of megalith");
    FILE *f = fopen(r.path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "mine");
    /* a file that was created but never written, on a file system without links */
    mega_kit_write(r.path, "");
    assert_refused(&r, "has not written it yet (after 300 s it counts as dead)");
    make_old(r.path, 1000);
    assert_acquired(&r);
    /* a pipe is not a lock file either; opening it would wait for a writer */
    mega_lock *lock = NULL;
    remove(r.path);
    assert_int_equal(mkfifo(r.path, 0600), 0);
    assert_int_equal(mega_lock_acquire(&r, &lock), MEGA_ERR_IO);
    mega_error_clear();
}

static void without_links_it_is_exclusive_too(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.lock");
    char text[LOCK_TEXT_BYTES];
    bool taken;
    lock_text_make(text);
    assert_int_equal(lock_file_put(path, NULL, text, &taken), MEGA_OK);
    assert_true(taken);
    assert_int_equal(lock_file_put(path, NULL, text, &taken), MEGA_OK);
    assert_false(taken);
    const mega_lock_request r = request_of(path);
    assert_refused(&r, "on host");
}

/* Each process reports over its pipe whether it got the lock, and keeps it until all have tried. */
static void one_of_many_gets_a_stale_one(void **state)
{
    (void)state;
    enum { ROUNDS = 25, PROCESSES = 4 };
    const mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    for (int round = 0; round < ROUNDS; round++) {
        int said[2], go[2], holders = 0;
        char word;
        mega_process dead;
        mega_process_self(&dead);
        dead.start++;
        write_record(r.path, &dead);
        assert_int_equal(pipe(said), 0);
        assert_int_equal(pipe(go), 0);
        for (int i = 0; i < PROCESSES; i++) {
            if (fork() != 0) continue;
            mega_lock *lock = NULL;
            close(go[1]);
            word = mega_lock_acquire(&r, &lock) == MEGA_OK ? 'y' : 'n';
            if (write(said[1], &word, 1) != 1 || read(go[0], &word, 1) != 0) _exit(1);
            mega_lock_release(lock);
            _exit(0);
        }
        close(go[0]);
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(read(said[0], &word, 1), 1);
            holders += word == 'y';
        }
        close(go[1]);
        for (int i = 0; i < PROCESSES; i++) assert_true(wait(NULL) > 0);
        close(said[0]);
        close(said[1]);
        assert_int_equal(holders, 1);
        assert_false(mega_file_exists(r.path));
    }
}

static int acquire_and_release(void *user)
{
    mega_lock *lock;
    const mega_status st = mega_lock_acquire(user, &lock);
    if (st == MEGA_OK) mega_lock_release(lock);
    return (int)st;
}

static void allocation_failures(void **state)
{
    (void)state;
    mega_lock_request r = request_of(mega_kit_path(mega_kit_temp_folder(), "a.lock"));
    assert_true(mega_kit_fail_each_allocation(acquire_and_release, &r) > 3);
    assert_false(mega_file_exists(r.path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_holds_it),
        cmocka_unit_test(a_dead_process_of_this_host_is_stale),
        cmocka_unit_test(elsewhere_five_minutes_count),
        cmocka_unit_test(renewal_sets_the_time),
        cmocka_unit_test(takeover_is_noticed),
        cmocka_unit_test(a_removed_file_is_made_again),
        cmocka_unit_test(a_run_in_between_ends_the_first),
        cmocka_unit_test(a_takeover_is_given_back),
        cmocka_unit_test(a_commit_is_not_interrupted),
        cmocka_unit_test(what_is_no_lock_stays),
        cmocka_unit_test(lock_of_another_user_is_replaced),
        cmocka_unit_test(a_container_is_elsewhere),
        cmocka_unit_test(without_links_it_is_exclusive_too),
        cmocka_unit_test(one_of_many_gets_a_stale_one),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
