/* Wrong calls of the C API of generation. The pages of docs/ and examples/ run right ones. */
#include "kit.h"
#include "megalith/generate.h"

#include <string.h>

static void wrong_setups(void **state)
{
    (void)state;
    mega_generator *g = NULL;
    const char *nowhere = mega_kit_path(mega_kit_temp_folder(), "nowhere");
    const struct {
        mega_generator_setup setup;
        mega_status expected;
        const char *part;
    } rows[] = {
        {{.folder = NULL}, MEGA_ERR_USAGE, "folder"},
        {{.folder = nowhere, .compute = MEGA_I32}, MEGA_ERR_USAGE, "compute"},
        {{.folder = nowhere, .texts = -1}, MEGA_ERR_USAGE, "texts -1"},
        {{.folder = nowhere, .threads = -2}, MEGA_ERR_USAGE, "threads -2"},
        {{.folder = nowhere}, MEGA_ERR_NOT_FOUND, "nowhere"},
        {{.folder = mega_kit_temp_folder()}, MEGA_ERR_NOT_FOUND, "no checkpoint"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const mega_status st = mega_generator_open(&rows[i].setup, &g);
        if (st != rows[i].expected || strstr(mega_error_message(), rows[i].part) == NULL)
            fail_msg("row %zu: status %d, \"%s\" lacks \"%s\"", i, (int)st, mega_error_message(), rows[i].part);
        assert_null(g);
    }
    assert_int_equal(mega_generator_open(NULL, &g), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_open(&rows[1].setup, NULL), MEGA_ERR_USAGE);
}

static void calls_without_a_generator(void **state)
{
    (void)state;
    int32_t ids[2] = {0};
    int64_t count = 0;
    mega_buffer out = {0};
    int found = 0;
    mega_generation text = {.prompt = ids, .prompt_count = 1};
    const mega_beam_options beams = {.width = 1};
    mega_beam_text best = {.tokens = ids};
    assert_int_equal(mega_generator_encode(NULL, "a", ids, 2, &count), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_decode(NULL, ids, 2, &out), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_run(NULL, &text, 1, &(mega_generation_rules){.num_ends = 0}), MEGA_ERR_USAGE);
    assert_int_equal(mega_generator_beams(NULL, ids, 1, 1, &beams, &best, &found), MEGA_ERR_USAGE);
    assert_true(mega_generator_vocab(NULL) == -1 && mega_generator_positions(NULL) == -1);
    assert_int_equal(mega_generator_end(NULL), -1);
    mega_generator_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_setups), cmocka_unit_test(calls_without_a_generator)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
