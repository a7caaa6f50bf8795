/* YAML read as JSON with the same lines; what is refused, with its line; writing as PyYAML does. */
#include "kit.h"
#include "yaml_impl.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void add_line(void *user, const char *text)
{
    mega_buffer_printf(user, "%s\n", text);
}

/* Returns the JSON; *mistakes receives lines. The caller frees both. */
static mega_status read_as_json(const char *yaml, mega_buffer *json, mega_buffer *mistakes)
{
    return mega_yaml_to_json(yaml, strlen(yaml), "f.yaml", json, add_line, mistakes);
}

static void check_json(const char *yaml, const char *expected)
{
    mega_buffer json = {0}, mistakes = {0};
    const mega_status st = read_as_json(yaml, &json, &mistakes);
    if (st != MEGA_OK || strcmp(json.data, expected) != 0)
        fail_msg("%s\n-> %s\nexpected %s\n%s", yaml, json.data, expected, mistakes.data != NULL ? mistakes.data : "");
    json_t *tree = json_loads(json.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(tree);
    json_decref(tree);
    mega_buffer_fini(&json);
    mega_buffer_fini(&mistakes);
}

static void reads(void **state)
{
    (void)state;
    check_json("a: 1\n\n# note\nb:\n  c: yes\n  d: 'yes'\nlist:\n- x\n- 2\n",
               "{\"a\": 1, \n\n\n\"b\": {\n\"c\": true, \n\"d\": \"yes\"}, \n\"list\": [\"x\", 2]}");
    check_json("a: ~\nb:\nc: null\nd: {}\ne: []\n",
               "{\"a\": null, \n\"b\": null, \n\"c\": null, \n\"d\": {}, \n\"e\": []}");
    check_json("a: 1e-4\nb: .5\nc: 1_000\nd: +3\ne: -2.\n",
               "{\"a\": 1e-4, \n\"b\": 0.5, \n\"c\": 1000, \n\"d\": 3, \n\"e\": -2.0}");
    check_json(
        "a: No\nb: OFF\nc: On\nd: nO\ne: 10.0.0.1\nf: 1e\n",
        "{\"a\": false, \n\"b\": false, \n\"c\": true, \n\"d\": \"nO\", \n\"e\": \"10.0.0.1\", \n\"f\": \"1e\"}");
    check_json("{\"a\": {\"b\": [1, true]}, \"c\": \"x\\ty\"}\n", "{\"a\": {\"b\": [1, true]}, \"c\": \"x\\ty\"}");
    check_json("---\na: |\n  two\n  lines\n", "{\n\"a\": \"two\\nlines\\n\"}");
    check_json("", "{}");
}

static void check_refused(const char *yaml, const char *expected)
{
    mega_buffer json = {0}, mistakes = {0};
    const mega_status st = read_as_json(yaml, &json, &mistakes);
    if (st != MEGA_ERR_FORMAT || mistakes.data == NULL || strstr(mistakes.data, expected) == NULL)
        fail_msg("%s\nfound %s\nexpected %s", yaml, mistakes.data != NULL ? mistakes.data : "no mistake", expected);
    mega_buffer_fini(&json);
    mega_buffer_fini(&mistakes);
}

static void refuses_with_the_line(void **state)
{
    (void)state;
    check_refused("a: 1\n\tb: 2\n", "f.yaml, line 2: ");
    check_refused("a:\n\tb: 2\n", "(a tab? YAML is indented by spaces alone)");
    check_refused("a: 1\nb: 2\na: 3\n", "f.yaml, line 3: \"a\" stands twice, first on line 1; leave one of them out");
    check_refused("a: &x 1\nb: *x\n", "f.yaml, line 1: &x: anchors are not read here");
    check_refused("a: &x 1\nb: *x\n", "f.yaml, line 2: *x: anchors are not read here"); /* both at once */
    check_refused("a: {}\n<<: {b: 1}\n", "f.yaml, line 2: \"<<\" is no name of a key");
    check_refused("a: !!int 4\n", "f.yaml, line 1: tag:yaml.org,2002:int: tags are not read here");
    check_refused("a: 010\n", "f.yaml, line 1: 010: a number is written in decimal here");
    check_refused("a: 0x1f\nb: 12:30\nc: .inf\nd: 2026-11-27\n", "f.yaml, line 4: 2026-11-27: ");
    check_refused("a: 1\n---\nb: 2\n", "f.yaml, line 2: a second document begins here");
    check_refused("- a\n- b\n", "f.yaml, line 1: expected keys and values");
    check_refused("word\n", "f.yaml, line 1: expected keys and values");
    check_refused("a: [1, 2\n", "f.yaml, line ");
    check_refused("? [a]\n: 1\n", "f.yaml, line 1: the name of a key is one word");
    check_refused("yes: 1\n", "f.yaml, line 1: \"yes\" is no name of a key");
    check_refused("a: \xff\n", "(UTF-8 is expected)");
    check_refused("{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{", "f.yaml, line 1: ");
}

static void many_mistakes_end(void **state)
{
    (void)state;
    mega_buffer yaml = {0}, json = {0}, mistakes = {0};
    for (int i = 0; i < 300; i++) mega_buffer_printf(&yaml, "k%d: &a 1\n", i);
    assert_int_equal(read_as_json(yaml.data, &json, &mistakes), MEGA_ERR_FORMAT);
    int lines = 0;
    for (const char *c = mistakes.data; *c != '\0'; c++) lines += *c == '\n';
    assert_in_range(lines, 50, 51);
    mega_buffer_fini(&yaml);
    mega_buffer_fini(&json);
    mega_buffer_fini(&mistakes);
}

static void writes(void **state)
{
    (void)state;
    json_t *tree = json_pack("{s:{}, s:[], s:[s, i], s:{s:f, s:f}, s:s, s:s, s:s, s:s, s:s, s:n, s:b}", "b", "c", "d",
                             "x", 2, "e", "two", 2.0, "small", 1e-5, "a", "no", "f", "1", "g", "x: y #z", "h", "", "i",
                             "plain text", "j", "k", 1);
    mega_buffer out = {0};
    assert_non_null(tree);
    assert_int_equal(mega_yaml_write(tree, &out), MEGA_OK);
    assert_string_equal(out.data, "a: 'no'\nb: {}\nc: []\nd:\n- x\n- 2\ne:\n  small: 1.0e-05\n  two: 2.0\nf: '1'\n"
                                  "g: 'x: y #z'\nh: ''\ni: plain text\nj: null\nk: true\n");
    json_decref(tree);
    mega_buffer_fini(&out);
}

/* Each text that is written is read as the same text. */
static void round_trip(void **state)
{
    (void)state;
    static const char *const text[] = {"yes",      "1e5", "0x10", "~",   "a: b", "#",    " x ", "é",  "2026-11-27",
                                       "*a",       "&b",  "- x",  "'q'", "\"",   "a\nb", "=",   "<<", "12:30",
                                       "{",        "[",   "!t",   "%",   "@",    "`",    "|",   ">",  "null",
                                       "10.0.0.1", "a#b", "?",    "-",   ",",    "1_0"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        json_t *tree = json_pack("{s:s}", "k", text[i]);
        mega_buffer yaml = {0}, json = {0}, mistakes = {0};
        assert_int_equal(mega_yaml_write(tree, &yaml), MEGA_OK);
        if (read_as_json(yaml.data, &json, &mistakes) != MEGA_OK) fail_msg("\"%s\": %s", text[i], mistakes.data);
        json_t *again = json_loads(json.data, 0, NULL);
        if (!json_equal(tree, again)) fail_msg("\"%s\" is written as %s and read as %s", text[i], yaml.data, json.data);
        json_decref(tree);
        json_decref(again);
        mega_buffer_fini(&yaml);
        mega_buffer_fini(&json);
        mega_buffer_fini(&mistakes);
    }
}

/* Each allocation of ours fails once: an error, and nothing is lost. */
static void short_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n++) {
        mega_buffer json = {0}, mistakes = {0};
        mega_alloc_fail_at(n);
        const mega_status st = read_as_json("a: {b: 1, c: [x]}\nd: y\n", &json, &mistakes);
        mega_alloc_fail_at(0);
        assert_true(st == MEGA_OK || st == MEGA_ERR_MEMORY);
        mega_buffer_fini(&json);
        mega_buffer_fini(&mistakes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses_with_the_line),
        cmocka_unit_test(many_mistakes_end),
        cmocka_unit_test(writes),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
