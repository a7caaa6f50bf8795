/* Tests blocks of text: which tokens they hold and which are dropped, the share for validation, the memory of a host's
 * ranks. */
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/blocks.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <string.h>

enum { L = 4 };

static mega_tokenizer *bytes;

/* A text file, as the list that an option gives. */
typedef struct source {
    const char *item[2];
    mega_list list;
} source;

static void write_source(source *s, const char *name, const char *text)
{
    s->item[0] = mega_kit_path(mega_kit_temp_folder(), name);
    mega_kit_write(s->item[0], text);
    s->list = (mega_list){s->item, 1};
}

static mega_blocks_options options(const source *train, const source *validation)
{
    static const mega_list none = {NULL, 0};
    return (mega_blocks_options){.train = train != NULL ? &train->list : &none,
                                 .validation = validation != NULL ? &validation->list : &none,
                                 .key = "text",
                                 .length = L,
                                 .tokenizer = bytes};
}

/* With ByteTokenizer the tokens are the bytes of the text. */
static void assert_block(const mega_blocks *b, int split, int64_t index, const char *text)
{
    const int32_t *token = mega_blocks_tokens(b, split, index);
    for (size_t i = 0; text[i] != '\0'; i++)
        if (token[i] != (unsigned char)text[i]) fail_msg("block %d, token %d is %d", (int)index, (int)i, token[i]);
}

static void lines_are_joined_and_the_rest_is_dropped(void **state)
{
    (void)state;
    source train, validation;
    mega_blocks *b;
    write_source(&train, "t.txt", "ab\n\ncdefg\nhi");
    write_source(&validation, "v.txt", "12345");
    mega_blocks_options o = options(&train, &validation);
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 3);
    assert_int_equal(mega_blocks_texts(b, MEGA_SPLIT_TRAIN), 4);
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "ab\n\n");
    assert_block(b, MEGA_SPLIT_TRAIN, 2, "g\nhi");
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_VALID), 1);
    assert_block(b, MEGA_SPLIT_VALID, 0, "1234");
    assert_true(mega_blocks_hash(b, MEGA_SPLIT_TRAIN) != mega_blocks_hash(b, MEGA_SPLIT_VALID));
    mega_blocks_destroy(b);
    o.drops_line_ends = true;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 2);
    assert_block(b, MEGA_SPLIT_TRAIN, 1, "efgh");
    mega_blocks_destroy(b);
}

/* The ending says so: the content is not looked at. */
static void a_text_file_may_look_like_json(void **state)
{
    (void)state;
    source train;
    mega_blocks *b;
    write_source(&train, "t.txt", "{\"text\": \"ab\"}\n");
    const mega_blocks_options o = options(&train, NULL);
    need(mega_blocks_build(&o, &b));
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "{\"te");
    mega_blocks_destroy(b);
}

static void records_are_texts_without_line_ends(void **state)
{
    (void)state;
    source train;
    mega_blocks *b;
    write_source(&train, "t.jsonl", "{\"text\": \"ab\"}\n{\"other\": 1, \"text\": \"cd\\ne\"}\n");
    const mega_blocks_options o = options(&train, NULL);
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 1);
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "abcd");
    mega_blocks_destroy(b);
}

static void count_warnings(void *user, mega_log_level level, const char *line)
{
    (void)line;
    *(int *)user += level == MEGA_LOG_WARN;
}

/* A table as RFC 4180 has it: quotation marks around commas, line ends and quotation marks, CR LF, an empty line, a
 * byte order mark, no end of the last line. */
static void a_column_of_a_table_is_read(void **state)
{
    (void)state;
    source train;
    mega_blocks *b;
    write_source(&train, "t.csv",
                 "\xef\xbb\xbf\"id\",text,\"note\"\r\n1,ab,x\r\n\r\n2,\"c,\r\nd\"\"e\",\"\"\r\n3,f\"g,\"y\"\n4,\"\","
                 "\n5,\"h\"i,z");
    mega_blocks_options o = options(&train, NULL);
    int warned = 0;
    mega_log_set_sink(count_warnings, &warned);
    need(mega_blocks_build(&o, &b));
    assert_int_equal(warned, 0); /* the CR of line ends is removed: nothing warns of it */
    mega_log_set_sink(NULL, NULL);
    assert_int_equal(mega_blocks_texts(b, MEGA_SPLIT_TRAIN), 5);
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 3);
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "abc,");
    assert_block(b, MEGA_SPLIT_TRAIN, 1, "\r\nd\"");
    assert_block(b, MEGA_SPLIT_TRAIN, 2, "ef\"g");
    mega_blocks_destroy(b);
    o.key = "body";
    assert_int_equal(mega_blocks_build(&o, &b), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "t.csv: the first line names no column body, but id, text, note"));
    o.any_column = true; /* the first */
    o.length = 5;
    need(mega_blocks_build(&o, &b));
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "12345");
    mega_blocks_destroy(b);
}

static void damaged_tables_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *table, *message;
    } wrong[] = {
        {"text,b\nab,1\n\"c\nd\",2\nef\n", "line 5: expected 2 fields, as in the first line, but found 1"},
        {"text\nab\nc,d\n", "line 3: expected 1 fields, as in the first line, but found 2"},
        {"text\nab\n\"cd\nef\n", "line 3: a field in quotation marks does not end"},
        {"\n\n", "found no line"},
        {"", "found no line"},
    };
    for (size_t i = 0; i < MEGA_COUNT(wrong); i++) {
        source train;
        mega_blocks *b = NULL;
        write_source(&train, "wrong.csv", wrong[i].table);
        const mega_blocks_options o = options(&train, NULL);
        assert_int_equal(mega_blocks_build(&o, &b), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), wrong[i].message) == NULL)
            fail_msg("\"%s\" is not in: %s", wrong[i].message, mega_error_message());
    }
}

static void the_first_blocks_are_kept(void **state)
{
    (void)state;
    source train, validation;
    mega_blocks *b;
    write_source(&train, "t.txt", "abcdefghijklmnop");
    write_source(&validation, "v.txt", "abcdefgh");
    mega_blocks_options o = options(&train, &validation);
    o.most_train = 3;
    o.most_validation = 1;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 3);
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_VALID), 1);
    assert_block(b, MEGA_SPLIT_TRAIN, 2, "ijkl");
    assert_block(b, MEGA_SPLIT_VALID, 0, "abcd");
    mega_blocks_destroy(b);
    o.most_train = 5;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 4);
    mega_blocks_destroy(b);
}

/* Writes `count` lines "x\n", two tokens each. */
static void write_lines(source *s, int count)
{
    mega_buffer text = {0};
    for (int i = 0; i < count; i++) mega_buffer_puts(&text, "x\n");
    write_source(s, "many.txt", text.data);
    mega_buffer_fini(&text);
}

/* As the original, which cuts 1,000 texts at a time: 2,000 tokens are 666 blocks of three, and two tokens are
 * dropped. */
static void a_thousand_texts_are_cut_by_themselves(void **state)
{
    (void)state;
    source train;
    mega_blocks *b;
    write_lines(&train, 2001);
    mega_blocks_options o = options(&train, NULL);
    o.length = 3;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 2 * 666);
    assert_int_equal(mega_blocks_tokens(b, MEGA_SPLIT_TRAIN, 666)[0], 'x'); /* token 2,000 */
    mega_blocks_destroy(b);
}

/* The share is that of `datasets`: the first texts, 25 % of 10 are 2 (halves to the even number). */
static void validation_is_the_first_share_of_texts(void **state)
{
    (void)state;
    source train;
    mega_blocks *b;
    write_source(&train, "t.txt", "aaa\nbbb\nccc\nddd\neee\nfff\nggg\nhhh\niii\njjj\n");
    mega_blocks_options o = options(&train, NULL);
    o.validation_percent = 25;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_VALID), 2);
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_TRAIN), 8);
    assert_block(b, MEGA_SPLIT_VALID, 1, "bbb\n");
    assert_block(b, MEGA_SPLIT_TRAIN, 0, "ccc\n");
    mega_blocks_destroy(b);
    o.validation_percent = 0;
    need(mega_blocks_build(&o, &b));
    assert_int_equal(mega_blocks_count(b, MEGA_SPLIT_VALID), 0);
    mega_blocks_destroy(b);
}

static void too_little_text_is_refused(void **state)
{
    (void)state;
    source train, validation;
    mega_blocks *b = NULL;
    write_source(&train, "t.txt", "abcd\nefgh\n");
    write_source(&validation, "v.txt", "abc");
    mega_blocks_options o = options(&train, &validation);
    assert_int_equal(mega_blocks_build(&o, &b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "v.txt) have 1 text with 3 tokens"));
    o = options(&train, NULL);
    o.validation_percent = 5;
    assert_int_equal(mega_blocks_build(&o, &b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "a larger --validation_split_percentage"));
    o.length = 11;
    assert_int_equal(mega_blocks_build(&o, &b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "a smaller --block_size"));
}

static void the_last_token_predicts_nothing(void **state)
{
    (void)state;
    static const mega_batch_input has[] = {{.name = "tokens", .dtype = MEGA_I32, .per_sample = L},
                                           {.name = "labels", .dtype = MEGA_I32, .per_sample = L},
                                           {.name = "loss_mask", .dtype = MEGA_F32, .per_sample = L}};
    source train;
    mega_blocks *b;
    mega_batch *batch;
    write_source(&train, "t.txt", "abcdefgh");
    const mega_blocks_options o = options(&train, NULL);
    need(mega_blocks_build(&o, &b));
    need(mega_batch_create(1, &batch));
    for (int i = 0; i < 3; i++) need(mega_batch_add(batch, &has[i], true));
    need(mega_batch_allocate(batch));
    mega_batch_begin(batch, 1);
    mega_sample *s = mega_batch_sample(batch, 0);
    need(mega_blocks_read(b, MEGA_SPLIT_TRAIN, 1, s));
    need(mega_batch_check(batch));
    const int32_t *token = mega_sample_i32(s, "tokens", L), *label = mega_sample_i32(s, "labels", L);
    const float *mask = mega_sample_f32(s, "loss_mask", L);
    for (int i = 0; i < L; i++) {
        assert_int_equal(token[i], 'e' + i);
        assert_true(mask[i] == (i < L - 1 ? 1.0F : 0.0F));
        if (i < L - 1) assert_int_equal(label[i], 'e' + i + 1);
    }
    assert_int_equal(mega_blocks_read(b, MEGA_SPLIT_TRAIN, 2, s), MEGA_ERR_USAGE);
    mega_batch_destroy(batch);
    mega_blocks_destroy(b);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    source train;
    mega_blocks *alone, *together;
    mega_team *team;
    write_lines(&train, 5000);
    mega_blocks_options o = options(&train, NULL);
    need(mega_blocks_build(&o, &alone));
    need(mega_team_create(3, &team));
    o.team = team;
    need(mega_blocks_build(&o, &together));
    assert_int_equal(mega_blocks_count(alone, 0), mega_blocks_count(together, 0));
    assert_int_equal(mega_blocks_hash(alone, 0), mega_blocks_hash(together, 0));
    mega_team_destroy(team);
    mega_blocks_destroy(alone);
    mega_blocks_destroy(together);
}

static void ranks_of_a_host_share_them(void **state)
{
    (void)state;
    source train;
    mega_gpt_share *mine, *theirs = NULL;
    mega_gpt_offer offer;
    mega_blocks *first, *second;
    write_source(&train, "t.txt", "abcdefgh");
    mega_blocks_options o = options(&train, NULL);
    need(mega_gpt_share_create(&mine));
    o.share = mine;
    need(mega_blocks_build(&o, &first));
    mega_gpt_share_offer(mine, &offer);
    need(mega_gpt_share_open(&offer, &theirs));
    if (theirs == NULL) mega_kit_skip("no memory can be shared here");
    o = options(NULL, NULL); /* reads no file */
    o.share = theirs;
    need(mega_blocks_build(&o, &second));
    assert_int_equal(mega_blocks_count(second, 0), 2);
    assert_int_equal(mega_blocks_hash(first, 0), mega_blocks_hash(second, 0));
    mega_gpt_share_destroy(mine);
    mega_gpt_share_destroy(theirs);
    assert_block(second, MEGA_SPLIT_TRAIN, 1, "efgh");
    mega_blocks_destroy(first);
    mega_blocks_destroy(second);
}

static int build_once(void *user)
{
    mega_blocks *b = NULL;
    const mega_status st = mega_blocks_build(user, &b);
    if (st == MEGA_OK) mega_blocks_destroy(b);
    return (int)st;
}

static void short_memory_is_reported(void **state)
{
    (void)state;
    source train;
    write_source(&train, "t.txt", "abcd\nefgh\n");
    mega_blocks_options o = options(&train, NULL);
    assert_true(mega_kit_fail_each_allocation(build_once, &o) > 5);
}

static int open_tokenizer(void **state)
{
    (void)state;
    const mega_tokenizer_options o = {.type = "ByteTokenizer"};
    return mega_tokenizer_create(&o, &bytes) == MEGA_OK ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    (void)state;
    mega_tokenizer_destroy(bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_joined_and_the_rest_is_dropped),
        cmocka_unit_test(a_text_file_may_look_like_json),
        cmocka_unit_test(records_are_texts_without_line_ends),
        cmocka_unit_test(a_column_of_a_table_is_read),
        cmocka_unit_test(damaged_tables_are_refused),
        cmocka_unit_test(the_first_blocks_are_kept),
        cmocka_unit_test(a_thousand_texts_are_cut_by_themselves),
        cmocka_unit_test(validation_is_the_first_share_of_texts),
        cmocka_unit_test(too_little_text_is_refused),
        cmocka_unit_test(the_last_token_predicts_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(ranks_of_a_host_share_them),
        cmocka_unit_test(short_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
