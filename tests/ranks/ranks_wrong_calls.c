/* Makes wrong calls of a C program, on all ranks and on the last rank only: each returns a status with a message on
 * every rank, none aborts or hangs, and the engine then trains as if they had not been made. Prints their number.
 * Usage: ranks_wrong_calls FOLDER */
#include "megalith/engine_commands.h"
#include "megalith/layers.h"
#include "rank_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = RANK_SEQ, IDS = RANK_IDS, C = 6, N = 3, SAMPLES = 24, WEIGHTS = IDS * C, OUTPUT = SEQ * N };

/* How the data set of this rank behaves. */
typedef enum data_kind { GOOD, FAILS, SHORT, UNKNOWN_INPUT, OF_ANOTHER_SIZE, OUT_OF_RANGE } data_kind;

typedef struct scene {
    mega_world *world;
    bool is_wrong; /* this rank makes the wrong call */
    data_kind data;
    mega_engine *raw, *ready, *reader; /* raw: not allocated; ready: has a data set; reader: has none */
    const char *folder;
    int steps; /* completed by `ready`, of one micro-batch each */
} scene;

/* ---- the model and its data ---- */

static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_linear_options random = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
    const mega_param_options table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4};
    const mega_tensor label = mega_input(b, "label", MEGA_I32, SEQ, 0);
    (void)self;
    const mega_tensor x = mega_embedding(b, "table", mega_input(b, "tokens", MEGA_I32, SEQ, 0), IDS, C, &table);
    const mega_tensor y = mega_linear(b, "fc", mega_activation(b, x, MEGA_ACT_TANH), N, &random);
    mega_output(b, "y", y);
    mega_loss_add(b, "loss", mega_cross_entropy(b, y, label, mega_none()), 1);
    flow->x = mega_none();
}

static const mega_layer layer = {.path = "net", .describe = describe};
static const mega_model model = {.name = "wrong", .layer = &layer, .num_layers = 1, .positions = SEQ};

static mega_status read_tokens(void *user, int64_t index, mega_sample *sample)
{
    const data_kind kind = user == NULL ? GOOD : ((const scene *)user)->data;
    int32_t token[SEQ], label[SEQ];
    if (kind == FAILS) return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    for (int i = 0; i < SEQ; i++) {
        token[i] = rank_token(index, i) + (kind == OUT_OF_RANGE ? IDS : 0);
        label[i] = token[i] % N;
    }
    if (kind == UNKNOWN_INPUT) return mega_sample_set_i32(sample, "pixels", token, SEQ);
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", token, SEQ - (kind == OF_ANOTHER_SIZE)));
    return kind == SHORT ? MEGA_OK : mega_sample_set_i32(sample, "label", label, SEQ);
}

static mega_dataset data_of(scene *s)
{
    return (mega_dataset){.count = SAMPLES, .read = read_tokens, .user = s};
}

/* ---- engines ---- */

enum { ARGUMENTS = 12 };
#define ARGV(name, value)                                                                                              \
    {                                                                                                                  \
        "wrong", "--micro-batch-size", "1", "--gradient-accumulation-steps", "2", "--lr", "0.05", "--seed", "3", name, \
            value, NULL                                                                                                \
    }

static mega_status create_with(const scene *s, const mega_setup *setup, mega_engine **out)
{
    mega_setup own = *setup;
    char *argv[ARGUMENTS] = ARGV("--num-threads", "1");
    own.world = s->world;
    if (own.argv == NULL) {
        own.argv = argv;
        own.argc = ARGUMENTS - 1;
    }
    return mega_initialize(&own, out);
}

/* Tries a setup that must be refused. */
static mega_status refused(const scene *s, mega_setup setup)
{
    mega_engine *e = NULL;
    const mega_status st = create_with(s, &setup, &e);
    if (e != NULL) fprintf(stderr, "an engine is made\n"), exit(1);
    return st;
}

static mega_status option(const scene *s, char *name, char *value)
{
    char *argv[ARGUMENTS] = ARGV(s->is_wrong ? name : "--num-threads", s->is_wrong ? value : "1");
    return refused(s, (mega_setup){.model = &model, .argc = ARGUMENTS - 1, .argv = argv});
}

static mega_status step_with(scene *s, data_kind kind)
{
    mega_step_result r;
    s->data = s->is_wrong ? kind : GOOD;
    const mega_status st = mega_engine_train_batch(s->ready, &r);
    s->data = GOOD;
    return st;
}

static mega_status forward_with(scene *s, data_kind kind)
{
    s->data = s->is_wrong ? kind : GOOD;
    const mega_status st = mega_engine_forward(s->ready, NULL);
    s->data = GOOD;
    return st;
}

/* Runs a step of one micro-batch. */
static void complete(mega_engine *e)
{
    need(mega_engine_backward(e));
    need(mega_engine_step(e, NULL));
}

static void begin(mega_engine *e)
{
    need(mega_engine_set_accumulation_boundary(e, true));
    need(mega_engine_forward(e, NULL));
}

/* Makes a wrong call after the forward of a step, and then completes the step. */
static mega_status after_forward(scene *s, mega_status (*call)(scene *s))
{
    mega_error_record failed;
    begin(s->ready);
    const mega_status st = call(s);
    mega_error_get_of(st, &failed);
    complete(s->ready);
    s->steps++;
    return st == MEGA_OK ? MEGA_OK : mega_error_restore(&failed);
}

/* ---- the calls ---- */

static float values[WEIGHTS];
static mega_step_result result;
static bool found;

#define CALL(name, ...)               \
    static mega_status name(scene *s) \
    {                                 \
        return __VA_ARGS__;           \
    }
#define WRONG(wrong_argument, right) (s->is_wrong ? (wrong_argument) : (right))

/* Calls that create an engine. */
CALL(no_setup, ((void)s, mega_initialize(NULL, &(mega_engine *){NULL})))
CALL(no_place_for_the_engine, mega_initialize(&(mega_setup){.model = &model, .world = s->world}, NULL))
CALL(no_model, refused(s, (mega_setup){.model = WRONG(NULL, &model)}))
CALL(json, refused(s, (mega_setup){.model = &model, .config = WRONG("no/ds.json", NULL)}))
CALL(other_json_of_a_rank, refused(s, (mega_setup){.model = &model,
                                                   .config = WRONG("{\"zero_optimization\": {\"stage\": 1}}",
                                                                   "{\"zero_optimization\": {\"stage\": 2}}")}))
CALL(odd_mode, refused(s, (mega_setup){.model = &model, .mode = WRONG((mega_mode)7, MEGA_TRAIN)}))
CALL(empty_data, refused(s, (mega_setup){.model = &model,
                                         .training_data = &(mega_dataset){.count = WRONG(0, 1), .read = read_tokens}}))
CALL(data_without_read,
     refused(s, (mega_setup){.model = &model,
                             .training_data = &(mega_dataset){.count = 1, .read = WRONG(NULL, read_tokens)}}))
CALL(unknown_option, option(s, "--zero-stag", "1"))
CALL(odd_value, option(s, "--zero-stage", "7"))
CALL(option_of_another_command, option(s, "--prompt", "once"))
CALL(odd_layout, option(s, "--tensor-model-parallel-size", "5"))
CALL(other_option_of_a_rank, option(s, "--lr", "0.06"))
/* Calls before mega_engine_allocate. */
CALL(train_early, mega_engine_train_batch(s->raw, &result))
CALL(forward_early, mega_engine_forward(s->raw, NULL))
CALL(evaluate_early, mega_engine_evaluate(s->raw, &(mega_dataset){.count = 1, .read = read_tokens}, 1, &result))
CALL(get_early, mega_engine_get_param(s->raw, "net.table.weight", NULL, WEIGHTS, values))
CALL(save_early, mega_engine_save_checkpoint(s->raw, s->folder, NULL, NULL))
CALL(allocate_twice, mega_engine_allocate(s->ready))
/* Calls with NULL. */
CALL(train_nothing, ((void)s, mega_engine_train_batch(NULL, &result)))
CALL(train_into_nothing, mega_engine_train_batch(s->ready, WRONG(NULL, &result)))
CALL(evaluate_no_data,
     mega_engine_evaluate(s->ready, s->is_wrong ? NULL : &(mega_dataset){.count = 1, .read = read_tokens}, 1, &result))
CALL(get_no_name, mega_engine_get_param(s->ready, WRONG(NULL, "net.table.weight"), NULL, WEIGHTS, values))
CALL(set_no_values, mega_engine_set_param(s->ready, "net.table.weight", NULL, WEIGHTS, WRONG(NULL, values)))
CALL(save_nowhere, mega_engine_save_checkpoint(s->ready, WRONG(NULL, s->folder), NULL, NULL))
CALL(load_nowhere, mega_engine_load_checkpoint(s->ready, WRONG(NULL, s->folder), NULL, NULL, &found, NULL))
/* Unknown names and wrong sizes. */
CALL(get_unknown, mega_engine_get_param(s->ready, WRONG("net.tabel.weight", "net.table.weight"), NULL, WEIGHTS, values))
CALL(get_unknown_state, mega_engine_get_param(s->ready, "net.table.weight", WRONG("momentum", NULL), WEIGHTS, values))
CALL(get_short, mega_engine_get_param(s->ready, "net.table.weight", NULL, WRONG(WEIGHTS - 1, WEIGHTS), values))
CALL(get_no_gradient, mega_engine_get_param(s->reader, "net.table.weight", "grad", WEIGHTS, values))
CALL(load_unknown_tag, mega_engine_load_checkpoint(s->ready, s->folder, WRONG("iter_9", NULL), NULL, &found, NULL))
CALL(save_odd_tag, mega_engine_save_checkpoint(s->ready, s->folder, WRONG("a/b", NULL), NULL))
CALL(save_odd_client,
     mega_engine_save_checkpoint(s->ready, s->folder, NULL, &(mega_client_state){.json = WRONG("[1", "{}")}))
CALL(read_unknown, mega_engine_read_output(s->ready, "z", OUTPUT, values))
CALL(read_early, mega_engine_read_output(s->reader, "y", OUTPUT, values))
/* Calls with wrong data. */
CALL(torn_data, step_with(s, FAILS))
CALL(torn_sample, forward_with(s, FAILS))
CALL(short_data, step_with(s, SHORT))
CALL(data_of_no_input, step_with(s, UNKNOWN_INPUT))
CALL(data_of_another_size, step_with(s, OF_ANOTHER_SIZE))
CALL(data_out_of_range, step_with(s, OUT_OF_RANGE))
CALL(unfilled_step, mega_engine_train_batch(s->reader, &result))
CALL(unfilled_micro_batch, mega_engine_forward(s->reader, NULL))
/* Calls out of order. */
CALL(backward_first, mega_engine_backward(s->ready))
CALL(step_first, mega_engine_step(s->ready, &result))
CALL(backward_from_first, mega_engine_backward_from(s->ready, "y", values, OUTPUT, 1))
CALL(forward_again, mega_engine_forward(s->ready, NULL))
CALL(forward_twice, after_forward(s, forward_again))
CALL(train_again, mega_engine_train_batch(s->ready, &result))
CALL(train_in_a_step, after_forward(s, train_again))
CALL(evaluate_again, mega_engine_evaluate(s->ready, &(mega_dataset){.count = 1, .read = read_tokens}, 1, &result))
CALL(evaluate_in_a_step, after_forward(s, evaluate_again))
CALL(step_again, mega_engine_step(s->ready, &result))
CALL(step_without_backward, after_forward(s, step_again))
CALL(from_another_output, mega_engine_backward_from(s->ready, WRONG("z", "y"), values, OUTPUT, 1))
CALL(from_unknown, after_forward(s, from_another_output))
CALL(from_a_part, mega_engine_backward_from(s->ready, "y", values, WRONG(OUTPUT - 1, OUTPUT), 1))
CALL(from_short, after_forward(s, from_a_part))
CALL(set_boundary, mega_engine_set_accumulation_boundary(s->ready, true))
CALL(boundary_in_a_step, after_forward(s, set_boundary))

/* After a failed step there is nothing to complete, because the step was discarded. */
static mega_status step_after_failure(scene *s)
{
    if (forward_with(s, FAILS) == MEGA_OK) return MEGA_OK;
    return mega_engine_step(s->ready, &result);
}

static mega_status train_in_evaluation(scene *s)
{
    mega_engine *e = NULL;
    need(create_with(s, &(mega_setup){.model = &model, .mode = MEGA_EVAL}, &e));
    const mega_status st = mega_engine_train_batch(e, &result);
    mega_engine_destroy(e);
    return st;
}

typedef enum by { ALL, ONE } by; /* ONE: also by the last rank only */

static const struct {
    const char *name;
    mega_status (*call)(scene *s);
    by by;
    mega_status status;
    const char *said;
} wrong[] = {
#define ROW(name, by, status, said)   \
    {                                 \
#name, name, by, status, said \
    }
    ROW(no_setup, ALL, MEGA_ERR_USAGE, "setup is NULL"),
    ROW(no_place_for_the_engine, ALL, MEGA_ERR_USAGE, "out is NULL"),
    ROW(no_model, ONE, MEGA_ERR_USAGE, "model is NULL"),
    ROW(json, ONE, MEGA_ERR_NOT_FOUND, "no/ds.json"),
    ROW(odd_mode, ONE, MEGA_ERR_UNSUPPORTED, "setup.mode 7"),
    ROW(empty_data, ONE, MEGA_ERR_USAGE, "has 0 samples"),
    ROW(data_without_read, ONE, MEGA_ERR_USAGE, "training_data->read is NULL"),
    ROW(unknown_option, ONE, MEGA_ERR_USAGE, "write --zero-stage"),
    ROW(odd_value, ONE, MEGA_ERR_USAGE, "expected 0, 1, 2 or 3"),
    ROW(option_of_another_command, ONE, MEGA_ERR_USAGE, "--prompt is not an option of this program's engine"),
    ROW(odd_layout, ALL, MEGA_ERR_USAGE, "--tensor-model-parallel-size 5 does not divide"),
    ROW(train_early, ALL, MEGA_ERR_USAGE, "call mega_engine_allocate first"),
    ROW(forward_early, ALL, MEGA_ERR_USAGE, "call mega_engine_allocate first"),
    ROW(evaluate_early, ALL, MEGA_ERR_USAGE, "call mega_engine_allocate first"),
    ROW(get_early, ALL, MEGA_ERR_USAGE, "call mega_engine_allocate first"),
    ROW(save_early, ALL, MEGA_ERR_USAGE, "call mega_engine_allocate first"),
    ROW(allocate_twice, ALL, MEGA_ERR_USAGE, "has its memory already"),
    ROW(train_nothing, ALL, MEGA_ERR_USAGE, "the engine is NULL"),
    ROW(train_into_nothing, ONE, MEGA_ERR_USAGE, "argument out is NULL"),
    ROW(evaluate_no_data, ONE, MEGA_ERR_USAGE, "argument dataset is NULL"),
    ROW(get_no_name, ONE, MEGA_ERR_USAGE, "argument name is NULL"),
    ROW(set_no_values, ONE, MEGA_ERR_USAGE, "argument values is NULL"),
    ROW(save_nowhere, ONE, MEGA_ERR_USAGE, "argument folder is NULL"),
    ROW(load_nowhere, ONE, MEGA_ERR_USAGE, "argument folder is NULL"),
    ROW(get_unknown, ONE, MEGA_ERR_NOT_FOUND, "did you mean"),
    ROW(get_unknown_state, ONE, MEGA_ERR_NOT_FOUND, "\"momentum\" of a parameter"),
    ROW(get_short, ONE, MEGA_ERR_USAGE, "has 60 elements"),
    ROW(get_no_gradient, ALL, MEGA_ERR_USAGE, "no gradient now"),
    ROW(load_unknown_tag, ONE, MEGA_ERR_NOT_FOUND, "iter_9: there is no checkpoint"),
    ROW(save_odd_tag, ONE, MEGA_ERR_USAGE, "tag \"a/b\""),
    ROW(save_odd_client, ONE, MEGA_ERR_USAGE, "expected one JSON object"),
    ROW(read_unknown, ALL, MEGA_ERR_NOT_FOUND, "no output \"z\""),
    ROW(read_early, ALL, MEGA_ERR_USAGE, "read before a forward"),
    ROW(torn_data, ONE, MEGA_ERR_IO, "is torn"),
    ROW(torn_sample, ONE, MEGA_ERR_IO, "is torn"),
    ROW(short_data, ONE, MEGA_ERR_USAGE, "\"label\" of sample"),
    ROW(data_of_no_input, ONE, MEGA_ERR_USAGE, "the model has no input of that name"),
    ROW(data_of_another_size, ONE, MEGA_ERR_USAGE, "filled with 3 numbers"),
    ROW(data_out_of_range, ONE, MEGA_ERR_USAGE, "expected 0 to 9"),
    ROW(unfilled_step, ALL, MEGA_ERR_USAGE, "are not filled"),
    ROW(unfilled_micro_batch, ALL, MEGA_ERR_USAGE, "are not filled"),
    ROW(backward_first, ALL, MEGA_ERR_USAGE, "mega_engine_forward is next"),
    ROW(step_first, ALL, MEGA_ERR_USAGE, "mega_engine_forward is next"),
    ROW(backward_from_first, ALL, MEGA_ERR_USAGE, "mega_engine_forward is next"),
    ROW(forward_twice, ALL, MEGA_ERR_USAGE, "mega_engine_backward is next"),
    ROW(train_in_a_step, ALL, MEGA_ERR_USAGE, "1 micro-batches of a step"),
    ROW(evaluate_in_a_step, ALL, MEGA_ERR_USAGE, "call mega_engine_backward first"),
    ROW(step_without_backward, ALL, MEGA_ERR_USAGE, "mega_engine_backward is next"),
    ROW(from_unknown, ONE, MEGA_ERR_NOT_FOUND, "no output \"z\""),
    ROW(from_short, ONE, MEGA_ERR_USAGE, "expected 12 elements"),
    ROW(boundary_in_a_step, ALL, MEGA_ERR_USAGE, "out of order"),
    ROW(step_after_failure, ONE, MEGA_ERR_USAGE, "mega_engine_forward is next"),
    ROW(train_in_evaluation, ALL, MEGA_ERR_USAGE, "created with no_train"),
#undef ROW
};
enum { CALLS = sizeof wrong / sizeof *wrong };

static int differs(const scene *s, const char *call, mega_status st, mega_status expected, const char *said)
{
    return rank_call_differs(s->ready, call, st, expected, said);
}

static int make_calls(scene *s)
{
    int failures = 0;
    const int last = mega_world_size(s->world) - 1;
    for (int i = 0; i < CALLS; i++) {
        s->is_wrong = true;
        mega_error_clear();
        failures += differs(s, wrong[i].name, wrong[i].call(s), wrong[i].status, wrong[i].said);
        s->is_wrong = mega_world_rank(s->world) == last;
        if (wrong[i].by == ALL || last == 0) continue;
        mega_error_clear();
        failures += differs(s, wrong[i].name, wrong[i].call(s), wrong[i].status, wrong[i].said);
    }
    if (last == 0) return failures;
    /* Ranks that pass different arguments. */
    failures += differs(s, "another option", other_option_of_a_rank(s), MEGA_ERR_COMM, "--lr 0.06");
    failures += differs(s, "another JSON", other_json_of_a_rank(s), MEGA_ERR_COMM, "\"zero_optimization.stage\" 2");
    failures += differs(s, "another JSON", other_json_of_a_rank(s), MEGA_ERR_COMM, "\"zero_optimization.stage\" 1");
    need(mega_engine_set_accumulation_boundary(s->ready, s->is_wrong));
    failures +=
        differs(s, "another boundary", mega_engine_forward(s->ready, NULL), MEGA_ERR_USAGE, "accumulation boundary");
    need(mega_engine_set_accumulation_boundary(s->ready, false));
    return failures;
}

/* Checks that the engine of the wrong calls is in the same state as an engine that ran the same steps without them. */
static int compare(scene *s)
{
    mega_engine *fresh = NULL;
    mega_step_result a, b;
    s->data = GOOD;
    const mega_dataset data = data_of(s);
    need(create_with(s, &(mega_setup){.model = &model, .training_data = &data}, &fresh));
    for (int i = 0; i < s->steps; i++) {
        begin(fresh);
        complete(fresh);
    }
    need(mega_engine_train_batch(s->ready, &a));
    need(mega_engine_train_batch(fresh, &b));
    mega_engine_destroy(fresh);
    if (a.loss == b.loss && a.grad_norm == b.grad_norm) return 0;
    fprintf(stderr, "after the wrong calls the loss is %.17g, the norm %.17g; without them %.17g, %.17g\n", a.loss,
            a.grad_norm, b.loss, b.grad_norm);
    return 1;
}

static void open_engines(scene *s)
{
    char *argv[ARGUMENTS] = ARGV("--num-threads", "1");
    const mega_dataset data = data_of(s);
    need(mega_engine_create(&(mega_setup){.model = &model, .world = s->world, .argc = ARGUMENTS - 1, .argv = argv},
                            &s->raw));
    need(create_with(s, &(mega_setup){.model = &model, .training_data = &data}, &s->ready));
    need(create_with(s, &(mega_setup){.model = &model}, &s->reader));
}

int main(int argc, char **argv)
{
    scene s = {.data = GOOD};
    if (argc < 2) return 2;
    s.folder = argv[1];
    need(mega_world_create(NULL, &s.world));
    open_engines(&s);
    need(mega_engine_get_param(s.ready, "net.table.weight", NULL, WEIGHTS, values));
    int failures = make_calls(&s);
    failures += compare(&s);
    if (mega_world_rank(s.world) == 0) printf("%d wrong calls\n", CALLS + (mega_world_size(s.world) > 1 ? 2 : 0));
    fflush(stdout);
    mega_engine_destroy(s.raw);
    mega_engine_destroy(s.ready);
    mega_engine_destroy(s.reader);
    mega_world_destroy(s.world);
    return failures == 0 ? 0 : 1;
}
