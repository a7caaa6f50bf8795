/* Tests sums of gradients over data-parallel ranks in every type, held in every type, with every factor and stage of
 * ZeRO, against a plain computation: each rank computes its own gradients alone, all ranks exchange them, and a loop
 * over the ranks rounds, adds and divides. Every bit must be the same. No size is a multiple of 32, so there are gaps
 * between parameters; the norm of each step, by which gradients are clipped, is that of the gradients that a caller
 * gets. Also: the losses of 16-bit sums stay near those of fp32, a sum in fp16 that overflows skips the step on all
 * ranks, and the wait for a rank that is late in its backward is counted as time of the sums. Usage: mpirun -n 2 or 4
 * ranks_sums */
#include "engine_run.h"
#include "megalith/memory.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MICRO = 2, STEPS = 4, LATE_MS = 100 };

static mega_transformer small_gpt(void)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 1;
    gpt.hidden = 36;
    gpt.head_dim = 9;
    gpt.ffn_hidden = 92;
    return gpt;
}

typedef struct way {
    mega_gradient_sums sums;
    mega_dtype held;
} way;

/* world NULL: one rank. */
static mega_engine *begin(mega_world *world, way w, int zero, bool overlap, mega_dtype compute, double scale,
                          int micro_batches)
{
    mega_engine *e = NULL;
    const mega_transformer gpt = small_gpt();
    const int ranks = mega_world_size(world);
    mega_engine_options o = engine_run_options((int64_t)MICRO * ranks * micro_batches, MICRO, 1e-2);
    o.world = world;
    o.batch.micro_step = (int64_t)MICRO * ranks;
    o.compute = compute;
    o.loss_scale = (mega_loss_scale_options){.initial = scale, .least = 1, .window = 1000, .hysteresis = 1};
    o.clip_grad = 0.5;
    o.bucket_elements = 5000;
    o.zero_stage = zero;
    o.sums = w.sums;
    o.grad_accum_dtype = w.held;
    if (overlap) o.place = (mega_place_options){true, 1000000, 1000000, 1000000};
    need(gpt_engine_create(&e, &gpt, &o));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    return e;
}

/* Sample n of the run is sample first + n. */
static void fill(mega_batch *b, int64_t first)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++)
        engine_run_fill(b, i, first + mega_sample_index(mega_batch_sample(b, i)));
}

static void compute_gradients(mega_engine *e, int64_t first)
{
    fill(mega_engine_micro_batch(e), first);
    need(mega_engine_forward(e, NULL));
    need(mega_engine_backward(e));
}

static float rounded(float x, mega_dtype type)
{
    uint16_t half;
    if (type == MEGA_F32) return x;
    mega_half_narrow(&half, &x, 1, type);
    mega_half_widen(&x, &half, 1, type);
    return x;
}

/* Computes one sum from the numbers of the ranks. Whole gradients are summed in the type that holds them. */
static float plain_sum(const float *of, int64_t stride, int ranks, way w, int zero)
{
    const double before = w.sums.predivide > 0 ? w.sums.predivide : ranks, after = ranks / before;
    const mega_dtype type = zero < 2 && w.held != MEGA_F32 ? w.held : w.sums.dtype;
    float sum = 0;
    for (int r = 0; r < ranks; r++) {
        const float mine = rounded((float)(of[r * stride] / before), type);
        sum = r == 0 ? mine : sum + mine;
    }
    return (float)(rounded(rounded(sum, type), w.held) / after);
}

static int compare_gradients(mega_engine *e, mega_engine *alone, mega_world *world, way w, int zero)
{
    const int ranks = mega_world_size(world);
    const char *name;
    int64_t rows, columns;
    int failures = 0;
    for (int i = 0; mega_engine_param_info(e, i, &name, &rows, &columns) == MEGA_OK; i++) {
        const int64_t count = rows * (columns > 0 ? columns : 1);
        float *got = mega_malloc((size_t)count * sizeof *got);
        float *own = mega_malloc((size_t)count * sizeof *own),
              *all = mega_malloc((size_t)(count * ranks) * sizeof *all);
        if (got == NULL || own == NULL || all == NULL) exit(1);
        need(mega_engine_get_param(e, name, "grad", count, got));
        need(mega_engine_get_param(alone, name, "grad", count, own));
        need(mega_comm_all_gather(mega_world_comm(world), "plain", all, own, count, MEGA_F32));
        for (int64_t k = 0; k < count; k++) {
            const float expected = plain_sum(all + k, count, ranks, w, zero);
            if (got[k] == expected) continue;
            fprintf(stderr, "%s [%lld]: %.9g, expected %.9g\n", name, (long long)k, got[k], expected);
            failures++;
            break;
        }
        mega_free(got);
        mega_free(own);
        mega_free(all);
    }
    return failures;
}

static int test_sums(mega_world *world)
{
    static const way ways[] = {{{MEGA_F32, 0}, MEGA_F32},  {{MEGA_F32, 2}, MEGA_F32},   {{MEGA_F32, 1}, MEGA_F32},
                               {{MEGA_BF16, 0}, MEGA_F32}, {{MEGA_BF16, 1}, MEGA_F32},  {{MEGA_BF16, 2}, MEGA_F32},
                               {{MEGA_F16, 0}, MEGA_F32},  {{MEGA_F16, 0.5}, MEGA_F32}, {{MEGA_F32, 0}, MEGA_BF16},
                               {{MEGA_F32, 1}, MEGA_BF16}, {{MEGA_BF16, 2}, MEGA_BF16}};
    int failures = 0;
    mega_engine *alone = begin(NULL, ways[0], 0, false, MEGA_F32, 1, 1);
    compute_gradients(alone, (int64_t)MICRO * mega_world_rank(world));
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int zero = 0; zero <= 3; zero++) {
            mega_engine *e = begin(world, ways[w], zero, (w + (size_t)zero) % 2 == 1, MEGA_F32, 1, 1);
            compute_gradients(e, 0);
            const int wrong = compare_gradients(e, alone, world, ways[w], zero);
            if (wrong > 0)
                fprintf(stderr, "sums in %s, held in %s, divided before by %g, ZeRO %d: %d tensors differ\n",
                        mega_dtype_name(ways[w].sums.dtype), mega_dtype_name(ways[w].held), ways[w].sums.predivide,
                        zero, wrong);
            failures += wrong;
            mega_engine_destroy(e);
        }
    mega_engine_destroy(alone);
    return failures;
}

/* Returns the norm of the gradients that a caller gets. */
static double plain_norm(mega_engine *e)
{
    const char *name;
    int64_t rows, columns;
    double squares = 0;
    for (int i = 0; mega_engine_param_info(e, i, &name, &rows, &columns) == MEGA_OK; i++) {
        const int64_t count = rows * (columns > 0 ? columns : 1);
        float *gradient = mega_malloc((size_t)count * sizeof *gradient);
        if (gradient == NULL) exit(1);
        need(mega_engine_get_param(e, name, "grad", count, gradient));
        for (int64_t k = 0; k < count; k++) squares += (double)gradient[k] * gradient[k];
        mega_free(gradient);
    }
    return sqrt(squares);
}

static int compare_norms(mega_world *world, way w, int zero)
{
    int failures = 0;
    mega_engine *e = begin(world, w, zero, zero % 2 == 1, MEGA_F32, 1, 2);
    for (int i = 0; i < STEPS; i++) {
        mega_step_result r;
        fill(mega_engine_batch(e), 0);
        need(mega_engine_train_batch(e, &r));
        const double expected = plain_norm(e);
        if (fabs(r.grad_norm - expected) <= 1e-5 * expected && !r.skipped) continue;
        fprintf(stderr, "sums in %s, held in %s, ZeRO %d, step %d: norm %.9g, that of the gradients is %.9g\n",
                mega_dtype_name(w.sums.dtype), mega_dtype_name(w.held), zero, i + 1, r.grad_norm, expected);
        failures++;
    }
    mega_engine_destroy(e);
    return failures;
}

static int test_norms(mega_world *world)
{
    static const way ways[] = {
        {{MEGA_F32, 0}, MEGA_F32}, {{MEGA_BF16, 0}, MEGA_F32}, {{MEGA_F16, 0}, MEGA_F32}, {{MEGA_BF16, 0}, MEGA_BF16}};
    int failures = 0;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int zero = 0; zero <= 3; zero++) failures += compare_norms(world, ways[w], zero);
    return failures;
}

static void train(mega_world *world, way w, int zero, int micro_batches, double loss[STEPS])
{
    mega_engine *e = begin(world, w, zero, false, MEGA_BF16, 1, micro_batches);
    mega_step_result r;
    for (int i = 0; i < STEPS; i++) {
        fill(mega_engine_batch(e), 0);
        need(mega_engine_train_batch(e, &r));
        loss[i] = r.loss;
    }
    mega_engine_destroy(e);
}

/* All stages of ZeRO give the losses of stage 0, near those of fp32 sums and not the same. Where stages 2 and 3 round
 * the sum of every micro-batch, they only give nearly the same. */
static int test_losses(mega_world *world, way w, int micro_batches)
{
    double exact[STEPS], loss[STEPS], first[STEPS];
    int failures = 0;
    train(world, (way){.held = MEGA_F32}, 0, micro_batches, exact);
    for (int zero = 0; zero <= 3; zero++) {
        const bool rounds_alike = w.held == MEGA_F32 && (zero < 2 || micro_batches == 1);
        const double near = zero > 1 && !rounds_alike ? 0.02 : 1e-5;
        train(world, w, zero, micro_batches, loss);
        if (zero == 0) memcpy(first, loss, sizeof first);
        for (int i = 0; i < STEPS; i++)
            if (fabs(loss[i] - first[i]) > near * first[i] || fabs(loss[i] - exact[i]) > 0.02 * exact[i]) {
                fprintf(stderr, "ZeRO %d, step %d: loss %.9g, ZeRO 0 %.9g, fp32 %.9g\n", zero, i + 1, loss[i], first[i],
                        exact[i]);
                failures++;
            }
        if (memcmp(loss, exact, sizeof exact) == 0) fprintf(stderr, "bf16 changes nothing\n"), failures++;
    }
    return failures;
}

/* Runs fp16 steps until one is not skipped, at most STEPS_TO_RECOVER; returns how many were skipped. */
static int skipped_steps(mega_world *world, mega_dtype dtype, double scale, mega_step_result *r)
{
    enum { STEPS_TO_RECOVER = 40 };
    int skipped = 0;
    mega_engine *e = begin(world, (way){.sums = {.dtype = dtype, .predivide = 1}}, 2, false, MEGA_F16, scale, 1);
    do {
        fill(mega_engine_batch(e), 0);
        need(mega_engine_train_batch(e, r));
        skipped += r->skipped;
    } while (r->skipped && skipped < STEPS_TO_RECOVER);
    mega_engine_destroy(e);
    return skipped;
}

/* For some loss scale the gradients of each rank are finite, and their sum in fp16 is not: all ranks skip the step, and
 * recover with a lower scale. */
static int test_overflow(mega_world *world)
{
    mega_step_result r;
    for (double scale = 256; scale < 1e9; scale *= 2) {
        if (skipped_steps(world, MEGA_F32, scale, &r) > 0) break;
        if (skipped_steps(world, MEGA_F16, scale, &r) == 0) continue;
        if (!r.skipped && isfinite(r.grad_norm) && r.loss_scale < scale) return 0;
        fprintf(stderr, "loss scale %g: no recovery (%g, norm %g)\n", scale, r.loss_scale, r.grad_norm);
        return 1;
    }
    fprintf(stderr, "no loss scale makes the sum in fp16 overflow alone\n");
    return 1;
}

/* Sleeps in the first instruction of a backward that it is called for. */
static void sleep_once(void *user, const mega_observed *made)
{
    const struct timespec pause = {.tv_nsec = LATE_MS * 1000000};
    bool *has_slept = user;
    if (!made->backward || *has_slept) return;
    *has_slept = true;
    nanosleep(&pause, NULL);
}

/* A step by one call, or by one for each pass. */
static void take_step(mega_engine *e, bool whole, mega_step_result *r)
{
    if (whole) {
        fill(mega_engine_batch(e), 0);
        need(mega_engine_train_batch(e, r));
        return;
    }
    compute_gradients(e, 0);
    need(mega_engine_step(e, r));
}

/* The last rank sleeps within its backward. The others wait for it: time of the sums, not of their backward. A machine
 * under load may delay the others as much, so the longest wait of some steps counts. */
static int compare_time(mega_world *world, int zero, bool overlap, bool whole)
{
    enum { TRIES = 5 };
    const bool is_late = mega_world_rank(world) == mega_world_size(world) - 1;
    double waited = 0, backward = 0;
    mega_engine *e = begin(world, (way){.held = MEGA_F32}, zero, overlap, MEGA_F32, 1, 1);
    for (int i = 0; i < TRIES; i++) {
        mega_step_result r;
        bool has_slept = false;
        int32_t is_short;
        mega_engine_observe(e, is_late ? sleep_once : NULL, &has_slept);
        take_step(e, whole, &r);
        if (r.reduce_s > waited) waited = r.reduce_s, backward = r.backward_s;
        is_short = is_late ? !has_slept : waited < LATE_MS / 2e3 || backward > waited;
        need(mega_comm_all_reduce(mega_world_comm(world), "short", &is_short, 1, MEGA_I32, MEGA_REDUCE_MAX));
        if (is_short == 0) break;
        if (i == TRIES - 1) {
            fprintf(stderr, "rank %d, ZeRO %d%s, %s: %g s of sums and %g s of backward, one rank was %d ms late\n",
                    mega_world_rank(world), zero, overlap ? " with overlap" : "", whole ? "whole step" : "pass by pass",
                    waited, backward, LATE_MS);
            mega_engine_destroy(e);
            return 1;
        }
    }
    mega_engine_destroy(e);
    return 0;
}

static int test_time(mega_world *world)
{
    int failures = 0;
    for (int zero = 0; zero <= 3; zero++)
        for (int k = 0; k < 4; k++) failures += compare_time(world, zero, k % 2 == 1, k / 2 == 1);
    return failures;
}

int main(void)
{
    mega_world *world = NULL;
    need(mega_world_create(NULL, &world));
    const way sums = {.sums = {.dtype = MEGA_BF16, .predivide = 1}}, held = {.held = MEGA_BF16};
    const int failures = test_sums(world) + test_norms(world) + test_losses(world, sums, 1) +
                         test_losses(world, sums, 2) + test_losses(world, held, 2) + test_overflow(world) +
                         test_time(world);
    if (mega_world_rank(world) == 0 && failures == 0) printf("sums are those of the plain computation\n");
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
