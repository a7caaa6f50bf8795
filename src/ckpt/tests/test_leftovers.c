/* What dead and living runs left in SAVE: what a save removes of it, and what stays. */
#include "ckpt_impl.h"
#include "megalith/file.h"
#include "tiny.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_iterations(tiny *m, const char *folder, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++) {
        mega_checkpoint_save save = tiny_save(m, folder, i, "{}");
        tiny_ok(mega_checkpoint_write(&save));
    }
}

/* Left-overs of dead runs are removed, but not those of living runs, nor files that others named. */
static void clears_leftovers(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const pid_t child = fork(); /* the process id of a process that has ended */
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    char dead[160], alive[160], tracker[160];
    const char *foreign = "iter_0000003.tmp-other-0123abcd-1";
    static const char *const others[] = {"iter_0000001.tmpfile", "iter_0000001.tmp-backup",
                                         "iter_0000001.tmp-2020-01-01", "iter_0000001.exchange-old",
                                         "iter_0000001.tmp-4194999"};
    enum { OTHERS = sizeof others / sizeof *others };
    temporary_name_of(dead, "iter_0000001", ".tmp-", child);
    temporary_name_of(alive, "iter_0000002", ".tmp-", getppid());
    temporary_name_of(tracker, "latest_checkpointed_iteration.txt", ".tmp-", child);
    tiny_ok(mega_folder_create(mega_kit_path(folder, mega_kit_path(dead, "state"))));
    tiny_ok(mega_folder_create(mega_kit_path(folder, alive)));
    tiny_ok(mega_folder_create(mega_kit_path(folder, foreign)));
    mega_kit_write(mega_kit_path(folder, tracker), "1");
    for (int i = 0; i < OTHERS; i++) tiny_ok(mega_folder_create(mega_kit_path(folder, others[i])));
    tiny m;
    tiny_init(&m, MEGA_F32, 6);
    write_iterations(&m, folder, 3, 3);
    assert_false(is_in_folder(folder, dead));
    assert_false(is_in_folder(folder, tracker));
    assert_true(is_in_folder(folder, alive));
    assert_true(is_in_folder(folder, foreign));
    const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, mega_kit_path(folder, foreign), long_ago, 0), 0);
    write_iterations(&m, folder, 4, 4);
    assert_false(is_in_folder(folder, foreign));
    assert_true(is_in_folder(folder, alive));
    /* with the lock of SAVE, no other process can be writing there */
    mega_checkpoint_save save = tiny_save(&m, folder, 5, "{}");
    tiny_ok(mega_checkpoint_lock(folder, false, &save.lock));
    tiny_ok(mega_checkpoint_write(&save));
    mega_lock_release(save.lock);
    assert_false(is_in_folder(folder, alive));
    for (int i = 0; i < OTHERS; i++) assert_true(is_in_folder(folder, others[i]));
    tiny_fini(&m);
}

/* A left-over that holds a file which no save wrote stays under another name, whether its checksums were written or
 * not. */
static void keeps_foreign_leftovers(void **state)
{
    (void)state;
    static const char *const written[] = {"state/run.json", "model-00001-of-00002.safetensors", "tokenizer.json",
                                          "config.json"};
    const char *folder = mega_kit_temp_folder();
    char left[2][160];
    tiny m;
    tiny_init(&m, MEGA_F32, 6);
    write_iterations(&m, folder, 1, 1);
    const pid_t child = fork(); /* the process id of a process that has ended */
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int foreign = 0; foreign < 2; foreign++) {
        temporary_name_of(left[0], "iter_0000001", ".tmp-", child);
        temporary_name_of(left[1], "iter_0000009", ".tmp-", child);
        assert_int_equal(rename(mega_kit_path(folder, "iter_0000001"), mega_kit_path(folder, left[0])), 0);
        tiny_ok(mega_folder_create(mega_kit_path(folder, mega_kit_path(left[1], "state"))));
        for (size_t i = 0; i < sizeof written / sizeof *written; i++)
            mega_kit_write(mega_kit_path(folder, mega_kit_path(left[1], written[i])), "{}");
        for (int i = 0; i < 2 && foreign == 1; i++)
            mega_kit_write(mega_kit_path(folder, mega_kit_path(left[i], i == 0 ? "state/mine" : "notes.txt")), "mine");
        write_iterations(&m, folder, 3, 3);
        assert_false(is_in_folder(folder, left[0]));
        assert_false(is_in_folder(folder, left[1]));
        assert_int_equal(is_in_folder(folder, "iter_0000001.kept-1/state/mine"), foreign);
        assert_int_equal(is_in_folder(folder, "iter_0000009.kept-1/notes.txt"), foreign);
        write_iterations(&m, folder, 1, 1);
    }
    tiny_fini(&m);
}

int main(void)
{
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clears_leftovers),
        cmocka_unit_test(keeps_foreign_leftovers),
    };
    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
