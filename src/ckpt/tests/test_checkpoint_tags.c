/* Checkpoints with a tag from the caller: SAVE/TAG beside SAVE/iter_N, and the tracker that names either. */
#include "tiny.h"

#include <stdlib.h>
#include <unistd.h>

static mega_status save_as(const tiny *m, const char *folder, int64_t iteration, const char *tag, int keep)
{
    mega_checkpoint_save save = tiny_save(m, folder, iteration, "{}");
    save.tag = tag;
    save.keep = keep;
    return mega_checkpoint_write(&save);
}

/* Checks which checkpoint --load `folder` finds: its iteration and its folder name. */
static void expect_found(const char *folder, int64_t iteration, const char *name)
{
    mega_checkpoint *c = NULL;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    assert_non_null(c);
    assert_int_equal(mega_checkpoint_iteration(c), iteration);
    assert_string_equal(mega_path_base(mega_checkpoint_folder(c)), name);
    assert_true(mega_checkpoint_has_state(c));
    mega_checkpoint_close(c);
}

static void expect_tracker(const char *folder, const char *expected)
{
    char *text = NULL;
    tiny_ok(mega_file_read(mega_kit_path(folder, "latest_checkpointed_iteration.txt"), &text, NULL));
    assert_string_equal(text, expected);
    mega_free(text);
}

/* The checkpoint saved last is found, whatever its name; each can be loaded by its own folder. */
static void finds_the_last(void **state)
{
    (void)state;
    static const char *const tags[] = {"best", "100", "global_step100", "release", "iter_5", "épreuve 1"};
    static const char *const tracked[] = {"best", "100/", "global_step100", "release", "iter_5", "épreuve 1"};
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 1);
    tiny_ok(save_as(&m, folder, 100, NULL, 0));
    expect_tracker(folder, "100");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        tiny_ok(save_as(&m, folder, 7 + (int64_t)i, tags[i], 0));
        expect_tracker(folder, tracked[i]);
        expect_found(folder, 7 + (int64_t)i, tags[i]);
        assert_int_equal(mega_checkpoint_tracked(folder), 7 + (int64_t)i);
    }
    tiny_ok(save_as(&m, folder, 12, "iter_0000012", 0)); /* the name it has without a tag */
    expect_found(folder, 12, "iter_0000012");
    expect_tracker(folder, "12");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        expect_found(mega_kit_path(folder, tags[i]), 7 + (int64_t)i, tags[i]);
    tiny_fini(&m);
}

/* Limits on the number of checkpoints apply to numbered ones only. */
static void keeps_tags(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 2);
    tiny_ok(save_as(&m, folder, 1, NULL, 1));
    tiny_ok(save_as(&m, folder, 2, "best", 1));
    expect_found(mega_kit_path(folder, "iter_0000001"), 1, "iter_0000001");
    tiny_ok(save_as(&m, folder, 3, NULL, 1));
    assert_false(mega_folder_exists(mega_kit_path(folder, "iter_0000001")));
    expect_found(mega_kit_path(folder, "best"), 2, "best");
    tiny_ok(save_as(&m, folder, 4, "best", 1)); /* replaced */
    expect_found(folder, 4, "best");
    tiny_fini(&m);
}

static void refuses_tags(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"", "it is empty"},
                                           {"a/b", "slash"},
                                           {"..", "begins with a dot"},
                                           {".hidden", "begins with a dot"},
                                           {" a", "space"},
                                           {"a ", "space"},
                                           {"a\nb", "control character"},
                                           {"\xff", "not UTF-8"},
                                           {"run.lock", "a file beside the checkpoints"},
                                           {"run_id.txt", "a file beside the checkpoints"},
                                           {"latest_checkpointed_iteration.txt", "a file beside the checkpoints"},
                                           {"a.tmp-x", "unfinished checkpoints"},
                                           {"iter_0000008", "the run is at 7; expected iter_0000007"}};
    const char *folder = mega_kit_temp_folder();
    char longest[MEGA_CHECKPOINT_TAG + 2];
    mega_names names = {0};
    tiny m;
    tiny_init(&m, MEGA_F32, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        TINY_SAID(save_as(&m, folder, 7, wrong[i][0], 0), MEGA_ERR_USAGE, "tag \"", wrong[i][1]);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    TINY_SAID(save_as(&m, folder, 7, longest, 0), MEGA_ERR_USAGE, "more than 200 bytes");
    TINY_SAID(save_as(&m, folder, 7, "\x1b[31m", 0), MEGA_ERR_USAGE, "tag \"\": it contains");
    tiny_ok(mega_folder_list(folder, &names));
    assert_int_equal(names.count, 0);
    mega_names_fini(&names);
    longest[MEGA_CHECKPOINT_TAG] = '\0';
    tiny_ok(save_as(&m, folder, 7, longest, 0));
    expect_found(folder, 7, longest);
    tiny_fini(&m);
}

/* A folder of that name that another program wrote stays. */
static void keeps_folders_of_others(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 4);
    mega_kit_write(mega_kit_path(folder, "notes"), "x");
    tiny_ok(mega_folder_create(mega_kit_path(folder, "tensorboard/run")));
    TINY_SAID(save_as(&m, folder, 7, "tensorboard", 0), MEGA_ERR_USAGE, "tensorboard was not written by megalith");
    TINY_SAID(save_as(&m, folder, 7, "notes", 0), MEGA_ERR_USAGE, "notes was not written by megalith");
    assert_true(mega_folder_exists(mega_kit_path(folder, "tensorboard/run")));
    mega_kit_write(mega_kit_path(folder, "latest_checkpointed_iteration.txt"), "tensorboard");
    assert_int_equal(mega_checkpoint_check_foreign(folder, 0, 100), MEGA_ERR_USAGE);
    tiny_fini(&m);
}

/* If a tagged checkpoint is damaged, --load-previous uses the newest numbered one. */
static void falls_back(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_checkpoint *c = NULL;
    tiny m;
    tiny_init(&m, MEGA_F32, 5);
    tiny_ok(save_as(&m, folder, 1, NULL, 0));
    tiny_ok(save_as(&m, folder, 9, NULL, 0));
    tiny_ok(save_as(&m, folder, 2, "best", 0));
    mega_kit_write(mega_kit_path(folder, "best/state/run.json"), "{ }");
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_FORMAT, "run.json",
              "--load-previous resumes from iter_0000009");
    tiny_ok(mega_checkpoint_open(folder, true, &c));
    assert_int_equal(mega_checkpoint_iteration(c), 9);
    mega_checkpoint_close(c);
    tiny_ok(mega_tree_remove(mega_kit_path(folder, "best")));
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "best: missing, though", "names it");
    assert_int_equal(mega_checkpoint_tracked(folder), -1);
    tiny_fini(&m);
}

/* Without the tracker no checkpoint with a tag is passed over in silence. */
static void misses_the_tracker(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_checkpoint *c = NULL;
    tiny m;
    tiny_init(&m, MEGA_F32, 7);
    tiny_ok(save_as(&m, folder, 3, NULL, 0));
    tiny_ok(save_as(&m, folder, 9, "best", 0));
    assert_int_equal(unlink(mega_kit_path(folder, "latest_checkpointed_iteration.txt")), 0);
    TINY_SAID(mega_checkpoint_open(folder, false, &c), MEGA_ERR_NOT_FOUND, "is missing, and best is a checkpoint");
    tiny_ok(mega_tree_remove(mega_kit_path(folder, "iter_0000003")));
    TINY_SAID(mega_checkpoint_open(folder, true, &c), MEGA_ERR_NOT_FOUND, "is missing, and best is a checkpoint");
    expect_found(mega_kit_path(folder, "best"), 9, "best");
    tiny_fini(&m);
}

/* After a crash in which the folder was set aside, it is found under that name and not removed. */
static void finds_what_was_set_aside(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m;
    tiny_init(&m, MEGA_F32, 6);
    tiny_ok(save_as(&m, folder, 3, "a.best", 0));
    char *aside = mega_owned_path(mega_kit_path(folder, "a.best"), ".exchange-");
    tiny_ok(mega_file_rename(mega_kit_path(folder, "a.best"), aside));
    expect_found(folder, 3, mega_path_base(aside));
    m.param[15].local_shape[0] = 2;
    assert_int_equal(save_as(&m, folder, 4, NULL, 0), MEGA_ERR_USAGE);
    m.param[15].local_shape[0] = 0;
    expect_found(folder, 3, mega_path_base(aside));
    tiny_ok(save_as(&m, folder, 4, NULL, 0));
    assert_false(mega_folder_exists(aside));
    mega_free(aside);
    tiny_fini(&m);
}

int main(void)
{
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_last),     cmocka_unit_test(keeps_tags),
        cmocka_unit_test(refuses_tags),       cmocka_unit_test(keeps_folders_of_others),
        cmocka_unit_test(falls_back),         cmocka_unit_test(finds_what_was_set_aside),
        cmocka_unit_test(misses_the_tracker),
    };
    return cmocka_run_group_tests_name("checkpoint_tags", tests, NULL, NULL);
}
