/* Gives many DeepSpeed JSON files to a command: those that people write (tests/cli/json/written), which are accepted or
 * refused for a reason, and broken ones (broken.txt), whose errors name key, line, value and what is expected. */
#include "options_kit.h"
#include <stdlib.h>

#define NETWORK "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --train-iters 10 --deepspeed "

enum { LONGEST = 4096 };

/* Removes and returns the text before " :: ". */
static char *field_of(char **line)
{
    char *start = *line, *end = strstr(start, " ::");
    if (end == NULL) {
        *line = start + strlen(start);
        return start;
    }
    *line = end + 3 + (end[3] == ' ');
    *end = '\0';
    return start;
}

/* Asserts that the text holds every part of "PART|PART". */
static void need_parts(const char *name, const char *text, char *parts)
{
    for (char *part; (part = strsep(&parts, "|")) != NULL;)
        if (strstr(text, part) == NULL) fail_msg("%s: \"%s\" is not in: %s", name, part, text);
}

static char *line_of(FILE *f, char line[LONGEST])
{
    if (fgets(line, LONGEST, f) == NULL) return NULL;
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* Parses a line of expected.txt and tries its file. */
static void try_written(char *line)
{
    mega_command_options c;
    char given[2048];
    const char *name = field_of(&line), *options = field_of(&line), *outcome = field_of(&line);
    const char *json = mega_kit_source("tests/cli/json/written");
    snprintf(given, sizeof given, NETWORK "--deepspeed_config %s/%s.json %s", json, name,
             strcmp(options, "-") != 0 ? options : "");
    const mega_status st = kit_parse(&c, "plan", given);
    const bool is_free = strcmp(outcome, "either") == 0;
    if (!is_free && (st == MEGA_OK) != (strcmp(outcome, "accepted") == 0))
        fail_msg("%s: expected it to be %s: %s", name, outcome, st != MEGA_OK ? mega_error_message() : kit_notes);
    if (!is_free || st != MEGA_OK) need_parts(name, st == MEGA_OK ? kit_notes : mega_error_message(), line);
    mega_command_options_fini(&c);
}

static void written_files(void **state)
{
    static char line[LONGEST];
    (void)state;
    FILE *f = fopen(mega_kit_source("tests/cli/json/expected.txt"), "r");
    assert_non_null(f);
    int count = 0;
    while (line_of(f, line) != NULL) {
        if (line[0] == '#') continue;
        try_written(line);
        count++;
    }
    fclose(f);
    assert_true(count >= 40);
}

static void try_broken(char *line, const char *json)
{
    mega_command_options c;
    char given[1024], path[512];
    const char *name = field_of(&line);
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    mega_kit_write(path, json);
    snprintf(given, sizeof given, NETWORK "--deepspeed_config %s", path);
    if (kit_parse(&c, "plan", given) == MEGA_OK) fail_msg("%s: accepted", name);
    need_parts(name, mega_error_message(), line);
    mega_command_options_fini(&c);
}

static void broken_files(void **state)
{
    static char line[LONGEST], head[LONGEST];
    static mega_buffer json;
    (void)state;
    FILE *f = fopen(mega_kit_source("tests/cli/json/broken.txt"), "r");
    assert_non_null(f);
    int count = 0;
    for (bool more = true; more;) {
        more = line_of(f, line) != NULL;
        const bool is_head = more && strncmp(line, "### ", 4) == 0;
        if ((is_head || !more) && head[0] != '\0') {
            try_broken(head, json.data != NULL ? json.data : "");
            mega_buffer_fini(&json);
            count++;
        }
        if (is_head) {
            snprintf(head, sizeof head, "%s", line + 4);
        } else if (more && head[0] != '\0') {
            mega_buffer_printf(&json, "%s\n", line);
        }
    }
    fclose(f);
    assert_true(count >= 50);
}

/* An unknown key at the top is passed over where asked for; one in a block is a mistake all the same. */
static void unknown_keys(void **state)
{
    static const char passed[] = "{\"train_batch_size\": 8,\n\"my_notes\": {\"a\": [1]}, \"train_batchsize\": 4}";
    mega_command_options c;
    char given[1024], path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    mega_kit_write(path, passed);
    snprintf(given, sizeof given, NETWORK "--deepspeed_config %s", path);
    kit_refuse("plan", given, "\"my_notes\" (");
    strcat(given, " --deepspeed-unknown-keys warn");
    kit_accept(&c, "plan", given);
    kit_assert_has(kit_notes, "ds.json, line 2) is not a key of a configuration");
    kit_assert_has(kit_notes, "did you mean \"train_batch_size\"?: passed over");
    mega_command_options_fini(&c);
    mega_kit_write(path, "{\"train_batch_size\": 8, \"zero_optimization\": {\"stge\": 1}}");
    kit_refuse("plan", given, "did you mean \"zero_optimization.stage\"?");
}

/* DeepSpeed takes a JSON in base64, with comments, and with commas before a closing bracket. */
static void other_forms(void **state)
{
    mega_command_options c;
    (void)state;
    /* {"train_batch_size": 8, "gradient_clipping": 0.5} */
    kit_accept(&c, "plan",
               NETWORK "--deepspeed_config eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgImdyYWRpZW50X2NsaXBwaW5nIjogMC41fQ==");
    assert_true(c.train.engine.optim.global_batch_size == 8 && c.train.engine.optim.clip_grad == 0.5);
    mega_command_options_fini(&c);
    kit_refuse("plan", NETWORK "--deepspeed_config eyJ0cmFpbl9iYXRj", "premature end of input");
    char given[1024], path[512];
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    mega_kit_write(path, "# a note, with \"quotation marks\n{ /* {\n\n } */ \"train_batch_size\": 8, // ,\n"
                         "\"megalith\": {\"data_path\": [\"a//b#c,}\", ], },\n\"stge\": 1, }\n");
    snprintf(given, sizeof given, NETWORK "--deepspeed_config %s", path);
    kit_refuse("plan", given, "ds.json, line 6) is not a key");
    mega_kit_write(path, "{ /* {\n\n } */ \"train_batch_size\": 8, // ,\n\"megalith\": {\"data_path\": "
                         "[\"a//b#c,}\", ], }, }\n");
    (void)kit_parse(&c, "plan", given);
    assert_int_equal(c.train.data.data_path.count, 1);
    assert_string_equal(c.train.data.data_path.item[0], "a//b#c,}");
    mega_command_options_fini(&c);
    /* an editor's mark of UTF-8 changes nothing, that of UTF-16 is named */
    mega_kit_write(path, "\xef\xbb\xbf{\n\"train_batch_size\": 8,\n\"stge\": 1}\n");
    kit_refuse("plan", given, "ds.json, line 3) is not a key");
    mega_kit_write(path, "\xff\xfe{");
    kit_refuse("plan", given, "found UTF-16LE (its byte order mark), expected a DeepSpeed JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_files), cmocka_unit_test(broken_files),
                                       cmocka_unit_test(unknown_keys), cmocka_unit_test(other_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
