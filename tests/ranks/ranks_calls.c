/* Makes wrong collective calls on two ranks, on both or on rank 1 only. Each returns the same status on both ranks, no
 * rank waits for the other, and afterwards the engine trains as if no wrong call had been made. The argument is the
 * layout. */
#include "engine_run.h"
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4 };

typedef struct scene {
    mega_world *world;
    bool is_wrong; /* this rank makes the wrong call */
    mega_engine *raw, *ready;
    const char *folder;
    int failures;
} scene;

static void fill(mega_engine *e, mega_batch *b)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) engine_run_fill(b, i, mega_engine_sample(e, i));
}

static mega_engine *create(const mega_transformer *gpt, mega_world *world, const char *how)
{
    mega_engine *e = NULL;
    mega_engine_options o = engine_run_options(BATCH, 1, 1e-2);
    o.world = world;
    if (strcmp(how, "tp") == 0) o.layout.tp = 2;
    if (strcmp(how, "pp") == 0) o.layout.pp = 2;
    if (strcmp(how, "zero") == 0) o.zero_stage = 3;
    o.batch.micro_step = strcmp(how, "tp") == 0 || strcmp(how, "pp") == 0 ? 1 : 2;
    need(gpt_engine_create(&e, gpt, &o));
    return e;
}

static mega_status save(mega_engine *e, const char *folder, const char *extra)
{
    return mega_engine_save(e,
                            &(mega_engine_save_options){.folder = folder, .save_dtype = MEGA_F32, .extra_json = extra});
}

static mega_status read_sample(void *user, int64_t index, mega_sample *sample)
{
    const mega_ltor_options o = {.eod = -1};
    const int32_t row[SEQ + 1] = {0};
    if (((const scene *)user)->is_wrong) return MEGA_FAIL(MEGA_ERR_USAGE, "page %lld is torn", (long long)index);
    mega_ltor_sample(sample, row, SEQ, &o);
    return MEGA_OK;
}

static mega_status read_and_evaluate(const scene *s)
{
    const mega_dataset d = {.count = 10, .read = read_sample, .user = (void *)(uintptr_t)s};
    mega_loss_sums sums = {0};
    return mega_engine_evaluate_part(s->ready, &d, 0, 1, &sums);
}

/* Defines a call that is wrong on the ranks with is_wrong. */
#define CALL(name, ...)                     \
    static mega_status name(const scene *s) \
    {                                       \
        mega_step_result r;                 \
        mega_loss_sums sums = {0};          \
        mega_engine_loaded loaded;          \
        (void)s, (void)&r, (void)&sums;     \
        (void)&loaded;                      \
        return __VA_ARGS__;                 \
    }
CALL(initialize_early, mega_engine_initialize(s->raw, 1))
CALL(step_early, mega_engine_train_batch(s->raw, &r))
CALL(step_of_evaluation, s->is_wrong &&mega_engine_evaluation_batch(s->ready, 1, 0) == NULL
                             ? MEGA_OK
                             : mega_engine_train_batch(s->ready, &r))
CALL(step_not_filled,
     s->is_wrong &&mega_engine_batch(s->ready) == NULL ? MEGA_OK : mega_engine_train_batch(s->ready, &r))
CALL(read_failed, read_and_evaluate(s))
CALL(step_without_result, mega_engine_train_batch(s->ready, s->is_wrong ? NULL : &r))
CALL(evaluate_early, mega_engine_evaluate_batch(s->raw, &sums))
CALL(evaluate_without_sums, mega_engine_evaluate_batch(s->ready, s->is_wrong ? NULL : &sums))
CALL(allocate_twice, mega_engine_allocate(s->ready))
CALL(save_nowhere, save(s->ready, s->is_wrong ? NULL : s->folder, NULL))
CALL(save_without_options, s->is_wrong ? mega_engine_save(s->ready, NULL) : save(s->ready, s->folder, NULL))
CALL(save_early, save(s->raw, s->folder, NULL))
CALL(save_an_array, save(s->ready, s->folder, s->is_wrong ? "[1]" : "{}"))
CALL(save_a_name_of_ours, save(s->ready, s->folder, s->is_wrong ? "{\"iteration\": 1}" : "{}"))
CALL(load_nothing, mega_engine_load(s->ready, NULL, &(mega_engine_load_options){0}, &loaded))
CALL(load_nowhere, mega_engine_load(s->ready, NULL, s->is_wrong ? NULL : &(mega_engine_load_options){0}, &loaded))
CALL(load_early, mega_engine_load(s->raw, NULL, &(mega_engine_load_options){0}, &loaded))
CALL(exchanges_not_counted, mega_engine_log_exchanges(s->ready, true))

static const struct {
    const char *name;
    mega_status (*call)(const scene *s);
    const char *said;
    bool by_rank_1; /* only rank 1 makes it */
} wrong[] = {
#define BOTH(name, said)         \
    {                            \
#name, name, said, false \
    }
#define RANK_1(name, said)      \
    {                           \
#name, name, said, true \
    }
    BOTH(initialize_early, "call mega_engine_allocate first"),
    BOTH(step_early, "call mega_engine_allocate first"),
    RANK_1(step_of_evaluation, "those of an evaluation"),
    RANK_1(step_not_filled, "(row 0 of the batch) is not filled"),
    RANK_1(read_failed, "is torn"),
    RANK_1(step_without_result, "argument out is NULL"),
    BOTH(evaluate_early, "call mega_engine_allocate first"),
    RANK_1(evaluate_without_sums, "argument sums is NULL"),
    BOTH(allocate_twice, "has its memory already"),
    RANK_1(save_nowhere, "argument options.folder is NULL"),
    RANK_1(save_without_options, "argument options is NULL"),
    BOTH(save_early, "call mega_engine_allocate first"),
    RANK_1(save_an_array, "found an array"),
    RANK_1(save_a_name_of_ours, "\"iteration\""),
    BOTH(load_nothing, "the checkpoint is NULL"),
    BOTH(load_nowhere, "NULL"),
    BOTH(load_early, "NULL"),
    BOTH(exchanges_not_counted, "exchanges are not counted"),
};

static void call(scene *s, size_t i)
{
    const int me = mega_world_rank(s->world);
    s->is_wrong = !wrong[i].by_rank_1 || me == 1;
    fill(s->ready, mega_engine_batch(s->ready));
    mega_error_clear();
    const mega_status st = wrong[i].call(s);
    const char *text = mega_error_message();
    const bool names_rank = !wrong[i].by_rank_1 || me == 1 || strstr(text, "rank 1: ") != NULL;
    if (st != MEGA_ERR_USAGE || strstr(text, wrong[i].said) == NULL || !names_rank) {
        fprintf(stderr, "rank %d, %s: %s, \"%s\", expected \"%s\"\n", me, wrong[i].name, mega_status_name(st), text,
                wrong[i].said);
        s->failures++;
    }
}

static double loss_of_a_step(mega_engine *e)
{
    mega_step_result r;
    fill(e, mega_engine_batch(e));
    need(mega_engine_train_batch(e, &r));
    return r.loss;
}

int main(int argc, char **argv)
{
    scene s = {.failures = 0};
    const mega_transformer gpt = engine_run_gpt();
    if (argc < 3 || mega_world_create(NULL, &s.world) != MEGA_OK) return 2;
    s.folder = argv[2];
    s.raw = create(&gpt, s.world, argv[1]);
    s.ready = create(&gpt, s.world, argv[1]);
    mega_engine *fresh = create(&gpt, s.world, argv[1]);
    need(mega_engine_allocate(s.ready));
    need(mega_engine_initialize(s.ready, 1));
    need(mega_engine_allocate(fresh));
    need(mega_engine_initialize(fresh, 1));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) call(&s, i);
    const double a = loss_of_a_step(s.ready), b = loss_of_a_step(fresh);
    if (a != b) fprintf(stderr, "after the wrong calls the loss is %.17g, not %.17g\n", a, b), s.failures++;
    if (mega_world_rank(s.world) == 0) printf("%zu wrong calls\n", sizeof wrong / sizeof *wrong);
    fflush(stdout);
    mega_engine_destroy(fresh);
    mega_engine_destroy(s.ready);
    mega_engine_destroy(s.raw);
    mega_world_destroy(s.world);
    return s.failures == 0 ? 0 : 1;
}
