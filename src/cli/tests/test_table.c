/* Tests the option table: every row is well formed, and every Megatron option has one. */
#include "megalith/file.h"
#include "options_kit.h"
#include <ctype.h>

static void rows_are_well_formed(void **state)
{
    (void)state;
    mega_command_options cfg;
    assert_int_equal(mega_command_options_init(&cfg), MEGA_OK);
    for (size_t i = 0; i < kit_table()->count; i++) {
        const mega_option_row *row = kit_table()->line[i].row;
        if (kit_table()->line[i].commands == 0) fail_msg("--%s belongs to no command", row->name);
        if (row->kind == MEGA_OPTION_ANY && (row->answer == MEGA_ANSWER_WORKS || row->answer == MEGA_ANSWER_RENAMED))
            fail_msg("--%s has an effect", row->name);
        if (row->answer == MEGA_ANSWER_WORKS) {
            if (row->field == MEGA_NO_FIELD || row->field >= sizeof cfg) fail_msg("--%s has no field", row->name);
            if (row->help == NULL) fail_msg("--%s has no help", row->name);
        } else if (row->remark == NULL || row->field != MEGA_NO_FIELD) {
            fail_msg("--%s needs a remark and no field", row->name);
        }
        if (row->alike != MEGA_ALIKE_REQUIRED &&
            (row->answer != MEGA_ANSWER_WORKS || (kit_table()->line[i].commands & FOR_PRETRAIN) == 0))
            fail_msg("--%s is compared by no rank in any case", row->name);
        const bool is_text =
            row->kind == MEGA_OPTION_STRING || row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND;
        if (is_text && row->answer == MEGA_ANSWER_WORKS &&
            (mega_value_check(cfg.train.engine.options, row, "") == NULL) != row->takes_empty)
            fail_msg("--%s with an empty text", row->name);
        if (row->takes_empty && !is_text) fail_msg("--%s takes no text", row->name);
        if (row->alone != NULL && row->answer != MEGA_ANSWER_NO_EFFECT) fail_msg("--%s has an effect", row->name);
        assert_true(mega_option_ranks(cfg.train.engine.options, row) == 1);
        if ((row->kind == MEGA_OPTION_CHOICE) && row->choices == NULL) fail_msg("--%s has no choices", row->name);
        if (row->most != 0 && row->kind != MEGA_OPTION_INT) fail_msg("--%s: .most is for whole numbers", row->name);
        if (row->kind == MEGA_OPTION_CHOICE && row->fallback == NULL) fail_msg("--%s has no default", row->name);
        if (row->fallback != NULL && row->field != MEGA_NO_FIELD) {
            const char *reason = mega_value_check(cfg.train.engine.options, row, row->fallback);
            if (reason != NULL) fail_msg("--%s: its default: %s", row->name, reason);
        }
    }
    mega_command_options_fini(&cfg);
}

static void names_are_unique_in_a_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < kit_table()->count; i++) {
        for (size_t j = i + 1; j < kit_table()->count; j++) {
            const mega_option_row *a = kit_table()->line[i].row, *b = kit_table()->line[j].row;
            if ((kit_table()->line[i].commands & kit_table()->line[j].commands) == 0) continue;
            if (mega_option_name_equal(a->name, b->name, strlen(b->name))) fail_msg("--%s twice", a->name);
            if (a->field != MEGA_NO_FIELD && kit_table()->line[i].at == kit_table()->line[j].at)
                fail_msg("--%s and --%s share a field", a->name, b->name);
        }
    }
}

/* Asserts that the options in "a=1;b" exist; the text ends at a bar or at its end. */
static void parts_exist(const char *name, const char *parts, uint32_t command)
{
    while (*parts != '\0' && *parts != '|') {
        if (mega_option_find(kit_table(), parts, strcspn(parts, "=;|"), command) == SIZE_MAX)
            fail_msg("--%s: no %s", name, parts);
        parts += strcspn(parts, ";|");
        parts += *parts == ';';
    }
}

static void successors_exist(void **state)
{
    (void)state;
    for (size_t i = 0; i < kit_table()->count; i++) {
        const mega_option_row *row = kit_table()->line[i].row;
        if (row->answer != MEGA_ANSWER_RENAMED) continue;
        assert_true((row->successor != NULL) != (row->cases != NULL));
        for (uint32_t bit = 1; bit < FOR_ALL; bit <<= 1) {
            if ((kit_table()->line[i].commands & bit) == 0) continue;
            if (row->successor != NULL) parts_exist(row->name, row->successor, bit);
            for (const char *at = row->cases; at != NULL; at = strchr(at + 1, '|')) {
                const char *colon = strchr(at, ':');
                if (colon == NULL || colon > at + strcspn(at + 1, "|")) fail_msg("--%s: no case in %s", row->name, at);
                parts_exist(row->name, colon + 1, bit);
            }
        }
    }
}

/* The file has lines "command flag". */
static void every_flag_has_a_row(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0, checked = 0;
    assert_int_equal(mega_file_read(mega_kit_source("src/cli/tests/megatron_options.txt"), &text, &size), MEGA_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *space = strchr(line, ' ');
        assert_non_null(space);
        *space = '\0';
        const mega_command *command = mega_command_find(&mega_commands, line);
        assert_non_null(command);
        if (mega_option_find(kit_table(), space + 1, strlen(space + 1), command->bit) == SIZE_MAX) {
            fail_msg("%s --%s has no row", line, space + 1);
        }
        checked++;
    }
    assert_true(checked > 450);
    mega_free(text);
}

/* Asserts that every `--name` between two headings of the reference sheet has a row; returns their number. */
static size_t check_section(const char *text, const char *from, const char *to, const char *mark, uint32_t command)
{
    const char *at = strstr(text, from), *end = strstr(text, to);
    size_t checked = 0;
    assert_non_null(at);
    assert_non_null(end);
    while ((at = strstr(at, mark)) != NULL && at < end) {
        at += strlen(mark);
        size_t n = 0;
        while (isalnum((unsigned char)at[n]) || at[n] == '-' || at[n] == '_') n++;
        if (n == 0 || at[n - 1] == '-') continue; /* "--recompute-*" means several options */
        if (mega_option_find(kit_table(), at, n, command) == SIZE_MAX)
            fail_msg("--%.*s of the sheet has no row", (int)n, at);
        checked++;
    }
    return checked;
}

static void the_sheet_is_covered(void **state)
{
    (void)state;
    const char *path = mega_kit_source("../shared/reference/megatron.md");
    if (!mega_file_exists(path)) mega_kit_skip("the reference sheet is not there");
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(mega_file_read(path, &text, &size), MEGA_OK);
    assert_true(check_section(text, "### 5.2", "### 5.3", "`--", FOR_PRETRAIN) > 350);
    assert_true(check_section(text, "### 2.1", "### 2.2", "`--", FOR_PREPROCESS) > 15);
    assert_true(check_section(text, "### 11.1", "### 11.2", "| --", FOR_GENERATE) > 8);
    assert_true(check_section(text, "### 12.1", "### 12.2", " --", FOR_TASKS) > 10);
    mega_free(text);
}

/* Defaults are Megatron's; the order of each enum is that of the choices. */
static void defaults(void **state)
{
    (void)state;
    mega_command_options c;
    assert_int_equal(mega_command_options_init(&c), MEGA_OK);
    assert_true(c.train.model.attention_dropout == 0.1 && c.train.model.hidden_dropout == 0.1 &&
                c.train.engine.optim.weight_decay == 0.01 && c.train.engine.optim.clip_grad == 1.0);
    assert_true(c.train.engine.optim.adam_beta1 == 0.9 && c.train.engine.optim.adam_beta2 == 0.999 &&
                c.train.engine.optim.adam_eps == 1e-8 && c.train.engine.optim.sgd_momentum == 0.9);
    assert_true(c.train.model.init_method_std == 0.02 && c.train.model.layernorm_epsilon == 1e-5 &&
                c.train.engine.optim.min_lr == 0.0);
    assert_true(c.train.engine.optim.lr != c.train.engine.optim.lr &&
                c.train.engine.optim.lr_warmup_fraction != c.train.engine.optim.lr_warmup_fraction);
    assert_int_equal(c.train.engine.seed, 1234);
    assert_int_equal(c.train.make_vocab_size_divisible_by, 128);
    assert_int_equal(c.train.log_interval, 100);
    assert_int_equal(c.train.eval_iters, 100);
    assert_int_equal(c.train.eval_interval, 1000);
    assert_int_equal(c.train.tensorboard_log_interval, 1);
    assert_int_equal(c.train.engine.optim.lr_decay_style, MEGA_LR_LINEAR);
    assert_int_equal(c.train.engine.optim.optimizer, MEGA_OPTIMIZER_ADAM);
    assert_int_equal(c.train.engine.optim.weight_decay_incr_style, MEGA_WD_CONSTANT);
    assert_int_equal(c.train.engine.graph.recompute_granularity, MEGA_RECOMPUTE_NONE);
    assert_int_equal(c.train.dataloader_type, MEGA_DATALOADER_SINGLE);
    assert_int_equal(c.log_level, MEGA_LOG_INFO);
    assert_true(c.train.log_learning_rate_to_tensorboard && c.train.log_loss_scale_to_tensorboard);
    assert_string_equal(c.train.data.split, "969, 30, 1");
    assert_string_equal(c.train.text.tokenizer_type, "GPT2BPETokenizer");
    assert_int_equal(c.preprocess.json_keys.count, 1);
    assert_string_equal(c.preprocess.json_keys.item[0], "text");
    assert_int_equal(c.generate.out_seq_length, 1024);
    assert_int_equal(c.tasks.overlapping_eval, 32);
    mega_command_options_fini(&c);
}

/* Rows of several modules with the same title are listed together. */
static void titles_stand_once(void **state)
{
    (void)state;
    const option_table *t = kit_table();
    for (size_t i = 1; i < t->count; i++) {
        if (strcmp(t->line[i].title, t->line[i - 1].title) == 0) continue;
        for (size_t j = 0; j < i - 1; j++)
            if (strcmp(t->line[i].title, t->line[j].title) == 0) fail_msg("\"%s\" stands twice", t->line[i].title);
    }
}

static void help_and_page(void **state)
{
    (void)state;
    static const char *const commands[] = {"pretrain_gpt", "preprocess_data", "generate_samples_gpt",
                                           "tasks",        "tokenize",        "plot"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        mega_buffer text = {0};
        assert_int_equal(mega_options_help(&mega_commands, commands[i], &text), MEGA_OK);
        kit_assert_has(text.data, "--num-threads N");
        kit_assert_has(text.data, "megalith help --foreign-page");
        if (strstr(text.data, "--moe-grouped-gemm") != NULL) fail_msg("%s --help lists what is not built", commands[i]);
        mega_buffer_fini(&text);
    }
    mega_buffer page = {0}, works = {0}, other = {0};
    assert_int_equal(mega_options_options_page(&mega_commands, true, &works), MEGA_OK);
    assert_int_equal(mega_options_options_page(&mega_commands, false, &other), MEGA_OK);
    for (size_t i = 0; i < kit_table()->count; i++) {
        const mega_option_row *row = kit_table()->line[i].row;
        char name[128];
        snprintf(name, sizeof name, "| `--%s", row->name);
        kit_assert_has(row->answer == MEGA_ANSWER_WORKS ? works.data : other.data, name);
    }
    mega_buffer_fini(&works);
    mega_buffer_fini(&other);
    assert_int_equal(mega_options_help(&mega_commands, "nonsense", &page), MEGA_ERR_USAGE);
    mega_buffer_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_well_formed), cmocka_unit_test(names_are_unique_in_a_command),
        cmocka_unit_test(successors_exist),     cmocka_unit_test(every_flag_has_a_row),
        cmocka_unit_test(the_sheet_is_covered), cmocka_unit_test(defaults),
        cmocka_unit_test(titles_stand_once),    cmocka_unit_test(help_and_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
