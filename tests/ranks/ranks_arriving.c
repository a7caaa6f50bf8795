/* Tests that steps need not wait for new weights. Usage: ranks_arriving ZERO
 *
 * On several ranks of dp the gathers of an update are still in progress when the step returns, and every call that
 * reads weights ends them. Steps one after the other give the same losses and weights as steps with such a call between
 * them, for whole batches and for micro-batches one at a time. */
#include "device.h"
#include "engine_run.h"
#include "megalith/hash.h"
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, BATCH = 8 };

static int failures;

static mega_engine *start(mega_world *world, int zero)
{
    mega_engine *e = NULL;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(BATCH, 2, 0.05);
    o.world = world;
    o.compute = MEGA_BF16;
    o.zero_stage = zero;
    o.zero_persistence = 100; /* with ZeRO 3, norms and biases are gathered after the update */
    o.bucket_elements = 4000;
    o.batch.micro_step = 2 * (int64_t)mega_world_size(world);
    need(gpt_engine_create(&e, &gpt, &o));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 3));
    return e;
}

static void fill(const mega_engine *e, mega_batch *b)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) engine_run_fill(b, i, mega_engine_sample(e, i));
}

static double step(mega_engine *e, bool whole)
{
    mega_step_result r = {0};
    if (whole) {
        fill(e, mega_engine_batch(e));
        need(mega_engine_train_batch(e, &r));
        return r.loss;
    }
    const int64_t micro_batches = mega_engine_gradient_accumulation_steps(e);
    for (int64_t m = 0; m < micro_batches; m++) {
        fill(e, mega_engine_micro_batch(e));
        need(mega_engine_forward(e, NULL));
        need(mega_engine_backward(e));
        need(mega_engine_step(e, &r));
    }
    return r.loss;
}

static uint64_t hash_of(const mega_engine *e)
{
    const mega_params *p = mega_engine_params(e);
    uint64_t hash = MEGA_HASH_START;
    for (int i = 0; i < mega_params_count(p); i++) {
        const mega_param *r = mega_params_get(p, i);
        const void *weight = mega_params_weight(p, i); /* NULL: ZeRO 3 holds a slice */
        if (weight == NULL) continue;
        void *copy = device_copy(weight, (size_t)r->count * sizeof(uint16_t));
        hash = mega_hash64(hash, copy, (size_t)r->count * sizeof(uint16_t));
        free(copy);
    }
    return hash;
}

/* One of the calls that read weights. */
static void read_weights(mega_engine *e, int which)
{
    float bias[ENGINE_RUN_SEQ * 32];
    mega_loss_sums sums = {0};
    switch (which % 3) {
    case 0: (void)mega_engine_params(e); break;
    case 1: need(mega_engine_get_param(e, "transformer.ln_f.bias", NULL, 32, bias)); break;
    default: fill(e, mega_engine_evaluation_batch(e, 2, 0)); need(mega_engine_evaluate_batch(e, &sums));
    }
}

/* Writes the loss of each step and the hash of the last weights. */
static void run(mega_world *world, int zero, bool whole, bool reads, double loss[STEPS], uint64_t *hash)
{
    mega_engine *e = start(world, zero);
    const mega_update *u = mega_engine_update_program(e);
    for (int i = 0; i < STEPS; i++) {
        loss[i] = step(e, whole);
        if (mega_update_pending(u) == 0) {
            fprintf(stderr, "ZeRO %d, step %d: no gather is in progress\n", zero, i + 1);
            failures++;
        }
        if (!reads) continue;
        read_weights(e, i);
        if (mega_update_pending(u) == 0) continue;
        fprintf(stderr, "ZeRO %d: call %d left gathers in progress\n", zero, i % 3);
        failures++;
    }
    *hash = hash_of(e);
    mega_engine_destroy(e);
}

int main(int argc, char **argv)
{
    const int zero = argc > 1 ? atoi(argv[1]) : 1;
    mega_world *world = NULL;
    double loss[4][STEPS];
    uint64_t hash[4];
    need(mega_world_create(NULL, &world));
    for (int i = 0; i < 4; i++) run(world, zero, i < 2, i % 2 == 1, loss[i], &hash[i]);
    for (int i = 1; i < 4; i++)
        if (memcmp(loss[0], loss[i], sizeof loss[0]) != 0 || hash[0] != hash[i]) {
            fprintf(stderr, "ZeRO %d: run %d differs: loss %.17g, expected %.17g\n", zero, i, loss[i][STEPS - 1],
                    loss[0][STEPS - 1]);
            failures++;
        }
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
