/* Tests labels of samples: a class, the ignored label, or a mistake that names the sample, except in rows of weight
 * 0. */
#include "api_model.h"
#include "kit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 3, PIXELS = 4, COUNT = 16 };

/* What the model and its data are. */
typedef struct digits {
    bool has_weights, has_ignored, is_of_rows, is_own, has_accuracy;
    int32_t ignored;
    int32_t label[COUNT];
    float weight[COUNT];
} digits;

static digits now;

static void describe(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor x = mega_input(b, "x", MEGA_F32, 1, PIXELS);
    const mega_tensor labels = mega_input(b, now.is_own ? "sample_id" : "label", MEGA_I32, 1, 0);
    const mega_tensor weights = now.has_weights ? mega_input(b, "weight", MEGA_F32, 1, 0) : mega_none();
    const mega_tensor logits = mega_column_linear(b, "fc", x, CLASSES, &api_linear);
    (void)self;
    (void)f;
    if (now.has_ignored) mega_ignore_label(b, labels, now.ignored);
    mega_loss_add(b, "loss",
                  now.is_of_rows ? mega_sum(b, mega_row_cross_entropy(b, logits, labels), mega_none())
                                 : mega_cross_entropy(b, logits, labels, weights),
                  1);
    if (now.has_accuracy) mega_loss_add(b, "accuracy", mega_accuracy(b, logits, labels), 0);
}

static mega_status read_digit(void *user, int64_t index, mega_sample *s)
{
    float x[PIXELS];
    (void)user;
    for (int i = 0; i < PIXELS; i++) x[i] = (float)((index * 5 + i * 3) % 7) - 3.0F;
    MEGA_TRY(mega_sample_set_f32(s, "x", x, PIXELS));
    if (now.has_weights) MEGA_TRY(mega_sample_set_f32(s, "weight", &now.weight[index], 1));
    return now.is_own ? MEGA_OK : mega_sample_set_i32(s, "label", &now.label[index], 1);
}

static const mega_dataset digit_data = {.count = COUNT, .read = read_digit, .in_order = true};

static digits all_right(void)
{
    digits d = {.has_accuracy = true};
    for (int i = 0; i < COUNT; i++) {
        d.label[i] = i % CLASSES;
        d.weight[i] = 1;
    }
    return d;
}

/* One step on all samples. */
static mega_status step(const digits *d, mega_step_result *out)
{
    static const mega_layer layers[] = {{"net", describe, NULL, 1, "net"}};
    static const mega_model model = {.name = "digits", .layer = layers, .num_layers = 1, .positions = 1};
    char *argv[] = {
        "program", "--micro-batch-size", "16", "--global-batch-size", "16", "--lr", "0.01", "--fp64", "--seed",
        "3",       "--num-threads",      "1"};
    mega_engine *e = NULL;
    now = *d;
    need(mega_initialize(
        &(mega_setup){
            .model = &model, .training_data = &digit_data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv},
        &e));
    const mega_status st = mega_engine_train_batch(e, out);
    if (st != MEGA_OK) assert_int_equal(mega_engine_global_steps(e), 0);
    mega_engine_destroy(e);
    return st;
}

static void refused(const digits *d, const char *part)
{
    mega_step_result r;
    assert_int_equal(step(d, &r), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), part) == NULL) fail_msg("\"%s\"; expected %s", mega_error_message(), part);
}

static void labels_of_no_class(void **state)
{
    digits d = all_right();
    mega_step_result r;
    (void)state;
    need(step(&d, &r));
    for (int i = 0; i < COUNT; i++) d.label[i] = 1 + i % CLASSES; /* numbered from 1 */
    for (int way = 0; way < 4; way++) {
        d.is_of_rows = way == 1;
        d.has_weights = way == 2;
        d.has_accuracy = way != 3;
        refused(&d, "input \"label\": label 3 (number 0 of sample 2, row 2 of the batch); expected 0 to 2, one of 3 "
                    "classes, or -100");
    }
    d = all_right();
    d.label[5] = -1;
    refused(&d, "label -1 (number 0 of sample 5");
}

/* Rows that do not count: their loss and weight are those of rows that are left out by weight 0. */
static void rows_that_do_not_count(void **state)
{
    digits d = all_right(), ignored, chosen, of_class;
    mega_step_result by_weight, r;
    (void)state;
    d.has_weights = true;
    ignored = chosen = of_class = d;
    for (int i = 0; i < COUNT; i += 3) { /* these have label 0 */
        d.weight[i] = 0;
        d.label[i] = 77; /* any number will do */
        ignored.label[i] = -100;
        chosen.label[i] = 255;
    }
    chosen.has_ignored = of_class.has_ignored = true;
    chosen.ignored = 255;
    of_class.ignored = 0;
    need(step(&d, &by_weight));
    const digits *const alike[] = {&ignored, &chosen, &of_class};
    for (size_t i = 0; i < 3; i++)
        for (int has_weights = 0; has_weights < 2; has_weights++) {
            digits same = *alike[i];
            same.has_weights = has_weights != 0;
            need(step(&same, &r));
            if (fabs(r.loss - by_weight.loss) > 1e-12 || fabs(r.metric[1] - by_weight.metric[1]) > 1e-12)
                fail_msg("way %zu: loss %.17g, accuracy %g; %.17g, %g by weight", i, r.loss, r.metric[1],
                         by_weight.loss, by_weight.metric[1]);
        }
    ignored.has_ignored = true;
    ignored.ignored = 255;
    refused(&ignored,
            "label -100 (number 0 of sample 0, row 0 of the batch); expected 0 to 2, one of 3 classes, or 255");
}

/* A loss is divided by the sum of its weights. */
static void weights_below_zero(void **state)
{
    digits d = all_right();
    mega_step_result r;
    (void)state;
    d.has_weights = true;
    d.weight[3] = -15; /* with the other fifteen: 0 */
    need(step(&d, &r));
    assert_true(r.loss == 0);
    d.weight[3] = -16;
    refused(&d, "input \"weight\": weights sum to -1; expected 0 or more");
}

/* Numbers of the engine as labels: 16 samples, of 3 classes. */
static void labels_of_the_model(void **state)
{
    digits d = all_right();
    (void)state;
    d.is_own = true;
    refused(&d, "input \"sample_id\": 13 of 16 rows have labels that are no classes, the first of them 3 in row 3");
}

/* ---- a vocabulary ---- */

typedef struct token_case {
    int32_t label;
    float mask;
} token_case;

static mega_status read_tokens(void *user, int64_t index, mega_sample *s)
{
    const token_case *c = user;
    int32_t label[API_SEQ];
    float mask[API_SEQ];
    MEGA_TRY(api_read(NULL, index, s));
    for (int i = 0; i < API_SEQ; i++) {
        label[i] = i == 2 ? c->label : i;
        mask[i] = i == 2 ? c->mask : 1;
    }
    MEGA_TRY(mega_sample_set_f32(s, "loss_mask", mask, API_SEQ));
    return mega_sample_set_i32(s, "labels", label, API_SEQ);
}

static mega_status loss_of_tokens(int32_t label, float mask, double *out)
{
    token_case c = {label, mask};
    char *argv[] = {API_ARGV};
    const mega_dataset data = {.count = API_SAMPLES, .read = read_tokens, .user = &c, .in_order = true};
    mega_step_result r = {.loss = 0};
    mega_engine *e = NULL;
    need(mega_initialize(
        &(mega_setup){
            .model = &api_model, .training_data = &data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv},
        &e));
    mega_status st = mega_engine_train_batch(e, &r);
    if (st == MEGA_OK) st = mega_engine_train_batch(e, &r); /* the second loss depends on the gradients of the first */
    mega_engine_destroy(e);
    *out = r.loss;
    return st;
}

static void targets_of_a_vocabulary(void **state)
{
    double masked, loss, counted;
    (void)state;
    need(loss_of_tokens(4, 0, &masked));
    need(loss_of_tokens(4, 1, &counted));
    assert_true(masked != counted);
    need(loss_of_tokens(-100, 1, &loss));
    assert_true(loss == masked);
    need(loss_of_tokens(API_IDS + 5, 0, &loss));
    assert_true(loss == masked);
    static const int32_t wrong[] = {API_IDS, API_IDS + 1, -1, 100000};
    for (size_t i = 0; i < 4; i++) { /* the table has padding behind its 16 rows */
        char part[80];
        snprintf(part, sizeof part, "input \"labels\": label %d (number 2 of sample 0, row 0", wrong[i]);
        assert_int_equal(loss_of_tokens(wrong[i], 1, &loss), MEGA_ERR_USAGE);
        if (strstr(mega_error_message(), part) == NULL) fail_msg("%s; expected %s", mega_error_message(), part);
        assert_non_null(strstr(mega_error_message(), "0 to 15, one of 16 classes"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_no_class),      cmocka_unit_test(rows_that_do_not_count),
        cmocka_unit_test(weights_below_zero),      cmocka_unit_test(labels_of_the_model),
        cmocka_unit_test(targets_of_a_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
