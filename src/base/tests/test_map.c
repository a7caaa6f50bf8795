/* A mapped file that is truncated while it is read: the process survives, reads zeros, and gets a message that names
 * the file. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGES = 8, THREADS = 3 };

typedef struct reading {
    const uint8_t *data;
    size_t page;
    int64_t sum[THREADS];
} reading;

/* Each thread reads its own pages, as threads do that read one data set. */
static void read_pages(void *user, int thread, int size)
{
    reading *r = user;
    for (int i = thread; i < PAGES; i += size) r->sum[thread] += r->data[(size_t)i * r->page];
}

static void a_file_that_is_cut_is_named(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page - 100;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "cut.bin");
    const char *other = mega_kit_path(folder, "other.bin");
    char *ones = mega_malloc(bytes);
    memset(ones, 1, bytes);
    mega_writer *w = NULL;
    assert_int_equal(mega_writer_create(path, &w), MEGA_OK);
    MEGA_IGNORE(mega_writer_write(w, ones, bytes));
    assert_int_equal(mega_writer_close(w, false), MEGA_OK);
    mega_kit_write(other, "stays");
    mega_map map = {0}, before = {0}, after = {0};
    mega_team *team = NULL;
    mega_map_guard();
    assert_int_equal(mega_map_open(other, &before), MEGA_OK);
    assert_int_equal(mega_map_open(path, &map), MEGA_OK);
    assert_int_equal(mega_map_open(other, &after), MEGA_OK);
    assert_int_equal(mega_team_create(THREADS, &team), MEGA_OK);
    reading r = {.data = map.data, .page = page};
    mega_team_run(team, read_pages, &r);
    assert_int_equal(r.sum[0] + r.sum[1] + r.sum[2], PAGES);
    assert_int_equal(mega_map_check(), MEGA_OK);

    assert_int_equal(truncate(path, (off_t)page), 0);
    r = (reading){.data = map.data, .page = page};
    mega_team_run(team, read_pages, &r);
    assert_int_equal(r.sum[0] + r.sum[1] + r.sum[2], 1); /* lost bytes read as zeros */
    assert_int_equal(mega_map_check(), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), path));
    char numbers[128];
    snprintf(numbers, sizeof numbers, "it had %zu bytes when it was opened and has %zu now", bytes, page);
    assert_non_null(strstr(mega_error_message(), numbers));
    assert_memory_equal(before.data, "stays", 5);
    mega_team_destroy(team);
    mega_map_close(&before);
    mega_map_close(&map);
    mega_map_close(&after);
    mega_free(ones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_cut_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
