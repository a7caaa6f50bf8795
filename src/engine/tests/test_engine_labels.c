/* Tests labels of samples: a class, the ignored label, or a mistake that names the sample, except in rows of weight
 * 0. */
#include "api_model.h"
#include "kit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 3, PIXELS = 4, COUNT = 16 };

/* How rows are weighed, where they are: by the data, by a value that the model computes of it, or by the model, which
 * multiplies or sums the losses of rows. */
typedef enum weighing { BY_DATA, BY_VALUE, BY_PRODUCT, BY_SUM, BY_PRODUCT_AND_SUM, WEIGHINGS, BY_ITSELF } weighing;

/* What the model and its data are. */
typedef struct digits {
    weighing by;
    bool in_float;           /* weights are f32, and so are values that the model computes of them in fp32 only */
    const char *micro_batch; /* NULL: 16 */
    bool is_per_token;
    bool has_weights, has_ignored, is_of_rows, is_own, has_accuracy;
    bool are_ids; /* labels select rows of a table too */
    int32_t ignored;
    int32_t label[COUNT];
    float weight[COUNT];
} digits;

static digits now;

static mega_loss weighted_loss(const mega_builder *b, mega_tensor logits, mega_tensor labels, mega_tensor weights)
{
    if (now.by == BY_DATA) return mega_cross_entropy(b, logits, labels, weights);
    if (now.by == BY_VALUE) return mega_cross_entropy(b, logits, labels, mega_scale(b, weights, 1));
    const mega_tensor losses = mega_scale(b, mega_row_cross_entropy(b, logits, labels), 1);
    if (now.by == BY_SUM) return mega_sum(b, losses, weights);
    if (now.by == BY_ITSELF) return mega_sum(b, mega_mul(b, losses, losses), mega_none());
    return mega_sum(b, mega_mul(b, losses, weights), now.by == BY_PRODUCT ? mega_none() : mega_scale(b, weights, 1));
}

static void describe(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor x = mega_input(b, "x", MEGA_F32, 1, PIXELS);
    const mega_tensor labels = mega_input(b, now.is_own ? "sample_id" : "label", MEGA_I32, 1, 0);
    const mega_tensor weights = now.has_weights ? mega_input(b, "weight", MEGA_F32, 1, 0) : mega_none();
    mega_tensor logits = mega_column_linear(b, "fc", x, CLASSES, &api_linear);
    (void)self;
    (void)f;
    if (now.are_ids) logits = mega_add(b, logits, mega_embedding(b, "table", labels, CLASSES, CLASSES, &api_table));
    if (now.has_ignored) mega_ignore_label(b, labels, now.ignored);
    mega_loss_add(b, "loss",
                  now.is_of_rows ? mega_sum(b, mega_row_cross_entropy(b, logits, labels), mega_none())
                                 : weighted_loss(b, logits, labels, weights),
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
    now = *d;
    char *argv[16] = {"program", "--global-batch-size", "16", "--lr", "0.01", "--seed", "3", "--num-threads", "1"};
    int argc = 9;
    argv[argc++] = "--micro-batch-size";
    argv[argc++] = (char *)(uintptr_t)(now.micro_batch != NULL ? now.micro_batch : "16");
    if (!now.in_float) argv[argc++] = "--fp64";
    if (now.is_per_token) argv[argc++] = "--calculate-per-token-loss";
    mega_engine *e = NULL;
    need(mega_initialize(&(mega_setup){.model = &model, .training_data = &digit_data, .argc = argc, .argv = argv}, &e));
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
    for (int way = 0; way < 5; way++) {
        d.is_of_rows = way == 1;
        d.has_weights = way == 2;
        d.has_accuracy = way != 3;
        d.by = way == 4 ? BY_ITSELF : BY_DATA; /* the loss of such a row is 0, which is no weight */
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

/* A class is ignored where its labels are ids of a table too. */
static void ignored_ids(void **state)
{
    (void)state;
    for (int is_of_rows = 0; is_of_rows < 2; is_of_rows++) {
        digits d = all_right();
        mega_step_result by_weight, all, r;
        d.are_ids = true;
        need(step(&d, &all));
        d.has_weights = true;
        for (int i = 0; i < COUNT; i += 3) d.weight[i] = 0; /* these have label 0 */
        need(step(&d, &by_weight));
        d.has_ignored = true; /* (0) */
        for (int has_weights = 0; has_weights < 2; has_weights++) {
            for (int i = 0; i < COUNT; i++) d.weight[i] = 1;
            d.has_weights = has_weights != 0;
            d.is_of_rows = is_of_rows != 0;
            need(step(&d, &r)); /* a mean over rows counts those of loss 0 */
            const double loss = d.is_of_rows ? r.loss * COUNT / 10 : r.loss;
            const double hits = 10 * r.metric[1];
            if (fabs(loss - by_weight.loss) > 1e-12 || fabs(hits - round(hits)) > 1e-12 || by_weight.loss == all.loss)
                fail_msg("rows %d, weights %d: loss %.17g, accuracy %g of 10 rows; expected %.17g", is_of_rows,
                         has_weights, loss, r.metric[1], by_weight.loss);
        }
    }
}

/* Only the label that is ignored is: -100 is a mistake like others, also where a program looks for them. */
static void another_than_the_usual(void **state)
{
    (void)state;
    for (weighing by = BY_DATA; by < WEIGHINGS; by++) {
        digits d = all_right();
        mega_step_result without, r;
        d.by = by;
        d.has_weights = d.in_float = d.has_ignored = true;
        d.ignored = 255;
        d.label[4] = 255;
        need(step(&d, &without));
        assert_true(without.loss > 0);
        d.label[4] = -100;
        refused(&d, "label -100 (");
        assert_non_null(strstr(mega_error_message(), "expected 0 to 2, one of 3 classes, or 255"));
        d.weight[4] = 0;
        need(step(&d, &r));
        if (by <= BY_VALUE) assert_true(fabs(r.loss - without.loss) < 1e-6); /* (others are means over all rows) */
    }
}

/* A loss is divided by the sum of its weights: of a micro-batch, or of the step. */
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
    refused(&d, "input \"weight\": weights sum to -1 in micro-batch 0 (samples 0 to 15, rows 0 to 15 of the batch); "
                "expected 0 or more");
    d.micro_batch = "4";
    d.weight[3] = 1;
    d.weight[6] = -4;
    refused(&d, "input \"weight\": weights sum to -1 in micro-batch 1 (samples 4 to 7, rows 4 to 7 of the batch); "
                "expected 0 or more");
    d.label[6] = -100; /* takes its weight with it */
    need(step(&d, &r));
    d.label[6] = 0;
    d.is_per_token = true; /* divided by what the step sums to: 11 */
    need(step(&d, &r));
    const double per_token = r.loss;
    d.micro_batch = "16";
    need(step(&d, &r));
    assert_true(fabs(r.loss - per_token) < 1e-12);
}

/* Weights that the model computes divide its loss as they are: here by -2 what is -2 times the loss of 1. */
static void computed_weights_below_zero(void **state)
{
    digits d = all_right();
    mega_step_result a, b;
    (void)state;
    d.by = BY_VALUE;
    d.has_weights = d.in_float = true;
    need(step(&d, &a));
    for (int i = 0; i < COUNT; i++) d.weight[i] = -2;
    need(step(&d, &b));
    if (!(a.loss > 0) || fabs(a.loss - b.loss) > 1e-6 || fabs(a.grad_norm - b.grad_norm) > 1e-6)
        fail_msg("loss %.9g, norm %.9g; expected %.9g, %.9g", b.loss, b.grad_norm, a.loss, a.grad_norm);
}

/* Numbers of the engine as labels: 16 samples, of 3 classes. */
static void labels_of_the_model(void **state)
{
    digits d = all_right();
    (void)state;
    d.is_own = true;
    refused(&d,
            "input \"sample_id\": 13 of 16 rows have labels that are no classes, the first of them label 3 (sample 3, "
            "row 3 of the micro-batch); expected 0 to 2, one of 3 classes, or -100");
    d.has_weights = true;
    for (int i = CLASSES; i < COUNT; i++) d.weight[i] = i == 9 ? 0.5F : 0;
    refused(&d, "input \"sample_id\": 1 of 16 rows have labels that are no classes, the first of them label 9");
    mega_step_result r;
    d.weight[9] = 0;
    need(step(&d, &r));
    assert_true(r.loss > 0);
}

/* Rows whose weight the model computes, or by which it multiplies their losses. */
static void rows_that_the_model_weighs(void **state)
{
    (void)state;
    for (weighing by = BY_VALUE; by < WEIGHINGS; by++) {
        digits d = all_right();
        mega_step_result a, b;
        d.by = by;
        d.has_weights = d.in_float = true;
        for (int i = 0; i < COUNT; i++) d.weight[i] = i % 3 == 0 ? 0 : 0.25F * (float)i;
        need(step(&d, &a)); /* (every third label is 0) */
        for (int i = 0; i < COUNT; i += 3) d.label[i] = i % 2 == 0 ? 77 : -1;
        need(step(&d, &b));
        if (!(a.loss > 0) || a.loss != b.loss || a.grad_norm != b.grad_norm)
            fail_msg("way %d: loss %.9g, norm %.9g; %.9g, %.9g with labels of no class", by, a.loss, a.grad_norm,
                     b.loss, b.grad_norm);
        d.label[4] = 3;
        refused(&d, by == BY_PRODUCT || by == BY_SUM
                        ? "input \"label\": label 3 (number 0 of sample 4, row 4 of the batch)"
                        : "input \"label\": 1 of 16 rows have labels that are no classes, the first of them label 3 "
                          "(sample 4, row 4 of the micro-batch); expected 0 to 2, one of 3 classes, or -100");
        d.label[4] = -100; /* not counted, nor its weight where the loss has one */
        need(step(&d, &b));
        assert_true(b.loss > 0 && b.loss != a.loss);
    }
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

/* ---- masks that are computed, or shared ---- */

static bool has_second; /* a second head, of other labels and the same mask; else the mask is computed */
static int32_t second_label;

static void describe_heads(const mega_builder *b, const void *self, mega_flow *f)
{
    static const mega_vocab_loss_options vocab = {.vocab_size = API_IDS,
                                                  .table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, API_SEQ, 0);
    mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, API_SEQ, 0);
    (void)self;
    if (!has_second) mask = mega_scale(b, mask, 1);
    mega_loss_add(b, "loss", mega_vocab_loss(b, "wte", f->x, labels, mask, &vocab).loss, 1);
    if (!has_second) return;
    const mega_tensor others = mega_input(b, "others", MEGA_I32, API_SEQ, 0);
    mega_loss_add(b, "other", mega_vocab_loss(b, "wte", f->x, others, mask, &vocab).loss, 1);
}

static mega_status read_heads(void *user, int64_t index, mega_sample *s)
{
    int32_t label[API_SEQ];
    MEGA_TRY(read_tokens(user, index, s));
    for (int i = 0; i < API_SEQ; i++) label[i] = i == 2 ? second_label : i;
    return has_second ? mega_sample_set_i32(s, "others", label, API_SEQ) : MEGA_OK;
}

static mega_status loss_of_heads(int32_t label, float mask, mega_step_result *out)
{
    static const mega_layer layers[] = {{"net", api_embed, NULL, 1, "embed"}, {"net", describe_heads, NULL, 1, "head"}};
    static const mega_model model = {.name = "heads", .layer = layers, .num_layers = 2, .positions = API_SEQ};
    token_case c = {label, mask};
    char *argv[] = {"program", "--micro-batch-size", "1", "--gradient-accumulation-steps",
                    "2",       "--num-threads",      "1", "--lr",
                    "0.01"};
    const mega_dataset data = {.count = API_SAMPLES, .read = read_heads, .user = &c, .in_order = true};
    mega_engine *e = NULL;
    need(mega_initialize(
        &(mega_setup){.model = &model, .training_data = &data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv},
        &e));
    const mega_status st = mega_engine_train_batch(e, out);
    mega_engine_destroy(e);
    return st;
}

static void heads_of_computed_masks(void **state)
{
    mega_step_result masked, r;
    (void)state;
    has_second = false;
    need(loss_of_heads(4, 0, &masked));
    need(loss_of_heads(API_IDS + 5, 0, &r)); /* of weight 0: any number will do */
    assert_true(r.loss == masked.loss && r.grad_norm == masked.grad_norm);
    need(loss_of_heads(-100, 1, &r));
    assert_true(r.loss == masked.loss && r.grad_norm == masked.grad_norm);
    need(loss_of_heads(4, 1, &r));
    assert_true(r.loss != masked.loss);
    assert_int_equal(loss_of_heads(API_IDS, 1, &r), MEGA_ERR_USAGE); /* the table has padding after its 16 rows */
    assert_non_null(strstr(mega_error_message(),
                           "input \"labels\": 1 of 8 rows have labels that are no classes, the first of them label 16 "
                           "(sample 0, row 2 of the micro-batch); expected 0 to 15, one of 16 classes, or -100"));
}

/* What one head ignores counts for another. */
static void heads_of_one_mask(void **state)
{
    mega_step_result both, first, r;
    (void)state;
    has_second = true;
    second_label = 5;
    need(loss_of_heads(4, 1, &both));
    need(loss_of_heads(-100, 1, &first));
    assert_true(first.metric[0] != both.metric[0] && first.metric[1] == both.metric[1]);
    second_label = -100;
    need(loss_of_heads(4, 1, &r));
    assert_true(r.metric[0] == both.metric[0] && r.metric[1] != both.metric[1]);
    need(loss_of_heads(77, 0, &r));
    second_label = 77;
    assert_int_equal(loss_of_heads(4, 1, &r), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "input \"others\": 1 of 8 rows"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_no_class),      cmocka_unit_test(rows_that_do_not_count),
        cmocka_unit_test(weights_below_zero),      cmocka_unit_test(computed_weights_below_zero),
        cmocka_unit_test(labels_of_the_model),     cmocka_unit_test(rows_that_the_model_weighs),
        cmocka_unit_test(heads_of_computed_masks), cmocka_unit_test(heads_of_one_mask),
        cmocka_unit_test(targets_of_a_vocabulary), cmocka_unit_test(ignored_ids),
        cmocka_unit_test(another_than_the_usual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
