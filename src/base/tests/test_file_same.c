/* One file by two names: links of both kinds, other spellings, and names of files that are not there yet. */
#include "kit.h"
#include "megalith/file.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_file_by_two_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
