/* Tests the public API of the engine on two ranks in every layout, against one rank: train_batch, single micro-batches,
 * whole parameters, gradients and states by name, checkpoints with the caller's state, and wrong calls on one rank.
 * Usage: ranks_api FOLDER */
#include "api_model.h"
#include "rank_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = API_IDS * API_WIDTH, UP = 4 * API_WIDTH * API_WIDTH, STEPS = 3 };

static int failures;
static bool is_torn; /* reads of this rank fail */
static const mega_dataset data = {.count = API_SAMPLES, .read = api_read, .user = &is_torn};

typedef struct layout {
    const char *name;
    char *option, *value;
    int dp;
} layout;

/* Opens an engine with four samples per step for any number of ranks. d NULL: the caller fills batches. */
static mega_engine *open_engine_of(mega_world *world, const layout *l, const mega_dataset *d)
{
    char *argv[] = {API_ARGV, "--gradient-accumulation-steps", l->dp == 2 ? "2" : "4", l->option, l->value};
    const int argc = (int)(sizeof argv / sizeof *argv) - (l->option == NULL ? 2 : 0);
    mega_engine *e = NULL;
    need(mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = d, .argc = argc, .argv = argv, .world = world}, &e));
    return e;
}

static mega_engine *open_engine(mega_world *world, const layout *l)
{
    return open_engine_of(world, l, &data);
}

typedef struct outcome {
    double loss, norm;
    float table[TABLE], up[UP], gradient[UP], average[UP];
} outcome;

static void read_outcome(mega_engine *e, const mega_step_result *r, outcome *out)
{
    out->loss = r->loss;
    out->norm = r->grad_norm;
    need(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, out->table));
    need(mega_engine_get_param(e, "net.h.1.up.weight", NULL, UP, out->up));
    need(mega_engine_get_param(e, "net.h.1.up.weight", "grad", UP, out->gradient));
    need(mega_engine_get_param(e, "net.h.1.up.weight", "exp_avg", UP, out->average));
}

static double distance(const float *a, const float *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static void compare(const char *name, const char *how, const outcome *a, const outcome *b)
{
    const double d[] = {fabs(a->loss - b->loss),
                        fabs(a->norm - b->norm),
                        distance(a->table, b->table, TABLE),
                        distance(a->up, b->up, UP),
                        distance(a->gradient, b->gradient, UP),
                        distance(a->average, b->average, UP)};
    for (int i = 0; i < 6; i++)
        if (!(d[i] <= 1e-6)) {
            fprintf(stderr, "%s, %s: number %d (loss, norm, table, weight, gradient, exp_avg) is off by %g\n", name,
                    how, i, d[i]);
            failures++;
        }
}

static void train(mega_engine *e, bool by_hand, outcome *out)
{
    mega_step_result r = {0};
    for (int step = 0; step < STEPS; step++) {
        if (!by_hand) {
            need(mega_engine_train_batch(e, &r));
            continue;
        }
        do {
            need(mega_engine_forward(e, NULL));
            need(mega_engine_backward(e));
            need(mega_engine_step(e, &r));
        } while (!mega_engine_was_step_applied(e));
    }
    read_outcome(e, &r, out);
}

/* Fills a batch by the formula of engine.h, with the samples of the data set in its order. */
static void fill(mega_engine *e, mega_batch *b)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) {
        const int64_t n = mega_engine_global_samples(e) + mega_engine_sample(e, i);
        if (n != mega_sample_index(mega_batch_sample(b, i))) failures++;
        need(api_read(NULL, mega_dataset_index(&data, 3, n), mega_batch_sample(b, i)));
    }
}

static void train_by_caller(mega_world *world, const layout *l, bool by_hand, outcome *out)
{
    mega_engine *e = open_engine_of(world, l, NULL);
    mega_step_result r = {0};
    for (int step = 0; step < STEPS; step++) {
        if (!by_hand) {
            fill(e, mega_engine_batch(e));
            need(mega_engine_train_batch(e, &r));
            continue;
        }
        do {
            fill(e, mega_engine_micro_batch(e));
            need(mega_engine_forward(e, NULL));
            need(mega_engine_backward(e));
            need(mega_engine_step(e, &r));
        } while (!mega_engine_was_step_applied(e));
    }
    read_outcome(e, &r, out);
    mega_engine_destroy(e);
}

/* ---- wrong calls ---- */

static void wrong_calls(mega_engine *e, const char *folder)
{
    static float values[TABLE];
    const bool me = mega_world_rank(mega_engine_world(e)) == 1, is_pipeline = mega_engine_layout(e)->pp.size > 1;
    mega_step_result r;
    bool found;
    failures += rank_call_differs(
        e, "get another", mega_engine_get_param(e, me ? "net.wte.weigth" : "net.wte.weight", NULL, TABLE, values),
        MEGA_ERR_NOT_FOUND, "did you mean");
    failures += rank_call_differs(e, "get others",
                                  mega_engine_get_param(e, "net.wte.weight", me ? "exp_avg" : NULL, TABLE, values),
                                  MEGA_ERR_USAGE, "different tensors");
    memset(values, 0, sizeof values);
    values[0] = me ? 1.0F : 0.0F;
    failures += rank_call_differs(e, "set others", mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, values),
                                  MEGA_ERR_USAGE, "different values");
    failures +=
        rank_call_differs(e, "set nothing", mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, me ? NULL : values),
                          MEGA_ERR_USAGE, "values is NULL");
    failures += rank_call_differs(e, "train into nothing", mega_engine_train_batch(e, me ? NULL : &r), MEGA_ERR_USAGE,
                                  "out is NULL");
    failures += rank_call_differs(e, "evaluate nothing", mega_engine_evaluate(e, me ? NULL : &api_data, 1, &r),
                                  MEGA_ERR_USAGE, "dataset is NULL");
    mega_dataset other = api_data;
    other.count = me ? API_SAMPLES : 1;
    failures += rank_call_differs(e, "evaluate another count", mega_engine_evaluate(e, &other, 0, &r), MEGA_ERR_USAGE,
                                  "count 1 to 40");
    failures += rank_call_differs(e, "save elsewhere",
                                  mega_engine_save_checkpoint(e, me ? "/nonexistent/b" : "/nonexistent/a", NULL, NULL),
                                  MEGA_ERR_USAGE, "different folders");
    failures +=
        rank_call_differs(e, "save under two tags", mega_engine_save_checkpoint(e, folder, me ? "a" : "b", NULL),
                          MEGA_ERR_USAGE, "different folders or tags");
    failures += rank_call_differs(e, "save nowhere", mega_engine_save_checkpoint(e, me ? NULL : folder, NULL, NULL),
                                  MEGA_ERR_USAGE, "folder is NULL");
    failures +=
        rank_call_differs(e, "save an array",
                          mega_engine_save_checkpoint(e, folder, NULL, &(mega_client_state){.json = me ? "[]" : "{}"}),
                          MEGA_ERR_USAGE, "is no object");
    failures += rank_call_differs(e, "load nowhere",
                                  mega_engine_load_checkpoint(e, me ? NULL : folder, NULL, NULL, &found, NULL),
                                  MEGA_ERR_USAGE, "folder is NULL");
    failures += rank_call_differs(e, "backward first", mega_engine_backward(e), MEGA_ERR_USAGE,
                                  is_pipeline ? "call mega_engine_train_batch" : "mega_engine_forward is next");
    is_torn = me;
    failures += rank_call_differs(e, "torn data", mega_engine_train_batch(e, &r), MEGA_ERR_IO, "is torn");
    if (!is_pipeline)
        failures += rank_call_differs(e, "torn sample", mega_engine_forward(e, NULL), MEGA_ERR_IO, "is torn");
    is_torn = false;
    if (is_pipeline) {
        failures += rank_call_differs(e, "forward", mega_engine_forward(e, NULL), MEGA_ERR_USAGE,
                                      "call mega_engine_train_batch");
        return;
    }
    if (mega_engine_set_accumulation_boundary(e, me) != MEGA_OK) failures++;
    failures +=
        rank_call_differs(e, "another boundary", mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "accumulation boundary");
    if (mega_engine_set_accumulation_boundary(e, false) != MEGA_OK) failures++;
}

static uint64_t hash_of_rank(void *user)
{
    return *(const uint64_t *)user;
}

/* If rank 1 gives a different option or model, both ranks return the error. */
static void wrong_setups(mega_world *world)
{
    const bool me = mega_world_rank(world) == 1;
    char *argv[] = {API_ARGV, "--lr", me ? "0.02" : "0.01"}, *odd[] = {API_ARGV, "--zero-stage", me ? "7" : "0"};
    mega_setup s = {.model = &api_model, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv, .world = world};
    mega_engine *e = NULL;
    const mega_status other = mega_initialize(&s, &e);
    if (other != MEGA_ERR_COMM || strstr(mega_error_message(), "rank 0 of the group: --lr 0.01\n") == NULL ||
        strstr(mega_error_message(), "rank 1 of the group: --lr 0.02\n") == NULL)
        fprintf(stderr, "another --lr: %s, %s\n", mega_status_name(other), mega_error_message()), failures++;
    char *few[] = {API_ARGV};
    s.argc = (int)(sizeof few / sizeof *few), s.argv = few;
    s.config = me ? "{\"megalith\": {\"keep_checkpoints\": 2}}" : "{\"megalith\": {\"keep_checkpoints\": 3}}";
    if (mega_initialize(&s, &e) != MEGA_ERR_COMM ||
        strstr(mega_error_message(), "\"megalith.keep_checkpoints\" 2\n") == NULL ||
        strstr(mega_error_message(), "\"megalith.keep_checkpoints\" 3\n") == NULL)
        fprintf(stderr, "another JSON: %s\n", mega_error_message()), failures++;
    s.config = NULL;
    s.argc = (int)(sizeof argv / sizeof *argv);
    s.argv = odd;
    if (mega_initialize(&s, &e) != MEGA_ERR_USAGE || strstr(mega_error_message(), "zero-stage") == NULL)
        fprintf(stderr, "another --zero-stage: %s\n", mega_error_message()), failures++;
    s.argc = (int)(sizeof few / sizeof *few), s.argv = few;
    s.model = me ? NULL : &api_model;
    if (mega_initialize(&s, &e) != MEGA_ERR_USAGE || strstr(mega_error_message(), "model is NULL") == NULL)
        fprintf(stderr, "no model: %s\n", mega_error_message()), failures++;
    s.model = &api_model;
    char *same[] = {API_ARGV};
    s.argv = same;
    s.argc = (int)(sizeof same / sizeof *same);
    mega_dataset fewer = api_data;
    fewer.count -= me;
    s.training_data = &fewer;
    if (mega_initialize(&s, &e) != MEGA_ERR_COMM || strstr(mega_error_message(), "training_data->count") == NULL)
        fprintf(stderr, "another training_data: %s\n", mega_error_message()), failures++;
    uint64_t content = me ? 2 : 1;
    mega_dataset unlike = api_data;
    unlike.hash = hash_of_rank;
    unlike.user = &content;
    s.training_data = &unlike;
    if (mega_initialize(&s, &e) != MEGA_ERR_COMM || strstr(mega_error_message(), "training_data->hash") == NULL)
        fprintf(stderr, "training_data of another content: %s\n", mega_error_message()), failures++;
    s.training_data = me ? NULL : &api_data;
    if (mega_initialize(&s, &e) != MEGA_ERR_COMM || strstr(mega_error_message(), "training_data given") == NULL)
        fprintf(stderr, "training_data on one rank: %s\n", mega_error_message()), failures++;
    s.training_data = NULL;
}

/* ---- evaluation ---- */

static double evaluated(mega_world *world, const layout *l, char *size, int64_t count)
{
    char *argv[] = {API_ARGV, "--micro-batch-size", size, l->option, l->value};
    const int argc = (int)(sizeof argv / sizeof *argv) - (l->option == NULL ? 2 : 0);
    const mega_dataset some = {.first = 3, .count = count, .read = api_read};
    mega_engine *e = NULL;
    mega_step_result r;
    need(mega_initialize(&(mega_setup){.model = &api_model, .argc = argc, .argv = argv, .world = world}, &e));
    need(mega_engine_evaluate(e, &some, 0, &r));
    if (r.samples != count) failures++;
    mega_engine_destroy(e);
    return r.loss;
}

/* Evaluates samples that do not fill a micro-batch on one or more ranks: the result must be the mean over single
 * samples. */
static void evaluate_tails(mega_world *world, const layout *l)
{
    static const int64_t counts[] = {1, 3, 5, 15, 18};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const double one = evaluated(world, l, "1", counts[i]), four = evaluated(world, l, "4", counts[i]);
        if (fabs(one - four) < 1e-12) continue;
        fprintf(stderr, "%s: loss of %lld samples %.17g one by one, %.17g in micro-batches of 4\n", l->name,
                (long long)counts[i], one, four);
        failures++;
    }
}

/* ---- data that is read ahead ---- */

/* Reads a sample, but fails for sample 9 if *user is true. Sample 9 is the second of the third step; with data
 * parallelism rank 1 reads it. */
static mega_status read_but_one(void *user, int64_t index, mega_sample *sample)
{
    if (mega_sample_index(sample) == 9 && *(const bool *)user)
        return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    return api_read(NULL, index, sample);
}

/* A read on rank 1 that fails while earlier steps run is reported on both ranks, by the step that needs its sample. */
static void train_ahead(mega_world *world, const layout *l, const outcome *alone)
{
    static const mega_dataset whole = {.count = API_SAMPLES, .read = api_read, .is_thread_safe = true};
    bool is_cut = mega_world_rank(world) == 1;
    const mega_dataset cut = {.count = API_SAMPLES, .read = read_but_one, .user = &is_cut, .is_thread_safe = true};
    outcome *now = calloc(1, sizeof *now);
    mega_step_result r;
    if (now == NULL) exit(1);
    mega_engine *e = open_engine_of(world, l, &whole);
    train(e, false, now);
    compare(l->name, "read ahead", now, alone);
    mega_engine_destroy(e);
    free(now);
    e = open_engine_of(world, l, &cut);
    for (int step = 0; step < 2; step++) need(mega_engine_train_batch(e, &r));
    failures += rank_call_differs(e, "torn ahead", mega_engine_train_batch(e, &r), MEGA_ERR_IO, "is torn");
    if (mega_engine_global_steps(e) != 2) failures++;
    mega_engine_destroy(e);
}

/* ---- the schedule of the caller ---- */

static double lr_of_rank(const void *user, int64_t step, int64_t samples)
{
    (void)samples;
    return step == 1 ? *(const double *)user : 0.01;
}

/* In the second step the caller's schedule gives rank 1 no number: both ranks say so, and no weight changes. */
static void wrong_rates(mega_world *world, const layout *l)
{
    static const double wrong[] = {NAN, INFINITY, 1e39, -1};
    static float before[TABLE], after[TABLE];
    char *argv[] = {API_ARGV, "--gradient-accumulation-steps", l->dp == 2 ? "2" : "4", l->option, l->value};
    const int argc = (int)(sizeof argv / sizeof *argv) - (l->option == NULL ? 2 : 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const double rate = mega_world_rank(world) == 1 ? wrong[i] : 0.01;
        const mega_lr_scheduler own = {.name = "own", .lr = lr_of_rank, .user = &rate};
        mega_engine *e = NULL;
        mega_step_result r;
        need(mega_initialize(&(mega_setup){.model = &api_model,
                                           .training_data = &data,
                                           .lr_scheduler = &own,
                                           .argc = argc,
                                           .argv = argv,
                                           .world = world},
                             &e));
        need(mega_engine_train_batch(e, &r));
        need(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, before));
        failures += rank_call_differs(e, "no rate", mega_engine_train_batch(e, &r), MEGA_ERR_USAGE,
                                      "the schedule own gives the learning rate");
        need(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, after));
        if (memcmp(before, after, sizeof before) != 0 || mega_engine_global_steps(e) != 1) failures++;
        mega_engine_destroy(e);
    }
}

/* ---- the layouts ---- */

static void run_layout(mega_world *world, const layout *l, const outcome *alone, const char *folder)
{
    outcome *now = calloc(1, sizeof *now);
    mega_engine *e = open_engine(world, l);
    mega_step_result r;
    const mega_client_state client = {.json = "{\"epoch\": 1}"}, *loaded;
    char path[4096];
    bool found;
    if (now == NULL) exit(1);
    train(e, false, now);
    compare(l->name, "train_batch", now, alone);
    train_ahead(world, l, alone);
    evaluate_tails(world, l);
    wrong_calls(e, folder);
    wrong_rates(world, l);
    snprintf(path, sizeof path, "%s/%s", folder, l->name);
    need(mega_engine_save_checkpoint(e, path, "best", &client));
    need(mega_engine_train_batch(e, &r));
    const double next = r.loss;
    mega_engine_destroy(e);
    e = open_engine(world, l);
    need(mega_engine_load_checkpoint(e, path, NULL, NULL, &found, &loaded));
    if (!found || strstr(loaded->json, "\"epoch\": 1") == NULL) failures++;
    need(mega_engine_train_batch(e, &r));
    if (r.loss != next) fprintf(stderr, "%s: the next loss is %.17g, not %.17g\n", l->name, r.loss, next), failures++;
    mega_engine_destroy(e);
    train_by_caller(world, l, false, now);
    compare(l->name, "batches of the caller", now, alone);
    if (strcmp(l->name, "pp") != 0) {
        e = open_engine(world, l);
        train(e, true, now);
        compare(l->name, "by hand", now, alone);
        mega_engine_destroy(e);
        train_by_caller(world, l, true, now);
        compare(l->name, "micro-batches of the caller", now, alone);
    }
    free(now);
}

int main(int argc, char **argv)
{
    static const layout all[] = {{"dp", NULL, NULL, 2},
                                 {"zero1", "--zero-stage", "1", 2},
                                 {"zero2", "--zero-stage", "2", 2},
                                 {"zero3", "--zero-stage", "3", 2},
                                 {"overlap", "--DDP-impl", "torch", 2},
                                 {"tp", "--tensor-model-parallel-size", "2", 1},
                                 {"pp", "--pipeline-model-parallel-size", "2", 1}};
    static outcome alone;
    mega_world *world = NULL;
    if (argc < 2) return 2;
    need(mega_world_create(NULL, &world));
    /* one rank: the same options as numbers */
    mega_engine *e = NULL;
    const mega_engine_options one = {.compute = MEGA_F64,
                                     .micro_batch = 1,
                                     .seq = API_SEQ,
                                     .batch = {.global_batch = 4, .micro_step = 1},
                                     .clip_grad = 1.0,
                                     .dropout_seed = 3,
                                     .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                     .schedule = {.style = MEGA_LR_CONSTANT,
                                                  .max_lr = 0.01,
                                                  .decay = 100,
                                                  .start_weight_decay = 0.01,
                                                  .end_weight_decay = 0.01}};
    need(mega_engine_create(&(mega_setup){.model = &api_model, .training_data = &api_data, .options = &one}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 3));
    train(e, false, &alone);
    mega_engine_destroy(e);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) run_layout(world, &all[i], &alone, argv[1]);
    wrong_setups(world);
    if (mega_world_rank(world) == 0) printf("%zu layouts\n", sizeof all / sizeof *all);
    fflush(stdout);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
