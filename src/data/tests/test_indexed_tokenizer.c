/* Tests the file that says which tokenizer made a data set: it knows the same tokenizer and one with more ids behind,
 * and no other. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/indexed_tokenizer.h"
#include <stdio.h>
#include <string.h>

/* A tokenizer of characters with the ids 0 to count - 1: letters from `first` on. */
static mega_tokenizer *characters(const char *name, int first, int count)
{
    char text[8192] = "[";
    size_t n = 1;
    mega_tokenizer *t = NULL;
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"\\u%04x\"", i > 0 ? ", " : "", (unsigned)(first + i));
    snprintf(text + n, sizeof text - n, "]");
    mega_kit_write(name, text);
    need(mega_tokenizer_create(&(mega_tokenizer_options){.type = "CharTokenizer", .vocab_file = name}, &t));
    return t;
}

static void same_or_another(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    char prefix[512], file[600];
    snprintf(prefix, sizeof prefix, "%s/d", folder);
    snprintf(file, sizeof file, "%s.tokenizer", prefix);
    mega_tokenizer *own = characters(mega_kit_path(folder, "own"), 0x100, 300),
                   *longer = characters(mega_kit_path(folder, "longer"), 0x100, 340),
                   *shorter = characters(mega_kit_path(folder, "shorter"), 0x100, 280),
                   *other = characters(mega_kit_path(folder, "other"), 0x101, 300);
    assert_true(mega_indexed_may_be_of(prefix, other)); /* nothing is known */
    assert_int_equal(mega_indexed_put_tokenizer(prefix, own), MEGA_OK);
    assert_true(mega_file_exists(file));
    assert_true(mega_indexed_may_be_of(prefix, own));
    assert_true(mega_indexed_may_be_of(prefix, longer));
    assert_true(
        mega_indexed_may_be_of(prefix, shorter)); /* its first 256 ids are the same; a stray id is seen elsewhere */
    assert_false(mega_indexed_may_be_of(prefix, other));
    assert_true(mega_indexed_may_be_of(prefix, NULL));
    assert_int_equal(mega_indexed_put_tokenizer(prefix, NULL), MEGA_OK);
    assert_false(mega_file_exists(file));
    mega_tokenizer_destroy(own);
    mega_tokenizer_destroy(longer);
    mega_tokenizer_destroy(shorter);
    mega_tokenizer_destroy(other);
}

static void joined(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    char a[512], b[512], c[512], file[600];
    snprintf(a, sizeof a, "%s/a", folder);
    snprintf(b, sizeof b, "%s/b", folder);
    snprintf(c, sizeof c, "%s/c", folder);
    snprintf(file, sizeof file, "%s.tokenizer", c);
    mega_tokenizer *own = characters(mega_kit_path(folder, "own"), 0x100, 300),
                   *other = characters(mega_kit_path(folder, "other"), 0x101, 300);
    const char *const both[] = {a, b};
    assert_int_equal(mega_indexed_put_tokenizer(a, own), MEGA_OK);
    assert_int_equal(mega_indexed_put_tokenizer(b, own), MEGA_OK);
    assert_int_equal(mega_indexed_join_tokenizers(both, 2, c), MEGA_OK);
    assert_true(mega_file_exists(file));
    assert_false(mega_indexed_may_be_of(c, other));
    assert_int_equal(mega_indexed_put_tokenizer(b, other), MEGA_OK);
    assert_int_equal(mega_indexed_join_tokenizers(both, 2, c), MEGA_OK);
    assert_false(mega_file_exists(file));
    mega_tokenizer_destroy(own);
    mega_tokenizer_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_or_another), cmocka_unit_test(joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
