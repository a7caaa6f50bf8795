/* A failed assertion reports where and with which values, then aborts. */
#include "kit.h"
#include "megalith/assert.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void failing_assertion_prints_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        mega_assert_failed("a < b", "some/file.c", 12, "a %d, b %d", 7, 5);
    }
    close(ends[1]);
    char text[512];
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], text + used, sizeof text - 1 - used)) > 0;) used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "some/file.c:12: assertion failed: a < b: a 7, b 5\n"));
}

static void true_assertion_is_silent(void **state)
{
    (void)state;
    const int a = 1;
    MEGA_ASSERT(a == 1, "a %d", a);
}

static void check_level_comes_from_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int level;
    } cases[] = {{"0", 0}, {"1", 1}, {"2", 2}, {"9", 2}, {"", 0}, {"yes", 0}, {"-1", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("MEGA_CHECK", cases[i].text, 1);
        assert_int_equal(mega_check_level(), cases[i].level);
    }
    unsetenv("MEGA_CHECK");
    assert_int_equal(mega_check_level(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_assertion_prints_and_aborts),
        cmocka_unit_test(true_assertion_is_silent),
        cmocka_unit_test(check_level_comes_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
