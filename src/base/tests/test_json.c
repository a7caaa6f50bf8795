/* jansson when memory is short: a complete tree or text, or none. */
#include "kit.h"
#include "megalith/json.h"
#include "megalith/memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Keys longer than jansson's initial buffers, so that these grow in the middle of a key. */
enum { KEYS = 24, KEY_BYTES = 200 };

static json_t *tree_of_long_keys(void)
{
    json_t *tree = json_object();
    assert_non_null(tree);
    for (int i = 0; i < KEYS; i++) {
        char key[KEY_BYTES];
        memset(key, 'a' + i, sizeof key);
        key[KEY_BYTES - 1] = '\0';
        assert_int_equal(json_object_set_new(tree, key, json_integer(i)), 0);
    }
    return tree;
}

typedef struct texts {
    const json_t *tree;
    const char *whole;
    size_t flags;
} texts;

static int dump(void *user)
{
    const texts *t = user;
    char *text = mega_json_dump(t->tree, t->flags);
    if (text == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no text");
    assert_string_equal(text, t->whole);
    free(text);
    return MEGA_OK;
}

static int load(void *user)
{
    const texts *t = user;
    json_error_t error;
    json_t *tree = mega_json_load(t->whole, strlen(t->whole), 0, &error);
    if (tree == NULL) {
        return MEGA_FAIL(mega_json_status(&error), "%s", error.text);
    }
    assert_true(json_equal(tree, t->tree));
    json_decref(tree);
    return MEGA_OK;
}

static void whole_or_nothing(void **state)
{
    (void)state;
    json_t *tree = tree_of_long_keys();
    static const size_t flags[] = {0, JSON_SORT_KEYS | JSON_INDENT(1)};
    for (int i = 0; i < 2; i++) {
        char *whole = json_dumps(tree, flags[i]);
        assert_non_null(whole);
        texts t = {.tree = tree, .whole = whole, .flags = flags[i]};
        assert_int_equal(dump(&t), MEGA_OK); /* the first call installs the counting allocator */
        assert_true(mega_kit_fail_each_allocation(dump, &t) > 3);
        assert_true(mega_kit_fail_each_allocation(load, &t) > KEYS);
        free(whole);
    }
    json_decref(tree);
}

static void damaged_text(void **state)
{
    (void)state;
    json_error_t error;
    assert_null(mega_json_load("{\"a\": 1", 7, 0, &error));
    assert_int_equal(mega_json_status(&error), MEGA_ERR_FORMAT);
    assert_null(mega_json_dump(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_or_nothing), cmocka_unit_test(damaged_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
