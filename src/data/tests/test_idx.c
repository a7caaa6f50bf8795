/* Files in the idx format: plain, compressed and damaged ones. */
#include "kit.h"
#include "megalith/dataset.h"
#include "megalith/file.h"
#include <stdio.h>
#include <string.h>

static const char *write_bytes(const char *name, const uint8_t *bytes, size_t count)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void items_are_read(void **state)
{
    static const uint8_t file[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 250, 251, 252};
    mega_idx x = {.bytes = NULL};
    (void)state;
    if (mega_idx_open(write_bytes("two", file, sizeof file), &x) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(x.num_dims, 2);
    assert_int_equal(x.dim[0], 2);
    assert_int_equal(x.dim[1], 3);
    assert_memory_equal(x.bytes, file + 12, 6);
    mega_idx_close(&x);
    assert_null(x.bytes);
    mega_idx_close(&x);
    mega_idx_close(NULL);
}

static void digits_are_read(void **state)
{
    mega_idx images = {.bytes = NULL}, labels = {.bytes = NULL};
    (void)state;
    if (mega_idx_open(mega_kit_need_data("mnist/t10k-images-idx3-ubyte.gz"), &images) != MEGA_OK ||
        mega_idx_open(mega_kit_need_data("mnist/t10k-labels-idx1-ubyte.gz"), &labels) != MEGA_OK)
        fail_msg("%s", mega_error_message());
    assert_int_equal(images.num_dims, 3);
    assert_int_equal(images.dim[0], 10000);
    assert_int_equal(images.dim[1], 28);
    assert_int_equal(images.dim[2], 28);
    assert_int_equal(labels.dim[0], 10000);
    for (int i = 0; i < 10000; i++) assert_true(labels.bytes[i] < 10);
    mega_idx_close(&images);
    mega_idx_close(&labels);
}

static void damaged_files_are_refused(void **state)
{
    static const struct {
        uint8_t bytes[20];
        size_t count;
        const char *said;
    } wrong[] = {{{0, 0}, 2, "its header"},
                 {{0, 1, 8, 1, 0, 0, 0, 1, 5}, 9, "begins with 00 01 08 01"},
                 {{0, 0, 13, 1, 0, 0, 0, 1, 5}, 9, "begins with 00 00 0d 01"},
                 {{0, 0, 8, 5, 0, 0, 0, 1, 5}, 9, "begins with 00 00 08 05"},
                 {{0, 0, 8, 2, 0, 0, 0, 1}, 8, "its dimensions"},
                 {{0, 0, 8, 1, 0, 0, 0, 0}, 8, "dimension 0 is 0"},
                 {{0, 0, 8, 2, 255, 255, 255, 255, 0, 0, 0, 2}, 12, "dimension 0 is 4294967295"},
                 {{0, 0, 8, 1, 0, 0, 0, 3, 5, 6}, 10, "2 of the 3 bytes"},
                 {{0, 0, 8, 1, 0, 0, 0, 1, 5, 6}, 10, "more data than the 1 bytes"}};
    mega_idx x = {.num_dims = 77};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(mega_idx_open(write_bytes("wrong", wrong[i].bytes, wrong[i].count), &x), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), wrong[i].said) == NULL) fail_msg("%s", mega_error_message());
        assert_int_equal(x.num_dims, 77);
    }
    assert_int_equal(mega_idx_open("/nowhere/images", &x), MEGA_ERR_NOT_FOUND);
    assert_int_equal(mega_idx_open(NULL, &x), MEGA_ERR_USAGE);
    assert_int_equal(mega_idx_open("x", NULL), MEGA_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(items_are_read), cmocka_unit_test(digits_are_read),
                                       cmocka_unit_test(damaged_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
