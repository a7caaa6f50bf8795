/* A queue for a file that cannot be written for a while: pieces keep their order, and lost ones are counted. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/outbox.h"

#include <string.h>
#include <unistd.h>

static void assert_text(const char *path, const char *expected)
{
    char *text = NULL;
    need(mega_file_read(path, &text, NULL));
    assert_string_equal(text, expected);
    mega_free(text);
}

static void waits_for_its_folder(void **state)
{
    (void)state;
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "later"), *path = mega_kit_path(folder, "f");
    mega_outbox *o = NULL;
    need(mega_outbox_create(path, "head ", 5, &o));
    need(mega_outbox_put(o, 1, 2, "one ", 4));
    assert_int_equal(mega_outbox_flush(o), MEGA_ERR_NOT_FOUND);
    need(mega_outbox_put(o, 3, 3, "two ", 4));
    assert_int_equal(mega_outbox_sync(o), MEGA_ERR_NOT_FOUND);
    mega_missing m = mega_outbox_missing(o);
    assert_true(m.pieces == 2 && m.first == 1 && m.last == 3);
    need(mega_folder_create(folder));
    need(mega_outbox_sync(o));
    assert_text(path, "head one two ");
    need(mega_tree_remove(folder)); /* together with what was written */
    need(mega_outbox_put(o, 4, 4, "three ", 6));
    assert_int_equal(mega_outbox_flush(o), MEGA_ERR_NOT_FOUND);
    need(mega_folder_create(folder));
    need(mega_outbox_flush(o));
    assert_text(path, "head three ");
    m = mega_outbox_missing(o);
    assert_true(m.pieces == 2 && m.first == 1 && m.last == 3);
    need(mega_outbox_close(o));
}

/* The queue is bounded: the oldest pieces are dropped. */
static void gives_up_the_oldest(void **state)
{
    (void)state;
    enum { KIB = 1024, PIECES = 1500 };
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "later"), *path = mega_kit_path(folder, "f");
    char piece[KIB];
    mega_outbox *o = NULL;
    char *text = NULL;
    size_t size = 0;
    need(mega_outbox_create(path, NULL, 0, &o));
    for (int64_t i = 0; i < PIECES; i++) {
        memset(piece, (int)('a' + i % 26), KIB);
        need(mega_outbox_put(o, i, i, piece, KIB));
    }
    const int64_t all = mega_outbox_missing(o).pieces;
    assert_int_equal(all, PIECES);
    need(mega_folder_create(folder));
    need(mega_outbox_flush(o));
    const mega_missing m = mega_outbox_missing(o);
    assert_true(m.first == 0 && m.last == m.pieces - 1 && m.pieces > PIECES - 1024 - 26 && m.pieces < PIECES - 900);
    need(mega_file_read(path, &text, &size));
    assert_int_equal(size, (size_t)(PIECES - m.pieces) * KIB);
    for (int64_t i = m.pieces; i < PIECES; i++) assert_int_equal(text[(i - m.pieces) * KIB], (int)('a' + i % 26));
    mega_free(text);
    need(mega_outbox_close(o));
}

static int attempt(void *user)
{
    mega_outbox *o = NULL;
    mega_status st = mega_outbox_create(user, "h", 1, &o);
    if (st == MEGA_OK) st = mega_outbox_put(o, 1, 1, "x", 1);
    if (st == MEGA_OK) st = mega_outbox_flush(o);
    if (o != NULL) assert_int_equal(mega_outbox_missing(o).pieces, st != MEGA_OK);
    mega_error_record why;
    mega_error_get(&why);
    mega_outbox_close(o);
    return (int)(st != MEGA_OK ? mega_error_restore(&why) : MEGA_OK);
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "f");
    assert_true(mega_kit_fail_each_allocation(attempt, (void *)(uintptr_t)path) >= 4);
    assert_text(path, "hx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_for_its_folder), cmocka_unit_test(gives_up_the_oldest),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
