/* Two ranks pass different options to mega_engine_create: both must refuse before they build anything, and the message
 * must name the option and the value of each rank. */
#include "engine_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS(X)                                                            \
    X("compute", compute = MEGA_F64)                                          \
    X("backend", backend = MEGA_BACKEND_PLAIN)                                \
    X("layout.tp", layout.tp = 2)                                             \
    X("layout.pp", layout.pp = 2)                                             \
    X("layout.planned_ranks", layout.planned_ranks = 2)                       \
    X("micro_batch", micro_batch = 1)                                         \
    X("seq", seq = 8)                                                         \
    X("batch.start", batch.start = 4)                                         \
    X("batch.global_batch", batch.global_batch = 8)                           \
    X("curriculum.steps", curriculum.steps = 5)                               \
    X("no_train", no_train = true)                                            \
    X("no_evaluate", no_evaluate = true)                                      \
    X("generate", generate = true)                                            \
    X("prefill", prefill = 3)                                                 \
    X("micro_batches", micro_batches = 2)                                     \
    X("no_pack_weights", no_pack_weights = true)                              \
    X("per_token_loss", per_token_loss = true)                                \
    X("clip_grad", clip_grad = 0.001)                                         \
    X("dropout_seed", dropout_seed = 8)                                       \
    X("optimizer.kind", optimizer.kind = MEGA_OPTIMIZER_SGD)                  \
    X("optimizer.beta1", optimizer.beta1 = 0.5)                               \
    X("optimizer.beta2", optimizer.beta2 = 0.5)                               \
    X("optimizer.eps", optimizer.eps = 1)                                     \
    X("optimizer.l2", optimizer.l2 = true)                                    \
    X("optimizer.nesterov", optimizer.nesterov = true)                        \
    X("optimizer.alpha", optimizer.alpha = 0.5)                               \
    X("optimizer.amsgrad", optimizer.amsgrad = true)                          \
    X("optimizer.maximize", optimizer.maximize = true)                        \
    X("optimizer.freeze_step", optimizer.freeze_step = 5)                     \
    X("optimizer.warmup_steps", optimizer.warmup_steps = 5)                   \
    X("optimizer.r", optimizer.r = 0.5)                                       \
    X("optimizer.max_coeff", optimizer.max_coeff = 0.5)                       \
    X("optimizer.muon_scale", optimizer.muon_scale = MEGA_MUON_SHAPE_SCALING) \
    X("optimizer.muon_split", optimizer.muon_split = true)                    \
    X("optimizer.momentum", optimizer.momentum = 0.5)                         \
    X("schedule.style", schedule.style = MEGA_LR_COSINE)                      \
    X("schedule.max_lr", schedule.max_lr = 1)                                 \
    X("schedule.min_lr", schedule.min_lr = 1e-9)                              \
    X("schedule.warmup", schedule.warmup = 1)                                 \
    X("schedule.decay", schedule.decay = 101)                                 \
    X("schedule.decay_tokens", schedule.decay_tokens = 9)                     \
    X("schedule.end_weight_decay", schedule.end_weight_decay = 0.1)           \
    X("step_schedule.warmup_max_lr", step_schedule.warmup_max_lr = 0.5)       \
    X("step_schedule.cycle_momentum", step_schedule.cycle_momentum = true)    \
    X("step_schedule.warmup_num_steps", step_schedule.warmup_num_steps = 5)   \
    X("bucket_elements", bucket_elements = 64)                                \
    X("tp_sum_elements", tp_sum_elements = 64)                                \
    X("zero_stage", zero_stage = 1)                                           \
    X("zero_persistence", zero_persistence = 5)                               \
    X("place.overlap_reduce", place.overlap_reduce = true)                    \
    X("place.prefetch_elements", place.prefetch_elements = 7)                 \
    X("recompute.interval", recompute.interval = 2)                           \
    X("recompute.budget", recompute.budget = 1 << 30)                         \
    X("drop_last", drop_last = true)                                          \
    X("sums.dtype", sums.dtype = MEGA_BF16)                                   \
    X("sums.predivide", sums.predivide = 2)                                   \
    X("grad_accum_dtype", grad_accum_dtype = MEGA_BF16)

static const char *const names[] = {
#define NAME(name, assignment) name,
    OPTIONS(NAME)};
enum { COUNT = sizeof names / sizeof *names };

static void change_option(mega_engine_options *o, int which)
{
    int i = 0;
#define CHANGE(name, assignment) \
    if (i++ == which) o->assignment;
    OPTIONS(CHANGE)
}

/* Changes an option on rank 1 only: both ranks must refuse, and the message must have both values. */
static int refuse(mega_world *world, const mega_transformer *gpt, int which, mega_engine_options o)
{
    mega_engine *e = NULL;
    if (mega_world_rank(world) == 1) change_option(&o, which);
    mega_error_clear();
    const mega_status st = gpt_engine_create(&e, gpt, &o);
    char said[64];
    snprintf(said, sizeof said, "rank 1 of the group: %s ", names[which]);
    const char *text = mega_error_message();
    mega_engine_destroy(e);
    if (st == MEGA_ERR_COMM && e == NULL && strstr(text, said) != NULL) return 0;
    fprintf(stderr, "rank %d, %s: %s, \"%s\"\n", mega_world_rank(world), names[which], mega_status_name(st), text);
    return 1;
}

/* The lists of a curriculum, which are as long on both ranks. */
static int refuse_stairs(mega_world *world, const mega_transformer *gpt, mega_engine_options o, const char *list)
{
    const bool changes = mega_world_rank(world) == 1, is_step = strcmp(list, "curriculum.max_step") == 0;
    const char *difficulty[] = {"4", changes && !is_step ? "12" : "8"}, *max_step[] = {changes && is_step ? "12" : "3"};
    mega_engine *e = NULL;
    o.curriculum = (mega_curriculum){
        .is_on = true, .kind = MEGA_CURRICULUM_DISCRETE, .difficulty = difficulty, .max_step = max_step, .stairs = 2};
    mega_error_clear();
    const mega_status st = gpt_engine_create(&e, gpt, &o);
    const char *text = mega_error_message();
    mega_engine_destroy(e);
    if (st == MEGA_ERR_COMM && strstr(text, list) != NULL && strstr(text, "rank 1 of the group: 12") != NULL) return 0;
    fprintf(stderr, "rank %d, %s: %s, \"%s\"\n", mega_world_rank(world), list, mega_status_name(st), text);
    return 1;
}

int main(void)
{
    mega_world *world = NULL;
    mega_engine *e = NULL;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(8, 2, 1e-2);
    int failures = 0;
    if (mega_world_create(NULL, &world) != MEGA_OK) return 2;
    o.world = world;
    o.batch.micro_step = 4;
    o.batch.global_batch = 16;
    for (int i = 0; i < COUNT; i++) failures += refuse(world, &gpt, i, o);
    failures += refuse_stairs(world, &gpt, o, "curriculum.difficulty");
    failures += refuse_stairs(world, &gpt, o, "curriculum.max_step");
    if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) { /* with equal options it must succeed */
        fprintf(stderr, "%s\n", mega_error_message());
        failures++;
    }
    mega_engine_destroy(e);
    if (mega_world_rank(world) == 0) printf("%d options\n", COUNT);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
