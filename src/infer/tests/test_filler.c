/* Wrong calls of the C API that fills masks. Right ones: examples/fill_mask.c, golden_test_fill_mask_transformers. */
#include "kit.h"
#include "megalith/fill_mask.h"

#include <string.h>

static void wrong_setups(void **state)
{
    (void)state;
    mega_filler *f = NULL;
    const char *nowhere = mega_kit_path(mega_kit_temp_folder(), "nowhere");
    const struct {
        mega_filler_setup setup;
        mega_status expected;
        const char *part;
    } rows[] = {
        {{.folder = NULL}, MEGA_ERR_USAGE, "mega_filler_open: folder is NULL"},
        {{.folder = nowhere, .compute = MEGA_I32}, MEGA_ERR_USAGE, "compute"},
        {{.folder = nowhere, .masks = -1}, MEGA_ERR_USAGE, "masks -1"},
        {{.folder = nowhere, .tp = -2}, MEGA_ERR_USAGE, "tp -2"},
        {{.folder = nowhere}, MEGA_ERR_NOT_FOUND, "nowhere"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const mega_status st = mega_filler_open(&rows[i].setup, &f);
        if (st != rows[i].expected || strstr(mega_error_message(), rows[i].part) == NULL)
            fail_msg("row %zu: status %d, \"%s\" lacks \"%s\"", i, (int)st, mega_error_message(), rows[i].part);
        assert_null(f);
    }
    assert_int_equal(mega_filler_open(NULL, &f), MEGA_ERR_USAGE);
    assert_int_equal(mega_filler_open(&rows[4].setup, NULL), MEGA_ERR_USAGE);
}

static void calls_without_a_filler(void **state)
{
    (void)state;
    int32_t ids[2] = {0};
    int64_t count = 0;
    const int64_t begin[] = {0, 2};
    mega_buffer out = {0};
    mega_filling best;
    const mega_masked_texts texts = {.tokens = ids, .begin = begin, .count = 1, .top = 1};
    assert_int_equal(mega_filler_encode(NULL, "a", ids, 2, &count), MEGA_ERR_USAGE);
    assert_int_equal(mega_filler_decode(NULL, ids, 2, &out), MEGA_ERR_USAGE);
    assert_int_equal(mega_filler_run(NULL, &texts, &best, 1), MEGA_ERR_USAGE);
    assert_true(mega_filler_mask(NULL) == -1 && mega_filler_positions(NULL) == -1);
    mega_filler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_setups), cmocka_unit_test(calls_without_a_filler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
