/* Tests the built-in optimizers in an engine: chosen by JSON and argv, saved and resumed. optim/tests and tests/golden test
 * their numbers. */
#include "api_model.h"
#include "kit.h"
#include "megalith/engine_commands.h"
#include "megalith/log.h"
#include <stdio.h>
#include <string.h>

enum { TABLE = API_IDS * API_WIDTH };

static char notes[4096];

static void note(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", line);
}

static void need(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

static mega_status try_open(mega_engine **out, const char *json, const char *line)
{
    static char text[512], name[] = "program";
    char *argv[32] = {name}, *rest = text;
    int argc = 1;
    snprintf(text, sizeof text, "--micro-batch-size 1 --num-threads 2 --lr 0.01 --weight-decay 0.1 %s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0') argv[argc++] = word;
    *out = NULL;
    notes[0] = '\0';
    mega_log_set_sink(note, NULL);
    return mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = &api_data, .config = json, .argc = argc, .argv = argv},
        out);
}

static mega_engine *open_engine(const char *json, const char *line)
{
    mega_engine *e;
    need(try_open(&e, json, line));
    return e;
}

static void steps(mega_engine *e, int count)
{
    mega_step_result r = {0};
    for (int i = 0; i < count; i++) need(mega_engine_train_batch(e, &r));
}

static void same_weights(mega_engine *a, mega_engine *b, const char *what)
{
    static float x[TABLE], y[TABLE];
    need(mega_engine_get_param(a, "net.wte.weight", NULL, TABLE, x));
    need(mega_engine_get_param(b, "net.wte.weight", NULL, TABLE, y));
    if (memcmp(x, y, sizeof x) != 0) fail_msg("%s: the weights differ", what);
}

static const char *const lines[] = {"--optimizer sgd",
                                    "--optimizer sgd --sgd-nesterov",
                                    "--optimizer sgd --sgd-dampening 0.5",
                                    "--optimizer adagrad --adagrad-lr-decay 0.1",
                                    "--optimizer lion",
                                    "--optimizer ademamix --ademamix-steps 4 --ademamix-beta3 0.99",
                                    "--optimizer lion --bf16",
                                    "--optimizer ademamix --bf16"};

static void resumed_runs_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(lines); i++) {
        char folder[600];
        bool found;
        snprintf(folder, sizeof folder, "%s/%zu", mega_kit_temp_folder(), i);
        mega_engine *whole = open_engine(NULL, lines[i]), *first = open_engine(NULL, lines[i]);
        steps(whole, 5);
        steps(first, 2);
        need(mega_engine_save_checkpoint(first, folder, NULL, NULL));
        mega_engine_destroy(first);
        mega_engine *second = open_engine(NULL, lines[i]);
        need(mega_engine_load_checkpoint(second, folder, NULL, NULL, &found, NULL));
        steps(second, 3);
        same_weights(whole, second, lines[i]);
        mega_engine_destroy(whole);
        mega_engine_destroy(second);
    }
}

/* A JSON and the options that mean the same give the same bits; the values differ from all defaults. */
static void json_and_options_agree(void **state)
{
#define JSON(type, params) "{\"optimizer\": {\"type\": \"" type "\", \"params\": {" params "}}}"
    static const struct {
        const char *json, *line;
    } rows[] = {
        {JSON("SGD", "\"nesterov\": true, \"momentum\": 0.5"), "--optimizer sgd --sgd-nesterov --sgd-momentum 0.5"},
        {JSON("SGD", "\"dampening\": 0.25"), "--optimizer sgd --sgd-dampening 0.25"},
        {JSON("Adagrad", "\"lr_decay\": 0.5"), "--optimizer adagrad --adagrad-lr-decay 0.5 --adam-eps 1e-10"},
        {JSON("Adagrad", "\"eps\": 0.01"), "--optimizer adagrad --adam-eps 0.01"},
        {JSON("Lion", "\"betas\": [0.5, 0.75]"), "--optimizer lion --adam-beta1 0.5 --adam-beta2 0.75"},
        {JSON("AdEMAMix", "\"beta3\": 0.875, \"alpha\": 2, \"t_alpha_beta3\": 3"),
         "--optimizer ademamix --ademamix-beta3 0.875 --ademamix-alpha 2 --ademamix-steps 3"},
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        mega_engine *a = open_engine(rows[i].json, ""), *b = open_engine(NULL, rows[i].line);
        steps(a, 3);
        steps(b, 3);
        same_weights(a, b, rows[i].line);
        mega_engine_destroy(a);
        mega_engine_destroy(b);
    }
}

static void options_of_other_optimizers(void **state)
{
    mega_engine *e;
    (void)state;
    assert_int_equal(try_open(&e, NULL, "--optimizer sgd --sgd-nesterov --sgd-momentum 0"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "needs a momentum above 0 and no dampening; found 0 and 0"));
    assert_int_equal(try_open(&e, NULL, "--optimizer sgd --sgd-nesterov --sgd-dampening 0.5"), MEGA_ERR_USAGE);
    assert_int_equal(try_open(&e, NULL, "--optimizer muon"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "\"muon\" is not implemented yet"));
    assert_int_equal(try_open(&e, JSON("Lamb", ""), ""), MEGA_ERR_UNSUPPORTED);
    e = open_engine(NULL, "--optimizer lion --adam-eps 1e-3 --no-decoupled-weight-decay");
    assert_non_null(strstr(notes, "(argument 11) has no effect with --optimizer lion (argument 9)"));
    assert_non_null(strstr(notes, "whose weight decay is never part of the gradient"));
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(resumed_runs_have_the_same_bits),
                                       cmocka_unit_test(json_and_options_agree),
                                       cmocka_unit_test(options_of_other_optimizers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
