/* Measures building and planning the programs of a GPT with many layers, on one rank and as one of four pipeline
 * stages: walking the list, describing layers, passes, the memory plan. No memory for tensors is allocated. Then trains
 * GPT-2 124M (2.5 GB) on samples of a few lengths, and measures what a step with a new length does before its first op.
 * Prints lines "RESULT name value unit detail".
 *   bench_build [repeats] */
#include "bench_kit.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int measure(int layers, int stages, int repeats)
{
    const mega_transformer gpt = bench_gpt(layers, 1024, 16, 1024, 50257);
    const mega_engine_options o = {.micro_batch = 1,
                                   .seq = 1024,
                                   .batch = {.global_batch = 8, .micro_step = 1},
                                   .layout = {.pp = stages, .planned_ranks = stages, .planned_rank = stages / 2}};
    for (int i = 0; i < repeats; i++) {
        mega_engine *e = NULL;
        const double began = mega_time_now();
        if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) {
            fprintf(stderr, "%s\n", mega_error_message());
            return 1;
        }
        const double seconds = mega_time_now() - began;
        mega_engine_destroy(e);
        printf("RESULT build_%d_layers_%d_stages %.4f s building and planning the programs of one rank\n", layers,
               stages, seconds);
    }
    return 0;
}

/* When the first op of a step had run, by the clock and by the processor time of this thread. */
typedef struct first_op {
    double clock, processor; /* clock 0: no op has run */
} first_op;

static double processor_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_first(void *user, const mega_observed *made)
{
    first_op *f = user;
    (void)made;
    if (f->clock == 0) *f = (first_op){mega_time_now(), processor_now()};
}

/* Runs a step; sets *out to the seconds from its call until its first op had run. */
static mega_status step(mega_engine *e, int64_t seq, int64_t vocab, first_op *out)
{
    mega_step_result r;
    bench_fill(e, mega_engine_batch(e), seq, vocab);
    *out = (first_op){0};
    mega_engine_observe(e, note_first, out);
    const double clock = mega_time_now(), processor = processor_now();
    MEGA_TRY(mega_engine_train_batch(e, &r));
    out->clock -= clock;
    out->processor -= processor;
    return MEGA_OK;
}

/* The programs of further lengths under a curriculum, as a training builds them between two steps: the time from the
 * call of a step with a new length until its first op, the embedding, has run. It is not a difference of two steps,
 * whose times other work on the machine changes by more than the building takes. GPT-2 of 124M parameters, samples of
 * 16, 32, … of 1024 positions: the building takes as long for any length, and the steps are short. */
static int measure_further(int repeats)
{
    enum { SEQ = 1024, VOCAB = 50257, MOST = 16 };
    static const char *const lengths[MOST] = {"16",  "32",  "48",  "64",  "80",  "96",  "112", "128",
                                              "144", "160", "176", "192", "208", "224", "240", "256"};
    static const char *const last[MOST] = {"2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",
                                           "10", "11", "12", "13", "14", "15", "16", "17"};
    const char *difficulty[MOST], *max_step[MOST];
    const mega_transformer gpt = bench_gpt(12, 768, 12, SEQ, VOCAB);
    mega_engine *e = NULL;
    memcpy(difficulty, lengths, sizeof difficulty);
    memcpy(max_step, last, sizeof max_step);
    const mega_engine_options o = {.micro_batch = 1,
                                   .seq = SEQ,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .curriculum = {.is_on = true,
                                                  .kind = MEGA_CURRICULUM_DISCRETE,
                                                  .difficulty = difficulty,
                                                  .max_step = max_step,
                                                  .stairs = MOST},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-5, .decay = 100},
                                   .no_evaluate = true};
    if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK || mega_engine_allocate(e) != MEGA_OK ||
        mega_engine_initialize(e, 1) != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        mega_engine_destroy(e);
        return 1;
    }
    first_op first;
    mega_status st = step(e, SEQ, VOCAB, &first); /* the first step touches memory, too */
    if (st == MEGA_OK) st = step(e, SEQ, VOCAB, &first);
    if (st == MEGA_OK)
        printf("RESULT build_no_length %.4f s until the first op of a step without a new length\n", first.clock);
    for (int i = 1; i < MOST && i <= repeats && st == MEGA_OK; i++) {
        st = step(e, SEQ, VOCAB, &first);
        if (st != MEGA_OK) break;
        printf("RESULT build_further_length %.4f s the programs of samples of another length, GPT-2 124M\n",
               first.clock);
        printf("RESULT build_further_length_processor %.4f s the same in processor time\n", first.processor);
    }
    if (st != MEGA_OK) fprintf(stderr, "%s\n", mega_error_message());
    mega_engine_destroy(e);
    return st != MEGA_OK;
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    return measure(96, 1, repeats) + measure(96, 4, repeats) + measure_further(repeats) == 0 ? 0 : 1;
}
