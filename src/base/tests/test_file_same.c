/* One file under two names: hard and symbolic links, other spellings, and files that do not exist yet. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <unistd.h>

static void one_file_by_two_names(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {{"here", "here", true},         {"here", "./here", true},         {"here", "folder/../here", true},
                {"here", "soft", true},         {"here", "hard", true},           {"here", "other", false},
                {"here", "none", false},        {"none", "none", true},           {"none", "./none", true},
                {"none", "folder/none", false}, {"none", "dangling", true},       {"none", "twice", true},
                {"none", "other", false},       {"circle", "circle", false},      {"dangling", "folder/up", true},
                {"none", "nowhere", false},     {"/dev/null", "/dev/null", false}};
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(mega_kit_temp_folder()), 0);
    assert_int_equal(mega_folder_create("folder"), MEGA_OK);
    assert_int_equal(mega_file_write_atomic("here", "x", 1), MEGA_OK);
    assert_int_equal(mega_file_write_atomic("other", "x", 1), MEGA_OK);
    assert_int_equal(symlink("here", "soft"), 0);
    assert_int_equal(link("here", "hard"), 0);
    assert_int_equal(symlink("none", "dangling"), 0);
    assert_int_equal(symlink("dangling", "twice"), 0);
    assert_int_equal(symlink("../none", "folder/up"), 0);
    assert_int_equal(symlink("circle", "circle"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (mega_file_same(rows[i].a, rows[i].b) != rows[i].same) fail_msg("%s and %s", rows[i].a, rows[i].b);
    assert_int_equal(chdir(before), 0);
}

static void one_folder_by_two_names(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {{"here", "here", true},          {"here", "./here/", true},        {"here", "soft", true},
                {"here/", "soft/.", true},       {"here", "none", false},          {"here", "other", false},
                {"none", "none", true},          {"none", "./none//", true},       {"none/a", "none/./a/", true},
                {"none/a", "none/b/../a", true}, {"here/none", "soft/none", true}, {"none", "here/../none", true},
                {"none", "none/a", false},       {"none", "other/none", false},    {"none", "dangling", true},
                {"here/none", "none", false},    {"none", "nine", false}};
    char before[4096], whole[4200];
    assert_non_null(getcwd(before, sizeof before));
    const char *folder = mega_kit_temp_folder();
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mega_folder_create("here"), MEGA_OK);
    assert_int_equal(mega_folder_create("other"), MEGA_OK);
    assert_int_equal(symlink("here", "soft"), 0);
    assert_int_equal(symlink("none", "dangling"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (mega_folder_same(rows[i].a, rows[i].b) != rows[i].same) fail_msg("%s and %s", rows[i].a, rows[i].b);
    snprintf(whole, sizeof whole, "%s/none/a", folder);
    assert_true(mega_folder_same(whole, "none/a"));
    assert_true(mega_folder_same("/none", "//none/"));
    assert_false(mega_folder_same("/none", "none"));
    /* the file that a process killed inside mega_folder_try leaves */
    char *killed = mega_temporary_path("here/megalith");
    mega_kit_write(killed, "");
    assert_int_equal(mega_folder_try("here"), MEGA_OK);
    assert_false(mega_file_exists(killed));
    mega_free(killed);
    assert_int_equal(mega_folder_try("none"), MEGA_ERR_NOT_FOUND);
    mega_names names;
    assert_int_equal(mega_folder_list("here", &names), MEGA_OK);
    assert_int_equal(names.count, 0); /* no file is left */
    mega_names_fini(&names);
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_file_by_two_names),
                                       cmocka_unit_test(one_folder_by_two_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
