/* Tests fp16 whose gradients overflow on one rank alone. Usage: ranks_overflow tp=N pp=N zero=N victim=R
 *
 * In the third step one value that rank R computes in its backward pass becomes infinite. All ranks must skip that
 * step, and from then on every rank must compute what ranks compute that never saw its samples: the same losses, norms
 * and weights, bit for bit. */
#include "device.h"
#include "engine_run.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, STEPS = 6, POISONED = 2 };

static void check(bool is_true, const char *what)
{
    if (is_true) return;
    fprintf(stderr, "FAILED: %s\n", what);
    exit(1);
}

typedef struct setting {
    int tp, pp, zero, victim;
} setting;

static setting read_setting(int argc, char **argv)
{
    setting s = {.tp = 1, .pp = 1};
    for (int i = 1; i < argc; i++)
        check(sscanf(argv[i], "tp=%d", &s.tp) == 1 || sscanf(argv[i], "pp=%d", &s.pp) == 1 ||
                  sscanf(argv[i], "zero=%d", &s.zero) == 1 || sscanf(argv[i], "victim=%d", &s.victim) == 1,
              argv[i]);
    return s;
}

static mega_engine *begin(const setting *s, mega_world *world)
{
    mega_engine *e;
    const mega_transformer gpt = engine_run_gpt();
    const int dp = mega_world_size(world) / s->tp / s->pp;
    mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    o.schedule.warmup = 4 * BATCH;
    o.compute = MEGA_F16;
    o.loss_scale = (mega_loss_scale_options){.initial = 1024, .least = 1, .window = 1000, .hysteresis = 2};
    o.world = world;
    o.layout.tp = s->tp;
    o.layout.pp = s->pp;
    o.batch.micro_step = 2 * dp;
    o.bucket_elements = 5000;
    o.zero_stage = s->zero;
    need(gpt_engine_create(&e, &gpt, &o));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    return e;
}

/* Makes the first fp16 value of the backward pass infinite, once. */
static void poison(void *user, const mega_observed *made)
{
    bool *is_due = user;
    if (!*is_due || !made->backward || made->dtype != MEGA_F16) return;
    mega_device_write(made->place, &(uint16_t){0x7c00}, sizeof(uint16_t));
    *is_due = false;
}

/* Runs the step on the samples of batch `number`. */
static mega_step_result step(mega_engine *e, int64_t number)
{
    mega_step_result r;
    mega_batch *b = mega_engine_batch(e);
    const int64_t passed = mega_engine_progress_get(e)->consumed_samples;
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++)
        engine_run_fill(b, i, number * BATCH + mega_sample_index(mega_batch_sample(b, i)) - passed);
    need(mega_engine_train_batch(e, &r));
    return r;
}

static void compare_weights(const mega_engine *a, const mega_engine *b)
{
    const mega_params *x = mega_engine_params(a), *y = mega_engine_params(b);
    for (int i = 0; i < mega_params_count(x); i++) {
        const mega_range owned = mega_params_owned(x, i);
        const mega_param *p = mega_params_get(x, i);
        if (owned.count == 0) continue;
        check(device_is_equal(mega_params_master_at(x, p->bucket, p->offset + owned.first),
                              mega_params_master_at(y, p->bucket, p->offset + owned.first),
                              (size_t)owned.count * sizeof(float)),
              p->name);
    }
}

int main(int argc, char **argv)
{
    const setting s = read_setting(argc, argv);
    mega_world *world;
    need(mega_world_create(NULL, &world));
    mega_engine *hit = begin(&s, world), *spared = begin(&s, world);
    bool is_due = false;
    mega_engine_observe(hit, poison, &is_due);
    for (int64_t i = 0; i < STEPS; i++) {
        is_due = i == POISONED && mega_world_rank(world) == s.victim;
        const mega_step_result r = step(hit, i);
        check(!is_due, "nothing was poisoned");
        check(r.skipped == (i == POISONED), "a step is skipped that should not be, or the other way round");
        check(mega_engine_was_step_applied(hit) == !r.skipped, "was_step_applied");
        check(mega_engine_skipped_steps(hit) == (i >= POISONED), "the number of skipped steps");
        if (r.skipped) {
            check(isnan(r.grad_norm), "a skipped step has a norm");
            compare_weights(hit, spared);
            continue;
        }
        const mega_step_result other = step(spared, i);
        check(r.loss == other.loss && r.grad_norm == other.grad_norm && r.lr == other.lr, "losses differ");
        compare_weights(hit, spared);
    }
    check(mega_engine_loss_scale(hit) == 1024 && mega_engine_loss_scale(spared) == 1024, "the scale");
    mega_engine_destroy(hit);
    mega_engine_destroy(spared);
    mega_world_destroy(world);
    return 0;
}
