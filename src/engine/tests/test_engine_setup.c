/* Tests creating an engine from mega_setup: options from argv, refused setups, and the caller's own schedule, world and
 * team. */
#include "api_model.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARGC(list) ((int)(sizeof(list) / sizeof *(list)))

static void argv_trains(void **state)
{
    char *argv[] = {API_ARGV};
    mega_engine *e = NULL;
    mega_step_result first, r = {0};
    (void)state;
    need(mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv}, &e));
    assert_int_equal(mega_engine_global_steps(e), 0);
    assert_int_equal(mega_engine_train_batch_size(e), 2);
    assert_int_equal(mega_engine_train_micro_batch_size(e), 1);
    assert_int_equal(mega_engine_gradient_accumulation_steps(e), 2);
    assert_int_equal(mega_engine_dtype(e), MEGA_F64);
    assert_int_equal(mega_engine_zero_stage(e), 0);
    assert_int_equal(mega_engine_skipped_steps(e), 0);
    assert_true(mega_engine_is_main_process(e));
    assert_non_null(mega_engine_world(e));
    assert_true(isnan(mega_engine_global_grad_norm(e)));
    assert_true(mega_engine_lr(e) == 0.01);
    need(mega_engine_train_batch(e, &first));
    for (int i = 1; i < 40; i++) need(mega_engine_train_batch(e, &r));
    if (!(r.loss < 0.7 * first.loss)) fail_msg("loss %g after 40 steps, %g at first", r.loss, first.loss);
    assert_int_equal(mega_engine_global_steps(e), 40);
    assert_int_equal(mega_engine_global_samples(e), 80);
    assert_int_equal(mega_engine_micro_steps(e), 80);
    assert_true(mega_engine_global_grad_norm(e) == r.grad_norm);
    mega_engine_destroy(e);
}

static void halves_of_initialize(void **state)
{
    char *argv[] = {API_ARGV};
    const mega_setup setup = {.model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv};
    mega_engine *e = NULL, *other = NULL;
    mega_step_result a, b;
    (void)state;
    need(mega_engine_create(&setup, &e));
    need_error(mega_engine_train_batch(e, &a), MEGA_ERR_USAGE, "call mega_engine_allocate first");
    need(mega_engine_allocate(e));
    need_error(mega_engine_allocate(e), MEGA_ERR_USAGE, "has its memory already");
    need(mega_engine_train_batch(e, &a));
    mega_engine_destroy(e);
    need(mega_initialize(&setup, &other));
    need(mega_engine_train_batch(other, &b));
    assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
    mega_engine_destroy(other);
}

/* They fill what argv leaves open; with a JSON they say nothing, and a name that is no option is a mistake. */
static void defaults_are_options(void **state)
{
    static const mega_setting defaults[] = {
        {"micro_batch_size", "2"}, {"global_batch_size", "4"}, {"lr", "0.5"}, {NULL, NULL}};
    static const mega_setting wrong[] = {{"no_such_option", "1"}, {NULL, NULL}};
    char *argv[] = {"program", "--micro-batch-size", "1", "--num-threads", "1"};
    mega_setup setup = {
        .model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv, .defaults = defaults};
    mega_engine *e = NULL;
    (void)state;
    need(mega_initialize(&setup, &e));
    assert_int_equal(mega_engine_train_micro_batch_size(e), 1);
    assert_int_equal(mega_engine_train_batch_size(e), 4);
    assert_true(mega_engine_lr(e) == 0.5);
    mega_engine_destroy(e);
    setup.config = "{\"train_batch_size\": 3, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.25}}}";
    need(mega_initialize(&setup, &e));
    assert_int_equal(mega_engine_train_batch_size(e), 3);
    assert_true(mega_engine_lr(e) == 0.25);
    mega_engine_destroy(e);
    setup.config = NULL;
    setup.defaults = wrong;
    need_error(mega_initialize(&setup, &e), MEGA_ERR_USAGE, "mega_setup.defaults: option \"no_such_option\"");
}

static double falling(const void *user, int64_t step, int64_t samples)
{
    return *(const double *)user / (double)(1 + step) + 1e-6 * (double)samples;
}

static void own_schedule(void **state)
{
    char *argv[] = {"program", "--micro-batch-size", "1", "--num-threads", "1"}; /* no --lr */
    const double first = 0.5;
    const mega_lr_scheduler lr = {"falling", falling, &first};
    mega_engine *e = NULL;
    mega_step_result r;
    (void)state;
    need(mega_initialize(
        &(mega_setup){
            .model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv, .lr_scheduler = &lr},
        &e));
    need(mega_engine_train_batch(e, &r));
    assert_true(r.lr == 0.5);
    need(mega_engine_train_batch(e, &r));
    assert_true(r.lr == 0.25 + 1e-6 && mega_engine_lr(e) == 0.5 / 3 + 2e-6);
    mega_engine_destroy(e);
}

/* SGD with an optimizer state that counts the updates of each element. */
static void counting_sgd(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    double *p = c->param, *count = c->state[0];
    const double *g = c->grad;
    for (int64_t i = begin; i < end; i++) {
        p[i] -= c->option[0] * c->lr * g[i] * c->grad_factor;
        count[i] += p[i] != 0;
    }
}

static void own_optimizer(void **state)
{
    static const char *const states[] = {"count", NULL}, *const options[] = {"factor", NULL}, *const many[] = {"a",
                                                                                                               "b",
                                                                                                               "c",
                                                                                                               "d",
                                                                                                               "e",
                                                                                                               NULL};
    static const double factor = 0.5;
    static float counts[API_IDS * API_WIDTH];
    char *argv[] = {API_ARGV, "--weight-decay", "0", "--optimizer", "sgd", "--sgd-momentum", "0"},
         *twice[] = {API_ARGV, "--weight-decay", "0", "--lr", "0.02"};
    mega_optimizer_row row = {"counting", states, options, &factor, counting_sgd};
    mega_setup own = {
        .model = &api_model, .training_data = &api_data, .argc = ARGC(twice), .argv = twice, .optimizer = &row};
    mega_engine *a = NULL, *b = NULL;
    mega_step_result x, y;
    (void)state;
    need(mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv}, &a));
    need(mega_initialize(&own, &b));
    for (int i = 0; i < 4; i++) {
        need(mega_engine_train_batch(a, &x));
        need(mega_engine_train_batch(b, &y));
        if (fabs(x.loss - y.loss) > 1e-12) fail_msg("step %d: loss %.17g, %.17g by the caller", i, x.loss, y.loss);
    }
    need(mega_engine_get_param(b, "net.wte.weight", "count", API_IDS * API_WIDTH, counts));
    assert_true(counts[5] == 4);
    mega_engine_destroy(a);

    const char *folder = mega_kit_temp_folder();
    bool found;
    need(mega_engine_save_checkpoint(b, folder, NULL, NULL));
    need(mega_engine_train_batch(b, &x));
    mega_engine_destroy(b);
    need(mega_initialize(&own, &b));
    need(mega_engine_load_checkpoint(b, folder, NULL, NULL, &found, NULL));
    need(mega_engine_train_batch(b, &y));
    assert_true(found && x.loss == y.loss);
    mega_engine_destroy(b);

    mega_engine *none = NULL;
    static const char *const same[] = {"a", "a", NULL}, *const gradient[] = {"grad", NULL},
                             *const nameless[] = {"", NULL};
    mega_optimizer_row named = {"named", same, NULL, NULL, counting_sgd};
    mega_setup by_name = own;
    by_name.optimizer = &named;
    need_error(mega_engine_create(&by_name, &none), MEGA_ERR_USAGE, "states 0 and 1 are both called \"a\"");
    named.state = gradient;
    need_error(mega_engine_create(&by_name, &none), MEGA_ERR_USAGE, "another than \"grad\"");
    named.state = nameless;
    need_error(mega_engine_create(&by_name, &none), MEGA_ERR_USAGE, "state 0 is called \"\"");
    row.option_default = NULL;
    need_error(mega_engine_create(&own, &none), MEGA_ERR_USAGE, "no option_default");
    row.update = NULL;
    need_error(mega_engine_create(&own, &none), MEGA_ERR_USAGE, "function update is missing");
    row = (mega_optimizer_row){"many", many, NULL, NULL, counting_sgd};
    need_error(mega_engine_create(&own, &none), MEGA_ERR_USAGE, "5 states");
}

static void evaluation_alone(void **state)
{
    char *argv[] = {"program", "--micro-batch-size", "1", "--num-threads", "1"};
    const mega_dataset five = {.count = 5, .read = api_read};
    mega_engine *e = NULL;
    mega_step_result r;
    double loss = -1, again;
    (void)state;
    need(mega_initialize(
        &(mega_setup){
            .model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv, .mode = MEGA_EVAL},
        &e));
    need(mega_engine_forward(e, &loss));
    need(mega_engine_forward(e, &again));
    assert_true(loss > 0 && again > 0 && loss != again); /* the loss of the next sample */
    for (int i = 2; i < API_SAMPLES; i++) need(mega_engine_forward(e, NULL));
    need(mega_engine_forward(e, NULL)); /* the next epoch follows without a gap */
    need_error(mega_engine_backward(e), MEGA_ERR_USAGE, "cannot train");
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE, "cannot train");
    need(mega_engine_evaluate(e, &five, 0, &r));
    assert_int_equal(r.samples, 5);
    assert_true(r.loss > 0 && r.loss == r.metric[0]);
    mega_engine_destroy(e);
}

/* Samples past the end are padding; micro-batches that are all padding have weight 0. */
static void evaluation_counts_real_samples(void **state)
{
    char *argv[] = {API_ARGV, "--global-batch-size", "2"}, *wide[] = {API_ARGV, "--gradient-accumulation-steps", "8"};
    const mega_dataset five = {.first = 3, .count = 5, .read = api_read};
    const mega_setup setup = {.model = &api_model, .argc = ARGC(wide), .argv = wide};
    const mega_setup narrow = {.model = &api_model, .argc = ARGC(argv), .argv = argv};
    mega_engine *e = NULL;
    mega_step_result a, b, first;
    (void)state;
    need(mega_initialize(&setup, &e));
    need(mega_engine_evaluate(e, &five, 0, &a));
    mega_engine_destroy(e);
    need(mega_initialize(&narrow, &e));
    need(mega_engine_evaluate(e, &five, 0, &b));
    need(mega_engine_evaluate(e, &five, 1, &first));
    mega_engine_destroy(e);
    if (fabs(a.loss - b.loss) > 1e-12) fail_msg("loss %.17g in batches of 8, %.17g of 2", a.loss, b.loss);
    assert_int_equal(first.samples, 2);
    assert_true(first.loss != b.loss);
}

/* Evaluating five samples in micro-batches of four gives the mean over the single samples, with and without weights of
 * the loss per token. */
static void evaluation_counts_each_sample_once(void **state)
{
    char *one[] = {API_ARGV}, *four[] = {API_ARGV, "--micro-batch-size", "4"};
    char *token[] = {API_ARGV, "--micro-batch-size", "4", "--calculate-per-token-loss"};
    const struct {
        char **argv;
        int argc;
    } wide[] = {{four, ARGC(four)}, {token, ARGC(token)}};
    const int counts[] = {1, 3, 4, 5, 11};
    (void)state;
    for (int w = 0; w < ARGC(wide); w++) {
        mega_engine *a = NULL, *b = NULL;
        mega_step_result x, y;
        need(mega_initialize(&(mega_setup){.model = &api_model, .argc = ARGC(one), .argv = one}, &a));
        need(mega_initialize(&(mega_setup){.model = &api_model, .argc = wide[w].argc, .argv = wide[w].argv}, &b));
        for (int c = 0; c < ARGC(counts); c++) {
            const mega_dataset data = {.first = 3, .count = counts[c], .read = api_read};
            need(mega_engine_evaluate(a, &data, 0, &x));
            need(mega_engine_evaluate(b, &data, 0, &y));
            assert_int_equal(y.samples, counts[c]);
            if (!(fabs(x.loss - y.loss) < 1e-12))
                fail_msg("%d samples: loss %.17g one by one, %.17g in micro-batches of 4", counts[c], x.loss, y.loss);
        }
        mega_engine_destroy(a);
        mega_engine_destroy(b);
    }
}

/* Options that launchers and scripts pass to a program change nothing. */
static void options_of_launchers(void **state)
{
    char *plain[] = {API_ARGV}, *given[] = {API_ARGV, "--deepspeed", "--local_rank", "0"},
         *outside[] = {API_ARGV, "--local-rank=-1", "--deepspeed"};
    char **const argv[] = {plain, given, outside};
    const int argc[] = {ARGC(plain), ARGC(given), ARGC(outside)};
    double loss[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const mega_setup setup = {.model = &api_model, .training_data = &api_data, .argc = argc[i], .argv = argv[i]};
        mega_engine *e = NULL;
        mega_step_result r;
        need(mega_initialize(&setup, &e));
        need(mega_engine_train_batch(e, &r));
        loss[i] = r.loss;
        mega_engine_destroy(e);
    }
    assert_true(loss[0] == loss[1] && loss[0] == loss[2]);
}

/* ---- a JSON ---- */

static const char json[] =
    "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2,\n"
    " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01, \"weight_decay\": 0.01}},\n"
    " \"megalith\": {\"fp64\": true, \"seed\": 3, \"num_threads\": 1}}\n";

/* Trains three steps and returns their losses. */
static void train_three(const mega_setup *setup, double loss[3])
{
    mega_engine *e = NULL;
    mega_step_result r;
    need(mega_initialize(setup, &e));
    for (int i = 0; i < 3; i++) {
        need(mega_engine_train_batch(e, &r));
        loss[i] = r.loss;
    }
    mega_engine_destroy(e);
}

static void json_trains_as_argv_does(void **state)
{
    char path[512], *argv[] = {API_ARGV}, *other[] = {API_ARGV, "--lr", "0.02"},
                    *named[] = {"p", "--deepspeed_config", path};
    double expected[3], text[3], file[3], option[3], overridden[3], other_rate[3];
    (void)state;
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs(json, f) >= 0 && fclose(f) == 0);
    const mega_setup s = {.model = &api_model, .training_data = &api_data};
    mega_setup a = s, b = s, c = s, d = s, e = s, g = s;
    a.argc = ARGC(argv), a.argv = argv;
    b.config = json;
    c.config = path;
    d.argc = ARGC(named), d.argv = named;
    e.config = json, e.argc = ARGC(other), e.argv = other;
    g.argc = ARGC(other), g.argv = other;
    train_three(&a, expected);
    train_three(&b, text);
    train_three(&c, file);
    train_three(&d, option);
    train_three(&e, overridden);
    train_three(&g, other_rate);
    for (int i = 0; i < 3; i++) {
        assert_true(text[i] == expected[i] && file[i] == expected[i] && option[i] == expected[i]);
        assert_true(overridden[i] == other_rate[i]);
    }
    assert_true(overridden[2] != expected[2]);
}

static void wrong_json(void **state)
{
    char *argv[] = {API_ARGV};
    mega_engine *e = NULL;
    mega_setup s = {.model = &api_model, .config = "{\n\"train_batch_sise\": 2}"};
    (void)state;
    need_error(mega_engine_create(&s, &e), MEGA_ERR_USAGE,
               "setup.config: 3 mistakes:\n  1. \"train_batch_sise\" (mega_setup.config, line 2) is not a key of a "
               "configuration; did you mean \"train_batch_size\"?");
    s.argc = ARGC(argv), s.argv = argv;
    s.config = "{\"scheduler\": {\"type\": \"OneCycle\"}}";
    need_error(mega_engine_create(&s, &e), MEGA_ERR_USAGE, "missing: \"scheduler.params.cycle_min_lr\"");
    s.config = "{\"megalith\": {\"lr_decay_style\": \"cosine\"}}";
    need_error(
        mega_engine_create(&s, &e), MEGA_ERR_USAGE,
        "\"megalith.lr_decay_style\" \"cosine\" (mega_setup.config, line 1): missing: \"megalith.lr_decay_iters\" or "
        "\"megalith.train_iters\"");
    /* an error from a lower module */
    s.config = "{\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1}}, \"pipeline\": {\"stages\": 2}}";
    need_error(mega_engine_create(&s, &e), MEGA_ERR_USAGE, "\"pipeline.stages\" 2");
    s.config = "nowhere/ds.json";
    need_error(mega_engine_create(&s, &e), MEGA_ERR_NOT_FOUND, "nowhere/ds.json");
    assert_null(e);
}

/* ---- what is refused ---- */

static mega_status create(const mega_setup *setup)
{
    mega_engine *e = NULL;
    const mega_status st = mega_engine_create(setup, &e);
    assert_null(e);
    return st;
}

static void wrong_arguments(void **state)
{
    char *argv[] = {API_ARGV};
    const mega_dataset none = {.count = 0, .read = api_read}, unread = {.count = 3};
    const mega_lr_scheduler empty = {.name = "none"};
    mega_engine *e = NULL;
    mega_setup s = {.model = &api_model, .argc = ARGC(argv), .argv = argv};
    mega_setup x;
    (void)state;
    need_error(mega_initialize(NULL, &e), MEGA_ERR_USAGE, "setup is NULL");
    need_error(mega_initialize(&s, NULL), MEGA_ERR_USAGE, "out is NULL");
    need_error(mega_engine_create(&s, NULL), MEGA_ERR_USAGE, "out is NULL");
    x = s, x.model = NULL;
    need_error(create(&x), MEGA_ERR_USAGE, "model is NULL");
    x = s, x.mode = (mega_mode)7;
    need_error(create(&x), MEGA_ERR_UNSUPPORTED, "setup.mode");
    x = s, x.mode = MEGA_GENERATE, x.training_data = &unread;
    need_error(create(&x), MEGA_ERR_USAGE, "setup.training_data is given to an engine that generates");
    x = s, x.argv = NULL;
    need_error(create(&x), MEGA_ERR_USAGE, "setup.argv");
    x = s, x.training_data = &none;
    need_error(create(&x), MEGA_ERR_USAGE, "0 samples");
    x = s, x.training_data = &unread;
    need_error(create(&x), MEGA_ERR_USAGE, "read is NULL");
    x = s, x.lr_scheduler = &empty;
    need_error(create(&x), MEGA_ERR_USAGE, "lr_scheduler->lr is NULL");
    x = s, x.layout.tp = 2;
    need_error(create(&x), MEGA_ERR_USAGE, "");
}

static void wrong_options(void **state)
{
    static const struct {
        char *argv[8];
        int argc;
        const char *said;
    } wrong[] = {{{"p", "--lr", "1"}, 3, "missing: --micro-batch-size"},
                 {{"p", "--micro-batch-size", "1"}, 3, "missing: --lr"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--num-layers", "4"},
                  7,
                  "--num-layers is not an option of this program's engine"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--data-path", "x"},
                  7,
                  "--data-path is not an option of this program's engine"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--zero-stge", "2"}, 7, "--zero-stage"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--zero-stage", "4"}, 7, "expected 0, 1, 2 or 3"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--lr-decay-style", "cosine"}, 7, "--lr-decay-iters"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--local_rank", "1"},
                  7,
                  "--local_rank 1: by its launcher this process is rank 0 of the 1 on its host"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--local-rank=two"}, 6, "found \"two\", expected"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--local_rank", "-2"}, 7, "found \"-2\", expected"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--deepspeed", "x.json"}, 7, "x.json"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--entirely-unheard-of", "4"},
                  7,
                  "is not an option of this program's engine; mega_engine_options_help"},
                 {{"p", "--micro-batch-size", "1", "--lr", "1", "--sequence-parallel"},
                  6,
                  "set mega_model.sequence_parallel instead"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const mega_setup s = {.model = &api_model, .argc = wrong[i].argc, .argv = (char **)(uintptr_t)wrong[i].argv};
        const mega_status st = create(&s);
        if (st != MEGA_ERR_USAGE && st != MEGA_ERR_UNSUPPORTED && st != MEGA_ERR_NOT_FOUND) /* x.json is no file */
            fail_msg("%zu: %s", i, mega_status_name(st));
        if (strstr(mega_error_message(), wrong[i].said) == NULL)
            fail_msg("\"%s\", expected \"%s\"", mega_error_message(), wrong[i].said);
    }
}

/* Members of a setup that are given next to setup.options are either used or refused. */
static void options_as_numbers(void **state)
{
    const mega_engine_options o = engine_run_options(2, 1, 1e-2);
    mega_setup s = {.model = &api_model, .options = &o, .mode = MEGA_EVAL};
    mega_engine *e = NULL;
    mega_step_result r;
    (void)state;
    need(mega_engine_create(&s, &e));
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE, "was created with no_train (MEGA_EVAL)");
    mega_engine_destroy(e);
    s.layout.pp = 1;
    need_error(create(&s), MEGA_ERR_USAGE, "setup.options holds every setting, and setup.layout is given as well");
}

static void every_mistake_in_one_message(void **state)
{
    char *argv[] = {"p", "--hidden-size", "4", "--clip-grad", "x"};
    (void)state;
    assert_int_equal(create(&(mega_setup){.model = &api_model, .argc = ARGC(argv), .argv = argv}), MEGA_ERR_USAGE);
    for (size_t i = 0; i < 3; i++) {
        static const char *const said[] = {"--hidden-size", "--clip-grad", "--micro-batch-size"};
        if (strstr(mega_error_message(), said[i]) == NULL) fail_msg("no %s: %s", said[i], mega_error_message());
    }
}

static void help_lists_what_is_read(void **state)
{
    mega_buffer text = {0};
    (void)state;
    need(mega_engine_options_help(&text));
    if (strstr(text.data, "--zero-stage") == NULL || strstr(text.data, "--num-layers") != NULL)
        fail_msg("%s", text.data);
    mega_buffer_fini(&text);
    need_error(mega_engine_options_help(NULL), MEGA_ERR_USAGE, "out is NULL");
}

static int initialize_once(void *user)
{
    char *argv[] = {API_ARGV};
    mega_engine *e = NULL;
    (void)user;
    const mega_status st = mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = &api_data, .argc = ARGC(argv), .argv = argv}, &e);
    mega_engine_destroy(e);
    return st;
}

static void memory_may_be_refused(void **state)
{
    (void)state;
    assert_true(mega_kit_fail_each_allocation(initialize_once, NULL) > 50);
}

/* Queries with a NULL engine return without a crash. */
static void queries_of_nothing(void **state)
{
    const char *name;
    int64_t rows, columns;
    (void)state;
    assert_int_equal(mega_engine_global_steps(NULL), -1);
    assert_int_equal(mega_engine_global_samples(NULL), -1);
    assert_int_equal(mega_engine_micro_steps(NULL), -1);
    assert_int_equal(mega_engine_train_batch_size(NULL), -1);
    assert_int_equal(mega_engine_gradient_accumulation_steps(NULL), -1);
    assert_true(isnan(mega_engine_lr(NULL)) && isnan(mega_engine_loss_scale(NULL)));
    assert_false(mega_engine_is_main_process(NULL));
    assert_false(mega_engine_is_accumulation_boundary(NULL));
    assert_false(mega_engine_was_step_applied(NULL));
    assert_null(mega_engine_world(NULL));
    assert_int_equal(mega_engine_num_metrics(NULL), 0);
    assert_null(mega_engine_metric_name(NULL, 0));
    assert_null(mega_engine_micro_batch(NULL));
    need_error(mega_engine_forward(NULL, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_backward(NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_step(NULL, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_evaluate(NULL, &api_data, 0, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_set_accumulation_boundary(NULL, true), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_get_param(NULL, "x", NULL, 1, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_set_param(NULL, "x", NULL, 1, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_param_info(NULL, 0, &name, &rows, &columns), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_save_checkpoint(NULL, "x", NULL, NULL), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_load_checkpoint(NULL, "x", NULL, NULL, NULL, NULL), MEGA_ERR_USAGE, "the engine is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(argv_trains),
                                       cmocka_unit_test(halves_of_initialize),
                                       cmocka_unit_test(defaults_are_options),
                                       cmocka_unit_test(own_schedule),
                                       cmocka_unit_test(own_optimizer),
                                       cmocka_unit_test(evaluation_alone),
                                       cmocka_unit_test(evaluation_counts_real_samples),
                                       cmocka_unit_test(evaluation_counts_each_sample_once),
                                       cmocka_unit_test(json_trains_as_argv_does),
                                       cmocka_unit_test(wrong_json),
                                       cmocka_unit_test(wrong_arguments),
                                       cmocka_unit_test(wrong_options),
                                       cmocka_unit_test(options_of_launchers),
                                       cmocka_unit_test(options_as_numbers),
                                       cmocka_unit_test(every_mistake_in_one_message),
                                       cmocka_unit_test(help_lists_what_is_read),
                                       cmocka_unit_test(memory_may_be_refused),
                                       cmocka_unit_test(queries_of_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
