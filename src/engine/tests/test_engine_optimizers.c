/* Tests the built-in optimizers in an engine: chosen by JSON and argv, saved and resumed. optim/tests and tests/golden
 * test their numbers. */
#include "api_engine.h"
#include "megalith/engine_commands.h"
#include "notes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TABLE = API_IDS * API_WIDTH, MATRIX = 4 * API_WIDTH * API_WIDTH };

static mega_status try_open(mega_engine **out, const char *json, const char *line)
{
    char all[768];
    snprintf(all, sizeof all, "--micro-batch-size 1 --num-threads 2 --lr 0.01 --weight-decay 0.1 %s", line);
    notes_begin();
    return api_try_open(out, (mega_setup){.training_data = &api_data, .config = json}, all);
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
    static const struct {
        const char *name;
        int64_t count;
    } weights[] = {{"net.wte.weight", TABLE}, {"net.h.1.up.weight", MATRIX}, {"net.h.0.ln.weight", API_WIDTH}};
    static float x[MATRIX], y[MATRIX];
    for (size_t i = 0; i < MEGA_COUNT(weights); i++) {
        need(mega_engine_get_param(a, weights[i].name, NULL, weights[i].count, x));
        need(mega_engine_get_param(b, weights[i].name, NULL, weights[i].count, y));
        if (memcmp(x, y, (size_t)weights[i].count * sizeof *x) != 0) fail_msg("%s: %s differs", what, weights[i].name);
    }
}

/* More than the defaults of each row of the table, with which every row is tested as well. */
static const char *const lines[] = {"--optimizer sgd --sgd-nesterov",
                                    "--optimizer sgd --sgd-dampening 0.5",
                                    "--adam-amsgrad",
                                    "--optimizer one_bit_adam --one-bit-adam-freeze-step 1",
                                    "--no-adam-bias-correction --maximize",
                                    "--optimizer adagrad --adagrad-initial-accumulator-value 0.5",
                                    "--optimizer adagrad --adagrad-lr-decay 0.1",
                                    "--grad-accum-dtype bf16 --global-batch-size 2",
                                    "--optimizer ademamix --ademamix-steps 4 --ademamix-beta3 0.99",
                                    "--optimizer schedule_free_adamw --schedule-free-warmup-steps 3 "
                                    "--schedule-free-r 0.5",
                                    "--parameter-group *wte*:lr_scale=0.5,weight_decay=0.3 "
                                    "--parameter-group *.up.*:frozen"};

static void evaluate(mega_engine *e, double *loss)
{
    mega_step_result r = {0};
    need(mega_engine_evaluate(e, &api_data, 2, &r));
    *loss = r.loss;
}

/* Compares a run of 5 steps with one that is saved after 2 and evaluated on the way: weights, also those that a
 * checkpoint keeps, and losses. */
static void resumes_with_the_same_bits(const char *line)
{
    static int number;
    char folder[600];
    bool found;
    double a, b;
    snprintf(folder, sizeof folder, "%s/%d", mega_kit_temp_folder(), number++);
    mega_engine *whole = open_engine(NULL, line), *first = open_engine(NULL, line);
    steps(whole, 5);
    steps(first, 1);
    evaluate(first, &a);
    steps(first, 1);
    need(mega_engine_save_checkpoint(first, folder, NULL, NULL));
    evaluate(first, &a);
    mega_engine_destroy(first);
    mega_engine *second = open_engine(NULL, line);
    need(mega_engine_load_checkpoint(second, folder, NULL, NULL, &found, NULL));
    evaluate(second, &b);
    if (a != b) fail_msg("%s: the loss of an evaluation is %.17g, after a load %.17g", line, a, b);
    steps(second, 3);
    same_weights(whole, second, line);
    evaluate(whole, &a);
    same_weights(whole, second, line);
    steps(whole, 1);
    steps(second, 1);
    same_weights(whole, second, line);
    mega_engine_destroy(whole);
    mega_engine_destroy(second);
}

static void resumed_runs_have_the_same_bits(void **state)
{
    static const char *const of_all[] = {"", "--bf16", "--fp16"};
    char line[128];
    (void)state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++)
        for (size_t i = 0; i < MEGA_COUNT(of_all); i++) {
            snprintf(line, sizeof line, "--optimizer %s %s", mega_optimizer_kind_name(kind), of_all[i]);
            resumes_with_the_same_bits(line);
        }
    for (size_t i = 0; i < MEGA_COUNT(lines); i++) resumes_with_the_same_bits(lines[i]);
}

/* A schedule-free optimizer trains with y, and evaluates, saves and returns x. */
static void schedule_free_weights(void **state)
{
    static float x[TABLE], y[TABLE], z[TABLE], loaded[TABLE], changed[TABLE];
    const char *folder = mega_kit_temp_folder(), line[] = "--optimizer schedule_free_adamw";
    bool found;
    double a, b;
    (void)state;
    mega_engine *e = open_engine(NULL, line), *plain = open_engine(NULL, "--optimizer sgd");
    steps(e, 4);
    need(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, x));
    need(mega_engine_get_param(e, "net.wte.weight", "y", TABLE, y));
    need(mega_engine_get_param(e, "net.wte.weight", "z", TABLE, z));
    double apart = 0;
    for (int i = 0; i < TABLE; i++) { /* y = 0.9 x + 0.1 z */
        const double expected = 0.9 * (double)x[i] + 0.1 * (double)z[i];
        if (!(fabs((double)y[i] - expected) < 1e-6)) fail_msg("y[%d] %g, expected %g", i, (double)y[i], expected);
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
    }
    assert_true(apart > 1e-4);
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    need(mega_engine_load_checkpoint(plain, folder, NULL, &(mega_load_options){.module_only = true}, &found, NULL));
    need(mega_engine_get_param(plain, "net.wte.weight", NULL, TABLE, loaded));
    assert_memory_equal(x, loaded, sizeof x);
    evaluate(e, &a);
    evaluate(plain, &b);
    assert_true(a == b);
    need(mega_engine_get_param(e, "net.wte.weight", "y", TABLE, changed)); /* while x is in place */
    assert_memory_equal(y, changed, sizeof y);
    for (int i = 0; i < TABLE; i++) z[i] = 0.25F;
    need(mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, z));
    static const char *const points[] = {NULL, "y", "z"};
    for (size_t i = 0; i < MEGA_COUNT(points); i++) {
        need(mega_engine_get_param(e, "net.wte.weight", points[i], TABLE, changed));
        assert_memory_equal(z, changed, sizeof z);
    }
    mega_engine_destroy(e);
    mega_engine_destroy(plain);
}

static void table_of(mega_engine *e, float out[TABLE])
{
    need(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, out));
}

/* Groups of an engine: factors of a step of SGD, frozen parameters that stay, and the same from a JSON. */
static void parameter_groups(void **state)
{
    static float start[TABLE], whole[TABLE], half[TABLE], frozen[TABLE], ups[4 * API_WIDTH * API_WIDTH],
        before[4 * API_WIDTH * API_WIDTH];
    const char sgd[] = "--optimizer sgd --sgd-momentum 0 --weight-decay 0 --clip-grad 0";
    char line[160];
    (void)state;
    mega_engine *e = open_engine(NULL, sgd);
    table_of(e, start);
    steps(e, 1);
    table_of(e, whole);
    mega_engine_destroy(e);
    snprintf(line, sizeof line, "%s --parameter-group *wte*:lr=0.005 --parameter-group *.up.*:frozen",
             sgd); /* lr 0.01 */
    e = open_engine(NULL, line);
    need(mega_engine_get_param(e, "net.h.1.up.weight", NULL, MEGA_COUNT(ups), before));
    steps(e, 1);
    table_of(e, half);
    need(mega_engine_get_param(e, "net.h.1.up.weight", NULL, MEGA_COUNT(ups), ups));
    assert_memory_equal(ups, before, sizeof ups);
    for (int i = 0; i < TABLE; i++) {
        const double moved = (double)whole[i] - (double)start[i], own = (double)half[i] - (double)start[i];
        if (!(fabs(own - 0.5 * moved) < 1e-6)) fail_msg("%d: moved by %g, in its group by %g", i, moved, own);
    }
    static const char *const same[] = {
        "{\"megalith\": {\"parameter_group\": [\"*wte*:lr_scale=0.5\", \"re:\\\\.up\\\\.:frozen\"]}}",
        "{\"megalith\": {\"parameter_group\": [{\"params\": \"*wte*\", \"lr\": 5e-3},\n {\"frozen\": true, \"params\": "
        "\"re:\\\\.up\\\\.\"}]}}",
    };
    for (size_t i = 0; i < MEGA_COUNT(same); i++) {
        mega_engine *json = open_engine(same[i], sgd);
        steps(json, 1);
        same_weights(e, json, "the groups of a JSON");
        mega_engine_destroy(json);
    }
    mega_engine_destroy(e);
    assert_int_equal(try_open(&e, "{\"megalith\": {\"parameter_group\": [{\"lr\": 5e-3}]}}", sgd), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "a list of strings, or of objects with \"params\""));
    assert_int_equal(try_open(&e, "{\"megalith\": {\"parameter_group\": [{\"params\": \"*\", \"lrate\": 5e-3}]}}", sgd),
                     MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "found lrate=0.005"));
    snprintf(line, sizeof line, "%s --parameter-group *wte*:frozen", sgd);
    e = open_engine(NULL, line);
    steps(e, 2);
    table_of(e, frozen);
    assert_memory_equal(start, frozen, sizeof start);
    mega_engine_destroy(e);
    assert_int_equal(try_open(&e, NULL, "--parameter-group *wte:frozen"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "the pattern \"*wte\" matches no parameter of the model"));
    assert_int_equal(try_open(&e, NULL, "--parameter-group *wte* --parameter-group *:lr=x"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "2 mistakes"));
    assert_non_null(strstr(mega_error_message(), "it has no settings"));
}

/* States of other parameters or of an optimizer with other settings: the message names the cause and a way on. */
static void other_states_are_named(void **state)
{
    static const char *const of[][2] = {
        {"--parameter-group *.up.*:frozen", ""}, {"", "--parameter-group *.up.*:frozen"}, {"--adam-amsgrad", ""}};
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        const char *folder = mega_kit_temp_folder();
        bool found;
        mega_engine *e = open_engine(NULL, of[i][0]);
        steps(e, 1);
        need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
        mega_engine_destroy(e);
        e = open_engine(NULL, of[i][1]);
        assert_int_equal(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), "other parameters are trained (--parameter-group), or the optimizer has other "
                                         "settings (--optimizer, --adam-amsgrad)") == NULL ||
            strstr(mega_error_message(), "--no-load-optim") == NULL)
            fail_msg("%s", mega_error_message());
        mega_engine_destroy(e);
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
        {JSON("SGD", "\"dampening\": 0.25, \"momentum\": 0.5"),
         "--optimizer sgd --sgd-dampening 0.25 --sgd-momentum 0.5"},
        {JSON("Adagrad", "\"lr_decay\": 0.5"), "--optimizer adagrad --adagrad-lr-decay 0.5 --adam-eps 1e-10"},
        {JSON("Adagrad", "\"eps\": 0.01"), "--optimizer adagrad --adam-eps 0.01"},
        {JSON("Adagrad", "\"initial_accumulator_value\": 0.25"),
         "--optimizer adagrad --adagrad-initial-accumulator-value 0.25"},
        {JSON("Adam", "\"amsgrad\": true, \"maximize\": true"), "--adam-amsgrad --maximize"},
        {JSON("Adam", "\"bias_correction\": false"), "--no-adam-bias-correction"},
        {JSON("Lion", "\"betas\": [0.5, 0.75]"), "--optimizer lion --adam-beta1 0.5 --adam-beta2 0.75"},
        {JSON("AdEMAMix", "\"beta3\": 0.875, \"alpha\": 2, \"t_alpha_beta3\": 3"),
         "--optimizer ademamix --ademamix-beta3 0.875 --ademamix-alpha 2 --ademamix-steps 3"},
        {JSON("OneBitAdam", "\"freeze_step\": 1, \"cuda_aware\": false, \"comm_backend_name\": \"nccl\""),
         "--optimizer one_bit_adam --one-bit-adam-freeze-step 1"},
        {JSON("AdamWScheduleFree", "\"warmup_steps\": 2, \"r\": 0.5, \"weight_lr_power\": 1"),
         "--optimizer schedule_free_adamw --schedule-free-warmup-steps 2 --schedule-free-r 0.5 "
         "--schedule-free-weight-lr-power 1"},
        {JSON("Lamb", "\"max_coeff\": 2, \"min_coeff\": 0.5, \"bias_correction\": false, \"eps_inside_sqrt\": true"),
         "--optimizer lamb --lamb-max-coeff 2 --lamb-min-coeff 0.5 --no-adam-bias-correction --lamb-eps-inside-sqrt"},
        {JSON("Muon", "\"momentum\": 0.75, \"muon_lr\": 0.02, \"adam_lr\": 0.005, \"ns_method\": \"gram\""),
         "--optimizer muon --muon-momentum 0.75 --muon-nesterov --muon-no-split-qkv --muon-coefficient-type simple "
         "--muon-scale-mode shape_scaling --muon-lr 0.02 --adam-lr 0.005"},
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
    assert_int_equal(try_open(&e, NULL, "--optimizer lamb --lamb-min-coeff 2 --lamb-max-coeff 1"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "give a smallest ratio that is not"));
    assert_int_equal(try_open(&e, JSON("OneBitLamb", ""), ""), MEGA_ERR_UNSUPPORTED);
    e = open_engine(NULL, "--optimizer muon --sgd-momentum 0.5 --lamb-max-coeff 2.5");
    assert_non_null(strstr(notes, "--sgd-momentum 0.5 (argument 11) has no effect with --optimizer muon (argument 9)"));
    assert_non_null(strstr(notes, "--lamb-max-coeff 2.5 (argument 13) has no effect"));
    mega_engine_destroy(e);
    assert_int_equal(try_open(&e, JSON("OneBitAdam", ""), "--zero-stage 1"), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "does not work with ZeRO"));
    e = open_engine(NULL, "--optimizer lion --adam-eps 1e-3 --no-decoupled-weight-decay");
    assert_non_null(strstr(notes, "(argument 11) has no effect with --optimizer lion (argument 9)"));
    assert_non_null(strstr(notes, "whose weight decay is never part of the gradient"));
    mega_engine_destroy(e);
}

static size_t gradient_bytes(mega_engine *e)
{
    return mega_params_bytes(mega_engine_params(e), MEGA_PARAMS_GRADS);
}

/* Said by a JSON and by argv; half the memory; other weights, if not by much; and what it does not go with. */
static void gradients_in_16_bits(void **state)
{
    static const char *const refused[] = {"--optimizer muon --grad-accum-dtype bf16", "--grad-accum-dtype fp16",
                                          "--fp64 --backend plain --grad-accum-dtype bf16",
                                          "--bf16 --grad-accum-dtype fp16"};
    static float exact[TABLE], rounded[TABLE];
    double most = 0, largest = 0;
    (void)state;
    mega_engine *json = open_engine("{\"data_types\": {\"grad_accum_dtype\": \"bfloat16\"}}", "--global-batch-size 2");
    mega_engine *argv = open_engine(NULL, "--global-batch-size 2 --grad-accum-dtype bf16");
    mega_engine *wide = open_engine(NULL, "--global-batch-size 2");
    assert_int_equal(gradient_bytes(json), gradient_bytes(argv));
    assert_int_equal(2 * gradient_bytes(json), gradient_bytes(wide));
    steps(argv, 1);
    steps(wide, 1);
    need(mega_engine_get_param(argv, "net.wte.weight", "grad", TABLE, rounded));
    need(mega_engine_get_param(wide, "net.wte.weight", "grad", TABLE, exact));
    for (int i = 0; i < TABLE; i++) {
        most = fmax(most, fabs((double)rounded[i] - (double)exact[i]));
        largest = fmax(largest, fabs((double)exact[i]));
    }
    assert_true(most > 0 && most < 0.01 * largest); /* two micro-batches, each rounded to 8 bits */
    mega_engine_destroy(json);
    mega_engine_destroy(argv);
    mega_engine_destroy(wide);
    for (size_t i = 0; i < MEGA_COUNT(refused); i++) {
        mega_engine *e;
        assert_int_equal(try_open(&e, NULL, refused[i]), MEGA_ERR_UNSUPPORTED);
        assert_non_null(strstr(mega_error_message(), "--grad-accum-dtype"));
    }
}

/* The rule that warns of options which an optimizer does not read has a line for each kind: of all these options every
 * kind reads at least one, and the betas where it has betas. */
static void every_kind_reads_an_option(void **state)
{
    static const char *const given[] = {
        "--adam-beta1 0.5",   "--adam-eps 1e-3",       "--sgd-momentum 0.5",           "--adagrad-lr-decay 0.5",
        "--ademamix-alpha 2", "--schedule-free-r 0.5", "--one-bit-adam-freeze-step 2", "--lamb-max-coeff 2.5",
        "--muon-momentum 0.5"};
    (void)state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++) {
        char line[400], says[80];
        const char *name = mega_optimizer_kind_name(kind);
        int used = snprintf(line, sizeof line, "--optimizer %s", name), idle = 0;
        for (size_t i = 0; i < MEGA_COUNT(given); i++)
            used += snprintf(line + used, sizeof line - (size_t)used, " %s", given[i]);
        mega_engine *e = open_engine(NULL, line);
        for (size_t i = 0; i < MEGA_COUNT(given); i++) {
            snprintf(says, sizeof says, "(argument %d) has no effect", 11 + 2 * (int)i);
            idle += strstr(notes, says) != NULL;
        }
        const bool no_betas = strstr(notes, "(argument 11) has no effect") != NULL;
        if (idle == 0 || idle == (int)MEGA_COUNT(given) || no_betas == mega_optimizer_kind_has_betas(kind))
            fail_msg(
                "%s: add it to `read_by` in engine/rules_optimizer.c, for each option that it reads, and one of them "
                "to `given` here; the notes are:\n%s",
                name, notes);
        mega_engine_destroy(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_runs_have_the_same_bits), cmocka_unit_test(schedule_free_weights),
        cmocka_unit_test(other_states_are_named),          cmocka_unit_test(parameter_groups),
        cmocka_unit_test(json_and_options_agree),          cmocka_unit_test(every_kind_reads_an_option),
        cmocka_unit_test(options_of_other_optimizers),     cmocka_unit_test(gradients_in_16_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
